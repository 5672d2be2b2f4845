/* Tests of weft_start, which runs a fiber at once, and of weft_transfer, the symmetric switch. */
#include "support/suite.h"

static weft_value mark_twice(void *arg)
{
    mark(arg);
    weft_snooze();
    mark(arg);
    return 0;
}

TEST(start_runs_the_body_and_returns_at_its_first_switchpoint_or_its_end)
{ /* T5, T8 */
    ck_assert_int_eq(weft_schedule(weft_self(), 5), -EBUSY);
    weft_spin(mark_and_return, "b");
    weft_fiber f = weft_new(mark_twice, "a"), g = weft_new(mark_and_return, "c");
    ck_assert_trail("");
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_trail("a");
    ck_assert_int_eq(weft_start(g), 0);
    ck_assert_int_eq(weft_state_of(g), WEFT_DEAD);
    ck_assert_trail("ac");
    let_run();
    ck_assert_trail("acba");
}

static weft_value read_argument(void *arg)
{
    int *numbers = arg;
    int sum = numbers[0] + numbers[1];
    numbers[0] = 0;
    weft_suspend();
    return sum;
}

TEST(an_argument_on_the_stack_of_the_starter_can_be_read_until_start_returns)
{ /* T9 */
    int numbers[2] = {3, 4};
    weft_fiber f = weft_new(read_argument, numbers);
    ck_assert_int_eq(weft_start(f), 0);
    ck_assert_int_eq(numbers[0], 0);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 7);
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

TEST(a_transfer_runs_before_queued_fibers_and_to_self_returns_at_once)
{ /* P8 */
    weft_spin(mark_and_return, "queued");
    ck_assert_int_eq(weft_transfer(weft_self(), 5), 5);
    weft_fiber f = weft_new(transfer_double_back, id_arg(weft_self()));
    ck_assert_int_eq(weft_transfer(f, 1), 2);
    ck_assert_trail("");
    f = weft_new(suspend, NULL);
    ck_assert_int_eq(weft_transfer(f, 1), 0); /* no other fiber can run then */
    ck_assert_trail("queued");
    ck_assert_int_eq(weft_transfer(f, 2), 0);
    ck_assert_int_eq(weft_await(f), 2);
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
