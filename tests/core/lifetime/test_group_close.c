/* The end of a group: what strikes the one that waits for it, every way out, groups left open. */
#include "group_support.h"

static weft_value open_and_wait(void *arg)
{
    int *rc = arg;
    WEFT_GROUP(g, *rc) {
        weft_group_spin(&g, mark_when_cancelled, "1");
        weft_group_spin(&g, end_slowly, " slow");
        weft_group_spin(&g, mark_when_cancelled, "2");
    }
    mark(" opener");
    return 3;
}

/* P16, P17 */
START_TEST(a_caller_that_is_cancelled_cancels_the_members_and_waits_for_them)
{
    int rc = 1;
    weft_fiber f = weft_spin(open_and_wait, &rc);
    let_run();
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(rc, -ECANCELED);
    ck_assert_trail("12 slow opener");
}
END_TEST

/* P24 */
START_TEST(a_caller_that_is_stopped_with_a_value_ends_with_it_after_its_members)
{
    int rc = 1;
    weft_fiber f = weft_spin(open_and_wait, &rc);
    let_run();
    weft_stop(f, 9);
    ck_assert_int_eq(weft_await(f), 9);
    ck_assert_trail("12 slow opener");
}
END_TEST

/* P30 */
START_TEST(a_caller_that_is_restarted_begins_with_a_new_group)
{
    int rc = 1;
    weft_fiber f = weft_spin(open_and_wait, &rc);
    let_run();
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_trail("12 slow opener");
    let_run();
    ck_assert_int_eq(weft_children(f, NULL, 0), 3);
    weft_cancel(f);
    weft_await(f);
    ck_assert_trail("12 slow opener12 slow opener");
}
END_TEST

/* P30 */
START_TEST(a_member_that_is_restarted_stays_in_its_group)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_fiber f = weft_group_spin(&g, suspend, NULL);
        weft_snooze();
        ck_assert_int_eq(weft_restart(f), 0);
        let_run();
        ck_assert_uint_eq(weft_group_count(&g), 1);
        ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    }
    ck_assert_int_eq(rc, -EIO);
}
END_TEST

/* P14, P16 */
START_TEST(a_parked_member_ends_with_its_group)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_fiber f = weft_group_spin(&g, mark_when_cancelled, "parked");
        weft_snooze();
        weft_park(f);
        weft_group_cancel(&g);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_trail("parked");
}
END_TEST

/* P41 */
START_TEST(a_deadline_around_a_group_ends_it_and_is_not_told_twice)
{
    for (int i = 0; i < 2; i++) {
        int rc = 1, timeout = 1;
        trail[0] = '\0';
        WEFT_CANCEL_AFTER(0.002, timeout) {
            if (i == 0) {
                WEFT_GROUP(g, rc) {
                    weft_group_spin(&g, mark_when_cancelled, "1");
                }
                ck_assert_int_eq(rc, -ECANCELED);
            } else {
                WEFT_GROUP(g) {
                    weft_group_spin(&g, mark_when_cancelled, "1");
                }
            }
        }
        ck_assert_int_eq(timeout, -ETIMEDOUT);
        ck_assert_trail("1");
        ck_assert_int_eq(weft_snooze(), 0);
    }
}
END_TEST

/* P41 */
START_TEST(a_deadline_inside_a_group_is_its_own_scope_s)
{
    int rc = 1, timeout = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, sleep_and_mark, "1");
        WEFT_CANCEL_AFTER(0, timeout) {
            ck_assert_int_eq(weft_snooze(), -ECANCELED);
        }
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(timeout, -ETIMEDOUT);
    ck_assert_int_eq(rc, 0);
    ck_assert_trail("1");
}
END_TEST

/* P22 */
START_TEST(a_scope_inside_a_group_does_not_swallow_the_error_of_a_member)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, snooze_and_fail, as_arg(-EIO));
        WEFT_MOVE_ON_AFTER(60) {
            ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        }
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(rc, -EIO);
}
END_TEST

/* A shield around a group keeps out what is around the shield, not what happens in the group. */
START_TEST(an_error_of_a_member_passes_the_shield_around_its_group)
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
    ck_assert_int_eq(timeout, 0); /* the shield has kept it off */
}
END_TEST

