/* Later, again and again, and loops held to a rate: when they run, and when they do not. */
#include "support.h"

static bool has_virtual_time(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

static size_t timers(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.timers;
}

static double begin;
static double runs[32]; /* when, in seconds after begin */
static size_t runs_count;

static void start_the_clock(void)
{
    begin = weft_now();
    runs_count = 0;
}

static void note_run(void)
{
    ck_assert_uint_lt(runs_count, COUNT_OF(runs));
    runs[runs_count++] = weft_now() - begin;
}

/* Its argument is how many milliseconds it takes. */
static weft_value run(void *arg)
{
    note_run();
    return arg != NULL ? weft_sleep((double)(intptr_t)arg * 1e-3) : 0;
}

/* At this time, exactly where it is virtual: only looks at the clock and switches move it. */
static void assert_ran_at(size_t i, double seconds)
{
    ck_assert_uint_lt(i, runs_count);
    ck_assert_double_ge(runs[i], seconds - 1e-9);
    if (has_virtual_time())
        ck_assert_double_le(runs[i], seconds + 5e-5);
}

static weft_value add(void *arg)
{
    ++*(int *)arg;
    return 0;
}

static weft_value run_and_return(void *arg)
{
    note_run();
    return (weft_value)arg;
}

START_TEST(after_runs_the_function_once_and_its_value_can_be_awaited)
{
    start_the_clock();
    weft_fiber f = weft_after(0.005, run_and_return, as_arg(7));
    ck_assert_uint_eq(weft_parent(f), weft_self());
    ck_assert_int_eq(weft_await(f), 7);
    assert_ran_at(0, 0.005);
    ck_assert_uint_eq(runs_count, 1);
    ck_assert_uint_eq(timers(), 0);
}
END_TEST

START_TEST(what_is_to_come_later_comes_in_the_order_of_its_time)
{
    weft_after(0, mark_and_return, "1");
    weft_after(0.001, mark_and_return, "2");
    weft_await(weft_after(0.002, mark_and_return, "3"));
    ck_assert_trail("123");
    if (!has_virtual_time())
        return; /* there may be more time between these calls than between their times */
    weft_fiber last = weft_after(0.003, mark_and_return, "6");
    weft_after(0.002, mark_and_return, "5");
    weft_after(0.001, mark_and_return, "4");
    weft_await(last);
    ck_assert_trail("123456");
}
END_TEST

/* P47 */
START_TEST(the_time_counts_from_the_call_and_not_from_when_the_fiber_first_runs)
{
    weft_fiber f = weft_spin(sleep_forever, NULL);
    weft_snooze();
    start_the_clock();
    weft_fiber later = weft_after(0.002, run, NULL);
    weft_fiber again = weft_every(0.002, run, NULL);
    weft_park(later);
    weft_park(again);
    weft_sleep(0.005); /* neither has run yet */
    weft_unpark(later);
    weft_unpark(again);
    weft_await(later);
    assert_ran_at(0, 0.005);
    weft_sleep(0.001);
    if (has_virtual_time()) {
        ck_assert_uint_eq(runs_count, 3);
        assert_ran_at(1, 0.005); /* the first tick is late, for once */
        assert_ran_at(2, 0.006);
    }
    weft_cancel(again);
    weft_cancel(f);
}
END_TEST

START_TEST(what_is_cancelled_before_its_time_never_runs)
{
    weft_fiber before = weft_after(60, mark_and_return, "ran");
    weft_cancel(before); /* before its fiber ran */
    ck_assert_int_eq(weft_await(before), -ECANCELED);
    weft_fiber f = weft_after(60, mark_and_return, "ran");
    weft_fiber every = weft_every(60, mark_and_return, "ran");
    let_run();
    ck_assert_uint_eq(timers(), 2);
    ck_assert_int_eq(weft_terminate(every, 60), 0);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_uint_eq(timers(), 0);
    ck_assert_trail("");
}
END_TEST

START_TEST(what_never_comes_takes_no_timer)
{
    weft_fiber f = weft_after(INFINITY, mark_and_return, "ran");
    weft_fiber every = weft_every(INFINITY, mark_and_return, "ran");
    weft_fiber far = weft_every(1e300, mark_and_return, "ran");
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(every), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(far), WEFT_WAITING);
    ck_assert_uint_eq(timers(), 0);
}
END_TEST

