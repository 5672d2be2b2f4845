/* Tests of parking: a parked fiber does not run, even if it is scheduled or cancelled. */
#include "support/suite.h"

TEST(a_parked_fiber_runs_with_its_value_once_unparked)
{ /* P14 */
    weft_fiber f = spin_waiting(suspend_and_mark, "f");
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

FIBER_DO(park_starter, ck_assert_int_eq(weft_park(arg_id(arg)), 0), mark("parked "), 0)
FIBER_DO(unpark_fiber, mark("unparks "), weft_unpark(arg_id(arg)))

TEST(a_fiber_can_be_parked_while_it_starts_another)
{ /* P14 */
    weft_spin(unpark_fiber, id_arg(weft_self()));
    weft_fiber f = weft_new(park_starter, id_arg(weft_self()));
    ck_assert_int_eq(weft_start(f), 0);
    mark("back");
    weft_snooze();
    ck_assert_trail("parked unparks back");
}

TEST(parking_self_or_an_ended_fiber_is_refused)
{ /* P14 */
    weft_fiber f = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_park(weft_self()), -EINVAL);
    ck_assert_int_eq(weft_unpark(weft_self()), 0);
    weft_snooze();
    ck_assert_int_eq(weft_park(f), -ESRCH);
    ck_assert_int_eq(weft_unpark(f), -ESRCH);
}