static weft_value raise_in_main(void *arg)
{
    weft_raise(weft_main(), (int)(intptr_t)arg, "raised");
    return 0;
}

/* P19 */
START_TEST(an_error_raised_in_the_caller_cancels_the_members_and_is_the_result)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, mark_when_cancelled, "1");
        weft_group_spin(&g, fail_when_cancelled, as_arg(-EPIPE)); /* too late to be the first */
        weft_spin(raise_in_main, as_arg(-EIO));
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_words(-EIO, "raised");
    ck_assert_trail("1failed ");
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

/* P19: the same if it was raised before, and if it is an error of a child outside the group. */
START_TEST(an_error_that_waits_for_the_caller_strikes_its_close)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, mark_when_cancelled, "1");
        weft_spin(fail_with, as_arg(-EIO));
        weft_snooze();
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_trail("1");
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static weft_value let_fail_then_fail(void *arg)
{
    weft_schedule(arg_id(arg), -EIO);
    return weft_fail(-EPIPE, "raised");
}

/* P19: the member fails before the caller has met the other error, or before it has run again. */
START_TEST(of_an_error_of_a_member_and_one_that_is_raised_none_is_lost)
{
    for (int i = 0; i < 2; i++) {
        int rc = 1;
        WEFT_GROUP(g, rc) {
            weft_fiber f = weft_group_spin(&g, suspend, NULL);
            weft_snooze();
            weft_spin(let_fail_then_fail, id_arg(f));
            if (i == 1)
                break;
            WEFT_SHIELD(60) {
                let_run();
            }
        }
        ck_assert_int_eq(rc, -EIO);
        ck_assert_int_eq(weft_error()->code, -EIO);
        ck_assert_int_eq(weft_snooze(), -EPIPE);
        ck_assert_words(-EPIPE, "raised");
        ck_assert_int_eq(weft_snooze(), 0);
    }
}
END_TEST

static weft_value cancel_and_fail(void *arg)
{
    weft_cancel(arg_id(arg));
    return weft_fail(-EIO, "broken");
}

static weft_value open_and_be_cancelled(void *arg)
{
    int *rc = arg;
    WEFT_GROUP(g, *rc) {
        weft_group_spin(&g, fail_when_cancelled, as_arg(-EPIPE));
        weft_snooze();
        weft_cancel(weft_self());
    }
    WEFT_GROUP(g, rc[1]) {
        weft_group_spin(&g, cancel_and_fail, id_arg(weft_self()));
    }
    return 0;
}

/* P18: a cancellation goes on, so it need not be told where there is an error to tell. */
START_TEST(a_member_that_fails_as_the_caller_is_cancelled_is_the_result)
{
    int rc[2] = {1, 1};
    ck_assert_int_eq(weft_await(weft_spin(open_and_be_cancelled, rc)), -ECANCELED);
    ck_assert_int_eq(rc[0], -EPIPE);
    ck_assert_int_eq(rc[1], -ECANCELED); /* that one never ran */
}
END_TEST

static weft_value interrupt_main(void *arg)
{
    return weft_interrupt(weft_main(), (int)(intptr_t)arg);
}

/* P64 */
START_TEST(a_close_that_is_interrupted_returns_the_value_when_the_members_have_ended)
{
    for (int value = -2; value < 0; value++) {
        int rc = 0;
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, end_slowly, "slow ");
            weft_spin(interrupt_main, as_arg(value));
        }
        ck_assert_int_eq(rc, value);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_trail("slow slow ");
}
END_TEST

static weft_value close_it(void *arg)
{
    return weft_group_close(arg);
}

