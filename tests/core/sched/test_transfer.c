/* Tests of weft_start, which runs a fiber at once, and of weft_transfer, the symmetric switch. */
#include "support/suite.h"

static weft_value mark_twice(void *arg)
{
    mark(arg);
    weft_snooze();
    mark(arg);
    return 0;
}

TEST(start_runs_the_body_and_returns_at_its_first_switchpoint)
{ /* T8 */
    weft_spin(mark_and_return, "b");
    weft_fiber f = weft_new(mark_twice, "a");
    ck_assert_trail("");
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_trail("a");
    let_run();
    ck_assert_trail("aba");
}

TEST(start_returns_at_the_end_of_a_body_without_switchpoints)
{ /* T8 */
    weft_spin(mark_and_return, "b");
    weft_fiber f = weft_new(mark_and_return, "a");
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_trail("a");
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("a");
}

static weft_value read_argument(void *arg)
{
    int *numbers = arg;
    int sum = numbers[0] + numbers[1];
    numbers[0] = 0;
    weft_suspend();
    return sum;
}

static weft_fiber start_with_argument_on_stack(void)
{
    int numbers[2] = {3, 4};
    weft_fiber f = weft_new(read_argument, numbers);
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_int_eq(numbers[0], 0);
    return f;
}

TEST(an_argument_on_the_stack_of_the_starter_can_be_read_until_start_returns)
{ /* T9 */
    weft_fiber f = start_with_argument_on_stack();
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 7);
}

static weft_value start_nested(void *arg)
{
    intptr_t left = (intptr_t)arg;
    if (left == 0)
        return 1;
    weft_fiber f = weft_new(start_nested, as_arg(left - 1));
    ck_assert_int_eq(weft_start(f), 0);
    weft_value below = weft_await(f);
    return weft_is_error(below) ? below : below + 1;
}

TEST(starts_nest_two_thousand_deep)
{ /* T8 */
    weft_fiber f = weft_new(start_nested, as_arg(2000));
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_int_eq(weft_await(f), 2001);
}

static weft_value start_another(void *arg)
{
    mark("outer ");
    ck_assert_int_eq(weft_start(arg_id(arg)), 0);
    mark("outer again ");
    weft_suspend();
    return 0;
}

TEST(nested_starts_return_one_after_the_other)
{ /* T8 */
    weft_spin(mark_and_return, "queued ");
    weft_fiber inner = weft_new(mark_twice, "inner ");
    weft_fiber outer = weft_new(start_another, id_arg(inner));
    ck_assert_int_eq(weft_start(outer), 0);
    mark("back ");
    let_run();
    ck_assert_trail("outer inner outer again back queued inner ");
}

TEST(scheduling_self_before_a_start_has_no_effect)
{ /* T5 */
    ck_assert_int_eq(weft_schedule(weft_self(), 5), -EBUSY);
    weft_fiber f = weft_new(mark_twice, "a");
    ck_assert_int_eq(weft_start(f), 0);
    mark("b");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("aba");
}

static weft_value assert_starter_cannot_be_resumed(void *arg)
{
    weft_fiber starter = arg_id(arg);
    ck_assert_int_eq(weft_state_of(starter), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(starter, 9), -EBUSY);
    ck_assert_int_eq(weft_interrupt(starter, -9), -EBUSY);
    ck_assert_int_eq(weft_transfer(starter, 9), -EBUSY);
    ck_assert_int_eq(weft_start(starter), -EBUSY);
    return weft_suspend();
}

TEST(a_fiber_in_start_can_only_be_resumed_by_the_started_fiber)
{ /* T5 */
    weft_fiber f = weft_new(assert_starter_cannot_be_resumed, id_arg(weft_self()));
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
}

