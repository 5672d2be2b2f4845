/* Tests of scopes: deadlines, cancellation by a call, every exit from a block, and shields. */
#include "support/suite.h"

#include <malloc.h>

TEST(move_on_after_ends_the_block_and_later_calls_block_again)
{ /* P41 */
    int inside = 0;
    WEFT_MOVE_ON_AFTER(0.001) {
        inside = weft_sleep(60);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(inside, -ECANCELED);
    ck_assert_int_eq(weft_sleep(0.001), 0);
}

TEST(an_expired_deadline_is_reported_as_timed_out)
{ /* P41 */
    int rc = 1;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(rc, 0);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(a_block_that_ends_in_time_results_in_0)
{ /* P41 */
    int rc = 1;
    WEFT_CANCEL_AFTER(60, rc)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(rc, 0);
}

TEST(an_inner_deadline_cancels_only_the_inner_scope)
{ /* P41 */
    int outer = 1, inner = 1;
    WEFT_CANCEL_AFTER(60, outer) {
        WEFT_CANCEL_AFTER(0.001, inner)
            ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        ck_assert_int_eq(inner, -ETIMEDOUT);
        ck_assert_int_eq(weft_sleep(0.001), 0);
    }
    ck_assert_int_eq(outer, 0);
}

TEST(an_outer_deadline_cancels_the_inner_scope_which_does_not_time_out)
{ /* P41 */
    int outer = 1, inner = 1;
    WEFT_CANCEL_AFTER(0.001, outer) {
        WEFT_CANCEL_AFTER(60, inner)
            ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        ck_assert_int_eq(inner, 0);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(outer, -ETIMEDOUT);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(of_five_nested_scopes_only_the_expired_one_times_out)
{ /* P41 */
    for (int due = 0; due < 5; due++) {
        weft_scope scopes[5];
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(weft_scope_open(&scopes[i], i == due ? 0.001 : 60), 0);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        for (int i = 4; i >= 0; i--) {
            ck_assert_int_eq(weft_snooze(), i >= due ? -ECANCELED : 0);
            ck_assert_int_eq(weft_scope_close(&scopes[i]), i == due ? -ETIMEDOUT : 0);
        }
    }
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(an_outer_deadline_expires_although_the_inner_one_is_reset_repeatedly)
{ /* P42 */
    weft_scope outer, inner;
    ck_assert_int_eq(weft_scope_open(&outer, 0.01), 0);
    ck_assert_int_eq(weft_scope_open(&inner, 60), 0);
    int rc;
    do {
        ck_assert_int_eq(weft_scope_reset(&inner, 60), 0);
        rc = weft_sleep(0.001);
    } while (rc == 0);
    ck_assert_int_eq(rc, -ECANCELED);
    ck_assert(!weft_scope_is_cancelled(&inner));
    ck_assert(weft_scope_is_cancelled(&outer));
    ck_assert_int_eq(weft_scope_close(&inner), 0);
    ck_assert_int_eq(weft_scope_close(&outer), -ETIMEDOUT);
}

TEST(an_outer_deadline_can_be_moved_before_the_inner_one)
{ /* P42 */
    weft_scope outer, inner;
    ck_assert_int_eq(weft_scope_open(&outer, INFINITY), 0);
    ck_assert_int_eq(weft_scope_open(&inner, 60), 0);
    ck_assert_int_eq(weft_scope_reset(&outer, 0.001), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    ck_assert_int_eq(weft_scope_close(&inner), 0);
    ck_assert_int_eq(weft_scope_close(&outer), -ETIMEDOUT);
}

TEST(a_deadline_that_is_moved_later_does_not_expire_at_the_old_time)
{ /* P43 */
    int rc = 1;
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 0.001), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_scope_reset(&scope, 60), 0);
    ck_assert_int_eq(weft_sleep(0.005), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, INFINITY), 0);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, 0.001), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    rc = weft_scope_close(&scope);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(a_million_resets_allocate_no_memory)
{ /* P43 */
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 1), 0);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 1000000; i++)
        if (weft_scope_reset(&scope, 10 + i % 1000) != 0)
            ck_abort_msg("reset %d failed", i);
    ck_assert_uint_eq(mallinfo2().uordblks, before);
    ck_assert_uint_eq(armed_timers(), 1);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

TEST(a_hundred_scopes_in_sequence_can_expire_at_once)
{ /* P43 */
    for (int i = 0; i < 100; i++) {
        int rc = 1;
        WEFT_CANCEL_AFTER(0, rc)
            ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(rc, -ETIMEDOUT);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_uint_eq(armed_timers(), 0);
}

static int fail_inside_a_block(int *rc)
{
    WEFT_CANCEL_AFTER(60, *rc)
        return weft_fail(-ENOENT, "nothing there");
    return 0;
}

TEST(an_error_of_the_body_is_returned_and_the_timer_is_disarmed)
{ /* P45 */
    int rc = 1;
    ck_assert_int_eq(fail_inside_a_block(&rc), -ENOENT);
    ck_assert_int_eq(rc, 0);
    ck_assert_str_eq(weft_error()->message, "nothing there");
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(an_error_raised_in_the_body_is_not_mistaken_for_the_deadline)
{ /* P45, P22 */
    int rc = 1;
    WEFT_CANCEL_AFTER(60, rc) {
        weft_raise(weft_self(), -EIO, "from elsewhere");
        ck_assert_int_eq(weft_sleep(60), -EIO);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(a_time_of_0_enters_the_block_and_fails_its_first_blocking_call)
{ /* P46 */
    bool is_entered = false;
    WEFT_MOVE_ON_AFTER(0) {
        is_entered = true;
        ck_assert(weft_is_cancelled());
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
    }
    ck_assert(is_entered);
}

TEST(an_infinite_time_arms_no_timer)
{ /* P46 */
    int rc = 1;
    WEFT_CANCEL_AFTER(INFINITY, rc) {
        ck_assert_uint_eq(armed_timers(), 0);
        ck_assert_int_eq(weft_sleep(0.001), 0);
    }
    ck_assert_int_eq(rc, 0);
    WEFT_MOVE_ON_AFTER(1e300)
        ck_assert_uint_eq(armed_timers(), 0);
}

static void assert_time_refused(double time_s)
{
    int rc = 0;
    weft_error_clear();
    WEFT_CANCEL_AFTER(time_s, rc)
        ck_abort_msg("entered");
    ck_assert_int_eq(rc, -EINVAL);
    ck_assert_int_eq(weft_error()->code, -EINVAL);
    ck_assert_uint_gt(strlen(weft_error()->message), 0);
    WEFT_MOVE_ON_AFTER(time_s)
        ck_abort_msg("entered");
    WEFT_SHIELD(time_s)
        ck_abort_msg("entered");
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, time_s), -EINVAL);
    ck_assert_int_eq(weft_shield_open(&scope, time_s), -EINVAL);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(a_negative_or_undefined_time_is_an_error_and_the_block_is_not_entered)
{ /* P46 */
    assert_time_refused(-1);
    assert_time_refused(-1e-12);
    assert_time_refused(-INFINITY);
    assert_time_refused(NAN);
    ck_assert_uint_eq(armed_timers(), 0);
}

static int compute_in_a_finished_scope(void)
{
    WEFT_MOVE_ON_AFTER(0)
        return 42;
    return 0;
}

TEST(a_body_that_never_blocks_keeps_its_value)
{ /* P46 */
    ck_assert_int_eq(compute_in_a_finished_scope(), 42);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(computing_code_can_poll_for_cancellation)
{ /* P46 */
    if (is_sim())
        return; /* virtual time does not advance while a fiber computes */
    int rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert(!weft_is_cancelled());
        while (!weft_is_cancelled())
            continue;
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert(!weft_is_cancelled());
}

static void leave_scopes_by_goto(int *rc)
{
    WEFT_CANCEL_AFTER(60, *rc) {
        WEFT_CANCEL_AFTER(60, *rc)
            goto out;
    }
    ck_abort_msg("not left");
out:
    return;
}

static void leave_scopes_by_return(int *rc)
{
    WEFT_CANCEL_AFTER(60, *rc) {
        WEFT_SHIELD(60)
            return;
    }
    ck_abort_msg("not left");
}

TEST(return_and_goto_close_every_scope_that_they_leave)
{ /* P41 */
    int rc = 1;
    leave_scopes_by_goto(&rc);
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(armed_timers(), 0);
    rc = 1;
    leave_scopes_by_return(&rc);
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(armed_timers(), 0);
    WEFT_CANCEL_AFTER(0.001, rc)
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(break_and_continue_leave_the_block_and_not_the_loop_around_it)
{ /* P41 */
    int rounds = 0, rc = 1;
    for (; rounds < 3; rounds++) {
        WEFT_CANCEL_AFTER(60, rc) {
            if (rounds == 1)
                break;
            continue;
        }
        ck_assert_int_eq(rc, 0);
        ck_assert_uint_eq(armed_timers(), 0);
    }
    ck_assert_int_eq(rounds, 3);
}

TEST(an_expired_deadline_is_reported_also_when_the_block_is_left_by_break)
{ /* P41 */
    int rc = 1;
    WEFT_CANCEL_AFTER(0.001, rc) {
        if (weft_sleep(60) < 0)
            break;
        ck_abort_msg("slept");
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(a_scope_that_is_not_the_innermost_cannot_be_closed)
{ /* P41 */
    weft_scope outer, inner;
    ck_assert_int_eq(weft_scope_open(&outer, 60), 0);
    ck_assert_int_eq(weft_scope_open(&inner, 60), 0);
    ck_assert_int_eq(weft_scope_close(&outer), -EINVAL);
    ck_assert_uint_eq(armed_timers(), 1);
    ck_assert_int_eq(weft_scope_close(&inner), 0);
    ck_assert_int_eq(weft_scope_close(&inner), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&outer), 0);
    ck_assert_int_eq(weft_scope_close(&outer), -EINVAL);
    ck_assert_int_eq(weft_scope_close(NULL), -EINVAL);
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(a_closed_scope_can_be_neither_cancelled_nor_reset)
{ /* P41 */
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    ck_assert_int_eq(weft_scope_cancel(&scope), -EINVAL);
    ck_assert_int_eq(weft_scope_reset(&scope, 1), -EINVAL);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_snooze(), 0);
}

FIBER(close_scope, weft_scope_close(arg))

TEST(a_fiber_cannot_close_the_scope_of_another)
{ /* P41 */
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    ck_assert_int_eq(weft_await(weft_spin(close_scope, &scope)), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

static weft_value sleep_in_scope(void *arg)
{
    weft_scope *scope = arg;
    weft_scope_open(scope, 60);
    int slept = weft_sleep(60);
    bool is_cancelled = weft_scope_is_cancelled(scope);
    int rc = weft_scope_close(scope);
    return slept == -ECANCELED && is_cancelled && rc == 0 && weft_sleep(0.001) == 0 ? 42 : 1;
}

TEST(a_scope_that_another_fiber_cancels_does_not_time_out)
{ /* P41 */
    weft_scope scope;
    weft_fiber f = weft_spin(sleep_in_scope, &scope);
    weft_snooze();
    ck_assert(!weft_scope_is_cancelled(&scope));
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, 60), -ECANCELED);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_await(f), 42);
}

TEST(a_fiber_can_cancel_its_own_scope)
{ /* P41 */
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(a_reset_to_0_expires_at_once_and_an_invalid_reset_changes_nothing)
{ /* P43, P46 */
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, -1), -EINVAL);
    ck_assert_int_eq(weft_scope_reset(&scope, NAN), -EINVAL);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(armed_timers(), 1);
    ck_assert_int_eq(weft_scope_reset(&scope, 0), 0);
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), -ETIMEDOUT);
    ck_assert_uint_eq(armed_timers(), 0);
}

static weft_value sleep_shortly(void *arg)
{
    int rc = weft_sleep(0.001);
    return rc < 0 ? rc : (weft_value)arg;
}

TEST(in_a_cancelled_scope_every_blocking_call_fails_at_once)
{ /* P41, T40 */
    int fd[2];
    char byte;
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber f = weft_spin(sleep_shortly, (void *)7);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_sleep(1), -ECANCELED);
        ck_assert_int_eq(weft_sleep(0), -ECANCELED);
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(weft_suspend(), -ECANCELED);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
        ck_assert_int_eq(weft_await_any(&f, 1, NULL), -ECANCELED);
        ck_assert_int_eq(weft_await_children(), -ECANCELED);
        ck_assert_int_eq(weft_transfer(f, 0), -ECANCELED);
        ck_assert_int_eq(weft_read(fd[0], &byte, 1), -ECANCELED);
    }
    ck_assert_int_eq(weft_await(f), 7);
    weft_close(fd[0]);
    weft_close(fd[1]);
}

TEST(an_await_that_times_out_leaves_the_fiber_unchanged)
{ /* T32, T33, T34, P21 */
    int rc = 1;
    weft_fiber f = weft_spin(sleep_shortly, (void *)7);
    WEFT_CANCEL_AFTER(0, rc)
        ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0);
    weft_snooze();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    ck_assert_int_eq(weft_await(f), 7);
}

