/*
 * Tests of delayed calls, periodic calls, and loops with a rate limit: when they run, and when not.
 */
#include "support/suite.h"

static double begin;
static double runs[32]; /* times of the runs in seconds after begin */
static size_t runs_count;

static void reset_runs(void)
{
    begin = weft_now();
    runs_count = 0;
}

static void note_run(void)
{
    ck_assert_uint_lt(runs_count, COUNT_OF(runs));
    runs[runs_count++] = weft_now() - begin;
}

/* arg is the duration of the run in milliseconds. */
FIBER_DO(run_for_ms, note_run(), arg != NULL ? weft_sleep((double)(intptr_t)arg * 1e-3) : 0)

/*
 * Assert the time of a run. On sim it is exact, because only clock reads and switches advance time.
 */
static void assert_ran_at(size_t i, double seconds)
{
    ck_assert_uint_lt(i, runs_count);
    ck_assert_double_ge(runs[i], seconds - 1e-9);
    if (is_sim())
        ck_assert_double_le(runs[i], seconds + 5e-5);
}

FIBER_DO(note_run_and_return, note_run(), arg)

TEST(after_runs_the_function_once_and_its_value_can_be_awaited)
{
    reset_runs();
    weft_fiber f = weft_after(0.005, note_run_and_return, as_arg(7));
    ck_assert_uint_eq(weft_parent(f), weft_self());
    ck_assert_int_eq(weft_await(f), 7);
    assert_ran_at(0, 0.005);
    ck_assert_uint_eq(runs_count, 1);
    ck_assert_uint_eq(armed_timers(), 0);
    f = weft_after(0, run_for_ms, NULL);
    weft_await_children();
    ck_assert_uint_eq(runs_count, 2);
    ck_assert_int_eq(weft_await(f), -ESRCH); /* nothing remains */
    ck_assert_int_eq(weft_restart(f), -ESRCH);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

TEST(delayed_calls_run_in_order_of_their_times)
{
    weft_after(0, mark_and_return, "1");
    weft_after(0.001, mark_and_return, "2");
    weft_await(weft_after(0.002, mark_and_return, "3"));
    ck_assert_trail("123");
    if (!is_sim())
        return; /* more time may pass between these calls than between their deadlines */
    weft_fiber last = weft_after(0.003, mark_and_return, "6");
    weft_after(0.002, mark_and_return, "5");
    weft_after(0.001, mark_and_return, "4");
    weft_await(last);
    ck_assert_trail("123456");
}

TEST(the_time_counts_from_the_call_and_not_from_the_first_run)
{ /* P47 */
    weft_fiber f = spin_sleeping();
    reset_runs();
    weft_fiber later = weft_after(0.002, run_for_ms, NULL);
    weft_fiber again = weft_every(0.002, run_for_ms, NULL);
    weft_park(later);
    weft_park(again);
    weft_sleep(0.005); /* neither has run yet */
    weft_unpark(later);
    weft_unpark(again);
    weft_await(later);
    assert_ran_at(0, 0.005);
    weft_sleep(0.001);
    if (is_sim()) {
        ck_assert_uint_eq(runs_count, 3);
        assert_ran_at(1, 0.005); /* the first tick is late once */
        assert_ran_at(2, 0.006);
    }
    weft_cancel(again);
    weft_cancel(f);
}

TEST(a_call_cancelled_before_its_time_never_runs_and_an_infinite_delay_arms_no_timer)
{
    weft_fiber before = weft_after(60, mark_and_return, "ran");
    ck_assert_int_eq(cancel_and_await(before), -ECANCELED); /* before its fiber ran */
    weft_fiber f = weft_after(60, mark_and_return, "ran");
    weft_fiber every = weft_every(60, mark_and_return, "ran");
    weft_after(INFINITY, mark_and_return, "ran");
    weft_every(INFINITY, mark_and_return, "ran");
    weft_every(1e300, mark_and_return, "ran");
    let_run();
    ck_assert_uint_eq(armed_timers(), 2);
    ck_assert_int_eq(weft_terminate(every, 60), 0);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 3);
    ck_assert_trail("");
}

TEST(a_restarted_delayed_call_waits_for_the_full_delay)
{ /* P30 */
    reset_runs();
    weft_fiber f = weft_after(0.002, run_for_ms, NULL);
    if (is_sim()) { /* on other backends it may have run by then */
        weft_sleep(0.001);
        ck_assert_int_eq(weft_restart(f), 0);
        weft_sleep(0.0015);
        ck_assert_uint_eq(runs_count, 0);
    }
    while (runs_count == 0)
        weft_sleep(0.001);
    ck_assert_uint_eq(runs_count, 1);
}

