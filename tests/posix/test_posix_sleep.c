/* Hooked sleeps: clocks, remaining times, signal handlers. */
#include "posix/posix_io_support.h"

FIXTURE(adopt_in_cord, NULL)

static struct timespec clock_now(clockid_t clock)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(clock, &now), 0);
    return now;
}

static double seconds_of(struct timespec t)
{
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static weft_value nanosleep_long(void *arg)
{
    struct timespec time = {.tv_sec = 1000};
    return result_of(nanosleep(&time, arg));
}

static weft_value sleep_long(void *arg)
{
    *(unsigned *)arg = sleep(1000);
    return errno;
}

static void interrupt_with_signal(void)
{
    ck_assert_int_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
}

TEST(an_interrupted_sleep_returns_the_remaining_time)
{
    handle_signal(SIGUSR1, SA_RESTART);
    struct timespec left = {0};
    unsigned left_s = 0;
    weft_fiber f = spin_waiting(nanosleep_long, &left), g = spin_waiting(sleep_long, &left_s);
    interrupt_with_signal();
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_int_eq(weft_await(g), EINTR);
    ck_assert(left.tv_sec > 900 && left.tv_sec < 1000);
    ck_assert(left_s > 900 && left_s <= 1000);
}

TEST(a_cancelled_sleep_returns_the_remaining_time)
{
    struct timespec left = {0};
    ck_assert_int_eq(cancelled_result(nanosleep_long, &left), -ECANCELED);
    ck_assert(left.tv_sec > 900 && left.tv_sec < 1000);
    unsigned left_s = 0;
    ck_assert_int_eq(cancelled_result(sleep_long, &left_s), ECANCELED);
    ck_assert(left_s > 900 && left_s <= 1000);
}

static int by_nanosleep(void)
{
    return nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static int by_usleep(void)
{
    return usleep(10000);
}

static int by_monotonic(void)
{
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 10000000}, NULL);
}

static int by_realtime(void)
{
    return clock_nanosleep(CLOCK_REALTIME, 0, &(struct timespec){.tv_nsec = 10000000}, NULL);
}

static int by_boottime(void)
{
    return clock_nanosleep(CLOCK_BOOTTIME, 0, &(struct timespec){.tv_nsec = 10000000}, NULL);
}

static int (*const sleeps[])(void) = {by_nanosleep, by_usleep, by_monotonic, by_realtime,
                                      by_boottime};

TEST_ROWS(every_sleep_lets_other_fibers_run_and_keeps_errno, sleeps)
{
    weft_spin(mark_and_return, "other ");
    double begin = weft_now();
    errno = 77;
    ck_assert_int_eq(sleeps[_i](), 0);
    ck_assert_int_eq(errno, 77);
    ck_assert_slept(begin, 0.01);
    ck_assert_trail("other ");
    ck_assert_int_eq(weft_await_children(), 0);
}

TEST(sleep_0_returns_0)
{
    ck_assert_uint_eq(sleep(0), 0);
    ck_assert_int_eq(usleep(0), 0);
}

static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_TAI};

TEST_ROWS(an_absolute_sleep_ends_after_its_time, clocks)
{
    struct timespec end = clock_now(clocks[_i]);
    end.tv_nsec += 10000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_nsec -= 1000000000;
        end.tv_sec++;
    }
    weft_spin(mark_and_return, "other ");
    ck_assert_int_eq(clock_nanosleep(clocks[_i], TIMER_ABSTIME, &end, NULL), 0);
    ck_assert(seconds_of(clock_now(clocks[_i])) >= seconds_of(end) - 1e-6);
    ck_assert_trail("other ");
    /* A time in the past */
    ck_assert_int_eq(clock_nanosleep(clocks[_i], TIMER_ABSTIME, &end, NULL), 0);
    ck_assert_int_eq(weft_await_children(), 0);
}

static weft_value compute(void *arg)
{
    const bool *is_done = arg;
    while (!*(volatile const bool *)is_done)
        ck_assert_int_eq(weft_sleep(0), 0);
    return 0;
}

TEST(a_sleep_on_the_clock_of_the_process_counts_its_cpu_time)
{
    bool is_done = false;
    weft_fiber f = weft_spin(compute, &is_done);
    double begin = seconds_of(clock_now(CLOCK_PROCESS_CPUTIME_ID));
    struct timespec time = {.tv_nsec = 5000000};
    ck_assert_int_eq(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &time, NULL), 0);
    ck_assert(seconds_of(clock_now(CLOCK_PROCESS_CPUTIME_ID)) >= begin + 0.005 - 1e-6);
    is_done = true;
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(invalid_sleeps_have_the_errors_of_libc)
{
    struct timespec bad = {.tv_nsec = 1000000000}, negative = {.tv_sec = -1}, good = {0};
    ck_assert_errno(nanosleep(&bad, NULL), EINVAL);
    ck_assert_errno(nanosleep(&negative, NULL), EINVAL);
    ck_assert_int_eq(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL), EINVAL);
    ck_assert_int_eq(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &good, NULL), EINVAL);
    ck_assert_int_eq(clock_nanosleep(9999, 0, &good, NULL), EINVAL);
}