static weft_value set_flag(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

TEST(code_that_ignores_its_cancellation_does_not_starve_other_fibers)
{ /* P41 */
    bool is_set = false;
    weft_spin(set_flag, &is_set);
    WEFT_MOVE_ON_AFTER(0) {
        while (!is_set)
            weft_sleep(1);
    }
    ck_assert(is_set);
}

TEST(a_scope_affects_its_fiber_and_not_the_children)
{ /* P41 */
    weft_fiber f = 0;
    WEFT_MOVE_ON_AFTER(0) {
        f = weft_spin(sleep_shortly, (void *)7);
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
    }
    ck_assert_int_eq(weft_await(f), 7);
}

static weft_value leave_scopes_open(void *arg)
{
    weft_scope *scopes = arg;
    weft_scope_open(&scopes[0], 60);
    weft_shield_open(&scopes[1], 60);
    return 42;
}

TEST(scopes_that_are_open_when_a_fiber_ends_are_closed)
{ /* P45 */
    weft_scope scopes[2];
    ck_assert_int_eq(weft_await(weft_spin(leave_scopes_open, scopes)), 42);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_scope_cancel(&scopes[0]), -EINVAL);
    ck_assert_int_eq(weft_await(weft_spin(sleep_shortly, (void *)7)), 7);
}