START_TEST(a_group_that_is_not_open_or_not_the_innermost_is_an_error_and_nothing_has_changed)
{
    static weft_group never, g, inner;
    weft_scope scope;
    ck_assert_int_eq(weft_group_close(&never), -EINVAL);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_group_cancel(&never), -EINVAL);
    ck_assert_uint_eq(weft_group_spin(&never, suspend, NULL), 0);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_group_open(NULL), -EINVAL);
    ck_assert_int_eq(weft_group_close(NULL), -EINVAL);
    ck_assert_uint_eq(weft_group_count(NULL), 0);

    ck_assert_int_eq(weft_group_open(&g), 0);
    ck_assert_int_eq(weft_group_open(&g), -EINVAL);
    ck_assert_uint_eq(weft_group_spin(&g, NULL, NULL), 0);
    ck_assert_any_words(-EINVAL);
    weft_group_spin(&g, suspend_and_mark, "member");
    weft_snooze();
    ck_assert_int_eq(weft_group_open(&inner), 0);
    ck_assert_int_eq(weft_group_close(&g), -EINVAL);
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    ck_assert_int_eq(weft_group_close(&inner), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    ck_assert_int_eq(weft_group_close(&inner), 0);
    ck_assert_int_eq(weft_await(weft_spin(close_it, &g)), -EINVAL); /* another fiber's */
    ck_assert_uint_eq(weft_group_count(&g), 1);
    ck_assert_int_eq(weft_snooze(), 0);
    weft_group_cancel(&g);
    ck_assert_int_eq(weft_group_close(&g), 0);
    ck_assert_int_eq(weft_group_close(&g), -EINVAL);
    ck_assert_uint_eq(weft_group_count(&g), 0);
}
END_TEST

