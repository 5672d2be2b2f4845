/* Time and I/O get their turn beside fibers that run, and sleeps are as long as they should be. */
#include "support.h"

#include <time.h>

static weft_value snooze_forever(void *arg)
{
    (void)arg;
    while (weft_snooze() == 0)
        ;
    return 0;
}

/* P11, T11 */
START_TEST(a_sleeper_wakes_although_another_fiber_snoozes_forever)
{
    weft_fiber f = weft_spin(snooze_forever, NULL);
    double begin = weft_now();
    ck_assert_int_eq(weft_sleep(0.01), 0);
    ck_assert_slept(begin, 0.01);
    ck_assert_int_eq(weft_cancel(f), 0);
}
END_TEST

/* P12 */
START_TEST(a_deadline_strikes_in_a_loop_that_only_snoozes)
{
    int rc = 0, last = 0;
    WEFT_CANCEL_AFTER(0.005, rc) {
        while ((last = weft_snooze()) == 0)
            ;
    }
    ck_assert_int_eq(last, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}
END_TEST

static void count_idle(void *arg)
{
    ++*(int *)arg;
}

/* P13 */
START_TEST(the_idle_callback_is_called_once_for_each_wait_and_never_between)
{
    int calls = 0;
    weft_on_idle(count_idle, &calls);
    for (int i = 0; i < 100; i++)
        weft_snooze();
    ck_assert_int_eq(calls, 0);
    for (int i = 1; i <= 5; i++) {
        weft_sleep(0.002);
        ck_assert_int_eq(calls, i);
    }
    weft_on_idle(NULL, NULL);
    weft_sleep(0.002);
    ck_assert_int_eq(calls, 5);
}
END_TEST

static weft_value read_one(void *arg)
{
    char byte;
    weft_value rc = weft_read(*(int *)arg, &byte, 1);
    mark("read");
    return rc;
}

/* T11 */
START_TEST(sleeping_for_0_s_lets_io_proceed)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber f = weft_spin(read_one, &fd[0]);
    weft_snooze();
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_trail("read");
    ck_assert_int_eq(weft_await(f), 1);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

static double now_outside(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The clock of the backend, read past weft, which might learn from being asked. */
static double now_untold(void)
{
    return strcmp(weft_backend_name(), "sim") == 0 ? weft_now() : now_outside();
}

/* T12 */
START_TEST(a_sleep_after_a_computation_is_as_long_as_it_should_be)
{
    weft_snooze();
    double begin = now_outside();
    while (now_outside() < begin + 0.04)
        ;
    begin = now_untold();
    ck_assert_int_eq(weft_sleep(0.02), 0);
    ck_assert(now_untold() - begin >= 0.02 - 1e-9);
}
END_TEST

static weft_value suspend_for_a_while(void *arg)
{
    int rc;
    weft_value got = 0;
    WEFT_CANCEL_AFTER(0.002, rc) {
        got = weft_suspend();
    }
    *(weft_value *)arg = got;
    return rc;
}

/* T14 */
START_TEST(a_suspend_with_a_deadline_knows_whether_it_was_the_deadline)
{
    weft_value got;
    weft_fiber f = weft_spin(suspend_for_a_while, &got);
    ck_assert_int_eq(weft_await(f), -ETIMEDOUT);
    ck_assert_int_eq(got, -ECANCELED);
    f = weft_spin(suspend_for_a_while, &got);
    weft_snooze();
    weft_schedule(f, 8);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(got, 8);
}
END_TEST

static int finished;

static weft_value sleep_a_little(void *arg)
{
    ck_assert_int_eq(weft_sleep((double)(intptr_t)arg * 1e-6), 0);
    finished++;
    return 0;
}

/* T15 */
START_TEST(a_thousand_fibers_that_sleep_for_0_s_are_all_heard_of)
{
    for (int i = 0; i < 1000; i++)
        weft_go(sleep_a_little, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(finished, 1000);
}
END_TEST

/* T16 */
START_TEST(no_fiber_is_lost_among_many_short_sleeps)
{
    srand(1);
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < 300; i++)
            weft_go(sleep_a_little, as_arg(rand() % 100));
        ck_assert_int_eq(weft_await_children(), 0);
        ck_assert_int_eq(finished, 300 * round);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_sleeper_wakes_although_another_fiber_snoozes_forever,
    &a_deadline_strikes_in_a_loop_that_only_snoozes,
    &the_idle_callback_is_called_once_for_each_wait_and_never_between,
    &sleeping_for_0_s_lets_io_proceed,
    &a_sleep_after_a_computation_is_as_long_as_it_should_be,
    &a_suspend_with_a_deadline_knows_whether_it_was_the_deadline,
    &a_thousand_fibers_that_sleep_for_0_s_are_all_heard_of,
    &no_fiber_is_lost_among_many_short_sleeps,
};

int main(void)
{
    return run_suite("turns", tests, COUNT_OF(tests));
}