static weft_value sleep_in_and_after_shield(void *arg)
{
    int *rc = arg;
    WEFT_SHIELD(60) {
        rc[0] = weft_sleep(0.002);
        rc[1] = weft_sleep(0.002);
        rc[2] = weft_is_cancelled();
    }
    rc[3] = weft_sleep(60);
    rc[4] = weft_sleep(60);
    return 1;
}

TEST(a_shield_delays_cancellation_which_persists_afterwards)
{ /* DESIGN 6 */
    int rc[5] = {1, 1, 1, 1, 1};
    weft_fiber f = weft_spin(sleep_in_and_after_shield, rc);
    weft_snooze();
    ck_assert_int_eq(weft_stop(f, 42), 0);
    ck_assert_int_eq(weft_await(f), 42);
    const int expected[5] = {0, 0, 0, -ECANCELED, -ECANCELED};
    ck_assert_mem_eq(rc, expected, sizeof rc);
}

static weft_value sleep_in_short_shields(void *arg)
{
    int *rc = arg;
    rc[0] = weft_suspend();
    WEFT_SHIELD(0)
        rc[1] = weft_sleep(60);
    WEFT_SHIELD(0.001) {
        rc[2] = weft_sleep(60);
        rc[3] = weft_sleep(60);
    }
    return 0;
}

