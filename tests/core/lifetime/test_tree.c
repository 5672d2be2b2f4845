/*
 * Tests of parents and children: the order in which they end, and the propagation of errors up the
 * tree.
 */
#include "support/suite.h"

static weft_value spin_three_and_end(void *arg)
{
    weft_spin(mark_when_cancelled, "1");
    weft_spin(mark_when_cancelled, "2");
    weft_spin(mark_when_cancelled, "3");
    weft_snooze();
    mark("end ");
    return (weft_value)arg;
}

TEST(an_ending_fiber_cancels_its_children_in_order_of_creation)
{ /* P16 */
    ck_assert_int_eq(weft_await(weft_spin(spin_three_and_end, as_arg(8))), 8);
    ck_assert_trail("end 123");
}

static weft_value mark_child_after_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(10)
        weft_sleep((double)(intptr_t)arg * 1e-3);
    mark("child ");
    return 0;
}

static weft_value spin_slow_child_and_end(void *arg)
{
    weft_spin(mark_child_after_shield, as_arg(20));
    weft_spin(mark_child_after_shield, as_arg(5));
    weft_snooze();
    mark("body ");
    return 6;
}

TEST(a_fiber_ends_only_after_its_children)
{ /* P16, P17 */
    double begin = weft_now();
    weft_fiber f = weft_spin(spin_slow_child_and_end, NULL);
    weft_sleep(0.001);
    ck_assert_trail("body ");
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_await(f), 6);
    ck_assert_slept(begin, 0.02);
    ck_assert_trail("body child child ");
}

FIBER_DO(fail_after_suspend, weft_suspend(), weft_fail((int)(intptr_t)arg, "broken in the end"))

static weft_value spin_two_that_fail_at_the_end(void *arg)
{
    weft_spin(suspend, NULL);
    weft_spin(fail_after_suspend, as_arg(-EIO));
    weft_spin(fail_after_suspend, as_arg(-EPIPE));
    weft_snooze();
    return (weft_value)arg;
}

TEST(the_first_error_of_cancelled_children_is_the_result)
{ /* P18 */
    ck_assert_int_eq(weft_await(weft_spin(spin_two_that_fail_at_the_end, as_arg(1))), -EIO);
    ck_assert_error(-EIO, "broken in the end");
    weft_error_clear();
    ck_assert_int_eq(weft_await(weft_spin(spin_two_that_fail_at_the_end, as_arg(-ENOENT))),
                     -ENOENT);
}

TEST(an_error_of_a_child_is_returned_once_by_the_next_switchpoint)
{ /* P19, T27 */
    weft_fiber sibling = spin_suspended();
    weft_cancel(spin_suspended()); /* neither is an error for the parent */
    weft_stop(spin_suspended(), -EIO);
    let_run();
    weft_go(fail_with, as_arg(-EIO));
    ck_assert_int_eq(weft_snooze(), 0); /* the child fails during this call */
    ck_assert_ptr_null(weft_error());
    ck_assert_int_eq(weft_snooze(), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
    weft_go(fail_with, as_arg(-EIO)); /* several errors are returned one after the other */
    weft_go(fail_with, as_arg(-EPIPE));
    weft_go(return_arg, as_arg(-ENOENT));
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_snooze(), -EIO);
    ck_assert_int_eq(weft_sleep(1), -EPIPE);
    ck_assert_int_eq(weft_suspend(), -ENOENT);
    ck_assert_int_eq(weft_state_of(sibling), WEFT_WAITING);
    weft_schedule(sibling, 3);
    ck_assert_int_eq(weft_await(sibling), 3);
}

TEST(an_error_of_a_child_ends_the_blocking_call_of_its_parent)
{ /* P19 */
    int fd[2];
    char byte;
    weft_fiber f = spin_suspended();
    ck_assert_int_eq(weft_pipe(fd), 0);
    for (int i = 0; i < 4; i++) {
        weft_go(fail_with, as_arg(-EIO));
        weft_value rc = i == 0   ? weft_sleep(60)
                        : i == 1 ? weft_await(f)
                        : i == 2 ? weft_suspend()
                                 : weft_read(fd[0], &byte, 1);
        ck_assert_int_eq(rc, -EIO);
    }
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    close_fd_pair(fd);
}

static weft_value spin_levels(void *arg)
{
    intptr_t level = (intptr_t)arg;
    weft_fiber below =
        level == 1 ? weft_spin(fail_with, as_arg(-EIO)) : weft_spin(spin_levels, as_arg(level - 1));
    weft_set_name(below, level == 1 ? "innermost" : "between");
    weft_spin(mark_when_cancelled, "s");
    return weft_sleep(60);
}

