/* Tests of scopes: deadlines, cancellation by a call, every exit from a block, and shields. */
#include "support/suite.h"

TEST(an_expired_deadline_ends_the_block_and_later_calls_block_again)
{ /* P41 */
    int rc = 1;
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(rc, 0);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    WEFT_CANCEL_AFTER(60, rc)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(rc, 0);
}

TEST(an_outer_deadline_can_be_moved_before_the_inner_one_and_later_again)
{ /* P42 */
    weft_scope outer, inner;
    ck_assert_int_eq(weft_scope_open(&outer, INFINITY), 0);
    ck_assert_int_eq(weft_scope_open(&inner, 60), 0);
    ck_assert_int_eq(weft_scope_reset(&outer, 0.001), 0);
    double begin = weft_now();
    ck_assert_int_eq(weft_scope_reset(&outer, 0.005), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    ck_assert_double_ge(weft_now() - begin, 0.0049);
    ck_assert_int_eq(weft_scope_reset(&inner, INFINITY), 0);
    ck_assert_uint_eq(armed_timers(), 0);
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

static int fail_inside_a_block(int *rc)
{
    WEFT_CANCEL_AFTER(60, *rc)
        return weft_fail(-ENOENT, "nothing there");
    return 0;
}

TEST(an_error_of_the_body_is_not_mistaken_for_the_deadline_and_disarms_the_timer)
{ /* P45, P22 */
    int rc = 1;
    ck_assert_int_eq(fail_inside_a_block(&rc), -ENOENT);
    ck_assert_int_eq(rc, 0);
    ck_assert_str_eq(weft_error()->message, "nothing there");
    ck_assert_uint_eq(armed_timers(), 0);
    WEFT_CANCEL_AFTER(60, rc) {
        weft_raise(weft_self(), -EIO, "from elsewhere");
        ck_assert_int_eq(weft_sleep(60), -EIO);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(armed_timers(), 0);
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
    ck_assert_any_error(-EINVAL);
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
{ /* P46, T78 */
    static const double times[] = {-1, -1e-12, -INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(times); i++)
        assert_time_refused(times[i]);
    ck_assert_uint_eq(armed_timers(), 0);
}

static int compute_in_a_finished_scope(void)
{
    WEFT_MOVE_ON_AFTER(0)
        return 42;
    return 0;
}

TEST(a_time_of_0_enters_the_block_and_fails_its_first_blocking_call)
{ /* P43, P46 */
    for (int i = 0; i < 100; i++) {
        int rc = 1;
        WEFT_CANCEL_AFTER(0, rc) {
            ck_assert(weft_is_cancelled());
            ck_assert_int_eq(weft_snooze(), -ECANCELED);
        }
        ck_assert_int_eq(rc, -ETIMEDOUT);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(compute_in_a_finished_scope(), 42); /* a body that never blocks */
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(armed_timers(), 0);
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

TEST(return_goto_break_and_continue_close_every_scope_that_they_leave)
{ /* P41 */
    int rc = 1, rounds = 0;
    leave_scopes_by_goto(&rc);
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(armed_timers(), 0);
    rc = 1;
    leave_scopes_by_return(&rc);
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(armed_timers(), 0);
    for (; rounds < 3; rounds++) { /* break and continue do not leave this loop */
        WEFT_CANCEL_AFTER(60, rc) {
            if (rounds == 1)
                break;
            continue;
        }
        ck_assert_int_eq(rc, 0);
        ck_assert_uint_eq(armed_timers(), 0);
    }
    ck_assert_int_eq(rounds, 3);
    WEFT_CANCEL_AFTER(0.001, rc) {
        if (weft_sleep(60) < 0)
            break;
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

FIBER(close_scope, weft_scope_close(arg))

TEST(only_its_fiber_can_close_a_scope_that_is_open_and_innermost)
{ /* P41 */
    weft_scope outer, inner;
    ck_assert_int_eq(weft_scope_open(&outer, 60), 0);
    ck_assert_int_eq(weft_scope_open(&inner, 60), 0);
    ck_assert_int_eq(weft_await(weft_spin(close_scope, &inner)), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&outer), -EINVAL);
    ck_assert_uint_eq(armed_timers(), 1);
    ck_assert_int_eq(weft_scope_close(&inner), 0);
    ck_assert_int_eq(weft_scope_close(&inner), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&outer), 0);
    ck_assert_int_eq(weft_scope_close(&outer), -EINVAL);
    ck_assert_int_eq(weft_scope_cancel(&outer), -EINVAL);
    ck_assert_int_eq(weft_scope_reset(&outer, 1), -EINVAL);
    ck_assert_int_eq(weft_scope_close(NULL), -EINVAL);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_snooze(), 0);
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

TEST(a_cancelled_scope_does_not_time_out)
{ /* P41 */
    weft_scope scope;
    weft_fiber f = spin_waiting(sleep_in_scope, &scope);
    ck_assert(!weft_scope_is_cancelled(&scope));
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_int_eq(weft_scope_reset(&scope, 60), -ECANCELED);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_int_eq(weft_scope_open(&scope, 60), 0); /* a scope of the caller */
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

FIBER_DO(sleep_shortly, int rc = weft_sleep(0.001), rc < 0 ? rc : (weft_value)arg)

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

TEST(a_deadline_outside_a_shield_is_delayed_until_its_end_which_does_not_cancel_its_body)
{ /* DESIGN 6 */
    int rc = 1;
    WEFT_CANCEL_AFTER(0.001, rc) {
        WEFT_SHIELD(60)
            ck_assert_int_eq(weft_sleep(0.005), 0);
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    WEFT_SHIELD(0.001) {
        ck_assert_int_eq(weft_sleep(0.003), 0);
        ck_assert_int_eq(weft_sleep(0.001), 0);
    }
}

static void run_deep_in_the_stack(void *arg)
{
    volatile char frame[2048]; /* overwrites the frame of the returned function */
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0x5a;
    ck_assert_int_eq(weft_sleep(0.001), 0); /* the expired scope is closed, too */
}

static weft_value leave_deadlines_open(void *arg)
{
    weft_scope on_stack, *scopes = arg;
    weft_scope_open(&scopes[0], 60);
    weft_shield_open(&scopes[1], 60);
    weft_scope_open(&on_stack, 30);
    weft_scope_open(&scopes[2], 0);
    weft_defer(run_deep_in_the_stack, NULL);
    return 42;
}

TEST(scopes_that_a_fiber_left_open_are_closed_also_in_a_returned_frame)
{ /* P45 */
    weft_scope scopes[3];
    ck_assert_int_eq(weft_await(weft_spin(leave_deadlines_open, scopes)), 42);
    ck_assert_uint_eq(armed_timers(), 0);
    ck_assert_int_eq(weft_await(weft_spin(sleep_shortly, (void *)7)), 7); /* in the same record */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_scope_cancel(&scopes[i]), -EINVAL);
        ck_assert_int_eq(weft_scope_reset(&scopes[i], 1), -EINVAL);
        ck_assert_int_eq(weft_scope_close(&scopes[i]), -EINVAL);
    }
}