TEST(an_interrupted_wait_ends_the_fiber_with_the_error)
{ /* P64 */
    weft_fiber f[] = {
        weft_after(60, mark_and_return, "ran"),
        weft_every(60, mark_and_return, "ran"),
        weft_spin_loop(mark_and_return, "once ", 0.001),
    };
    let_run();
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        ck_assert_int_eq(weft_interrupt(f[i], -EINTR), 0);
        ck_assert_int_eq(weft_await(f[i]), -EINTR);
    }
    ck_assert_trail("once ");
}

FIBER_DO(fail_at_three, int *count = arg, ++*count < 3 ? 1 : weft_fail(-EIO, "broken"))

TEST_PROGRAM(main_waits_for_delayed_and_periodic_calls, 0, "")
{
    int count = 0;
    weft_after(0.002, increment_int, &count);
    weft_after(0.003, increment_int, &count);
    if (weft_suspend() != 0 || count != 2)
        return 1;
    weft_every(0.001, fail_at_three, &count);
    bool has_failed = weft_suspend() == -EIO;
    weft_error_clear(); /* an expected error */
    return has_failed && count == 3 ? 0 : 2;
}

TEST(ticks_are_at_multiples_of_the_period)
{ /* P47 */
    reset_runs();
    weft_fiber f = weft_every(0.003, run_for_ms, as_arg(1));
    weft_sleep(0.0315);
    cancel_and_await(f);
    for (size_t i = 0; is_sim() && i < 10; i++)
        assert_ran_at(i, 0.003 * (double)(i + 1));
    for (size_t i = 1; i < runs_count; i++) /* a late tick does not delay the next one */
        ck_assert_double_ge(runs[i], 0.003 * (double)(i + 1) - 1e-9);
    ck_assert_uint_ge(runs_count, 1);
    if (is_sim())
        ck_assert_uint_eq(runs_count, 10);
}

FIBER_DO(note_tick, *(double *)arg = weft_now() - begin, 0)

/*
 * P47: the period is not a whole number of nanoseconds. An error of a third of a nanosecond per
 * tick would accumulate.
 */
TEST(hundreds_of_thousands_of_ticks_do_not_drift)
{
    if (!is_sim())
        return;
    double last = 0;
    reset_runs();
    weft_fiber f = weft_every(1.0 / 3, note_tick, &last);
    weft_sleep(100000.1);
    cancel_and_await(f);
    ck_assert_double_eq_tol(last, 100000, 1e-5);
}

TEST(ticks_missed_during_a_long_run_are_skipped_and_the_others_keep_their_times)
{ /* P47 */
    /* A run takes slightly more than 50 ms, so the sixth tick is next. */
    static const double rows[][2] = {{50, 0.060}, {45, 0.050}};
    for (int row = 0; row < 2; row++) {
        reset_runs();
        weft_fiber f = weft_every(0.010, run_for_ms, as_arg((weft_value)rows[row][0]));
        weft_sleep(0.205);
        cancel_and_await(f);
        ck_assert_uint_ge(runs_count, 1);
        for (size_t i = 1; i < runs_count; i++)
            ck_assert_double_ge(runs[i] - runs[i - 1], rows[row][0] * 1e-3 - 1e-9);
        for (size_t i = 0; i < runs_count && is_sim(); i++)
            assert_ran_at(i, 0.010 + rows[row][1] * (double)i);
        if (is_sim())
            ck_assert_uint_eq(runs_count, 4);
    }
}

TEST(an_error_of_the_function_ends_the_fiber_with_that_error)
{ /* P47, P19 */
    int count = 0;
    ck_assert_int_eq(weft_await(weft_every(0.001, fail_at_three, &count)), -EIO);
    ck_assert_int_eq(count, 3);
    ck_assert_error(-EIO, "broken");
    count = 0;
    ck_assert_int_eq(weft_await(weft_spin_loop(fail_at_three, &count, 1000)), -EIO);
    ck_assert_int_eq(count, 3);
    count = 0;
    ck_assert_int_eq(weft_throttled_loop(fail_at_three, &count, 1000, 0), -EIO);
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(weft_await(weft_after(0, fail_with, as_arg(-EPIPE))), -EPIPE);
    weft_every(0.001, fail_with, as_arg(-ENOENT));
    ck_assert_int_eq(weft_sleep(60), -ENOENT); /* the error is not awaited, so the parent gets it */
}

