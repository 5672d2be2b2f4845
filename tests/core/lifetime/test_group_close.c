/*
 * Tests of closing groups: errors and cancellation of the waiting fiber, every exit from a block,
 * and groups that are left open.
 */
#include "core/lifetime/group_support.h"
#include "support/suite.h"

static weft_value open_and_wait(void *arg)
{
    int *rc = arg;
    WEFT_GROUP(g, *rc) {
        weft_group_spin(&g, mark_when_cancelled, "1");
        weft_group_spin(&g, mark_after_shield, " slow");
        weft_group_spin(&g, mark_when_cancelled, "2");
    }
    mark(" opener");
    return 3;
}

TEST(stopping_the_caller_cancels_the_members_and_waits_for_them)
{ /* P16, P17, P24, P30 */
    int rc = 1;
    weft_fiber f = spin_waiting(open_and_wait, &rc);
    weft_stop(f, 9);
    ck_assert_int_eq(weft_await(f), 9);
    ck_assert_int_eq(rc, -ECANCELED);
    ck_take_trail("12 slow opener");
    f = spin_waiting(open_and_wait, &rc);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_take_trail("12 slow opener");
    let_run();
    ck_assert_int_eq(weft_children(f, NULL, 0), 3); /* in a new group */
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_trail("12 slow opener");
}

TEST(a_restarted_member_stays_in_its_group_and_a_parked_one_ends_with_it)
{ /* P14, P16, P30 */
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_fiber f = weft_group_spin(&g, suspend, NULL);
        weft_fiber parked = weft_group_spin(&g, mark_when_cancelled, "parked");
        weft_snooze();
        weft_park(parked);
        ck_assert_int_eq(weft_restart(f), 0);
        let_run();
        ck_assert_uint_eq(weft_group_count(&g), 2);
        ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_trail("parked");
}

TEST(a_deadline_around_a_group_cancels_it_and_is_reported_once)
{ /* P41 */
    int rc = 1, timeout = 1;
    WEFT_CANCEL_AFTER(0.002, timeout) {
        WEFT_GROUP(g, rc)
            weft_group_spin(&g, mark_when_cancelled, "1");
        ck_assert_int_eq(rc, -ECANCELED);
    }
    ck_assert_int_eq(timeout, -ETIMEDOUT);
    WEFT_CANCEL_AFTER(0.002, timeout)
        WEFT_GROUP(g)
            weft_group_spin(&g, mark_when_cancelled, "2");
    ck_assert_int_eq(timeout, -ETIMEDOUT);
    ck_assert_trail("12");
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(a_scope_inside_a_group_affects_only_itself_and_swallows_no_error_of_a_member)
{ /* P22, P41 */
    int rc = 1, timeout = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, sleep_then_mark_if_slept, "1");
        WEFT_CANCEL_AFTER(0, timeout)
            ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(timeout, -ETIMEDOUT);
    ck_assert_int_eq(rc, 0);
    ck_assert_trail("1");
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, snooze_and_fail, as_arg(-EIO));
        WEFT_MOVE_ON_AFTER(60)
            ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(rc, -EIO);
}

/* A shield around a group delays events outside of the shield, not events in the group. */
TEST(a_shield_around_a_group_does_not_delay_an_error_of_a_member)
{
    int rc = 1, timeout = 1;
    WEFT_CANCEL_AFTER(0, timeout) {
        WEFT_SHIELD(60) {
            WEFT_GROUP(g, rc) {
                weft_group_spin(&g, snooze_and_fail, as_arg(-EIO));
                ck_assert_int_eq(weft_sleep(60), -ECANCELED);
            }
        }
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_int_eq(timeout, 0); /* the shield has delayed it */
}

FIBER_DO(raise_in_main, weft_raise(weft_main(), (int)(intptr_t)arg, "raised"), 0)
FIBER(interrupt_main, weft_interrupt(weft_main(), (int)(intptr_t)arg))

/* Raised, interrupted, or an error of a child outside of the group. */
static weft_fn *const disturbers[] = {raise_in_main, interrupt_main, fail_with};

TEST_ROWS(an_error_of_the_caller_cancels_the_members_and_is_the_result, disturbers)
{ /* P19, P64 */
    for (int is_pending = 0; is_pending < (disturbers[_i] == interrupt_main ? 1 : 2);
         is_pending++) {
        int rc = 1;
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, mark_when_cancelled, "1");
            weft_group_spin(&g, fail_when_cancelled, as_arg(-EPIPE)); /* too late to be first */
            weft_spin(disturbers[_i], as_arg(-EIO));
            if (is_pending) /* before the close */
                weft_snooze();
        }
        ck_assert_int_eq(rc, -EIO);
        ck_take_trail("1failed ");
        ck_assert_int_eq(weft_snooze(), 0);
    }
}