/* P30 */
START_TEST(what_is_restarted_has_all_its_time_before_it_again)
{
    start_the_clock();
    weft_fiber f = weft_after(0.002, run, NULL);
    if (has_virtual_time()) { /* elsewhere it may have run by then */
        weft_sleep(0.001);
        ck_assert_int_eq(weft_restart(f), 0);
        weft_sleep(0.0015);
        ck_assert_uint_eq(runs_count, 0);
    }
    while (runs_count == 0)
        weft_sleep(0.001);
    ck_assert_uint_eq(runs_count, 1);
}
END_TEST

START_TEST(nothing_is_kept_of_a_call_for_later_that_has_ended)
{
    start_the_clock();
    weft_fiber f = weft_after(0, run, NULL);
    weft_await_children();
    ck_assert_uint_eq(runs_count, 1);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_int_eq(weft_restart(f), -ESRCH);
    weft_counters counters;
    ck_assert_int_eq(weft_stats(&counters), 0);
    ck_assert_uint_eq(counters.fibers_unawaited, 0);
}
END_TEST

/* P64 */
START_TEST(a_wait_that_is_interrupted_ends_the_fiber_with_the_value)
{
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
END_TEST

static int wait_until_all_is_done(void)
{
    static int count;
    weft_after(0.002, add, &count);
    weft_after(0.003, add, &count);
    return weft_suspend() == 0 && count == 2 ? 0 : 1;
}

static weft_value stop_at_three(void *arg)
{
    int *count = arg;
    return ++*count < 3 ? 0 : weft_fail(-EPIPE, "that will do");
}

static int wait_for_the_ticks(void)
{
    static int count;
    weft_every(0.001, stop_at_three, &count);
    bool has_failed = weft_suspend() == -EPIPE;
    weft_error_clear(); /* that was expected */
    return has_failed && count == 3 ? 0 : 1;
}

START_TEST(main_waits_for_what_is_to_come_later)
{
    ck_assert_quiet(run_apart(wait_until_all_is_done), 0);
    ck_assert_quiet(run_apart(wait_for_the_ticks), 0);
}
END_TEST

/* P47 */
START_TEST(ticks_come_at_multiples_of_the_period_from_the_beginning)
{
    start_the_clock();
    weft_fiber f = weft_every(0.003, run, as_arg(1));
    weft_sleep(0.0315);
    weft_cancel(f);
    weft_await(f);
    for (size_t i = 0; has_virtual_time() && i < 10; i++)
        assert_ran_at(i, 0.003 * (double)(i + 1));
    for (size_t i = 1; i < runs_count; i++) /* a late one does not push the next one away */
        ck_assert_double_ge(runs[i], 0.003 * (double)(i + 1) - 1e-9);
    ck_assert_uint_ge(runs_count, 1);
    if (has_virtual_time())
        ck_assert_uint_eq(runs_count, 10);
}
END_TEST

static weft_value note_tick(void *arg)
{
    *(double *)arg = weft_now() - begin;
    return 0;
}

/* P47: the period is no whole number of nanoseconds; a third of one each time would add up. */
START_TEST(hundreds_of_thousands_of_ticks_do_not_drift)
{
    if (!has_virtual_time())
        return;
    double last = 0;
    start_the_clock();
    weft_fiber f = weft_every(1.0 / 3, note_tick, &last);
    weft_sleep(100000.1);
    weft_cancel(f);
    weft_await(f);
    ck_assert_double_eq_tol(last, 100000, 1e-5);
}
END_TEST

/* P47 */
START_TEST(ticks_that_pass_during_a_long_run_are_skipped_and_never_made_up_for)
{
    start_the_clock();
    weft_fiber f = weft_every(0.010, run, as_arg(50));
    weft_sleep(0.305);
    weft_cancel(f);
    weft_await(f);
    ck_assert_uint_ge(runs_count, 1);
    for (size_t i = 1; i < runs_count; i++)
        ck_assert_double_ge(runs[i] - runs[i - 1], 0.050 - 1e-9);
    if (has_virtual_time()) { /* a run lasts a little longer than 50 ms: the sixth is next */
        ck_assert_uint_eq(runs_count, 5);
        for (size_t i = 0; i < runs_count; i++)
            assert_ran_at(i, 0.010 + 0.060 * (double)i);
    }
}
END_TEST

/* P47 */
START_TEST(after_a_run_that_was_long_once_the_ticks_are_where_they_were)
{
    if (!has_virtual_time())
        return;
    start_the_clock();
    weft_fiber f = weft_every(0.010, run, as_arg(45));
    weft_sleep(0.220);
    weft_cancel(f);
    weft_await(f);
    ck_assert_uint_eq(runs_count, 5);
    for (size_t i = 0; i < runs_count; i++)
        assert_ran_at(i, 0.010 + 0.050 * (double)i);
}
END_TEST

static weft_value fail_at_three(void *arg)
{
    int *count = arg;
    return ++*count < 3 ? 1 : weft_fail(-EIO, "broken");
}

/* P47, P19 */
START_TEST(an_error_of_the_function_ends_it_and_is_the_fiber_s)
{
    int count = 0;
    ck_assert_int_eq(weft_await(weft_every(0.001, fail_at_three, &count)), -EIO);
    ck_assert_int_eq(count, 3);
    ck_assert_words(-EIO, "broken");
    count = 0;
    ck_assert_int_eq(weft_await(weft_spin_loop(fail_at_three, &count, 1000)), -EIO);
    ck_assert_int_eq(count, 3);
    count = 0;
    ck_assert_int_eq(weft_throttled_loop(fail_at_three, &count, 1000, 0), -EIO);
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(weft_await(weft_after(0, fail_with, as_arg(-EPIPE))), -EPIPE);
    weft_every(0.001, fail_with, as_arg(-ENOENT));
    ck_assert_int_eq(weft_sleep(60), -ENOENT); /* nobody awaits it: it strikes its parent */
}
END_TEST

/* P47 */
START_TEST(a_throttled_loop_holds_to_its_rate)
{
    start_the_clock();
    ck_assert_int_eq(weft_throttled_loop(run, NULL, 50, 5), 0);
    ck_assert_slept(begin, 0.080);
    ck_assert_uint_eq(runs_count, 5);
    if (has_virtual_time())
        for (size_t i = 0; i < 5; i++)
            assert_ran_at(i, 0.020 * (double)i);
    ck_assert_int_eq(weft_throttled_loop(run, NULL, 1e-300, 1), 0); /* it does not wait after it */
    ck_assert_uint_eq(timers(), 0);
}
END_TEST

static weft_value run_long_first(void *arg)
{
    bool is_first = runs_count == 0;
    return run(is_first ? arg : NULL);
}

/* P47 */
START_TEST(runs_of_a_throttled_loop_that_are_late_do_not_bunch)
{
    start_the_clock();
    ck_assert_int_eq(weft_throttled_loop(run_long_first, as_arg(50), 100, 4), 0);
    ck_assert_double_ge(runs[1], 0.050 - 1e-9);
    for (size_t i = 2; i < 4; i++)
        assert_ran_at(i, 0.050 + 0.010 * (double)(i - 1));
}
END_TEST

/* P47 */
START_TEST(a_loop_runs_at_once_and_then_at_its_rate_until_it_is_cancelled)
{
    start_the_clock();
    weft_fiber f = weft_spin_loop(run, NULL, 200);
    ck_assert_uint_eq(runs_count, 0);
    weft_snooze();
    ck_assert_uint_eq(runs_count, 1);
    weft_sleep(0.0175);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    for (size_t i = 0; i < runs_count; i++)
        assert_ran_at(i, 0.005 * (double)i);
    if (has_virtual_time())
        ck_assert_uint_eq(runs_count, 4);
}
END_TEST

START_TEST(a_loop_without_a_rate_lets_the_others_run_in_between)
{
    int count = 0, other = 0;
    weft_fiber f = weft_spin_loop(add, &count, INFINITY);
    weft_fiber h = weft_spin_loop(add, &other, INFINITY);
    for (int i = 1; i < 10; i++) {
        weft_snooze();
        ck_assert_int_eq(count, i);
        ck_assert_int_eq(other, i);
    }
    ck_assert_int_eq(weft_sleep(0.001), 0);
    weft_cancel(f);
    weft_cancel(h);
    ck_assert_int_eq(weft_throttled_loop(add, &count, INFINITY, 3), 0);
}
END_TEST

static weft_value loop_for_ever(void *arg)
{
    return weft_throttled_loop(add, arg, 1, 0);
}

/* P41 */
START_TEST(a_throttled_loop_that_is_cut_short_says_why)
{
    int count = 0, rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert_int_eq(weft_throttled_loop(add, &count, 1, 0), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(count, 1);
    weft_fiber f = weft_spin(loop_for_ever, &count);
    let_run();
    weft_raise(f, -EIO, "raised");
    ck_assert_int_eq(weft_await(f), -EIO);
    f = weft_spin(loop_for_ever, &count);
    let_run();
    weft_interrupt(f, -EINTR);
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_int_eq(count, 3);
    ck_assert_uint_eq(timers(), 0);
}
END_TEST

START_TEST(bad_times_rates_and_functions_are_refused_with_words)
{
    static const double times[] = {-1, -1e-300, NAN, -INFINITY, 0};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_error_clear();
        if (i < 4) {
            ck_assert_uint_eq(weft_after(times[i], suspend, NULL), 0);
            ck_assert_any_words(-EINVAL);
            weft_error_clear();
        }
        ck_assert_uint_eq(weft_every(times[i], suspend, NULL), 0);
        ck_assert_any_words(-EINVAL);
        weft_error_clear();
        ck_assert_uint_eq(weft_spin_loop(suspend, NULL, times[i]), 0);
        ck_assert_any_words(-EINVAL);
        weft_error_clear();
        ck_assert_int_eq(weft_throttled_loop(suspend, NULL, times[i], 1), -EINVAL);
        ck_assert_any_words(-EINVAL);
    }
    ck_assert_uint_eq(weft_after(1, NULL, NULL), 0);
    ck_assert_uint_eq(weft_every(1, NULL, NULL), 0);
    ck_assert_uint_eq(weft_spin_loop(NULL, NULL, 1), 0);
    ck_assert_int_eq(weft_throttled_loop(NULL, NULL, 1, 1), -EINVAL);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
}
END_TEST

static const TTest *const *const tests[] = {
    &after_runs_the_function_once_and_its_value_can_be_awaited,
    &what_is_to_come_later_comes_in_the_order_of_its_time,
    &the_time_counts_from_the_call_and_not_from_when_the_fiber_first_runs,
    &what_is_cancelled_before_its_time_never_runs,
    &what_never_comes_takes_no_timer,
    &what_is_restarted_has_all_its_time_before_it_again,
    &nothing_is_kept_of_a_call_for_later_that_has_ended,
    &a_wait_that_is_interrupted_ends_the_fiber_with_the_value,
    &main_waits_for_what_is_to_come_later,
    &ticks_come_at_multiples_of_the_period_from_the_beginning,
    &hundreds_of_thousands_of_ticks_do_not_drift,
    &ticks_that_pass_during_a_long_run_are_skipped_and_never_made_up_for,
    &after_a_run_that_was_long_once_the_ticks_are_where_they_were,
    &an_error_of_the_function_ends_it_and_is_the_fiber_s,
    &a_throttled_loop_holds_to_its_rate,
    &runs_of_a_throttled_loop_that_are_late_do_not_bunch,
    &a_loop_runs_at_once_and_then_at_its_rate_until_it_is_cancelled,
    &a_loop_without_a_rate_lets_the_others_run_in_between,
    &a_throttled_loop_that_is_cut_short_says_why,
    &bad_times_rates_and_functions_are_refused_with_words,
};

int main(void)
{
    return run_suite("recur", tests, COUNT_OF(tests));
}
