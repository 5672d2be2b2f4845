/*
 * Tests of weft_raise and weft_interrupt, which end a blocking call of another fiber with an error.
 */
#include "support/suite.h"

#include <limits.h>

static int pipe_fd[2];
static weft_fiber awaited;

static void open_pipe_and_spin_awaited(void)
{
    ck_assert_int_eq(weft_pipe(pipe_fd), 0);
    awaited = spin_suspended();
}

FIBER(read_pipe, read_byte(&pipe_fd[0]))
FIBER(await_other, weft_await(awaited))
FIBER(await_any_other, weft_await_any(&awaited, 1, NULL))
FIBER_DO(await_own_children, weft_spin(suspend, NULL), weft_await_children())

/* One function for each kind of wait. */
static weft_fn *const waits[] = {suspend,     sleep_forever,   read_pipe,
                                 await_other, await_any_other, await_own_children};

TEST(a_raised_error_ends_every_kind_of_wait_with_its_message)
{ /* P19, P64 */
    open_pipe_and_spin_awaited();
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        weft_fiber f = spin_waiting(waits[i], NULL);
        ck_assert_int_eq(weft_raise(f, -EIO, "raised %d", 7), 0);
        ck_assert_int_eq(weft_await(f), -EIO);
        ck_assert_error(-EIO, "raised 7");
    }
    ck_assert_int_eq(weft_state_of(awaited), WEFT_WAITING);
}

TEST(interrupt_makes_every_kind_of_wait_return_the_code)
{ /* P64 */
    open_pipe_and_spin_awaited();
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        weft_fiber f = spin_waiting(waits[i], NULL);
        ck_assert_int_eq(weft_interrupt(f, -12), 0);
        ck_assert_int_eq(weft_interrupt(f, -13), -EBUSY); /* it no longer waits */
        ck_assert_int_eq(weft_await(f), -12);
        f = spin_waiting(waits[i], NULL);
        ck_assert_int_eq(weft_interrupt(f, -EPIPE), 0);
        ck_assert_int_eq(weft_await(f), -EPIPE);
    }
    ck_assert_int_eq(weft_state_of(awaited), WEFT_WAITING);
    ck_assert_uint_eq(stats().ops_pending, 0);
}

TEST(an_interrupt_accepts_only_an_error_code)
{
    static const int values[] = {7, 0, 1, INT_MAX, -4096, INT_MIN};
    open_pipe_and_spin_awaited();
    weft_fiber f = spin_waiting(read_pipe, NULL);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        ck_assert_int_eq(weft_interrupt(f, values[i]), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_interrupt(f, -4095), 0);
    ck_assert_int_eq(weft_await(f), -4095);
}

static weft_value store_three_results(void *arg)
{
    weft_value *rc = arg;
    rc[0] = weft_suspend();
    rc[1] = weft_snooze();
    rc[2] = weft_sleep(0.001);
    return 0;
}

static void assert_results(weft_fiber f, const weft_value *rc, weft_value first, weft_value second,
                           weft_value third)
{
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(rc[0], first);
    ck_assert_int_eq(rc[1], second);
    ck_assert_int_eq(rc[2], third);
}

/* P19 */
__attribute__((format(printf, 3, 4))) static int raise_with_list(weft_fiber f, int code,
                                                                 const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = weft_raisev(f, code, format, args);
    va_end(args);
    return rc;
}

TEST(a_fiber_may_raise_an_error_in_itself_also_with_a_va_list)
{ /* P19 */
    ck_assert_int_eq(raise_with_list(weft_self(), -EIO, "no %s in %d places", "key", 3), 0);
    ck_assert(weft_is_cancelled());
    ck_assert_int_eq(weft_snooze(), -EIO);
    ck_assert_error(-EIO, "no key in 3 places");
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(raise_with_list(weft_self(), 5, "%d", 1), -EINVAL);
    weft_error_clear();
}

