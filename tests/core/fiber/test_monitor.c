/* Monitors: fibers that are told of another's end by a message. */
#include "support.h"

static weft_value suspend_or_fail(void *arg)
{
    weft_value v = weft_suspend();
    return v == 0 ? weft_fail((int)(intptr_t)arg, "broken") : v;
}

/* A suspended fiber that the caller monitors. Scheduled with 0 it fails with -EIO. */
static weft_fiber spin_monitored(void)
{
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    let_run();
    ck_assert_int_eq(weft_monitor(f), 0);
    return f;
}

static void assert_told_of(weft_fiber f)
{
    ck_assert_int_eq(weft_receive(), (weft_value)f);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

static void assert_nothing_kept(void)
{
    weft_counters counters;
    ck_assert_int_eq(weft_stats(&counters), 0);
    ck_assert_uint_eq(counters.fibers, 0);
    ck_assert_uint_eq(counters.fibers_unawaited, 0);
}

/* P38 */
START_TEST(a_monitor_is_told_of_a_normal_end_and_finds_the_value)
{
    weft_fiber f = spin_monitored();
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    weft_schedule(f, 7);
    assert_told_of(f);
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_trail("");
    ck_assert_int_eq(weft_await(f), -ESRCH);
    let_run();
    weft_await_children();
}
END_TEST

/* P38 */
START_TEST(a_monitor_is_told_when_the_fiber_is_stopped_or_cancelled)
{
    weft_fiber f = spin_monitored();
    weft_stop(f, 5);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), 5);
    f = spin_monitored();
    weft_cancel(f);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    f = weft_spin(suspend_or_fail, NULL);
    weft_monitor(f);
    weft_stop(f, 6); /* before it ever ran */
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), 6);
    assert_nothing_kept();
}
END_TEST

/* P38 */
START_TEST(a_parent_that_monitors_is_told_of_an_error_and_not_struck_by_it)
{
    weft_fiber f = spin_monitored();
    weft_schedule(f, 0);
    let_run();
    ck_assert_int_eq(weft_snooze(), 0);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
    assert_nothing_kept();
}
END_TEST

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

/* P38 */
START_TEST(a_parent_that_does_not_monitor_is_struck_although_another_does)
{
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    weft_fiber other = weft_spin(monitor_and_await, id_arg(f));
    let_run();
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_suspend(), -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_int_eq(weft_await(other), EIO);
    ck_assert_int_eq(weft_await(f), -ESRCH); /* it was the other's to await */
    assert_nothing_kept();
}
END_TEST

START_TEST(two_monitors_are_told_and_each_may_await_once)
{
    weft_fiber f = spin_monitored();
    weft_fiber other = weft_spin(monitor_and_await, id_arg(f));
    let_run();
    weft_schedule(f, -EAGAIN);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(other), EAGAIN);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), -EAGAIN);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    assert_nothing_kept();
}
END_TEST

static weft_value await_it(void *arg)
{
    return weft_await(arg_id(arg));
}

START_TEST(a_monitor_may_await_also_a_fiber_that_someone_else_awaited_to_its_end)
{
    weft_fiber f = spin_monitored();
    weft_fiber awaiter = weft_spin(await_it, id_arg(f));
    let_run();
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(awaiter), 3);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), 3);
    assert_nothing_kept();
}
END_TEST

START_TEST(a_monitor_that_awaits_the_end_itself_is_told_too)
{
    weft_fiber f = weft_spin(return_arg, as_arg(4));
    weft_monitor(f);
    ck_assert_int_eq(weft_await(f), 4);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), 4);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    assert_nothing_kept();
}
END_TEST

/* P38 */
START_TEST(who_monitors_no_longer_is_not_told_and_struck_by_errors_again)
{
    weft_fiber f = spin_monitored();
    ck_assert_int_eq(weft_unmonitor(f), 0);
    ck_assert_int_eq(weft_unmonitor(f), -ENOENT);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_receive(), -EIO);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_int_eq(weft_unmonitor(f), -ESRCH);
    assert_nothing_kept();
}
END_TEST

START_TEST(a_message_that_was_sent_stays_when_the_fiber_is_monitored_no_longer)
{
    weft_fiber f = spin_monitored();
    weft_schedule(f, 8);
    let_run();
    ck_assert_int_eq(weft_unmonitor(f), 0);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), 8);
    assert_nothing_kept();
}
END_TEST