TEST(a_fiber_that_was_started_scheduled_or_spun_cannot_be_started)
{ /* T7 */
    weft_fiber started = weft_new(suspend, NULL);
    ck_assert_int_eq(weft_start(started), 0);
    ck_assert_int_eq(weft_start(started), -EBUSY);
    weft_fiber scheduled = weft_new(suspend, NULL);
    weft_schedule(scheduled, 0);
    ck_assert_int_eq(weft_start(scheduled), -EBUSY);
    ck_assert_int_eq(weft_start(weft_spin(suspend, NULL)), -EBUSY);
    ck_assert_int_eq(weft_start(weft_self()), -EBUSY);
}

FIBER(cancel_starter, weft_cancel(arg_id(arg)))

static weft_value start_fiber_that_cancels_self(void *arg)
{
    weft_value rc = weft_start(weft_new(cancel_starter, id_arg(weft_self())));
    mark(rc == 0 ? "started " : "refused ");
    mark(weft_snooze() == -ECANCELED ? "cancelled" : "goes on");
    return 0;
}

TEST(starting_a_fiber_that_cancels_the_starter_succeeds_and_the_next_call_fails)
{ /* T44 */
    ck_assert_int_eq(weft_await(weft_spin(start_fiber_that_cancels_self, NULL)), -ECANCELED);
    ck_assert_trail("started cancelled");
}

static weft_value start_when_cancelled(void *arg)
{
    weft_cancel(weft_self());
    ck_assert_int_eq(weft_start(arg_id(arg)), -ECANCELED);
    ck_assert_int_eq(weft_transfer(arg_id(arg), 1), -ECANCELED);
    return 0;
}

TEST(a_cancelled_fiber_neither_starts_nor_transfers)
{ /* T40 */
    weft_fiber f = weft_new(mark_and_return, "ran");
    ck_assert_int_eq(weft_await(weft_spin(start_when_cancelled, id_arg(f))), -ECANCELED);
    ck_assert_trail("");
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
}

static weft_value transfer_double_back(void *arg)
{
    weft_fiber peer = arg_id(arg);
    weft_value v = weft_first_value();
    while (v > 0)
        v = weft_transfer(peer, 2 * v);
    return v;
}

TEST(transfer_passes_values_in_both_directions)
{ /* P8 */
    weft_fiber f = weft_new(transfer_double_back, id_arg(weft_self()));
    for (weft_value v = 1; v < 1000; v++)
        ck_assert_int_eq(weft_transfer(f, v), 2 * v);
    ck_assert_int_eq(weft_transfer(f, 0), 0); /* it ends, and no other fiber is runnable */
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(a_transfer_runs_before_queued_fibers)
{ /* P8 */
    weft_spin(mark_and_return, "queued ");
    weft_fiber f = weft_new(transfer_double_back, id_arg(weft_self()));
    ck_assert_int_eq(weft_transfer(f, 1), 2);
    ck_assert_trail("");
}

TEST(a_transfer_to_self_returns_the_value_at_once)
{ /* P8 */
    weft_spin(mark_and_return, "other");
    ck_assert_int_eq(weft_transfer(weft_self(), 5), 5);
    ck_assert_trail("");
}

TEST(a_transfer_from_main_returns_0_when_no_other_fiber_can_run)
{ /* P8 */
    weft_fiber f = weft_new(suspend, NULL);
    ck_assert_int_eq(weft_transfer(f, 1), 0);
    ck_assert_int_eq(weft_transfer(f, 2), 0);
    ck_assert_int_eq(weft_await(f), 2);
}

FIBER(transfer_to, weft_transfer(arg_id(arg), 1))

TEST(a_fiber_in_transfer_can_be_scheduled)
{ /* P8 */
    weft_fiber f = spin_waiting(transfer_to, id_arg(spin_suspended()));
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(f, 12), 0);
    ck_assert_int_eq(weft_await(f), 12);
}

TEST(a_transfer_to_a_scheduled_fiber_removes_it_from_the_queue)
{ /* P4 */
    weft_fiber f = weft_spin(suspend_and_mark, "f");
    weft_snooze();
    weft_schedule(f, 1);
    weft_spin(mark_and_return, "g");
    ck_assert_int_eq(weft_transfer(f, 2), 0);
    ck_assert_trail("fg");
    ck_assert_int_eq(weft_await(f), 2);
}

