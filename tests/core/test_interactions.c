/*
 * Tests of the interaction of two rules. Each case was found by reasoning about the code or by a
 * random program (test_model.c), where it is too rare to rely on.
 */
#include "support/support.h"

#include <pthread.h>

static weft_counters counters_now(void)
{
    weft_counters now;
    ck_assert_int_eq(weft_stats(&now), 0);
    return now;
}

/* P4: weft_schedule refuses a fiber that waits, or has just waited, in another call. */
START_TEST(scheduling_a_cancelled_sleeping_fiber_is_refused)
{
    weft_fiber f = spin_sleeping();
    ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
    ck_assert_int_eq(weft_raise(f, -EIO, "wake"), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_RUNNABLE);
    ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
    ck_assert_int_eq(weft_await(f), -EIO);
}
END_TEST

static weft_value suspend_then_sleep(void *arg)
{
    (void)arg;
    weft_value rc = weft_suspend();
    return rc < 0 ? rc : weft_sleep(INFINITY);
}

/* P14 */
START_TEST(scheduling_a_parked_sleeping_fiber_is_refused)
{
    weft_fiber f = weft_spin(suspend_then_sleep, NULL);
    let_run();
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    let_run();
    ck_assert_int_eq(weft_park(f), 0);
    ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
    ck_assert_int_eq(weft_unpark(f), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_terminate(f, INFINITY), 0);
}
END_TEST

static weft_value park_and_unpark_starter(void *arg)
{
    weft_fiber starter = *(weft_fiber *)arg;
    ck_assert_int_eq(weft_park(starter), 0);
    ck_assert_int_eq(weft_unpark(starter), 0);
    return weft_snooze();
}

static weft_value start_one(void *arg)
{
    weft_fiber self = weft_self();
    weft_fiber f = weft_new(park_and_unpark_starter, &self);
    ck_assert_int_eq(weft_start(f), 0);
    weft_value rc = weft_suspend(); /* only the test schedules this fiber, with 7 */
    (void)arg;
    return rc;
}

/* P14, T8: the fiber is in weft_start, and continues once, when the started fiber switches. */
START_TEST(a_starter_that_is_parked_and_unparked_runs_once)
{
    weft_fiber f = weft_spin(start_one, NULL);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
}
END_TEST

static weft_value park_starter(void *arg)
{
    ck_assert_int_eq(weft_park(*(weft_fiber *)arg), 0);
    return weft_snooze();
}

static weft_value start_parker(void *arg)
{
    weft_fiber self = weft_self();
    weft_value rc = weft_start(weft_new(park_starter, &self));
    mark("started");
    (void)arg;
    return rc;
}

/* P14 */
START_TEST(a_starter_that_is_parked_does_not_run)
{
    weft_fiber f = weft_spin(start_parker, NULL);
    for (int i = 0; i < 5; i++)
        weft_snooze();
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(f), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("started");
}
END_TEST

static weft_value await_stored_fiber(void *arg)
{
    return weft_await(*(weft_fiber *)arg);
}

/*
 * P21, P34: two fibers await one failure and fail with it. Their parent awaits both and gets no
 * further error.
 */