TEST(each_raised_error_and_each_interrupt_affects_one_call)
{ /* P4, P6, P19, P23, P64 */
    weft_value rc[3];
    weft_fiber f = spin_waiting(store_three_results, rc);
    weft_raise(f, -EIO, "once");
    weft_schedule(f, 3); /* does not discard the error */
    assert_results(f, rc, -EIO, 0, 0);
    f = spin_waiting(store_three_results, rc);
    weft_interrupt(f, -4);
    assert_results(f, rc, -4, 0, 0);
    f = spin_waiting(store_three_results, rc);
    weft_raise(f, -EIO, "first");
    weft_raise(f, -EPIPE, "second");
    weft_raise(f, -ENOENT, "third");
    assert_results(f, rc, -EIO, -EPIPE, -ENOENT);
    f = spin_waiting(store_three_results, rc);
    weft_schedule(f, 6); /* runnable: the next call returns the error */
    ck_assert_int_eq(weft_raise(f, -EIO, "later"), 0);
    assert_results(f, rc, 6, -EIO, 0);
    f = weft_new(store_three_results, rc);
    ck_assert_int_eq(weft_raise(f, -EPIPE, "early"), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING); /* the raise did not start it */
    ck_assert_int_eq(weft_start(f), 0);
    assert_results(f, rc, -EPIPE, 0, 0);
}

static weft_value sleep_in_shield(void *arg)
{
    weft_value *rc = arg;
    WEFT_SHIELD(10)
        rc[0] = weft_sleep(0.002);
    rc[1] = weft_snooze();
    if (rc[1] < 0)
        ck_assert_error(-EIO, "patience 2");
    rc[2] = weft_snooze();
    return 0;
}

TEST(a_shield_delays_raised_errors_but_not_interrupts)
{ /* P19, T38 */
    weft_value rc[3];
    weft_fiber f = spin_waiting(sleep_in_shield, rc);
    weft_raise(f, -EIO, "patience %d", 2);
    assert_results(f, rc, 0, -EIO, 0);
    f = spin_waiting(sleep_in_shield, rc);
    ck_assert_int_eq(weft_interrupt(f, -9), 0);
    assert_results(f, rc, -9, 0, 0);
}

FIBER_DO(spin_child_and_return, weft_spin(suspend, NULL), weft_snooze(), arg)
CALLBACK(store_sleep_result, *(weft_value *)arg = weft_sleep(INFINITY))
FIBER_DO(defer_sleep, weft_defer(store_sleep_result, arg), spin_child_and_return(as_arg(1)))

TEST(a_fiber_can_be_interrupted_while_its_cleanup_waits)
{ /* P64, P19 */
    weft_value rc = 0;
    weft_fiber f = spin_waiting(defer_sleep, &rc);
    ck_assert_int_eq(weft_interrupt(f, -14), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(rc, -14);
    f = spin_waiting(defer_sleep, &rc);
    ck_assert_int_eq(weft_raise(f, -EIO, "hurry"), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(rc, -EIO);
}

FIBER_DO(raise_in_self_and_return, weft_raise(weft_self(), -EIO, "too late"), arg)

static weft_value spin_failing_child_and_return(void *arg)
{
    weft_go(fail_with, as_arg(-EPIPE));
    WEFT_SHIELD(INFINITY)
        weft_snooze();
    return raise_in_self_and_return(arg);
}

TEST(an_error_raised_after_the_last_blocking_call_does_not_replace_the_value)
{
    ck_assert_int_eq(weft_await(weft_spin(raise_in_self_and_return, as_arg(42))), 42);
    /* An error that the fiber returns still counts. So does an error of a child. */
    ck_assert_int_eq(weft_await(weft_spin(raise_in_self_and_return, as_arg(-ENOENT))), -ENOENT);
    ck_assert_int_eq(weft_await(weft_spin(spin_failing_child_and_return, as_arg(42))), -EPIPE);
    ck_assert_error(-EPIPE, "broken");
    ck_assert_int_eq(weft_snooze(), 0); /* the parent does not get it either */
}
