/*
 * Tests of waiting for fibers: for one, for all, for the first of several, and waits that cannot
 * end.
 */
#include "support/suite.h"

static weft_value suspend_then_fail(void *arg)
{
    weft_value rc = weft_suspend();
    return rc == -ECANCELED ? rc : weft_fail((int)(intptr_t)arg, "broken");
}

static weft_value await_and_compare_message(void *arg)
{
    weft_value rc = weft_await(arg_id(arg));
    ck_assert_error((int)rc, "broken");
    ck_assert_uint_eq(weft_error()->fiber, arg_id(arg));
    ck_assert_str_eq(weft_error()->fiber_name, "source");
    return -rc;
}

TEST(all_awaiting_fibers_get_the_same_value_or_the_same_error_with_its_message)
{ /* P34, T25 */
    weft_fiber f = spin_suspended(), waiters[5];
    for (int i = 0; i < 5; i++)
        waiters[i] = weft_spin(await_fiber, id_arg(f));
    let_run();
    weft_schedule(f, 42);
    ck_assert_int_eq(weft_await(f), 42);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(weft_await(waiters[i]), 42);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    f = weft_spin_with(suspend_then_fail, as_arg(-EIO), &(weft_spin_options){.name = "source"});
    for (int i = 0; i < 3; i++)
        waiters[i] = weft_spin(await_and_compare_message, id_arg(f));
    let_run();
    weft_schedule(f, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(waiters[i]), EIO);
    /* Another fiber awaited it, so the parent does not get the error. */
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(awaiting_an_ended_fiber_returns_its_value_at_once_and_only_once)
{ /* P34 */
    weft_fiber f = weft_spin(return_arg, as_arg(7));
    weft_snooze();
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_trail("");
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

TEST(a_successful_await_leaves_the_last_error_of_the_caller_alone)
{ /* T25 */
    weft_fail(-EPIPE, "before");
    ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(1))), 1);
    ck_assert_error(-EPIPE, "before");
    /* An error without a message gets one. */
    ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(-EXDEV))), -EXDEV);
    ck_assert_any_error(-EXDEV);
}

static weft_value fail_and_recover(void *arg)
{
    weft_await(weft_spin(fail_with, arg));
    weft_fail(-EPIPE, "dealt with");
    return 5;
}

TEST(an_error_that_a_fiber_handled_does_not_reach_its_awaiter)
{ /* T26 */
    ck_assert_int_eq(weft_await(weft_spin(fail_and_recover, as_arg(-EIO))), 5);
    ck_assert_ptr_null(weft_error());
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value await_ancestors(void *arg)
{
    weft_fiber refused[] = {weft_parent(weft_self()), weft_main(), weft_self()};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        ck_assert_int_eq(weft_await(refused[i]), -EDEADLK);
        ck_assert_int_eq(weft_await_all(&refused[i], 1, NULL), -EDEADLK);
        ck_assert_int_eq(weft_await_any(&refused[i], 1, NULL), -EDEADLK);
        ck_assert_int_eq(weft_select_fibers(&refused[i], 1, NULL), -EDEADLK);
        ck_assert_int_eq(weft_terminate(refused[i], 1), -EDEADLK);
    }
    return (weft_value)arg;
}

FIBER(spin_and_await, weft_await(weft_spin(await_ancestors, arg)))

TEST(awaiting_self_or_an_ancestor_is_refused)
{ /* P40, T30 */
    ck_assert_int_eq(weft_await(weft_spin(spin_and_await, as_arg(3))), 3);
}

TEST(an_awaiter_that_is_stopped_or_times_out_leaves_the_fiber_running_and_awaitable)
{ /* P36, T32, T33, T34 */
    weft_fiber f = spin_suspended();
    ck_assert_int_eq(cancel_and_await(spin_waiting(await_fiber, id_arg(f))), -ECANCELED);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    int rc;
    ck_assert_times_out(0.001, ck_assert_int_eq(weft_await(f), -ECANCELED));
    weft_schedule(f, 5);
    WEFT_CANCEL_AFTER(10, rc)
        ck_assert_int_eq(weft_await(f), 5);
    ck_assert_int_eq(rc, 0);
}

TEST(an_awaiting_fiber_wakes_when_the_awaited_one_is_stopped_and_not_when_scheduled)
{ /* T34, P25 */
    weft_fiber f = spin_suspended();
    weft_fiber waiter = spin_waiting(await_fiber, id_arg(f));
    ck_assert_int_eq(weft_schedule(waiter, 1), -EBUSY);
    ck_assert_int_eq(weft_transfer(waiter, 1), -EBUSY);
    let_run();
    ck_assert_int_eq(weft_state_of(waiter), WEFT_WAITING);
    ck_assert_int_eq(weft_stop(f, 9), 0);
    ck_assert_int_eq(weft_await(waiter), 9);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
}

