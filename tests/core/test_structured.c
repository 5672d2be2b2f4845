/*
 * Tests of combined features at the end of fibers: deferred calls, children, destructors, stops,
 * restarts, reused records, and the end of the process.
 */
#include "support/suite.h"

static void sleep_shielded(void *arg)
{
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
}

FIBER_DO(suspend_then_mark, weft_value rc = weft_suspend(), mark(arg), rc)

static weft_value defer_set_and_spin(void *arg)
{
    weft_local_set(*(weft_key *)arg, "local ");
    weft_defer(mark_arg, "first ");
    weft_defer(mark_arg, "second ");
    weft_spin(suspend_then_mark, "child ");
    weft_snooze();
    mark("body ");
    return 1;
}

TEST(the_end_of_a_fiber_runs_deferred_calls_children_destructors_and_then_awaiters)
{ /* T36, P16, P17 */
    weft_key key = weft_key_new(mark_arg);
    weft_fiber f = weft_spin(defer_set_and_spin, &key);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_trail("body second first child local ");
}

/* One of five deferred calls: a letter, and whether it defers another call. */
typedef struct deferred {
    char letter[2], other[2];
    bool defers_another;
} deferred;

static void mark_and_defer(void *arg)
{
    deferred *d = arg;
    mark(d->letter);
    if (d->defers_another)
        ck_assert_int_eq(weft_defer(mark_arg, d->other), 0);
}

static weft_value defer_five(void *arg)
{
    deferred *d = arg;
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(weft_defer(mark_and_defer, &d[i]), 0);
    return weft_suspend();
}

TEST(a_call_deferred_by_a_deferred_call_runs_next_in_every_combination)
{ /* T37 */
    for (unsigned mask = 0; mask < 32; mask++) {
        deferred d[5];
        char expected[11] = "";
        for (int i = 4; i >= 0; i--) {
            d[i] = (deferred){{(char)('a' + i)}, {(char)('A' + i)}, mask >> i & 1};
            strcat(expected, d[i].letter);
            strcat(expected, d[i].defers_another ? d[i].other : "");
        }
        weft_fiber f = spin_waiting(defer_five, d);
        ck_assert_int_eq(mask % 2 ? weft_cancel(f) : weft_schedule(f, 1), 0);
        ck_assert_int_eq(weft_await(f), mask % 2 ? -ECANCELED : 1);
        ck_take_trail(expected);
    }
}

CALLBACK(spin_from_destructor, ck_assert_uint_ne(weft_spin(sleep_forever, NULL), 0))
FIBER(set_local, weft_local_set(*(weft_key *)arg, arg))

static weft_value park_ending_child(void *arg)
{
    weft_fiber child = weft_spin(suspend_then_shield, NULL);
    weft_snooze();
    weft_cancel(child);
    weft_snooze();
    return weft_park(child);
}

/* P14, P16, T105: including children spun by the cleanup, and children parked while they end */
TEST(a_fiber_ends_only_after_its_children)
{
    weft_key key = weft_key_new(spin_from_destructor);
    ck_assert_int_eq(weft_await(weft_spin(set_local, &key)), 0);
    ck_assert_uint_eq(stats().fibers, 0);
    ck_assert_int_eq(weft_await(weft_spin(park_ending_child, NULL)), 0);
    ck_assert_uint_eq(stats().fibers, 0);
    ck_assert_int_eq(weft_suspend(), 0);
}

static weft_value spin_child_and_end(void *arg)
{
    *(weft_fiber *)arg = weft_spin(suspend_then_shield, as_arg(5));
    return weft_snooze();
}

FIBER(await_stored_fiber, weft_await(*(weft_fiber *)arg))