START_TEST(monitoring_twice_brings_one_message)
{
    weft_fiber f = spin_monitored();
    ck_assert_int_eq(weft_monitor(f), 0);
    weft_schedule(f, 1);
    assert_told_of(f);
    ck_assert_int_eq(weft_monitor(f), 0); /* told already */
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    ck_assert_int_eq(weft_await(f), 1);
    assert_nothing_kept();
}
END_TEST

START_TEST(who_monitors_a_fiber_that_has_ended_is_told_at_once)
{
    weft_fiber f = weft_spin(return_arg, as_arg(9));
    let_run();
    ck_assert_int_eq(weft_monitor(f), 0);
    ck_assert_int_eq(weft_try_receive(), (weft_value)f);
    ck_assert_int_eq(weft_await(f), 9);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    assert_nothing_kept();
}
END_TEST

START_TEST(several_who_monitor_a_fiber_that_has_ended_may_each_await_it)
{
    weft_fiber f = weft_spin(return_arg, as_arg(-4096));
    let_run();
    ck_assert_int_eq(weft_monitor(f), 0);
    weft_fiber others[2] = {weft_spin(monitor_and_await, id_arg(f)),
                            weft_spin(monitor_and_await, id_arg(f))};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(others[i]), 4096);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), -4096);
    assert_nothing_kept();
}
END_TEST

START_TEST(a_monitor_of_oneself_or_of_nobody_is_refused)
{
    ck_assert_int_eq(weft_monitor(weft_self()), -EINVAL);
    ck_assert_any_words(-EINVAL);
    weft_fiber f = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_unmonitor(f), -ENOENT);
    weft_await(f);
    ck_assert_int_eq(weft_monitor(f), -ESRCH);
    ck_assert_int_eq(weft_monitor(0), -ESRCH);
}
END_TEST

static weft_value monitor_and_suspend(void *arg)
{
    weft_monitor(arg_id(arg));
    return weft_suspend();
}

START_TEST(a_monitor_that_ends_first_leaves_the_fiber_as_if_it_had_never_been)
{
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    weft_fiber monitor = weft_spin(monitor_and_suspend, id_arg(f));
    let_run();
    weft_schedule(monitor, 2);
    ck_assert_int_eq(weft_await(monitor), 2);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_suspend(), -EIO);
    ck_assert_int_eq(weft_await(f), -EIO);
    assert_nothing_kept();
}
END_TEST

/* Monitors the first time that it runs only. */
static weft_value monitor_once(void *arg)
{
    weft_fiber *f = arg;
    if (*f != 0)
        weft_monitor(*f);
    *f = 0;
    return weft_receive();
}

START_TEST(a_monitor_that_is_restarted_is_one_no_more)
{
    weft_fiber f = spin_suspended(), watched = f;
    weft_fiber monitor = weft_spin(monitor_once, &watched);
    let_run();
    ck_assert_int_eq(weft_restart(monitor), 0);
    let_run();
    weft_schedule(f, 3);
    let_run();
    ck_assert_int_eq(weft_tell(monitor, 11), 0);
    ck_assert_int_eq(weft_await(monitor), 11);
    ck_assert_int_eq(weft_await(f), 3);
    assert_nothing_kept();
}
END_TEST

START_TEST(the_end_of_every_run_of_a_fiber_that_is_restarted_is_told)
{
    weft_fiber f = spin_monitored();
    for (int run = 1; run <= 5; run++) {
        weft_schedule(f, run);
        assert_told_of(f);
        ck_assert_int_eq(weft_restart(f), 0); /* before anyone awaited it */
        let_run();
    }
    ck_assert_int_eq(weft_restart(f), 0); /* in its course: that is no end */
    let_run();
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    weft_schedule(f, 0);
    assert_told_of(f);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    assert_nothing_kept();
}
END_TEST

static weft_value tell_main(void *arg)
{
    return weft_tell(weft_main(), (weft_value)arg);
}

START_TEST(the_message_of_an_end_does_not_count_against_the_bound)
{
    ck_assert_int_eq(weft_mailbox_bound(1), 0);
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
    ck_assert_int_eq(weft_receive(), 2); /* let in once there was room */
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(tellers[i]), 0);
    assert_nothing_kept();
}
END_TEST