static int leave_by_goto(int how)
{
    int rc = 1;
    for (int i = 0; i < 3; i++) {
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, sleep_and_mark, "1");
            WEFT_GROUP(h) {
                weft_group_spin(&h, sleep_and_mark, "2");
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

/* P32 */
START_TEST(every_way_out_of_a_block_closes_the_groups_that_it_leaves)
{
    ck_assert_int_eq(leave_by_goto(0), 100);
    ck_assert_trail("12");
    trail[0] = '\0';
    ck_assert_int_eq(leave_by_goto(1), 0);
    ck_assert_trail("12");
    for (int how = 2; how < 4; how++) { /* only the inner block is left, not a loop around it */
        trail[0] = '\0';
        ck_assert_int_eq(leave_by_goto(how), 0);
        ck_assert_trail("12after 12after 12after end");
    }
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
static const char *g = "a name that a block may take";

START_TEST(a_block_names_its_group_as_it_likes)
{
    int rc[2] = {1, 1}, i = 0;
    WEFT_GROUP(g, rc[i++]) {
        weft_group_spin(&g, mark_and_return, "1");
    }
    ck_assert_int_eq(i, 1);
    ck_assert_int_eq(rc[0], 0);
    ck_assert_int_eq(rc[1], 1);
    ck_assert_ptr_nonnull(strstr(g, "name"));
    ck_assert_trail("1");
}
END_TEST
#pragma GCC diagnostic pop

/* In a defer: until so few are left. */
static void wait_for_children(int left)
{
    while (weft_children(weft_self(), NULL, 0) > left)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    mark(" defer ");
}

static void wait_for_all_but_one(void *arg)
{
    (void)arg;
    wait_for_children(1);
}

static weft_value sleep_then_fail(void *arg)
{
    weft_value rc = weft_sleep(0.001);
    return rc < 0 ? rc : weft_fail((int)(intptr_t)arg, "too late for the group");
}

static weft_value leave_open(void *arg)
{
    weft_group *group = arg;
    weft_group_open(&group[0]);
    weft_group_open(&group[1]);
    weft_group_spin(&group[0], sleep_and_mark, "1");
    weft_group_spin(&group[1], sleep_and_mark, "2");
    weft_group_spin(&group[1], mark_when_cancelled, "3");
    weft_defer(wait_for_all_but_one, NULL);
    return 42;
}

/* P16: what it left open is nobody's group any more, its memory may be gone. */
START_TEST(the_members_of_a_group_that_a_fiber_leaves_open_are_children_like_any_other)
{
    weft_group *groups = calloc(2, sizeof *groups);
    weft_fiber f = weft_spin(leave_open, groups);
    weft_snooze();
    ck_assert_int_eq(weft_children(f, NULL, 0), 3);
    ck_assert_uint_eq(weft_group_spin(&groups[0], suspend, NULL), 0);
    free(groups);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_trail("12 defer 3");
}
END_TEST

static void wait_deep_in_the_stack(void *arg)
{
    (void)arg;
    volatile char frame[2048]; /* over that of the function which has returned */
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0x5a;
    wait_for_children(0);
}

static weft_value leave_open_on_the_stack(void *arg)
{
    weft_group outer, inner;
    weft_group_open(&outer);
    weft_group_spin(&outer, arg != NULL ? fail_with : return_arg, arg);
    weft_group_open(&inner);
    for (int i = 0; i < 3; i++)
        weft_group_spin(&inner, sleep_and_mark, "1");
    weft_snooze();
    if (arg == NULL)
        weft_defer(wait_deep_in_the_stack, NULL);
    return 42;
}

/* P16, P20 */
START_TEST(a_group_may_be_gone_with_the_function_that_left_it_open)
{
    ck_assert_int_eq(weft_await(weft_spin(leave_open_on_the_stack, NULL)), 42);
    ck_assert_trail("111 defer ");
    ck_assert_int_eq(weft_await(weft_spin(leave_open_on_the_stack, as_arg(-EIO))), -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static weft_value leave_open_one_that_fails(void *arg)
{
    weft_group_open(arg);
    weft_group_spin(arg, sleep_then_fail, as_arg(-EIO));
    return 42;
}

static weft_value leave_open_one_that_failed(void *arg)
{
    weft_group_open(arg);
    weft_group_spin(arg, fail_with, as_arg(-EPIPE));
    weft_snooze();
    return 42;
}

static void sleep_until_struck(void *arg)
{
    mark(weft_sleep(60) == -EIO ? arg : "another");
}

static weft_value meet_the_error_in_a_defer(void *arg)
{
    weft_defer(sleep_until_struck, "struck");
    return leave_open_one_that_fails(arg);
}

/* P19, P20 */
START_TEST(errors_of_a_group_that_a_fiber_leaves_open_are_its_own)
{
    weft_group group = {{0}};
    ck_assert_int_eq(weft_await(weft_spin(leave_open_one_that_failed, &group)), -EPIPE);
    ck_assert_words(-EPIPE, "broken");
    ck_assert_int_eq(weft_await(weft_spin(meet_the_error_in_a_defer, &group)), 42);
    ck_assert_trail("struck");
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

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

START_TEST(a_close_that_would_have_to_wait_where_switching_is_forbidden_is_refused)
{
    const outcome *o = run_apart(close_where_switching_is_forbidden);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "would switch where switching is forbidden"), 2);
}
END_TEST

static void say(void *words)
{
    fputs(words, stderr);
}

static weft_value exit_in_a_member(void *arg)
{
    (void)arg;
    weft_defer(say, "exiting ");
    weft_snooze();
    exit_here(3);
    return 0;
}

static weft_value fail_at_exit(void *arg)
{
    weft_defer(say, arg);
    weft_suspend();
    return weft_fail(-EIO, "broken at the end");
}

static int wait_for_one_that_exits(void)
{
    int rc = 0;
    weft_defer(say, "main ");
    WEFT_GROUP(outer, rc) {
        weft_group_spin(&outer, fail_at_exit, "outer ");
        WEFT_GROUP(inner, rc) {
            weft_group_spin(&inner, exit_in_a_member, NULL);
        }
    }
    return 1;
}

/* P33: the groups of those who never return are none any more: what fails then is reported. */
START_TEST(exit_in_a_member_ends_all_groups)
{
    const outcome *o = run_apart(wait_for_one_that_exits);
    ck_assert_int_eq(o->status, 3);
    ck_assert_int_eq(strncmp(o->text, "main exiting outer ", 19), 0);
    assert_said(o, "broken at the end");
}
END_TEST

static weft_value wait_behind_a_shield(void *arg)
{
    (void)arg;
    WEFT_SHIELD(INFINITY) {
        return weft_suspend();
    }
    return 0;
}

static int wait_for_ever(weft_fn *member)
{
    int rc = 1;
    WEFT_GROUP(stuck, rc) {
        weft_group_spin(&stuck, member, NULL);
    }
    return rc == -EDEADLK && weft_error()->code == -EDEADLK ? 0 : 1;
}

static int wait_for_one_that_can_be_cancelled(void)
{
    int rc = wait_for_ever(suspend);
    return rc == 0 && weft_children(weft_self(), NULL, 0) == 0 ? 0 : 1;
}

static int wait_for_one_that_cannot(void)
{
    int rc = wait_for_ever(wait_behind_a_shield);
    _exit(rc == 0 && weft_children(weft_self(), NULL, 0) == 1 ? 0 : 1);
}

/* P80 */
START_TEST(a_group_that_can_never_end_is_a_deadlock)
{
    const outcome *o = run_apart(wait_for_one_that_can_be_cancelled);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "deadlock"), 1);
    o = run_apart(wait_for_one_that_cannot);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "deadlock"), 2);
}
END_TEST