START_TEST(an_error_shared_by_two_awaited_children_is_not_reported_again)
{
    weft_fiber source = spin_suspended();
    weft_fiber first = weft_spin(await_stored_fiber, &source),
               second = weft_spin(await_stored_fiber, &source);
    let_run();
    ck_assert_int_eq(weft_schedule(source, -EIO), 0);
    WEFT_SHIELD(INFINITY)
        let_run();
    ck_assert_int_eq(weft_await(second), -EIO);
    ck_assert_int_eq(weft_await(first), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static weft_value suspend_then_shield(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
    return 0;
}

static weft_fiber slow_child;

static weft_value spin_slow_child(void *arg)
{
    (void)arg;
    slow_child = weft_spin(suspend_then_shield, NULL);
    weft_value rc = weft_suspend();
    return rc;
}

static weft_value restart_slow(void *arg)
{
    (void)arg;
    return -weft_restart(slow_child); /* positive: an unawaited error would go to main */
}

/* P30: restarting a fiber that ends with its parent fails. The restart does not wait forever. */
START_TEST(a_restart_fails_when_the_parent_ends_during_it)
{
    weft_fiber parent = weft_spin(spin_slow_child, NULL);
    let_run();
    weft_fiber restarter = weft_spin(restart_slow, NULL);
    let_run();
    ck_assert_int_eq(weft_schedule(parent, 0), 0);
    ck_assert_int_eq(weft_await(parent), 0);
    ck_assert_int_eq(weft_state_of(slow_child), WEFT_DEAD);
    int rc = 0;
    weft_value restarted = 0;
    WEFT_CANCEL_AFTER(0.05, rc)
        restarted = weft_await(restarter);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(restarted, ESRCH);
}
END_TEST

static void spin_from_destructor(void *value)
{
    (void)value;
    ck_assert_uint_ne(weft_spin(sleep_forever, NULL), 0);
}

static weft_value set_local(void *arg)
{
    return weft_local_set(*(weft_key *)arg, arg);
}

/* P16, T105: a fiber ends only after its children, including children spun by its cleanup. */
START_TEST(a_child_spun_by_a_destructor_ends_with_its_parent)
{
    weft_key key = weft_key_new(spin_from_destructor);
    weft_fiber f = weft_spin(set_local, &key);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_uint_eq(counters_now().fibers, 0);
    ck_assert_int_eq(weft_suspend(), 0);
}
END_TEST

static weft_value await_any_of(void *arg)
{
    weft_fiber *f = arg;
    weft_value out = 77;
    int rc = weft_await_any(f, 2, &out);
    ck_assert_int_eq(out, 77);
    return rc;
}

/* P64, P37 */
START_TEST(an_interrupted_await_any_returns_the_error)
{
    static const int values[] = {-EINTR, -5};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        weft_fiber f[2] = {spin_suspended(), spin_suspended()};
        weft_fiber waiter = weft_spin(await_any_of, f);
        let_run();
        ck_assert_int_eq(weft_interrupt(waiter, values[i]), 0);
        ck_assert_int_eq(weft_await(waiter), values[i]);
    }
}
END_TEST

static weft_value await_all_of(void *arg)
{
    weft_fiber *f = arg;
    weft_value out[2] = {77, 77};
    int rc = weft_await_all(f, 2, out);
    ck_assert_int_eq(out[0], 77);
    ck_assert_int_eq(out[1], 77);
    return rc;
}

/* P64, P35: there are no values yet, so none are returned. */
START_TEST(an_interrupted_await_all_returns_no_values)
{
    weft_fiber f[2] = {spin_suspended(), spin_suspended()};
    weft_fiber waiter = weft_spin(await_all_of, f);
    let_run();
    ck_assert_int_eq(weft_interrupt(waiter, -EINTR), 0);
    ck_assert_int_eq(weft_await(waiter), -EINTR);
}
END_TEST

/* P46: a deadline moved to 0 expires at once. */
START_TEST(a_deadline_moved_to_now_cancels_the_next_call)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 1000), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, 0), 0);
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), -ETIMEDOUT);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

/* An expired shield lets outer cancellations through, but does not cancel. */
START_TEST(an_expired_shield_never_cancels)
{
    weft_scope shield;
    ck_assert_int_eq(weft_shield_open(&shield, 0.001), 0);
    ck_assert_int_eq(weft_sleep(0.002), 0);
    weft_scope_reset(&shield, 0.001);
    ck_assert_int_eq(weft_sleep(0.002), 0);
    ck_assert(!weft_scope_is_cancelled(&shield));
    weft_scope_close(&shield);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static weft_value return_5_after_shield(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
    return 5;
}

static weft_value spin_child_and_end(void *arg)
{
    *(weft_fiber *)arg = weft_spin(return_5_after_shield, NULL);
    return weft_snooze();
}

/* P24: a fiber stopped with a value while its parent ends has that value in any case. */
START_TEST(a_stop_during_shutdown_decides_the_value)
{
    weft_fiber child = 0;
    weft_fiber parent = weft_spin(spin_child_and_end, &child);
    weft_fiber waiter = weft_spin(await_stored_fiber, &child);
    for (int i = 0; i < 4; i++)
        weft_snooze();
    ck_assert_int_eq(weft_stop(child, 42), 0);
    ck_assert_int_eq(weft_raise(child, -EIO, "too late"), 0);
    ck_assert_int_eq(weft_await(waiter), 42);
    ck_assert_int_eq(weft_await(parent), 0);
}
END_TEST

static weft_value ignore_errors(void *arg)
{
    (void)arg;
    weft_suspend();
    for (int i = 0; i < 100; i++)
        weft_snooze();
    return 0;
}

static weft_value fail_once(void *arg)
{
    (void)arg;
    weft_suspend();
    mark("a");
    weft_value rc = weft_sleep(1); /* fails at once, so no other fiber runs */
    mark("b");
    return rc;
}

static weft_value mark_three_times(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        mark("x");
        weft_snooze();
    }
    return 0;
}

