/* Tests of monitors: fibers that get a message when another fiber ends. */
#include "support/suite.h"

static weft_value suspend_or_fail(void *arg)
{
    weft_value v = weft_suspend();
    return v == 0 ? weft_fail((int)(intptr_t)arg, "broken") : v;
}

/* Return a suspended fiber that the caller monitors. If scheduled with 0, it fails with -EIO. */
static weft_fiber spin_monitored(void)
{
    weft_fiber f = spin_waiting(suspend_or_fail, as_arg(-EIO));
    ck_assert_int_eq(weft_monitor(f), 0);
    return f;
}

static void assert_notified_of(weft_fiber f)
{
    ck_assert_int_eq(weft_receive(), (weft_value)f);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

static void assert_nothing_remains(void)
{
    ck_assert_uint_eq(stats().fibers, 0);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

FIXTURE(NULL, assert_nothing_remains)

TEST(a_monitor_is_notified_of_a_normal_end_and_can_await_the_value)
{ /* P38 */
    weft_fiber f = spin_monitored();
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    weft_schedule(f, 7);
    assert_notified_of(f);
    ck_assert_int_eq(weft_go(mark_and_return, "switched"), 0);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_trail("");
    ck_assert_int_eq(weft_await(f), -ESRCH);
    let_run();
}

TEST(a_monitor_is_notified_when_the_fiber_is_stopped_or_cancelled)
{ /* P38 */
    weft_fiber f = spin_monitored();
    weft_stop(f, 5);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), 5);
    f = spin_monitored();
    weft_cancel(f);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    f = weft_spin(suspend_or_fail, NULL);
    weft_monitor(f);
    weft_stop(f, 6); /* before it runs */
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), 6);
}

TEST(a_monitoring_parent_is_notified_of_an_error_and_not_interrupted)
{ /* P38 */
    weft_fiber f = spin_monitored();
    weft_schedule(f, 0);
    let_run();
    ck_assert_int_eq(weft_snooze(), 0);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value monitor_and_await(void *arg)
{
    weft_fiber f = arg_id(arg);
    if (weft_monitor(f) != 0)
        return 1;
    weft_value v = weft_receive();
    if (v != (weft_value)f)
        return weft_is_error(v) ? v : 2;
    return -weft_await(f);
}

TEST(a_parent_that_does_not_monitor_is_interrupted_although_another_fiber_monitors)
{ /* P38 */
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    weft_fiber other = spin_waiting(monitor_and_await, id_arg(f));
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_suspend(), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_await(other), EIO);
    ck_assert_int_eq(weft_await(f), -ESRCH); /* the other fiber, a monitor, has awaited it */
}

TEST(two_monitors_are_notified_and_each_may_await_once)
{
    weft_fiber f = spin_monitored();
    weft_fiber other = spin_waiting(monitor_and_await, id_arg(f));
    weft_schedule(f, -EAGAIN);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(other), EAGAIN);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), -EAGAIN);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

TEST(a_monitor_may_await_a_fiber_that_a_fiber_awaited_before)
{
    weft_fiber f = spin_monitored();
    weft_fiber awaiter = spin_waiting(await_fiber, id_arg(f));
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(awaiter), 3);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), 3);
    f = spin_monitored(); /* the monitor itself */
    weft_schedule(f, 4);
    ck_assert_int_eq(weft_await(f), 4);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), 4);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

TEST(after_unmonitor_a_parent_gets_errors_instead_of_messages)
{ /* P38 */
    weft_fiber f = spin_monitored();
    ck_assert_int_eq(weft_unmonitor(f), 0);
    ck_assert_int_eq(weft_unmonitor(f), -ENOENT);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_receive(), -EIO);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_int_eq(weft_unmonitor(f), -ESRCH);
}

TEST(monitoring_twice_sends_one_message_which_unmonitor_does_not_remove)
{
    weft_fiber f = spin_monitored();
    ck_assert_int_eq(weft_monitor(f), 0);
    weft_schedule(f, 1);
    let_run();
    ck_assert_int_eq(weft_monitor(f), 0); /* already notified */
    ck_assert_int_eq(weft_unmonitor(f), 0);
    assert_notified_of(f);
    ck_assert_int_eq(weft_await(f), 1);
}

TEST(a_fiber_that_was_awaited_is_gone_after_unmonitor)
{
    weft_fiber f = spin_monitored();
    weft_fiber awaiter = spin_waiting(await_fiber, id_arg(f));
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(awaiter), 3);
    assert_notified_of(f);
    ck_assert_int_eq(weft_unmonitor(f), 0);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

static weft_fiber own_id;

FIBER_DO(store_id_and_suspend, own_id = weft_self(), weft_suspend())