static int leave_main_with_a_group(void)
{
    static weft_group left;
    weft_group_open(&left);
    weft_group_spin(&left, fail_with, as_arg(-EIO));
    weft_snooze();
    return 0;
}

/* P33 */
START_TEST(the_error_of_a_group_that_main_leaves_open_is_reported)
{
    const outcome *o = run_apart(leave_main_with_a_group);
    ck_assert_int_ne(o->status, 0);
    assert_said(o, "broken");
}
END_TEST

static weft_value monitor_then_await(void *arg)
{
    const weft_fiber *member = arg;
    weft_monitor(*member);
    weft_receive();
    weft_suspend();
    return weft_await(*member);
}

/* P18, P38: the record of the first that fails is kept for the group, and for those who watch. */
START_TEST(a_member_that_has_failed_can_be_awaited_by_all_who_monitor_it_since)
{
    weft_group group;
    weft_group_open(&group);
    weft_fiber member = weft_group_spin(&group, fail_with, as_arg(-EIO));
    weft_snooze();
    weft_fiber watchers[3];
    for (int i = 0; i < 3; i++)
        watchers[i] = weft_spin(monitor_then_await, &member);
    WEFT_SHIELD(INFINITY) {
        let_run();
    }
    ck_assert_int_eq(weft_group_close(&group), -EIO);
    for (int i = 0; i < 3; i++) {
        weft_schedule(watchers[i], 0);
        ck_assert_int_eq(weft_await(watchers[i]), -EIO);
    }
    ck_assert_int_eq(weft_await(member), -ESRCH);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_member_that_has_failed_can_be_awaited_by_all_who_monitor_it_since,
    &a_caller_that_is_cancelled_cancels_the_members_and_waits_for_them,
    &a_caller_that_is_stopped_with_a_value_ends_with_it_after_its_members,
    &a_caller_that_is_restarted_begins_with_a_new_group,
    &a_member_that_is_restarted_stays_in_its_group,
    &a_parked_member_ends_with_its_group,
    &a_deadline_around_a_group_ends_it_and_is_not_told_twice,
    &a_deadline_inside_a_group_is_its_own_scope_s,
    &a_scope_inside_a_group_does_not_swallow_the_error_of_a_member,
    &an_error_of_a_member_passes_the_shield_around_its_group,
    &an_error_raised_in_the_caller_cancels_the_members_and_is_the_result,
    &an_error_that_waits_for_the_caller_strikes_its_close,
    &of_an_error_of_a_member_and_one_that_is_raised_none_is_lost,
    &a_member_that_fails_as_the_caller_is_cancelled_is_the_result,
    &a_close_that_is_interrupted_returns_the_value_when_the_members_have_ended,
    &a_group_that_is_not_open_or_not_the_innermost_is_an_error_and_nothing_has_changed,
    &every_way_out_of_a_block_closes_the_groups_that_it_leaves,
    &a_block_names_its_group_as_it_likes,
    &the_members_of_a_group_that_a_fiber_leaves_open_are_children_like_any_other,
    &a_group_may_be_gone_with_the_function_that_left_it_open,
    &errors_of_a_group_that_a_fiber_leaves_open_are_its_own,
    &a_close_that_would_have_to_wait_where_switching_is_forbidden_is_refused,
    &exit_in_a_member_ends_all_groups,
    &a_group_that_can_never_end_is_a_deadlock,
    &the_error_of_a_group_that_main_leaves_open_is_reported,
};

int main(void)
{
    return run_suite("group_close", tests, COUNT_OF(tests));
}
