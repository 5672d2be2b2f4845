/* Waits for locks, see gate.h. */
#include "posix/lock/gate.h"

#include "posix/hook.h"
#include "posix/io/seconds.h"
#include "posix/wait.h"

#include <weft/time.h>

#include <math.h>

/*
 * A lock may be unlocked out of sight: by a module that is not adopted, by another process, inside
 * of pthread_cond_wait of libc. So a waiter tries again after a delay, which doubles from MIN to
 * MAX. A waiter behind another waiter begins with MAX.
 */
#define RETRY_MIN_S 0.001
#define RETRY_MAX_S 1.0

/* The time in which other threads can get a lock that fibers have passed on many times. */
#define PAUSE_S 0.0002

int weft__time_limit_check(const weft__time_limit *limit)
{
    if (limit->at == NULL)
        return 0;
    return limit->at->tv_nsec >= 0 && limit->at->tv_nsec <= 999999999 ? 0 : EINVAL;
}

double weft__time_left(const weft__time_limit *limit)
{
    struct timespec now;
    if (limit->at == NULL)
        return INFINITY;
    clock_gettime(limit->clock, &now);
    struct timespec left = {limit->at->tv_sec - now.tv_sec, limit->at->tv_nsec - now.tv_nsec};
    double left_s = weft__seconds_of_timespec(&left);
    return left_s > 0 ? left_s : 0;
}

static double retry_delay_next(double delay_s, weft__wake_reason reason)
{
    return reason == WEFT__WOKEN_BY_TIME ? weft__seconds_min(2 * delay_s, RETRY_MAX_S)
                                         : RETRY_MIN_S;
}

/*
 * Try and sleep in turn, until the caller has the lock or an error. hook_wait is NULL if handlers
 * do not end the wait. A handler may have unlocked the lock. So try before EINTR, too. /
 */
static int gate_pass(const weft__gate *gate, void *lock, const weft__time_limit *limit,
                     weft__lock_waiter *w, const weft__hook_wait *hook_wait)
{
    double delay_s = weft__waiter_is_first(w) ? RETRY_MIN_S : RETRY_MAX_S;
    while (!weft__waiter_is_chosen(w)) {
        int rc = gate->attempt(lock);
        if (rc != EBUSY)
            return rc;
        double left_s = weft__time_left(limit);
        if (left_s <= 0)
            return ETIMEDOUT;
        if (hook_wait != NULL && hook_wait->is_interrupted)
            return EINTR;
        weft__wake_reason reason =
            weft__waiter_sleep(w, gate->kind, weft__seconds_min(delay_s, left_s));
        if (reason == WEFT__WOKEN_TO_PAUSE)
            (void)weft_sleep(PAUSE_S);
        delay_s = retry_delay_next(delay_s, reason);
    }
    return 0;
}

int weft__gate_wait(const weft__gate *gate, void *lock, const weft__time_limit *limit)
{
    int error = errno, rc = weft__time_limit_check(limit);
    if (rc != 0)
        return rc;
    weft_scope shield;
    weft__lock_waiter w;
    weft__hook_wait hook_wait;
    if (gate->is_interruptible)
        weft__hook_wait_add(&hook_wait, WEFT__HOOK_RESTARTS);
    (void)weft_shield_open(&shield, INFINITY);
    HOOK_COUNT(lock_waits);
    weft__waiter_join(&w, lock, NULL);
    rc = gate_pass(gate, lock, limit, &w, gate->is_interruptible ? &hook_wait : NULL);
    (void)weft__waiter_leave(&w); /* only this thread chooses, so w is chosen only if rc is 0 */
    /* The caller may have been poked without need: it has no lock, or left some for the next. */
    if (rc != 0 || gate->is_shared)
        weft__waiters_poke(lock);
    (void)weft_scope_close(&shield);
    if (gate->is_interruptible)
        (void)weft__hook_wait_end(&hook_wait, -rc);
    errno = error;
    return rc;
}
