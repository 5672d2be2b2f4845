/* Holding a fiber: parked it does not run, whatever happens to it. */
#include "support.h"

/* P14 */
START_TEST(a_parked_fiber_runs_only_when_it_is_unparked_and_then_with_its_value)
{
    weft_fiber f = weft_spin(suspend_and_mark, "f");
    weft_snooze();
    ck_assert_int_eq(weft_park(f), 0);
    ck_assert_int_eq(weft_schedule(f, 1), 0);
    ck_assert_int_eq(weft_schedule(f, 2), 0);
    let_run();
    weft_sleep(0.002);
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(f), 0);
    ck_assert_trail("");
    ck_assert_int_eq(weft_await(f), 2);
    ck_assert_trail("f");
}
END_TEST

/* P14 */
START_TEST(a_fiber_can_be_parked_while_it_is_runnable_and_before_it_ever_ran)
{
    weft_fiber f = weft_spin(mark_and_return, "f");
    weft_fiber g = weft_spin(suspend_and_mark, "g");
    ck_assert_int_eq(weft_park(f), 0);
    weft_snooze();
    weft_schedule(g, 3);
    ck_assert_int_eq(weft_park(g), 0);
    ck_assert_int_eq(weft_park(g), 0);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(g), 0);
    ck_assert_int_eq(weft_unpark(g), 0);
    ck_assert_int_eq(weft_unpark(f), 0);
    let_run();
    ck_assert_trail("gf");
    ck_assert_int_eq(weft_await(g), 3);
}
END_TEST

static weft_value sleep_and_mark(void *arg)
{
    weft_sleep(0.002);
    mark(arg);
    return 0;
}

/* P14 */
START_TEST(a_parked_sleeper_wakes_late_and_is_not_to_be_scheduled)
{
    weft_fiber f = weft_spin(sleep_and_mark, "f");
    weft_snooze();
    ck_assert_int_eq(weft_park(f), 0);
    ck_assert_int_eq(weft_schedule(f, 5), -EBUSY);
    weft_sleep(0.01);
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(f), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("f");
}
END_TEST

/* P14 */
START_TEST(a_parked_fiber_that_is_cancelled_ends_once_it_is_unparked)
{
    weft_fiber f = spin_suspended();
    weft_park(f);
    weft_cancel(f);
    let_run();
    ck_assert_int_ne(weft_state_of(f), WEFT_DEAD);
    weft_unpark(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
}
END_TEST

static weft_value park_starter(void *arg)
{
    ck_assert_int_eq(weft_park(arg_id(arg)), 0);
    mark("parked ");
    return 0;
}

static weft_value unpark_it(void *arg)
{
    mark("unparks ");
    return weft_unpark(arg_id(arg));
}

/* P14 */
START_TEST(a_fiber_that_is_parked_while_it_starts_another_is_held_too)
{
    weft_spin(unpark_it, id_arg(weft_self()));
    weft_fiber f = weft_new(park_starter, id_arg(weft_self()));
    ck_assert_int_eq(weft_start(f), 0);
    mark("back");
    weft_snooze();
    ck_assert_trail("parked unparks back");
}
END_TEST

/* P14 */
START_TEST(parking_oneself_or_what_is_gone_is_refused)
{
    weft_fiber f = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_park(weft_self()), -EINVAL);
    ck_assert_int_eq(weft_unpark(weft_self()), 0);
    weft_snooze();
    ck_assert_int_eq(weft_park(f), -ESRCH);
    ck_assert_int_eq(weft_unpark(f), -ESRCH);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_parked_fiber_runs_only_when_it_is_unparked_and_then_with_its_value,
    &a_fiber_can_be_parked_while_it_is_runnable_and_before_it_ever_ran,
    &a_parked_sleeper_wakes_late_and_is_not_to_be_scheduled,
    &a_parked_fiber_that_is_cancelled_ends_once_it_is_unparked,
    &a_fiber_that_is_parked_while_it_starts_another_is_held_too,
    &parking_oneself_or_what_is_gone_is_refused,
};

int main(void)
{
    return run_suite("park", tests, COUNT_OF(tests));
}