/* T45: errors that a fiber ignored do not affect the next fiber on its record. */
START_TEST(a_fiber_on_a_reused_record_starts_clean)
{
    weft_fiber f = weft_spin(ignore_errors, NULL);
    let_run();
    ck_assert_int_eq(weft_terminate(f, INFINITY), 0);
    f = weft_spin(fail_once, NULL);
    let_run();
    ck_assert_int_eq(weft_cancel(f), 0);
    weft_spin(mark_three_times, NULL);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("abx");
}
END_TEST

static weft_value fail_at_once(void *arg)
{
    return weft_fail((int)(intptr_t)arg, "broken");
}

static void *spin_two_failing(void *arg)
{
    (void)arg;
    weft_go(fail_at_once, as_arg(-EIO));
    weft_go(fail_at_once, as_arg(-EPROTO));
    WEFT_SHIELD(INFINITY)
        let_run();
    return NULL;
}

static int run_thread_with_failures(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin_two_failing, NULL) != 0)
        return 2;
    pthread_join(thread, NULL);
    return 0;
}

/* P77, P78: one error is reported. A leak checker finds no memory of either error. */
START_TEST(a_thread_that_ends_with_two_errors_reports_one_and_frees_both)
{
    const outcome *out = run_apart(run_thread_with_failures);
    ck_assert_msg(out->status == 0, "%s", out->text);
    ck_assert_uint_eq(count_in(out->text, "was not handled"), 1);
}
END_TEST

static weft_fiber to_schedule;

static void schedule_while_idle(void *arg)
{
    (void)arg;
    weft_schedule(to_schedule, 6);
}

/* P13, P10: another fiber must wait for an external event. Otherwise this would be a deadlock. */
START_TEST(a_fiber_scheduled_by_the_idle_function_runs_at_once)
{
    to_schedule = spin_suspended();
    weft_fiber daemon = spin_sleeping();
    weft_on_idle(schedule_while_idle, NULL);
    WEFT_MOVE_ON_AFTER(1000)
        ck_assert_int_eq(weft_await(to_schedule), 6);
    weft_on_idle(NULL, NULL);
    ck_assert_int_eq(weft_terminate(daemon, INFINITY), 0);
}
END_TEST

static void sleep_shielded(void *arg)
{
    (void)arg;
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
}

static weft_value defer_shielded_sleep(void *arg)
{
    weft_defer(sleep_shielded, NULL);
    return (weft_value)arg;
}

static weft_value park_ending_child(void *arg)
{
    (void)arg;
    weft_fiber child = weft_spin(defer_shielded_sleep, NULL);
    weft_snooze();
    return weft_park(child);
}

/* P14, P16 */
START_TEST(a_child_parked_while_ending_ends_with_its_parent)
{
    ck_assert_int_eq(weft_await(weft_spin(park_ending_child, NULL)), 0);
    ck_assert_uint_eq(counters_now().fibers, 0);
}
END_TEST

static weft_value exit_with_3(void *arg)
{
    (void)arg;
    weft_snooze();
    exit_here(3);
    return 0;
}

static weft_value fail_when_cancelled(void *arg)
{
    (void)arg;
    weft_suspend();
    return weft_fail(-EIO, "in the clean-up");
}

static int exit_while_main_awaits_its_children(void)
{
    weft_defer(sleep_shielded, NULL);
    weft_spin(fail_when_cancelled, NULL);
    weft_spin(exit_with_3, NULL);
    return weft_await_children();
}

