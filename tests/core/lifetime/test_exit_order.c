/*
 * Tests of the order in which a fiber ends: its deferred calls, its children, fibers created
 * meanwhile, and the end of the process.
 */
#include "support/suite.h"

FIBER_DO(suspend_and_mark_cancel, weft_value rc = weft_suspend(), mark(arg), rc)

static void sleep_and_await(void *arg)
{
    ck_assert_int_eq(weft_sleep(0.002), 0);
    ck_assert_int_eq(weft_await(weft_spin(return_arg, arg)), (weft_value)arg);
    mark("cleaned up ");
}

FIBER_DO(defer_work, weft_defer(sleep_and_await, as_arg(12)), arg)

TEST(a_deferred_call_may_sleep_spin_and_await)
{ /* P17 */
    weft_fiber f = spin_waiting(defer_work, as_arg(3));
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_trail("cleaned up ");
}

static void block_twice(void *arg)
{
    ck_assert_int_eq(weft_sleep(1), -ECANCELED);
    WEFT_SHIELD(10)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(weft_sleep(1), -ECANCELED);
    mark("done");
}

FIBER_DO(defer_blocking, weft_defer(block_twice, NULL), weft_suspend())

TEST(a_deferred_call_of_a_cancelled_fiber_blocks_only_in_a_shield)
{ /* T38, P24 */
    weft_fiber f = weft_spin(defer_blocking, NULL);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_trail("done");
}

static void spin_without_await(void *arg)
{
    weft_spin(suspend_and_mark_cancel, "ran ");
    weft_go(suspend_and_mark_cancel, "ran ");
    weft_new(suspend_and_mark_cancel, "ran ");
    mark("defer ");
}

FIBER_DO(defer_spinning, weft_defer(spin_without_await, NULL), weft_snooze(), arg)

TEST(fibers_that_a_deferred_call_spins_are_ended_before_they_run)
{ /* P16, P23 */
    ck_assert_int_eq(weft_await(weft_spin(defer_spinning, as_arg(2))), 2);
    ck_assert_trail("defer ");
    weft_fiber f = weft_spin(defer_spinning, NULL);
    weft_snooze();
    weft_stop(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_trail("defer defer ");
    ck_assert_uint_eq(stats().fibers, 0);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

static weft_value spin_under_the_ending_parent(void *arg)
{
    weft_suspend(); /* cancelled because the parent ends */
    weft_spin_options options = {.parent = weft_parent(weft_self())};
    if (arg != NULL)
        weft_spin_with(spin_under_the_ending_parent, (char *)arg - 1, &options);
    /* Whether refused or not, it must not keep the parent alive. */
    weft_spin_with(sleep_forever, NULL, &options);
    return 0;
}

static weft_value spin_children_that_spin(void *arg)
{
    weft_spin(spin_under_the_ending_parent, arg);
    weft_spin(spin_under_the_ending_parent, arg);
    weft_snooze();
    return 9;
}

TEST_PROGRAM(a_fiber_spun_under_an_ending_parent_or_main_is_ended_too, 9, "")
{ /* T104, P16, P33 */
    if (weft_await(weft_spin(spin_children_that_spin, as_arg(3))) != 9)
        return 1;
    return (int)spin_children_that_spin(as_arg(3));
}

CALLBACK(attach_to_self, ck_assert_int_eq(weft_attach(arg_id(arg), weft_self()), -EINVAL))
FIBER_DO(defer_attaching, weft_defer(attach_to_self, arg), 0)

TEST(no_fiber_can_be_attached_to_an_ending_fiber)
{ /* P27 */
    weft_fiber f = spin_suspended();
    ck_assert_int_eq(weft_await(weft_spin(defer_attaching, id_arg(f))), 0);
    ck_assert_uint_eq(weft_parent(f), weft_self());
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
}

static weft_value spin_parked_children(void *arg)
{
    weft_fiber f = weft_spin(suspend_and_mark_cancel, "parked ");
    weft_fiber g = weft_spin(mark_and_return, "never ");
    weft_park(g);
    weft_snooze();
    weft_park(f);
    return (weft_value)arg;
}

TEST(parked_children_end_with_their_parent)
{ /* P14, P16 */
    ck_assert_int_eq(weft_await(weft_spin(spin_parked_children, as_arg(6))), 6);
    ck_assert_trail("parked ");
}

TEST_PROGRAM(ten_thousand_fibers_end_with_the_process, 4, "")
{ /* P28, P33 */
    for (int i = 0; i < MANY_FIBERS; i++)
        weft_spin(suspend, NULL);
    weft_snooze();
    return 4;
}

static weft_value fail_named(void *arg)
{
    weft_set_name(weft_self(), "culprit");
    return weft_fail((int)(intptr_t)arg, "no such luck");
}

FIBER_DO(spin_failing_and_detach, weft_fiber f = weft_spin(fail_named, arg), weft_detach(f))

static int return_with_unhandled_error(void)
{
    weft_spin(spin_failing_and_detach, as_arg(-EIO));
    weft_snooze();
    weft_snooze();
    return 0;
}

TEST(an_unhandled_error_of_a_detached_fiber_is_reported_once)
{ /* T27 */
    const outcome *o = run_apart(return_with_unhandled_error);
    ck_assert_int_ne(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "no such luck"), 1);
    ck_assert_uint_ge(count_in(o->text, "culprit"), 1);
}

static weft_value detach_and_cancel(void *arg)
{
    weft_fiber f = weft_spin(suspend, arg);
    weft_detach(f);
    weft_snooze();
    return weft_cancel(f);
}

TEST_PROGRAM(a_cancelled_detached_fiber_is_not_reported, 0, "")
{ /* T27 */
    weft_spin(detach_and_cancel, NULL);
    return (int)weft_suspend();
}
