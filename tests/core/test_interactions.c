/*
 * Corners: what two rules do when they meet. Each was found by reasoning about the code, or by a
 * random program (test_model.c), and is too rare there to rely on.
 */
#include "support.h"

#include <pthread.h>

static weft_counters stats(void)
{
    weft_counters now;
    ck_assert_int_eq(weft_stats(&now), 0);
    return now;
}

/* P4: what waits in another call, or was just taken out of one, is not for weft_schedule. */
START_TEST(scheduling_a_cancelled_sleeper_is_refused)
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
START_TEST(scheduling_a_parked_sleeper_is_refused)
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
    weft_value rc = weft_suspend(); /* nobody schedules this but the test, with 7 */
    (void)arg;
    return rc;
}

/* P14, T8: it is in weft_start, and goes on once, when the started one switches. */
START_TEST(a_starter_that_is_parked_and_let_go_runs_once)
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

static weft_value await_arg(void *arg)
{
    return weft_await(*(weft_fiber *)arg);
}

/* P21, P34: two await one failure and fail with it; their parent awaits both and hears no more. */
START_TEST(an_error_shared_by_two_children_is_not_told_again_when_both_are_awaited)
{
    weft_fiber source = spin_suspended();
    weft_fiber first = weft_spin(await_arg, &source), second = weft_spin(await_arg, &source);
    let_run();
    ck_assert_int_eq(weft_schedule(source, -EIO), 0);
    WEFT_SHIELD(INFINITY)
        let_run();
    ck_assert_int_eq(weft_await(second), -EIO);
    ck_assert_int_eq(weft_await(first), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static weft_value end_slowly(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
    return 0;
}

static weft_fiber slow_child;

static weft_value parent_of_slow(void *arg)
{
    (void)arg;
    slow_child = weft_spin(end_slowly, NULL);
    weft_value rc = weft_suspend();
    return rc;
}

static weft_value restart_slow(void *arg)
{
    (void)arg;
    return -weft_restart(slow_child); /* an error nobody awaits would go to main */
}

/* P30: a restart of what ends with its parent fails; nobody waits for it for ever. */
START_TEST(a_restart_fails_when_the_parent_ends_meanwhile)
{
    weft_fiber parent = weft_spin(parent_of_slow, NULL);
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

/* P16, T105: dead only when its children are, also those that its clean-up makes. */
START_TEST(a_child_made_by_a_destructor_ends_with_its_parent)
{
    weft_key key = weft_key_new(spin_from_destructor);
    weft_fiber f = weft_spin(set_local, &key);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_uint_eq(stats().fibers, 0);
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
START_TEST(an_interrupted_wait_for_any_returns_the_value_given)
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

/* P64, P35: no values have come, so none are given. */
START_TEST(an_interrupted_wait_for_all_gives_no_values)
{
    weft_fiber f[2] = {spin_suspended(), spin_suspended()};
    weft_fiber waiter = weft_spin(await_all_of, f);
    let_run();
    ck_assert_int_eq(weft_interrupt(waiter, -EINTR), 0);
    ck_assert_int_eq(weft_await(waiter), -EINTR);
}
END_TEST

/* P46: 0 is over at once, for a deadline that is moved too. */
START_TEST(a_deadline_moved_to_now_strikes_at_the_next_call)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 1000), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, 0), 0);
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), -ETIMEDOUT);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

/* A shield that is over lets through what waited outside; it does not cancel. */
START_TEST(a_shield_that_is_over_never_cancels)
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

static weft_value end_as_told(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
    return 5;
}

static weft_value parent_that_ends(void *arg)
{
    *(weft_fiber *)arg = weft_spin(end_as_told, NULL);
    return weft_snooze();
}

/* P24: stopped with a value while it is being ended: its value is that, whatever comes to it. */
START_TEST(a_stop_during_shutdown_decides_the_value)
{
    weft_fiber child = 0;
    weft_fiber parent = weft_spin(parent_that_ends, &child);
    weft_fiber waiter = weft_spin(await_arg, &child);
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
    weft_value rc = weft_sleep(1); /* fails at once: nobody else runs */
    mark("b");
    return rc;
}

static weft_value mark_turns(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        mark("x");
        weft_snooze();
    }
    return 0;
}

/* T45: what a fiber ignored is not held against the next one in its place. */
START_TEST(a_recycled_fiber_starts_with_a_clean_record)
{
    weft_fiber f = weft_spin(ignore_errors, NULL);
    let_run();
    ck_assert_int_eq(weft_terminate(f, INFINITY), 0);
    f = weft_spin(fail_once, NULL);
    let_run();
    ck_assert_int_eq(weft_cancel(f), 0);
    weft_spin(mark_turns, NULL);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("abx");
}
END_TEST