/* P33: main gets an error while it is abandoned. */
START_TEST(exit_in_a_fiber_ends_all_fibers_whatever_main_waits_for)
{
    const outcome *o = run_apart(exit_while_main_awaits_its_children);
    ck_assert_int_eq(o->status, 3);
    assert_printed(o, "in the clean-up");
    ck_assert_uint_eq(count_in(o->text, "deadlock"), 0);
}
END_TEST

static weft_value read_eight(void *arg)
{
    char bytes[8];
    return weft_read_full(*(int *)arg, bytes, sizeof bytes);
}

/* P64 */
START_TEST(an_interrupted_read_full_returns_the_error)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber f = weft_spin(read_eight, &fd[0]);
    let_run();
    ck_assert_int_eq(weft_interrupt(f, -1000), 0);
    ck_assert_int_eq(weft_await(f), -1000);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

static weft_value suspend_then_sleep_shielded(void *arg)
{
    weft_suspend();
    sleep_shielded(arg);
    return 0;
}

static weft_value select_two(void *arg)
{
    weft_value out;
    return weft_select_fibers(arg, 2, &out);
}

/* P37, P64 */
START_TEST(an_interrupted_select_fibers_still_waits_for_the_stopped_fibers)
{
    weft_fiber f[2] = {spin_suspended(), weft_spin(suspend_then_sleep_shielded, NULL)};
    weft_fiber waiter = weft_spin(select_two, f);
    let_run();
    ck_assert_int_eq(weft_schedule(f[0], 0), 0);
    let_run();
    ck_assert_int_eq(weft_interrupt(waiter, -5), 0);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(weft_state_of(f[1]), WEFT_DEAD);
}
END_TEST

START_TEST(a_scope_cannot_be_opened_inside_itself)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, INFINITY), 0);
    ck_assert_int_eq(weft_scope_open(&scope, INFINITY), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}
END_TEST

START_TEST(a_fiber_may_be_renamed_to_a_part_of_its_own_name)
{
    weft_set_name(weft_self(), "the one and only");
    ck_assert_int_eq(weft_set_name(weft_self(), weft_name_of(weft_self()) + 4), 0);
    ck_assert_str_eq(weft_name_of(weft_self()), "one and only");
}
END_TEST

/* Virtual time can reach the end of the clock. */
START_TEST(a_sleep_past_the_end_of_the_clock_never_ends)
{
    if (!is_sim())
        return;
    ck_assert_int_eq(weft_sleep(8e9), 0);
    weft_fiber f = spin_sleeping();
    WEFT_MOVE_ON_AFTER(8e9) {
        ck_assert(!weft_is_cancelled());
    }
    ck_assert_int_eq(weft_terminate(f, INFINITY), 0);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &scheduling_a_cancelled_sleeping_fiber_is_refused,
        &scheduling_a_parked_sleeping_fiber_is_refused,
        &a_starter_that_is_parked_and_unparked_runs_once,
        &a_starter_that_is_parked_does_not_run,
        &an_error_shared_by_two_awaited_children_is_not_reported_again,
        &a_restart_fails_when_the_parent_ends_during_it,
        &a_child_spun_by_a_destructor_ends_with_its_parent,
        &an_interrupted_await_any_returns_the_error,
        &an_interrupted_await_all_returns_no_values,
        &a_deadline_moved_to_now_cancels_the_next_call,
        &an_expired_shield_never_cancels,
        &a_stop_during_shutdown_decides_the_value,
        &a_fiber_on_a_reused_record_starts_clean,
        &a_thread_that_ends_with_two_errors_reports_one_and_frees_both,
        &a_fiber_scheduled_by_the_idle_function_runs_at_once,
        &a_child_parked_while_ending_ends_with_its_parent,
        &exit_in_a_fiber_ends_all_fibers_whatever_main_waits_for,
        &an_interrupted_read_full_returns_the_error,
        &an_interrupted_select_fibers_still_waits_for_the_stopped_fibers,
        &a_scope_cannot_be_opened_inside_itself,
        &a_fiber_may_be_renamed_to_a_part_of_its_own_name,
        &a_sleep_past_the_end_of_the_clock_never_ends,
    };
    return run_suite("corners", tests, COUNT_OF(tests));
}