FIBER_DO(fail_member_then_fail, weft_schedule(arg_id(arg), -EIO), weft_fail(-EPIPE, "raised"))

/* P19: the member fails before the caller gets the other error, or before the caller runs again. */
TEST(neither_a_member_error_nor_a_raised_error_is_lost)
{
    for (int i = 0; i < 2; i++) {
        int rc = 1;
        WEFT_GROUP(g, rc) {
            weft_fiber f = weft_group_spin(&g, suspend, NULL);
            weft_snooze();
            weft_spin(fail_member_then_fail, id_arg(f));
            if (i == 1)
                break;
            WEFT_SHIELD(60)
                let_run();
        }
        ck_assert_int_eq(rc, -EIO);
        ck_assert_int_eq(weft_error()->code, -EIO);
        ck_assert_int_eq(weft_snooze(), -EPIPE);
        ck_assert_error(-EPIPE, "raised");
        ck_assert_int_eq(weft_snooze(), 0);
    }
}

FIBER_DO(cancel_and_fail, weft_cancel(arg_id(arg)), weft_fail(-EIO, "broken"))

static weft_value open_and_be_cancelled(void *arg)
{
    int *rc = arg;
    WEFT_GROUP(g, *rc) {
        weft_group_spin(&g, fail_when_cancelled, as_arg(-EPIPE));
        weft_snooze();
        weft_cancel(weft_self());
    }
    WEFT_GROUP(g, rc[1])
        weft_group_spin(&g, cancel_and_fail, id_arg(weft_self()));
    return 0;
}

TEST(a_member_error_takes_precedence_over_a_cancelled_caller)
{ /* P18: a cancellation is reported by every later call, so an error takes precedence. */
    int rc[2] = {1, 1};
    ck_assert_int_eq(weft_await(weft_spin(open_and_be_cancelled, rc)), -ECANCELED);
    ck_assert_int_eq(rc[0], -EPIPE);
    ck_assert_int_eq(rc[1], -ECANCELED); /* the failing member never ran */
}

FIBER(close_group, weft_group_close(arg))

TEST(closing_a_group_that_is_not_open_or_not_innermost_is_refused)
{
    static weft_group never, g, inner;
    weft_scope scope;
    ck_assert_int_eq(weft_group_close(&never), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_group_cancel(&never), -EINVAL);
    ck_assert_uint_eq(weft_group_spin(&never, suspend, NULL), 0);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_group_open(NULL), -EINVAL);
    ck_assert_int_eq(weft_group_close(NULL), -EINVAL);
    ck_assert_uint_eq(weft_group_count(NULL), 0);

    ck_assert_int_eq(weft_group_open(&g), 0);
    ck_assert_int_eq(weft_group_open(&g), -EINVAL);
    ck_assert_uint_eq(weft_group_spin(&g, NULL, NULL), 0);
    ck_assert_any_error(-EINVAL);
    weft_group_spin(&g, suspend_and_mark, "member");
    weft_snooze();
    ck_assert_int_eq(weft_group_open(&inner), 0);
    ck_assert_int_eq(weft_group_close(&g), -EINVAL);
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    ck_assert_int_eq(weft_group_close(&inner), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    ck_assert_int_eq(weft_group_close(&inner), 0);
    ck_assert_int_eq(weft_await(weft_spin(close_group, &g)), -EINVAL); /* owned by another fiber */
    ck_assert_uint_eq(weft_group_count(&g), 1);
    ck_assert_int_eq(weft_snooze(), 0);
    weft_group_cancel(&g);
    ck_assert_int_eq(weft_group_close(&g), 0);
    ck_assert_int_eq(weft_group_close(&g), -EINVAL);
    ck_assert_uint_eq(weft_group_count(&g), 0);
}

static int leave_nested_blocks(int how)
{
    int rc = 1;
    for (int i = 0; i < 3; i++) {
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, sleep_then_mark_if_slept, "1");
            WEFT_GROUP(h) {
                weft_group_spin(&h, sleep_then_mark_if_slept, "2");
                if (how == 0)
                    return 100;
                if (how == 1)
                    goto out;
                if (how == 2)
                    continue;
                break;
            }
            mark("after ");
        }
    }
    mark("end");