TEST(a_shield_protects_for_at_most_its_time)
{ /* DESIGN 6 */
    int rc[4] = {1, 1, 1, 1};
    weft_fiber f = weft_spin(sleep_in_short_shields, rc);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(rc[i], -ECANCELED);
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(the_end_of_a_shield_does_not_cancel_its_body)
{ /* DESIGN 6 */
    bool is_past = false;
    WEFT_SHIELD(0.001) {
        ck_assert_int_eq(weft_sleep(0.003), 0);
        ck_assert_int_eq(weft_sleep(0.001), 0);
        is_past = true;
    }
    ck_assert(is_past);
}

static weft_value sleep_shielded_from_errors(void *arg)
{
    int *rc = arg;
    WEFT_SHIELD(60) {
        rc[0] = weft_sleep(0.002);
        rc[1] = weft_snooze();
    }
    rc[2] = weft_sleep(60);
    rc[3] = strcmp(weft_error()->message, "second thoughts 2");
    rc[4] = weft_sleep(0.001);
    return 0;
}

TEST(a_shield_delays_raised_errors_too)
{ /* DESIGN 6 */
    int rc[5] = {1, 1, 1, 1, 1};
    weft_fiber f = weft_spin(sleep_shielded_from_errors, rc);
    weft_snooze();
    ck_assert_int_eq(weft_raise(f, -EIO, "second thoughts %d", 2), 0);
    ck_assert_int_eq(weft_await(f), 0);
    const int expected[5] = {0, 0, -EIO, 0, 0};
    ck_assert_mem_eq(rc, expected, sizeof rc);
}

TEST(a_shield_inside_a_cancelled_scope_lets_its_body_block)
{ /* DESIGN 6 */
    int rc = 1;
    WEFT_CANCEL_AFTER(0, rc) {
        WEFT_SHIELD(60) {
            ck_assert(!weft_is_cancelled());
            ck_assert_int_eq(weft_sleep(0.001), 0);
            WEFT_SHIELD(60)
                ck_assert_int_eq(weft_snooze(), 0);
            ck_assert_int_eq(weft_snooze(), 0);
        }
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(a_deadline_inside_a_shield_expires_inside_the_shield)
{ /* DESIGN 6 */
    int outer = 1, inner = 1;
    WEFT_CANCEL_AFTER(0, outer) {
        WEFT_SHIELD(60) {
            WEFT_CANCEL_AFTER(0.001, inner)
                ck_assert_int_eq(weft_sleep(60), -ECANCELED);
            ck_assert_int_eq(inner, -ETIMEDOUT);
            ck_assert_int_eq(weft_sleep(0.001), 0);
        }
    }
    ck_assert_int_eq(outer, 0); /* the deadline has interrupted no call */
}

TEST(a_deadline_outside_a_shield_is_delayed_until_its_end)
{ /* DESIGN 6 */
    int rc = 1;
    WEFT_CANCEL_AFTER(0.001, rc) {
        WEFT_SHIELD(60)
            ck_assert_int_eq(weft_sleep(0.005), 0);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

static void run_deep_in_the_stack(void *arg)
{
    volatile char frame[2048]; /* overwrites the frame of the returned function */
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0x5a;
    weft_sleep(0.001);
}

static weft_value leave_deadlines_open(void *arg)
{
    weft_scope outer, inner;
    weft_scope_open(&outer, 60);
    weft_scope_open(&inner, 30);
    weft_defer(run_deep_in_the_stack, NULL);
    return (weft_value)arg;
}

TEST(scopes_left_open_may_be_in_a_returned_frame)
{
    ck_assert_int_eq(weft_await(weft_spin(leave_deadlines_open, (void *)42)), 42);
    ck_assert_uint_eq(armed_timers(), 0);
}

FIBER(open_scope_and_end, weft_scope_open(arg, 60))

TEST(a_scope_that_a_fiber_left_open_is_closed)
{
    weft_scope scope;
    weft_fiber f = weft_spin(open_scope_and_end, &scope);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(weft_spin(sleep_shortly, NULL)), 0); /* in the same record */
    ck_assert_int_eq(weft_scope_cancel(&scope), -EINVAL);
    ck_assert_int_eq(weft_scope_reset(&scope, 1), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&scope), -EINVAL);
}

TEST(an_outer_deadline_that_is_moved_later_expires_at_the_new_time)
{
    weft_scope outer, inner;
    ck_assert_int_eq(weft_scope_open(&outer, 0.001), 0);
    ck_assert_int_eq(weft_scope_open(&inner, 60), 0);
    ck_assert_int_eq(weft_scope_reset(&outer, 0.005), 0);
    double begin = weft_now();
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    ck_assert_double_ge(weft_now() - begin, 0.0049);
    ck_assert_int_eq(weft_scope_reset(&inner, INFINITY), 0);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_scope_close(&inner), 0);
    ck_assert_int_eq(weft_scope_close(&outer), -ETIMEDOUT);
}