TEST(cancelling_an_ended_fiber_does_not_change_its_value_or_error)
{ /* T28 */
    weft_fiber f = weft_spin(return_arg, as_arg(3));
    weft_fiber g = weft_spin(fail_with, as_arg(-EIO));
    weft_snooze();
    ck_assert_int_eq(weft_cancel(f), -ESRCH);
    ck_assert_int_eq(weft_cancel(g), -ESRCH);
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_int_eq(weft_await(g), -EIO);
    ck_assert_error(-EIO, "broken");
}

static weft_value snooze_then_return(void *arg)
{
    intptr_t n = (intptr_t)arg;
    for (intptr_t i = 10 - n; i > 0; i--)
        weft_snooze();
    return n;
}

TEST(await_all_returns_the_values_in_the_order_of_the_arguments)
{ /* P35 */
    weft_fiber f[5];
    for (int i = 0; i < 5; i++)
        f[i] = weft_spin(snooze_then_return, as_arg(i));
    weft_await(weft_spin(snooze_then_return, as_arg(4))); /* the last fiber has ended by now */
    weft_value out[5];
    ck_assert_int_eq(weft_await_all(f, 5, out), 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(out[i], i);
        ck_assert_int_eq(weft_await(f[i]), -ESRCH);
    }
    ck_assert_int_eq(weft_await_all(NULL, 0, NULL), 0);
}

static void clean_up_slowly(void *arg)
{
    WEFT_SHIELD(10)
        weft_sleep(0.002);
    mark(arg);
}

FIBER_DO(suspend_with_slow_end, weft_defer(clean_up_slowly, arg), weft_suspend())