START_TEST(a_fiber_that_nobody_was_to_await_is_kept_for_its_monitor)
{
    ck_assert_int_eq(weft_go(suspend_or_fail, as_arg(-EIO)), 0);
    let_run();
    weft_fiber f;
    ck_assert_int_eq(weft_children(weft_self(), &f, 1), 1);
    ck_assert_int_eq(weft_monitor(f), 0);
    weft_schedule(f, 12);
    assert_told_of(f);
    ck_assert_int_eq(weft_await(f), 12);
    assert_nothing_kept();
}
END_TEST

static weft_value have_a_monitor_below(void *arg)
{
    weft_spin(monitor_and_suspend, id_arg(weft_self()));
    weft_snooze();
    return (weft_value)arg;
}

START_TEST(a_monitor_below_the_fiber_ends_with_it)
{
    weft_fiber f = weft_spin(have_a_monitor_below, as_arg(6));
    ck_assert_int_eq(weft_await(f), 6);
    assert_nothing_kept();
}
END_TEST

START_TEST(a_thousand_ends_are_told_in_the_order_in_which_they_come)
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
    assert_nothing_kept();
}
END_TEST

static int leave_monitors_behind(void)
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

START_TEST(the_process_may_end_while_fibers_monitor_each_other)
{
    ck_assert_quiet(run_apart(leave_monitors_behind), 0);
}
END_TEST

static weft_value monitor_then_await_later(void *arg)
{
    weft_fiber f = (weft_fiber)(uintptr_t)arg;
    if (weft_monitor(f) < 0 || weft_receive() != (weft_value)f)
        return 1;
    weft_suspend();
    return weft_await(f);
}

/* P38 */
START_TEST(who_awaits_without_being_a_monitor_takes_nothing_from_one)
{
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    weft_fiber monitor = weft_spin(monitor_then_await_later, as_arg((intptr_t)f));
    let_run();
    weft_schedule(f, 7);
    let_run();
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(weft_await(f), 7);
    weft_schedule(monitor, 0);
    ck_assert_int_eq(weft_await(monitor), 7);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    assert_nothing_kept();
}
END_TEST

static weft_value monitor_and_be_told(void *arg)
{
    weft_fiber f = (weft_fiber)(uintptr_t)arg;
    return weft_monitor(f) < 0 || weft_receive() != (weft_value)f;
}

/* P38 */
START_TEST(what_monitors_that_have_ended_did_not_await_is_not_kept_for_them)
{
    weft_fiber f = weft_spin(suspend_or_fail, as_arg(-EIO));
    for (int i = 0; i < 3; i++)
        weft_spin(monitor_and_be_told, as_arg((intptr_t)f));
    let_run();
    weft_schedule(f, 7);
    weft_await_children();
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}
END_TEST

static const TTest *const *const tests[] = {
    &what_monitors_that_have_ended_did_not_await_is_not_kept_for_them,
    &a_monitor_is_told_of_a_normal_end_and_finds_the_value,
    &a_monitor_is_told_when_the_fiber_is_stopped_or_cancelled,
    &a_parent_that_monitors_is_told_of_an_error_and_not_struck_by_it,
    &a_parent_that_does_not_monitor_is_struck_although_another_does,
    &two_monitors_are_told_and_each_may_await_once,
    &a_monitor_may_await_also_a_fiber_that_someone_else_awaited_to_its_end,
    &who_awaits_without_being_a_monitor_takes_nothing_from_one,
    &a_monitor_that_awaits_the_end_itself_is_told_too,
    &who_monitors_no_longer_is_not_told_and_struck_by_errors_again,
    &a_message_that_was_sent_stays_when_the_fiber_is_monitored_no_longer,
    &monitoring_twice_brings_one_message,
    &who_monitors_a_fiber_that_has_ended_is_told_at_once,
    &several_who_monitor_a_fiber_that_has_ended_may_each_await_it,
    &a_monitor_of_oneself_or_of_nobody_is_refused,
    &a_monitor_that_ends_first_leaves_the_fiber_as_if_it_had_never_been,
    &a_monitor_that_is_restarted_is_one_no_more,
    &the_end_of_every_run_of_a_fiber_that_is_restarted_is_told,
    &the_message_of_an_end_does_not_count_against_the_bound,
    &a_fiber_that_nobody_was_to_await_is_kept_for_its_monitor,
    &a_monitor_below_the_fiber_ends_with_it,
    &a_thousand_ends_are_told_in_the_order_in_which_they_come,
    &the_process_may_end_while_fibers_monitor_each_other,
};

int main(void)
{
    return run_suite("monitor", tests, COUNT_OF(tests));
}