TEST(an_error_propagates_three_levels_and_keeps_its_source)
{ /* P20 */
    weft_spin(spin_levels, as_arg(3));
    ck_assert_int_eq(weft_sleep(60), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_str_eq(weft_error()->fiber_name, "innermost");
    ck_assert_trail("sss");
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value handle_or_replace_error(void *arg)
{
    weft_spin(fail_with, as_arg(-EIO));
    int rc = weft_sleep(60);
    if (arg == NULL)
        return rc == -EIO ? 0 : 1;
    return weft_fail(-EPIPE, "upstream failed");
}

TEST(each_level_may_handle_an_error_or_replace_it)
{ /* P20 */
    ck_assert_int_eq(weft_await(weft_spin(handle_or_replace_error, NULL)), 0);
    weft_fiber f = weft_spin(handle_or_replace_error, "anything");
    ck_assert_int_eq(weft_sleep(60), -EPIPE);
    ck_assert_error(-EPIPE, "upstream failed");
    ck_assert_uint_eq(weft_error()->fiber, f);
    const weft_error_info *cause = weft_error()->cause;
    ck_assert_ptr_nonnull(cause);
    ck_assert_int_eq(cause->code, -EIO);
    ck_assert_str_eq(cause->message, "broken");
    ck_assert_ptr_null(cause->cause);
}

TEST(a_parent_that_awaits_gets_the_error_once)
{ /* P21 */
    weft_fiber f = weft_spin(fail_with, as_arg(-EIO));
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
    f = weft_spin(fail_with, as_arg(-EIO));
    /* The child fails during this call, and the parent does not get the error yet. */
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
    weft_fiber g[] = {weft_spin(return_arg, NULL), weft_spin(fail_with, as_arg(-EPIPE))};
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_await_all(g, 2, NULL), -EPIPE);
    ck_assert_int_eq(weft_snooze(), 0);
}

FIBER_DO(sleep_then_fail, weft_sleep(0.003), weft_fail((int)(intptr_t)arg, "late"))

TEST(after_an_await_that_timed_out_a_later_error_still_reaches_the_parent)
{ /* P21 */
    weft_fiber f = weft_spin(sleep_then_fail, as_arg(-EIO));
    WEFT_MOVE_ON_AFTER(0.001)
        ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(weft_sleep(60), -EIO);
    ck_assert_error(-EIO, "late");
}

TEST(a_scope_does_not_swallow_the_error_of_a_child_and_a_shield_delays_it)
{ /* P22 */
    int rc = 1, errors = 0;
    WEFT_CANCEL_AFTER(10, rc) {
        weft_go(fail_with, as_arg(-EIO));
        ck_assert_int_eq(weft_sleep(60), -EIO);
    }
    ck_assert_int_eq(rc, 0);
    weft_go(fail_with, as_arg(-EPIPE));
    weft_snooze();
    WEFT_MOVE_ON_AFTER(0) {
        for (int i = 0; i < 3; i++)
            errors += weft_snooze() == -EPIPE;
    }
    errors += weft_snooze() == -EPIPE;
    ck_assert_int_eq(errors, 1);
    weft_go(fail_with, as_arg(-EIO));
    WEFT_SHIELD(10) {
        ck_assert_int_eq(weft_sleep(0.002), 0);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(weft_snooze(), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_fiber detached;

static weft_value spin_and_detach(void *arg)
{
    detached = weft_spin((weft_fn *)arg, as_arg(-EIO));
    ck_assert_uint_eq(weft_parent(detached), weft_self());
    ck_assert_int_eq(weft_detach(detached), 0);
    ck_assert_uint_eq(weft_parent(detached), weft_main());
    return 0;
}

static weft_value detach_from_ending_parent(void *arg)
{
    weft_suspend();
    ck_assert_int_eq(weft_detach(weft_self()), 0);
    WEFT_SHIELD(10)
        weft_sleep(0.01);
    mark("late");
    return (weft_value)arg;
}

FIBER_DO(spin_and_end, weft_spin((weft_fn *)arg, NULL), weft_snooze())

TEST(a_child_detached_before_or_while_its_parent_ends_outlives_it)
{ /* P27 */
    ck_assert_int_eq(weft_await(weft_spin(spin_and_detach, (void *)sleep_then_fail)), 0);
    ck_assert_int_eq(weft_state_of(detached), WEFT_WAITING);
    ck_assert_int_eq(weft_sleep(60), -EIO);
    ck_assert_error(-EIO, "late");
    ck_assert_int_eq(weft_await(weft_spin(spin_and_end, (void *)detach_from_ending_parent)), 0);
    ck_assert_trail("");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("late");
}

TEST(an_attached_fiber_ends_with_its_new_parent_and_its_errors_go_there)
{ /* P27 */
    weft_fiber a = spin_suspended();
    weft_fiber b = spin_suspended();
    ck_assert_int_eq(weft_attach(b, a), 0);
    ck_assert_uint_eq(weft_parent(b), a);
    ck_assert_int_eq(weft_children(a, NULL, 0), 1);
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 1);
    weft_schedule(b, -EIO);
    ck_assert_int_eq(weft_await(a), -EIO);
    weft_fiber c = spin_suspended();
    weft_fiber d = spin_suspended();
    weft_attach(d, c);
    weft_schedule(c, 4);
    ck_assert_int_eq(weft_await(c), 4);
    ck_assert_int_eq(weft_await(d), -ESRCH);
}

TEST(a_fiber_cannot_be_moved_under_itself_or_its_own_children)
{ /* P27 */
    weft_fiber a = spin_suspended();
    weft_fiber b = weft_spin_with(suspend, NULL, &(weft_spin_options){.parent = a});
    ck_assert_int_eq(weft_attach(a, a), -EINVAL);
    ck_assert_int_eq(weft_attach(a, b), -EINVAL);
    ck_assert_int_eq(weft_attach(weft_main(), a), -EINVAL);
    ck_assert_int_eq(weft_detach(weft_main()), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_uint_eq(weft_parent(b), a);
    ck_assert_uint_eq(weft_parent(a), weft_self());
    ck_assert_uint_eq(weft_parent(weft_self()), 0);
    ck_assert_int_eq(weft_detach(a), 0);
    ck_assert_uint_eq(weft_parent(b), a);
}

TEST(children_are_listed_in_order_of_creation)
{ /* P16 */
    weft_fiber f[4], out[4] = {0};
    for (int i = 0; i < 4; i++)
        f[i] = weft_spin(suspend, NULL);
    weft_stop(f[1], 1);
    weft_await(f[1]);
    ck_assert_int_eq(weft_children(weft_self(), out, 2), 3);
    ck_assert_uint_eq(out[0], f[0]);
    ck_assert_uint_eq(out[1], f[2]);
    ck_assert_uint_eq(out[2], 0);
    ck_assert_int_eq(weft_children(weft_self(), out, 4), 3);
    ck_assert_uint_eq(out[2], f[3]);
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 3);
    ck_assert_int_eq(weft_children(f[0], out, 4), 0);
}

static weft_value terminate_own_children(void *arg)
{
    weft_fiber f = weft_spin(mark_when_cancelled, "a");
    weft_fiber below = weft_spin_with(mark_when_cancelled, "b", &(weft_spin_options){.parent = f});
    weft_spin(mark_child_after_shield, as_arg(2));
    weft_snooze();
    ck_assert_int_eq(weft_terminate_children(10), 0);
    ck_assert_trail("abchild ");
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
    ck_assert_int_eq(weft_state_of(below), WEFT_DEAD);
    ck_assert_int_eq(weft_terminate_children(0), 0);
    return (weft_value)arg;
}

TEST(terminate_children_ends_all_children_and_no_other_fibers)
{ /* P28 */
    weft_fiber sibling = spin_suspended();
    ck_assert_int_eq(weft_await(weft_spin(terminate_own_children, as_arg(5))), 5);
    ck_assert_int_eq(weft_state_of(sibling), WEFT_WAITING);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(await_children_returns_when_all_have_ended_or_with_the_first_error)
{ /* P32 */
    ck_assert_int_eq(weft_await_children(), 0);
    weft_fiber f = spin_suspended();
    weft_spin(sleep_then_fail, as_arg(-EIO));
    ck_assert_int_eq(weft_await_children(), -EIO);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    weft_spin_with(mark_child_after_shield, as_arg(1), &(weft_spin_options){.parent = f});
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_trail("child ");
}

static int ended;

FIBER_DO(count_end, weft_value rc = weft_suspend(), ended += rc == -ECANCELED, rc)

static weft_value spin_many(void *arg)
{
    for (intptr_t i = (intptr_t)arg; i > 0; i--)
        ck_assert_uint_ne(weft_spin(count_end, NULL), 0);
    weft_snooze();
    return 1;
}

static weft_value spin_deep(void *arg)
{
    intptr_t left = (intptr_t)arg;
    if (left > 0)
        weft_spin(spin_deep, as_arg(left - 1));
    return count_end(arg);
}

TEST(ten_thousand_children_and_two_thousand_generations_end_with_their_parent)
{ /* P28 */
    ck_assert_int_eq(weft_await(weft_spin(spin_many, as_arg(MANY_FIBERS))), 1);
    ck_assert_int_eq(ended, MANY_FIBERS);
    weft_fiber f = spin_waiting(spin_deep, as_arg(2000));
    ck_assert_int_eq(weft_stop(f, 1), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(ended, MANY_FIBERS + 2001);
    ck_assert_uint_eq(stats().fibers, 0);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}