TEST(await_all_stops_the_others_and_waits_for_them_when_one_fails)
{ /* P35 */
    weft_fiber f[3] = {weft_spin(suspend_with_slow_end, "a"),
                       weft_spin(suspend_then_fail, as_arg(-EIO)),
                       weft_spin(suspend_with_slow_end, "c")};
    let_run();
    weft_schedule(f[1], 0);
    weft_value out[3] = {77, 77, 77};
    ck_assert_int_eq(weft_await_all(f, 3, out), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_trail("ac");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(f[i]), -ESRCH);
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value await_all_of_two(void *arg)
{
    weft_value out[2] = {99, 99};
    int rc = weft_await_all(arg, 2, out);
    return out[0] == 99 && out[1] == 99 ? rc : -ENOTSUP;
}

TEST(await_all_stops_and_joins_them_when_the_caller_is_cancelled_or_interrupted)
{ /* P35, P64 */
    for (int i = 0; i < 2; i++) {
        weft_fiber f[2] = {weft_spin(suspend_with_slow_end, "a"),
                           weft_spin(suspend_with_slow_end, "b")};
        weft_fiber waiter = spin_waiting(await_all_of_two, f);
        ck_assert_int_eq(i == 0 ? weft_cancel(waiter) : weft_interrupt(waiter, -EINTR), 0);
        ck_assert_int_eq(weft_await(waiter), i == 0 ? -ECANCELED : -EINTR);
        ck_take_trail("ab");
        ck_assert_int_eq(weft_state_of(f[0]), WEFT_DEAD);
        ck_assert_int_eq(weft_state_of(f[1]), WEFT_DEAD);
    }
}

TEST(await_all_with_an_unknown_id_changes_nothing)
{ /* P35 */
    weft_fiber gone = weft_spin(return_arg, NULL);
    weft_await(gone);
    weft_fiber f[2] = {spin_suspended(), gone};
    ck_assert_int_eq(weft_await_all(f, 2, NULL), -ESRCH);
    ck_assert_int_eq(weft_state_of(f[0]), WEFT_WAITING);
    ck_assert_int_eq(weft_await_any(f, 2, NULL), -ESRCH);
    ck_assert_int_eq(weft_select_fibers(f, 2, NULL), -ESRCH);
    weft_schedule(f[0], 1);
    ck_assert_int_eq(weft_await(f[0]), 1);
}

TEST(await_any_returns_the_first_to_end_and_leaves_the_others_alone)
{ /* P37 */
    weft_fiber f[3] = {spin_suspended(), spin_suspended(), spin_suspended()};
    weft_value out;
    weft_schedule(f[1], 11);
    ck_assert_int_eq(weft_await_any(f, 3, &out), 1);
    ck_assert_int_eq(out, 11);
    ck_assert_int_eq(weft_await(f[1]), -ESRCH);
    weft_schedule(f[2], 22);
    weft_schedule(f[0], 33);
    ck_assert_int_eq(weft_await(f[0]), 33);
    ck_assert_int_eq(weft_await(f[2]), 22);
}

TEST(among_ended_fibers_the_lowest_index_is_the_first_and_an_error_is_a_value)
{ /* P37 */
    weft_fiber f[3] = {spin_suspended(), weft_spin(fail_with, as_arg(-EIO)),
                       weft_spin(return_arg, as_arg(2))};
    weft_snooze();
    weft_value out;
    ck_assert_int_eq(weft_await_any(f, 3, &out), 1);
    ck_assert_int_eq(out, -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_await(f[2]), 2);
    ck_assert_int_eq(weft_stop(f[0], 5), 0);
    ck_assert_int_eq(weft_await_any(f, 1, &out), 0);
    ck_assert_int_eq(out, 5);
}

static weft_value await_any_of_two(void *arg)
{
    weft_value out = 99;
    int rc = weft_await_any(arg, 2, &out);
    return out == 99 ? rc : -ENOTSUP;
}

TEST(an_interrupted_await_any_leaves_all_fibers_alone)
{ /* P37, P36, P64 */
    weft_fiber f[2] = {spin_suspended(), spin_suspended()};
    weft_fiber waiter = spin_waiting(await_any_of_two, f);
    ck_assert_int_eq(cancel_and_await(waiter), -ECANCELED);
    waiter = spin_waiting(await_any_of_two, f);
    ck_assert_int_eq(weft_interrupt(waiter, -17), 0);
    ck_assert_int_eq(weft_await(waiter), -17);
    weft_schedule(f[0], 1);
    weft_schedule(f[1], 2);
    ck_assert_int_eq(weft_await(f[0]), 1);
    ck_assert_int_eq(weft_await(f[1]), 2);
}

TEST(select_fibers_stops_the_losers_and_waits_for_them)
{ /* P37 */
    weft_fiber f[3] = {weft_spin(suspend_with_slow_end, "a"), spin_suspended(),
                       weft_spin(suspend_with_slow_end, "c")};
    let_run();
    weft_schedule(f[1], 4);
    weft_value out;
    ck_assert_int_eq(weft_select_fibers(f, 3, &out), 1);
    ck_assert_int_eq(out, 4);
    ck_assert_trail("ac");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(f[i]), -ESRCH);
}

TEST(a_fiber_listed_twice_counts_twice)
{ /* P34, P37 */
    weft_fiber f = spin_suspended();
    weft_value out[2];
    weft_schedule(f, 6);
    ck_assert_int_eq(weft_await_all((weft_fiber[]){f, f}, 2, out), 0);
    ck_assert_int_eq(out[0], 6);
    ck_assert_int_eq(out[1], 6);
    f = spin_suspended();
    weft_schedule(f, 7);
    ck_assert_int_eq(weft_select_fibers((weft_fiber[]){f, f}, 2, out), 0);
    ck_assert_int_eq(out[0], 7);
}

static weft_fiber mutual[2];

FIBER(await_each_other, weft_await(mutual[(intptr_t)arg]))

static void spin_cycle(void)
{
    for (int i = 0; i < 2; i++)
        mutual[i] = weft_spin_with(await_each_other, as_arg(1 - i),
                                   &(weft_spin_options){.name = i == 0 ? "hen" : "egg"});
}

TEST_PROGRAM_PRINTS(fibers_that_await_each_other_are_reported_as_a_deadlock, 7, "deadlock", "hen",
                    "egg")
{ /* P80, P40 */
    spin_cycle();
    return weft_await(mutual[0]) == -EDEADLK ? 7 : 1;
}

TEST_PROGRAM(a_cycle_of_awaiting_fibers_ends_with_main, 7, "")
{ /* P80, P8 */
    spin_cycle();
    return weft_suspend() == 0 ? 7 : 1;
}

TEST_PROGRAM(the_process_may_end_while_fibers_await_each_other, 0, "")
{ /* T35 */
    weft_fiber f = weft_spin(sleep_forever, NULL);
    weft_fiber waiter = weft_spin(await_fiber, id_arg(f));
    weft_spin_with(await_fiber, id_arg(waiter), &(weft_spin_options){.parent = f});
    weft_snooze();
    return 0;
}