TEST(a_throttled_loop_keeps_its_rate)
{ /* P47 */
    reset_runs();
    ck_assert_int_eq(weft_throttled_loop(run_for_ms, NULL, 50, 5), 0);
    ck_assert_slept(begin, 0.080);
    ck_assert_uint_eq(runs_count, 5);
    if (is_sim())
        for (size_t i = 0; i < 5; i++)
            assert_ran_at(i, 0.020 * (double)i);
    /* There is no wait after the last run. */
    ck_assert_int_eq(weft_throttled_loop(run_for_ms, NULL, 1e-300, 1), 0);
    ck_assert_uint_eq(armed_timers(), 0);
}

FIBER_DO(run_long_first, bool is_first = runs_count == 0, run_for_ms(is_first ? arg : NULL))

TEST(late_runs_of_a_throttled_loop_do_not_cause_a_burst)
{ /* P47 */
    reset_runs();
    ck_assert_int_eq(weft_throttled_loop(run_long_first, as_arg(50), 100, 4), 0);
    ck_assert_double_ge(runs[1], 0.050 - 1e-9);
    for (size_t i = 2; i < 4; i++)
        assert_ran_at(i, 0.050 + 0.010 * (double)(i - 1));
}

TEST(a_loop_runs_at_once_and_then_at_its_rate_until_it_is_cancelled)
{ /* P47 */
    reset_runs();
    weft_fiber f = weft_spin_loop(run_for_ms, NULL, 200);
    ck_assert_uint_eq(runs_count, 0);
    weft_snooze();
    ck_assert_uint_eq(runs_count, 1);
    weft_sleep(0.0175);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    for (size_t i = 0; i < runs_count; i++)
        assert_ran_at(i, 0.005 * (double)i);
    if (is_sim())
        ck_assert_uint_eq(runs_count, 4);
}

TEST(a_loop_without_a_rate_lets_other_fibers_run)
{
    int count = 0, other = 0;
    weft_fiber f = weft_spin_loop(increment_int, &count, INFINITY);
    weft_fiber h = weft_spin_loop(increment_int, &other, INFINITY);
    for (int i = 1; i < 10; i++) {
        weft_snooze();
        ck_assert_int_eq(count, i);
        ck_assert_int_eq(other, i);
    }
    ck_assert_int_eq(weft_sleep(0.001), 0);
    weft_cancel(f);
    weft_cancel(h);
    ck_assert_int_eq(weft_throttled_loop(increment_int, &count, INFINITY, 3), 0);
}

FIBER(run_throttled_loop, weft_throttled_loop(increment_int, arg, 1, 0))

TEST(an_interrupted_throttled_loop_returns_the_reason)
{ /* P41 */
    int count = 0;
    ck_assert_times_out(
        0.002, ck_assert_int_eq(weft_throttled_loop(increment_int, &count, 1, 0), -ECANCELED));
    ck_assert_int_eq(count, 1);
    weft_fiber f = spin_waiting(run_throttled_loop, &count);
    weft_raise(f, -EIO, "raised");
    ck_assert_int_eq(weft_await(f), -EIO);
    f = spin_waiting(run_throttled_loop, &count);
    weft_interrupt(f, -EINTR);
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_int_eq(count, 3);
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(bad_times_rates_and_functions_are_refused_with_a_message)
{
    static const double times[] = {0, -1, -1e-300, NAN, -INFINITY, 1};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_fn *fn = times[i] == 1 ? NULL : suspend;       /* a good time with a bad function */
        for (int kind = i == 0 ? 1 : 0; kind < 4; kind++) { /* weft_after accepts 0 */
            weft_error_clear();
            weft_value result = kind == 0   ? (weft_value)weft_after(times[i], fn, NULL)
                                : kind == 1 ? (weft_value)weft_every(times[i], fn, NULL)
                                : kind == 2 ? (weft_value)weft_spin_loop(fn, NULL, times[i])
                                            : weft_throttled_loop(fn, NULL, times[i], 1);
            ck_assert_int_eq(result, kind < 3 ? 0 : -EINVAL);
            ck_assert_any_error(-EINVAL);
        }
    }
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
}