out:
    return rc;
}

TEST(every_exit_from_a_block_closes_its_groups)
{ /* P32 */
    static const char *const trails[] = {"12", "12", "12after 12after 12after end",
                                         "12after 12after 12after end"};
    for (int how = 0; how < 4; how++) { /* 2 and 3 leave only the inner block, not the loop */
        ck_assert_int_eq(leave_nested_blocks(how), how == 0 ? 100 : 0);
        ck_take_trail(trails[how]);
    }
    ck_assert_int_eq(weft_snooze(), 0);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
static const char *g = "a name that a block may take";

TEST(a_block_may_use_any_name_for_its_group)
{
    int rc[2] = {1, 1}, i = 0;
    WEFT_GROUP(g, rc[i++])
        weft_group_spin(&g, mark_and_return, "1");
    ck_assert_int_eq(i, 1);
    ck_assert_int_eq(rc[0], 0);
    ck_assert_int_eq(rc[1], 1);
    ck_assert_ptr_nonnull(strstr(g, "name"));
    ck_assert_trail("1");
}
#pragma GCC diagnostic pop

/* In a deferred call: wait until at most left children remain. */
static void wait_for_children(int left)
{
    while (weft_children(weft_self(), NULL, 0) > left)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    mark(" defer ");
}

CALLBACK(wait_for_all_but_one, wait_for_children(1))

static weft_value sleep_then_fail(void *arg)
{
    weft_value rc = weft_sleep(0.001);
    return rc < 0 ? rc : weft_fail((int)(intptr_t)arg, "too late for the group");
}

static weft_value leave_two_groups_open(void *arg)
{
    weft_group *group = arg;
    weft_group_open(&group[0]);
    weft_group_open(&group[1]);
    weft_group_spin(&group[0], sleep_then_mark_if_slept, "1");
    weft_group_spin(&group[1], sleep_then_mark_if_slept, "2");
    weft_group_spin(&group[1], mark_when_cancelled, "3");
    weft_defer(wait_for_all_but_one, NULL);
    return 42;
}

TEST(members_of_a_group_left_open_are_ordinary_children)
{ /* P16: a group that is left open no longer exists, and its memory may be freed. */
    weft_group *groups = calloc(2, sizeof *groups);
    weft_fiber f = weft_spin(leave_two_groups_open, groups);
    weft_snooze();
    ck_assert_int_eq(weft_children(f, NULL, 0), 3);
    ck_assert_uint_eq(weft_group_spin(&groups[0], suspend, NULL), 0);
    free(groups);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_trail("12 defer 3");
}

static void wait_deep_in_the_stack(void *arg)
{
    volatile char frame[2048]; /* overwrites the frame of the returned function */
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0x5a;
    wait_for_children(0);
}

static weft_value leave_groups_open_on_the_stack(void *arg)
{
    weft_group outer, inner;
    weft_group_open(&outer);
    weft_group_spin(&outer, arg != NULL ? fail_with : return_arg, arg);
    weft_group_open(&inner);
    for (int i = 0; i < 3; i++)
        weft_group_spin(&inner, sleep_then_mark_if_slept, "1");
    weft_snooze();
    if (arg == NULL)
        weft_defer(wait_deep_in_the_stack, NULL);
    return 42;
}

TEST(a_group_left_open_may_be_in_a_returned_frame)
{ /* P16, P20 */
    ck_assert_int_eq(weft_await(weft_spin(leave_groups_open_on_the_stack, NULL)), 42);
    ck_assert_trail("111 defer ");
    ck_assert_int_eq(weft_await(weft_spin(leave_groups_open_on_the_stack, as_arg(-EIO))), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value leave_group_open_with_failing_member(void *arg)
{
    weft_group_open(arg);
    weft_group_spin(arg, sleep_then_fail, as_arg(-EIO));
    return 42;
}

static weft_value leave_group_open_with_failed_member(void *arg)
{
    weft_group_open(arg);
    weft_group_spin(arg, fail_with, as_arg(-EPIPE));
    weft_snooze();
    return 42;
}

CALLBACK(sleep_until_interrupted, mark(weft_sleep(60) == -EIO ? arg : "another"))

static weft_value sleep_in_a_deferred_call(void *arg)
{
    weft_defer(sleep_until_interrupted, "interrupted");
    return leave_group_open_with_failing_member(arg);
}

TEST(errors_of_a_group_left_open_go_to_its_fiber)
{ /* P19, P20 */
    weft_group group = {{0}};
    ck_assert_int_eq(weft_await(weft_spin(leave_group_open_with_failed_member, &group)), -EPIPE);
    ck_assert_error(-EPIPE, "broken");
    ck_assert_int_eq(weft_await(weft_spin(sleep_in_a_deferred_call, &group)), 42);
    ck_assert_trail("interrupted");
    ck_assert_int_eq(weft_snooze(), 0);
}

static int close_where_switching_is_forbidden(void)
{
    weft_group open;
    weft_group_open(&open);
    weft_group_spin(&open, suspend_and_mark, "1");
    weft_no_switch_begin();
    int rc = weft_group_close(&open);
    weft_no_switch_end();
    size_t count = weft_group_count(&open);
    weft_group_cancel(&open);
    if (rc != -EPERM || count != 1 || weft_group_close(&open) != 0)
        return 1;
    WEFT_GROUP(inside, rc) {
        weft_group_spin(&inside, return_arg, as_arg(1));
        weft_no_switch_begin();
    }
    weft_no_switch_end();
    return rc == -EPERM && weft_await_children() == 0 ? 0 : 2;
}

TEST(a_close_that_must_wait_is_refused_where_switching_is_forbidden)
{
    const outcome *o = run_apart(close_where_switching_is_forbidden);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "tried to switch while switching is forbidden"), 2);
}

static weft_value exit_in_a_member(void *arg)
{
    weft_defer(print_stderr_arg, "exiting ");
    weft_snooze();
    exit_here(3);
    return 0;
}

static weft_value fail_at_exit(void *arg)
{
    weft_defer(print_stderr_arg, arg);
    weft_suspend();
    return weft_fail(-EIO, "broken at the end");
}

static int wait_for_exiting_member(void)
{
    int rc = 0;
    weft_defer(print_stderr_arg, "main ");
    WEFT_GROUP(outer, rc) {
        weft_group_spin(&outer, fail_at_exit, "outer ");
        WEFT_GROUP(inner, rc)
            weft_group_spin(&inner, exit_in_a_member, NULL);
    }
    return 1;
}

/*
 * P33: groups of fibers that never return no longer exist, so errors of their members are reported.
 */
TEST(exit_in_a_member_ends_all_groups)
{
    const outcome *o = run_apart(wait_for_exiting_member);
    ck_assert_int_eq(o->status, 3);
    ck_assert_int_eq(strncmp(o->text, "main exiting outer ", 19), 0);
    assert_printed(o, "broken at the end");
}

static weft_value suspend_in_shield(void *arg)
{
    WEFT_SHIELD(INFINITY)
        return weft_suspend();
    return 0;
}

static int wait_for_stuck_member(weft_fn *member)
{
    int rc = 1;
    WEFT_GROUP(stuck, rc)
        weft_group_spin(&stuck, member, NULL);
    return rc == -EDEADLK && weft_error()->code == -EDEADLK ? 0 : 1;
}

TEST_PROGRAM_PRINTS(a_group_that_cannot_end_is_a_deadlock, 0, "deadlock")
{ /* P80 */
    if (wait_for_stuck_member(suspend) != 0 || weft_children(weft_self(), NULL, 0) != 0)
        return 1;
    int rc = wait_for_stuck_member(suspend_in_shield);
    _exit(rc == 0 && weft_children(weft_self(), NULL, 0) == 1 ? 0 : 2);
}

static weft_value monitor_then_await(void *arg)
{
    const weft_fiber *member = arg;
    weft_monitor(*member);
    weft_receive();
    weft_suspend();
    return weft_await(*member);
}

TEST(a_failed_member_can_be_awaited_by_all_its_monitors)
{ /* P18, P38: the group and the monitors refer to the record of the first member that fails. */
    weft_group group;
    weft_group_open(&group);
    weft_fiber member = weft_group_spin(&group, fail_with, as_arg(-EIO));
    weft_snooze();
    weft_fiber monitors[3];
    for (int i = 0; i < 3; i++)
        monitors[i] = weft_spin(monitor_then_await, &member);
    WEFT_SHIELD(INFINITY)
        let_run();
    ck_assert_int_eq(weft_group_close(&group), -EIO);
    for (int i = 0; i < 3; i++) {
        weft_schedule(monitors[i], 0);
        ck_assert_int_eq(weft_await(monitors[i]), -EIO);
    }
    ck_assert_int_eq(weft_await(member), -ESRCH);
}