TEST(a_stop_during_shutdown_decides_the_value)
{ /* P24 */
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

static weft_fiber youngest_child(void)
{
    weft_fiber children[8];
    int n = weft_children(weft_self(), children, COUNT_OF(children));
    ck_assert_int_gt(n, 0);
    return children[n - 1];
}

TEST(values_are_stored_for_spun_fibers_and_not_for_detached_ones)
{ /* T29, T30 */
    weft_fiber spun = weft_spin(return_arg, as_arg(3));
    ck_assert_int_eq(weft_go(return_arg, as_arg(4)), 0);
    weft_fiber gone = youngest_child();
    weft_snooze();
    ck_assert_int_eq(weft_await(gone), -ESRCH);
    ck_assert_int_eq(weft_await(spun), 3);
    ck_assert_int_eq(weft_await(spun), -ESRCH);
    ck_assert_int_eq(weft_go(return_arg, as_arg(5)), 0);
    ck_assert_int_eq(weft_await(youngest_child()), 5);
    ck_assert_uint_eq(stats().fibers, 0);
}

static weft_value return_first_value_or_message(void *arg)
{
    if (weft_first_value() != 0)
        return weft_first_value();
    weft_value rc = weft_suspend();
    return weft_is_error(rc) ? rc : weft_receive();
}

/* P30, P31: a restart takes no value. The first schedule sets the first value. */
TEST(a_restarted_fiber_has_an_empty_mailbox_and_a_new_first_value)
{
    weft_fiber f = spin_waiting(return_first_value_or_message, NULL);
    for (weft_value first = 5; first < 8; first++) {
        ck_assert_int_eq(weft_tell(f, 1), 0);
        ck_assert_int_eq(weft_restart(f), 0); /* suspended */
        ck_assert_int_eq(weft_mailbox_count(f), 0);
        ck_assert_int_eq(weft_tell(f, 2), 0);
        ck_assert_int_eq(weft_schedule(f, first), 0);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
        ck_assert_int_eq(weft_restart(f), 0); /* ended */
        ck_assert_int_eq(weft_mailbox_count(f), 0);
        let_run();
    }
    ck_assert_int_eq(weft_tell(f, 3), 0);
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 3);
}

FIBER_DO(spin_slow_child, *(weft_fiber *)arg = weft_spin(suspend_then_shield, NULL), weft_suspend())

static weft_value restart_other(void *arg)
{
    return -weft_restart(arg_id(arg)); /* positive: an unawaited error would go to main */
}

TEST(a_restart_fails_when_the_parent_ends_during_it)
{ /* P30 */
    weft_fiber child = 0;
    weft_fiber parent = spin_waiting(spin_slow_child, &child);
    weft_fiber restarter = spin_waiting(restart_other, id_arg(child));
    ck_assert_int_eq(weft_schedule(parent, 0), 0);
    ck_assert_int_eq(weft_await(parent), 0);
    ck_assert_int_eq(weft_state_of(child), WEFT_DEAD);
    ck_assert_int_eq(weft_await(restarter), ESRCH);
}

static weft_value ignore_errors(void *arg)
{
    for (int i = 0; i < 100; i++)
        weft_snooze();
    return (weft_value)arg;
}

static weft_value fail_once(void *arg)
{
    weft_suspend();
    mark("a");
    weft_value rc = weft_sleep(1); /* fails at once, so no other fiber runs */
    mark("b");
    return rc;
}

static weft_value mark_three_times(void *arg)
{
    for (int i = 0; i < 3; i++) {
        mark(arg);
        weft_snooze();
    }
    return 0;
}

TEST(a_fiber_on_a_reused_record_starts_clean)
{ /* T45 */
    weft_fiber f = weft_spin(ignore_errors, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_terminate(f, INFINITY), 0);
    f = spin_waiting(fail_once, NULL);
    ck_assert_int_eq(weft_cancel(f), 0);
    weft_spin(mark_three_times, "x");
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("abx");
}

FIBER_DO(fail_when_cancelled, weft_suspend(), weft_fail(-EIO, "in the clean-up"))

static int exit_while_main_awaits_its_children(void)
{
    weft_defer(sleep_shielded, NULL);
    weft_spin(fail_when_cancelled, NULL);
    weft_spin(snooze_and_exit, as_arg(3));
    return weft_await_children();
}

TEST(exit_in_a_fiber_ends_all_fibers_whatever_main_waits_for)
{ /* P33 */
    const outcome *o = run_apart(exit_while_main_awaits_its_children);
    ck_assert_int_eq(o->status, 3);
    assert_printed(o, "in the clean-up");
    ck_assert_uint_eq(count_in(o->text, "deadlock"), 0);
}

FIBER_DO(print_at_end, weft_defer(print_stderr_arg, arg), weft_sleep(INFINITY))

TEST_PROGRAM(a_daemon_is_ended_with_the_process, 3, "ended")
{ /* T43 */
    weft_spin_with(print_at_end, "ended", &(weft_spin_options){.is_daemon = true});
    weft_snooze();
    return 3;
}