static weft_value mark_first_value(void *arg)
{
    mark("ran");
    return weft_first_value();
}

TEST(a_transfer_to_a_spun_fiber_that_has_not_run_starts_it_once)
{ /* P4, T3 */
    weft_fiber f = weft_spin(mark_first_value, NULL);
    ck_assert_int_eq(weft_transfer(f, 4), 0);
    let_run();
    ck_assert_trail("ran");
    ck_assert_int_eq(weft_await(f), 4);
}

TEST(a_transfer_does_not_replace_an_error)
{ /* P6 */
    weft_fiber f = spin_suspended();
    weft_schedule(f, -EIO);
    ck_assert_int_eq(weft_transfer(f, 5), -EIO); /* the error of the child that ended */
    ck_assert_int_eq(weft_await(f), -EIO);
}

FIBER(snooze_once, weft_snooze())

TEST(a_fiber_that_does_not_wait_in_suspend_cannot_be_transferred_to)
{ /* P64 */
    weft_fiber sleeper = spin_sleeping();
    weft_fiber snoozer = weft_spin(snooze_once, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_transfer(sleeper, 1), -EBUSY);
    ck_assert_int_eq(weft_transfer(snoozer, 1), -EBUSY);
    weft_fiber parked = spin_suspended();
    weft_park(parked);
    ck_assert_int_eq(weft_transfer(parked, 1), -EBUSY);
}

TEST(a_transfer_to_an_ended_fiber_is_refused)
{ /* P7 */
    weft_fiber f = weft_spin(return_arg, as_arg(3));
    weft_snooze();
    ck_assert_int_eq(weft_transfer(f, 1), -ESRCH);
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_int_eq(weft_transfer(f, 1), -ESRCH);
}

static weft_value transfer_and_mark(void *arg)
{
    mark("transfers ");
    weft_value v = weft_transfer(arg_id(arg), 1);
    mark("resumed ");
    return v;
}

static weft_value suspend_and_snooze(void *arg)
{
    weft_suspend();
    mark("target ");
    weft_snooze();
    mark("target again ");
    return 0;
}

TEST(the_starter_continues_when_the_started_fiber_has_transferred_away)
{ /* T8 */
    weft_fiber target = weft_spin(suspend_and_snooze, NULL);
    weft_snooze();
    weft_fiber f = weft_new(transfer_and_mark, id_arg(target));
    ck_assert_int_eq(weft_start(f), 0);
    mark("back ");
    let_run();
    ck_assert_trail("transfers target back target again ");
    weft_schedule(f, 6);
    ck_assert_int_eq(weft_await(f), 6);
}

TEST(a_fiber_in_transfer_can_be_cancelled_raised_in_and_interrupted)
{ /* T38 */
    weft_fiber target = spin_suspended();
    weft_fiber f = spin_waiting(transfer_to, id_arg(target));
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    target = spin_suspended();
    f = weft_spin(transfer_to, id_arg(target));
    let_run();
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "raised");
    target = spin_suspended();
    f = weft_spin(transfer_to, id_arg(target));
    let_run();
    ck_assert_int_eq(weft_interrupt(f, -31), 0);
    ck_assert_int_eq(weft_await(f), -31);
}

static weft_fiber ring[3];

static weft_value transfer_to_next(void *arg)
{
    weft_value v = weft_first_value();
    while (v >= 0 && v < 3000)
        v = weft_transfer(ring[((intptr_t)arg + 1) % 3], v + 1);
    return v == 3000 ? weft_schedule(weft_main(), v) : v;
}

TEST(three_fibers_transfer_in_a_ring)
{ /* P8 */
    for (int i = 0; i < 3; i++)
        ring[i] = weft_new(transfer_to_next, as_arg(i));
    ck_assert_int_eq(weft_transfer(ring[0], 0), 3000);
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 2);
}