static weft_value fail_at_once(void *arg)
{
    return weft_fail((int)(intptr_t)arg, "broken");
}

static void *leave_failures(void *arg)
{
    (void)arg;
    weft_go(fail_at_once, as_arg(-EIO));
    weft_go(fail_at_once, as_arg(-EPROTO));
    WEFT_SHIELD(INFINITY)
        let_run();
    return NULL;
}

static int thread_with_failures(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, leave_failures, NULL) != 0)
        return 2;
    pthread_join(thread, NULL);
    return 0;
}

/* P77, P78: it is reported once, and (under a leak checker) nothing of either error is left. */
START_TEST(a_thread_that_ends_with_two_errors_reports_one_and_keeps_none)
{
    const outcome *out = run_apart(thread_with_failures);
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

/* P13, P10: somebody else must be awaited from outside, or it would be a deadlock before that. */
START_TEST(who_is_scheduled_by_the_idle_hook_runs_at_once)
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

static weft_value end_with_a_slow_defer(void *arg)
{
    weft_defer(sleep_shielded, NULL);
    return (weft_value)arg;
}

static weft_value park_an_ending_child(void *arg)
{
    (void)arg;
    weft_fiber child = weft_spin(end_with_a_slow_defer, NULL);
    weft_snooze();
    return weft_park(child);
}

/* P14, P16 */
START_TEST(a_child_that_is_parked_while_it_ends_ends_with_its_parent)
{
    ck_assert_int_eq(weft_await(weft_spin(park_an_ending_child, NULL)), 0);
    ck_assert_uint_eq(stats().fibers, 0);
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

/* P33: main is told of an error while it is being left for good. */
START_TEST(exit_in_a_fiber_ends_everyone_whatever_main_waits_for)
{
    const outcome *o = run_apart(exit_while_main_awaits_its_children);
    ck_assert_int_eq(o->status, 3);
    assert_said(o, "in the clean-up");
    ck_assert_uint_eq(count_in(o->text, "deadlock"), 0);
}
END_TEST

static weft_value read_eight(void *arg)
{
    char bytes[8];
    return weft_read_full(*(int *)arg, bytes, sizeof bytes);
}

/* P64 */
START_TEST(a_loop_of_reads_that_is_interrupted_returns_the_value)
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

static weft_value end_late(void *arg)
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
START_TEST(a_select_that_is_interrupted_while_it_stops_the_others_waits_for_them_all_the_same)
{
    weft_fiber f[2] = {spin_suspended(), weft_spin(end_late, NULL)};
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

START_TEST(a_fiber_may_be_given_its_own_name)
{
    weft_name(weft_self(), "the one and only");
    ck_assert_int_eq(weft_name(weft_self(), weft_name_of(weft_self()) + 4), 0);
    ck_assert_str_eq(weft_name_of(weft_self()), "one and only");
}
END_TEST

/* A clock that only jumps gets far. */
START_TEST(a_sleep_past_the_end_of_the_clock_is_one_without_end)
{
    if (strcmp(weft_backend_name(), "sim") != 0)
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
        &scheduling_a_cancelled_sleeper_is_refused,
        &scheduling_a_parked_sleeper_is_refused,
        &a_starter_that_is_parked_and_let_go_runs_once,
        &a_starter_that_is_parked_does_not_run,
        &an_error_shared_by_two_children_is_not_told_again_when_both_are_awaited,
        &a_restart_fails_when_the_parent_ends_meanwhile,
        &a_child_made_by_a_destructor_ends_with_its_parent,
        &an_interrupted_wait_for_any_returns_the_value_given,
        &an_interrupted_wait_for_all_gives_no_values,
        &a_deadline_moved_to_now_strikes_at_the_next_call,
        &a_shield_that_is_over_never_cancels,
        &a_stop_during_shutdown_decides_the_value,
        &a_recycled_fiber_starts_with_a_clean_record,
        &a_thread_that_ends_with_two_errors_reports_one_and_keeps_none,
        &who_is_scheduled_by_the_idle_hook_runs_at_once,
        &a_child_that_is_parked_while_it_ends_ends_with_its_parent,
        &exit_in_a_fiber_ends_everyone_whatever_main_waits_for,
        &a_loop_of_reads_that_is_interrupted_returns_the_value,
        &a_select_that_is_interrupted_while_it_stops_the_others_waits_for_them_all_the_same,
        &a_scope_cannot_be_opened_inside_itself,
        &a_fiber_may_be_given_its_own_name,
        &a_sleep_past_the_end_of_the_clock_is_one_without_end,
    };
    return run_suite("corners", tests, COUNT_OF(tests));
}
