/* Hooks of sleeps. A signal handler or a cancellation ends a sleep early. */
#include "posix/io/seconds.h"

#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/time.h>

#include <unistd.h>

/* Sleeps on clocks that can jump or stop check their clock at least once in this time. */
#define CLOCK_CHECK_S 1.0
/* The shortest sleep on the clock of CPU time. */
#define CPU_CHECK_S 0.001

/* Sleep. Returns 0, or -errno and the remaining time. */
static int sleep_for(double seconds, double *left_s)
{
    int error = errno;
    double end = weft_now() + seconds;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_NEVER_RESTARTS, WEFT__HOOK_FOREVER);
    int rc = (int)weft__hook_wait_end(&w, weft_sleep(seconds));
    errno = error;
    *left_s = rc < 0 ? weft__seconds_left(end, weft_now()) : 0;
    return rc;
}

HOOK_DEFINE(int, nanosleep, (const struct timespec *time, struct timespec *left))
{
    if (!weft__hook_is_on() || !weft__timespec_is_valid(time))
        return REAL(nanosleep)(time, left);
    double left_s;
    int rc = sleep_for(weft__seconds_of_timespec(time), &left_s);
    if (rc < 0 && left != NULL)
        *left = weft__timespec_of_seconds(left_s);
    return (int)weft__hook_result(rc);
}

HOOK_DEFINE(int, usleep, (useconds_t microseconds))
{
    if (!weft__hook_is_on())
        return REAL(usleep)(microseconds);
    double left_s;
    return (int)weft__hook_result(sleep_for(microseconds / 1e6, &left_s));
}

/* Returns the remaining seconds, rounded up, so that the result 0 means a complete sleep. */
HOOK_DEFINE(unsigned, sleep, (unsigned seconds))
{
    if (!weft__hook_is_on())
        return REAL(sleep)(seconds);
    double left_s;
    int rc = sleep_for(seconds, &left_s);
    if (rc == 0)
        return 0;
    errno = -rc;
    unsigned whole = (unsigned)left_s;
    return whole == 0 || left_s > whole ? whole + 1 : whole;
}

/*
 * clock_nanosleep.
 */

static double clock_s(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return weft__seconds_of_timespec(&now);
}

/*
 * Sleep until a clock has a time. Returns 0 or -errno. A thread may set the clock during the sleep,
 * so check the clock repeatedly.
 */
static int sleep_until(clockid_t clock, double end, double *left_s)
{
    while ((*left_s = end - clock_s(clock)) > 0) {
        double ignored, part_s = weft__seconds_min(*left_s, CLOCK_CHECK_S);
        if (clock == CLOCK_PROCESS_CPUTIME_ID && part_s < CPU_CHECK_S)
            part_s = CPU_CHECK_S;
        int rc = sleep_for(part_s, &ignored);
        if (rc < 0) {
            *left_s = weft__seconds_left(end, clock_s(clock));
            return rc;
        }
    }
    return 0;
}

static bool is_known_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
           clock == CLOCK_TAI || clock == CLOCK_PROCESS_CPUTIME_ID;
}

/* Returns an error number, and does not set errno. */
HOOK_DEFINE(int, clock_nanosleep,
            (clockid_t clock, int flags, const struct timespec *time, struct timespec *left))
{
    if (!weft__hook_is_on() || !weft__timespec_is_valid(time) || !is_known_clock(clock) ||
        (flags & ~TIMER_ABSTIME) != 0)
        return REAL(clock_nanosleep)(clock, flags, time, left);
    double seconds = weft__seconds_of_timespec(time), left_s;
    int rc;
    if (flags & TIMER_ABSTIME)
        rc = sleep_until(clock, seconds, &left_s);
    else if (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC)
        rc = sleep_for(seconds, &left_s);
    else
        rc = sleep_until(clock, clock_s(clock) + seconds, &left_s);
    if (rc < 0 && left != NULL && !(flags & TIMER_ABSTIME))
        *left = weft__timespec_of_seconds(left_s);
    return -rc;
}