TEST(a_fiber_that_no_fiber_awaits_is_gone_after_unmonitor)
{
    ck_assert_int_eq(weft_go(store_id_and_suspend, NULL), 0);
    let_run();
    ck_assert_int_eq(weft_monitor(own_id), 0);
    weft_schedule(own_id, 3);
    assert_notified_of(own_id);
    ck_assert_uint_eq(stats().fibers_unawaited, 1); /* this monitor could await the fiber */
    ck_assert_int_eq(weft_unmonitor(own_id), 0);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

TEST(a_fiber_of_a_group_is_gone_after_unmonitor)
{
    int rc;
    WEFT_GROUP(g, rc) {
        weft_fiber f = weft_group_spin(&g, suspend, NULL);
        ck_assert_int_eq(weft_monitor(f), 0);
        let_run();
        weft_schedule(f, 3);
        assert_notified_of(f);
        ck_assert_int_eq(weft_unmonitor(f), 0);
        ck_assert_uint_eq(stats().fibers_unawaited, 0);
    }
    ck_assert_int_eq(rc, 0);
}

TEST(each_monitor_of_an_ended_fiber_is_notified_at_once_and_may_await_it)
{
    weft_fiber f = weft_spin(return_arg, as_arg(-4096));
    let_run();
    ck_assert_int_eq(weft_monitor(f), 0);
    assert_notified_of(f);
    weft_fiber others[2] = {weft_spin(monitor_and_await, id_arg(f)),
                            weft_spin(monitor_and_await, id_arg(f))};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(others[i]), 4096);
    ck_assert_int_eq(weft_await(f), -4096);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

TEST(monitoring_self_or_an_unknown_fiber_is_refused)
{
    ck_assert_int_eq(weft_monitor(weft_self()), -EINVAL);
    ck_assert_any_error(-EINVAL);
    weft_fiber f = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_unmonitor(f), -ENOENT);
    weft_await(f);
    ck_assert_int_eq(weft_monitor(f), -ESRCH);
    ck_assert_int_eq(weft_monitor(0), -ESRCH);
}

FIBER_DO(monitor_and_suspend, weft_monitor(arg_id(arg)), weft_suspend())

TEST(a_monitor_that_ends_first_has_no_effect)
{
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    weft_fiber monitor = spin_waiting(monitor_and_suspend, id_arg(f));
    weft_schedule(monitor, 2);
    ck_assert_int_eq(weft_await(monitor), 2);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_suspend(), -EIO);
    ck_assert_int_eq(weft_await(f), -EIO);
}

static weft_value monitor_once(void *arg)
{
    weft_fiber *f = arg;
    if (*f != 0)
        weft_monitor(*f);
    *f = 0;
    return weft_receive();
}

TEST(a_restarted_fiber_no_longer_monitors)
{
    weft_fiber f = spin_suspended(), monitored = f;
    weft_fiber monitor = spin_waiting(monitor_once, &monitored);
    ck_assert_int_eq(weft_restart(monitor), 0);
    let_run();
    weft_schedule(f, 3);
    let_run();
    ck_assert_int_eq(weft_tell(monitor, 11), 0);
    ck_assert_int_eq(weft_await(monitor), 11);
    ck_assert_int_eq(weft_await(f), 3);
}

TEST(the_end_of_every_run_of_a_restarted_fiber_is_notified)
{
    weft_fiber f = spin_monitored();
    for (int run = 1; run <= 5; run++) {
        weft_schedule(f, run);
        assert_notified_of(f);
        ck_assert_int_eq(weft_restart(f), 0); /* before it is awaited */
        let_run();
    }
    ck_assert_int_eq(weft_restart(f), 0); /* while it runs, which is not an end */
    let_run();
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    weft_schedule(f, 0);
    assert_notified_of(f);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
}

FIBER(tell_main, weft_tell(weft_main(), (weft_value)arg))

TEST(a_notification_does_not_count_against_the_bound)
{
    ck_assert_int_eq(weft_mailbox_set_bound(1), 0);
    weft_fiber f[3] = {spin_monitored(), spin_monitored(), spin_monitored()};
    weft_fiber tellers[2] = {weft_spin(tell_main, as_arg(1)), weft_spin(tell_main, as_arg(2))};
    let_run();
    for (int i = 0; i < 3; i++)
        weft_schedule(f[i], i + 1);
    let_run();
    ck_assert_int_eq(weft_mailbox_count(weft_self()), 4);
    ck_assert_int_eq(weft_receive(), 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_receive(), (weft_value)f[i]);
        ck_assert_int_eq(weft_await(f[i]), i + 1);
    }
    ck_assert_int_eq(weft_receive(), 2); /* admitted once there was room */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(tellers[i]), 0);
}

static weft_value spin_monitor_below(void *arg)
{
    weft_spin(monitor_and_suspend, id_arg(weft_self()));
    weft_snooze();
    return (weft_value)arg;
}

TEST(a_monitor_that_is_a_child_of_the_fiber_ends_with_it)
{
    weft_fiber f = weft_spin(spin_monitor_below, as_arg(6));
    ck_assert_int_eq(weft_await(f), 6);
}

TEST(a_thousand_ends_are_notified_in_order)
{
    static weft_fiber f[1000];
    for (int i = 0; i < 1000; i++) {
        f[i] = weft_spin(return_arg, as_arg(i));
        ck_assert_int_eq(weft_monitor(f[i]), 0);
    }
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(weft_receive(), (weft_value)f[i]);
        ck_assert_int_eq(weft_await(f[i]), i);
    }
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

TEST_PROGRAM(the_process_may_end_while_fibers_monitor_each_other, 0, "")
{
    weft_fiber f = weft_spin(suspend, NULL), ended = weft_spin(return_arg, NULL);
    weft_monitor(f);
    weft_monitor(ended);
    weft_spin(monitor_and_suspend, id_arg(f));
    weft_spin(monitor_and_suspend, id_arg(ended));
    weft_spin(monitor_and_suspend, id_arg(weft_main()));
    weft_snooze();
    return 0;
}

static weft_value monitor_then_await_later(void *arg)
{
    weft_fiber f = (weft_fiber)(uintptr_t)arg;
    if (weft_monitor(f) < 0 || weft_receive() != (weft_value)f)
        return 1;
    weft_suspend();
    return weft_await(f);
}

TEST(awaiting_without_monitoring_does_not_consume_the_value)
{ /* P38 */
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    weft_fiber monitor = spin_waiting(monitor_then_await_later, as_arg((intptr_t)f));
    weft_schedule(f, 7);
    let_run();
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(weft_await(f), 7);
    weft_schedule(monitor, 0);
    ck_assert_int_eq(weft_await(monitor), 7);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}
