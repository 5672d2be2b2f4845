/* Tests of time slices: how long a fiber may compute before it must switch. */
#include "support/suite.h"

/* Call weft_check_slice until the slice is used up. Return the time since the first call. */
static double use_up_slice(void)
{
    double begin = weft_now();
    int rc;
    while ((rc = weft_check_slice()) == 0)
        continue;
    ck_assert_int_eq(rc, -ETIME);
    return weft_now() - begin;
}

TEST(a_used_up_slice_is_reported_until_the_fiber_switches)
{ /* T100 */
    ck_assert_int_eq(weft_set_slice(0, 0.01), 0);
    ck_assert(use_up_slice() >= 0.01);
    ck_assert_int_eq(weft_check_slice(), -ETIME);
    weft_snooze();
    ck_assert_int_eq(weft_check_slice(), 0);
}

static double slice_of(weft_fiber f)
{
    return info_of(f).slice_s;
}

TEST(a_fiber_has_its_own_slice_or_the_current_default)
{ /* T100, T102 */
    weft_set_default_slice(0, 60);
    ck_assert(slice_of(weft_self()) == 60);
    weft_set_default_slice(0, 0.02); /* takes effect at once */
    ck_assert(use_up_slice() >= 0.02);
    weft_set_slice(0, 60);
    ck_assert_int_eq(weft_check_slice(), 0);
    weft_set_slice(0, 0.005);
    weft_snooze();
    ck_assert(use_up_slice() >= 0.005);
    weft_set_default_slice(0, 120);
    ck_assert_int_eq(weft_check_slice(), -ETIME);
    ck_assert(slice_of(weft_self()) == 0.005);
    weft_set_slice(0, 0); /* unlimited */
    ck_assert(isinf(slice_of(weft_self())));
    ck_assert_int_eq(weft_check_slice(), 0);
}

static weft_value use_up_own_slice(void *arg)
{
    weft_set_slice(0, 0.005);
    use_up_slice();
    weft_extend_slice(60);
    return (weft_value)arg;
}

FIBER(check_once, weft_check_slice())

TEST(a_slice_belongs_to_one_fiber_and_ends_with_it)
{ /* T100 */
    weft_set_default_slice(0, 30);
    weft_fiber first = weft_spin(use_up_own_slice, NULL), second = weft_spin(check_once, NULL);
    ck_assert_int_eq(weft_await(first), 0);
    ck_assert_int_eq(weft_await(second), 0);
    ck_assert_int_eq(weft_check_slice(), 0);
    weft_fiber next = weft_spin(check_once, NULL);
    ck_assert(slice_of(next) == 30);
    ck_assert_int_eq(weft_await(next), 0);
}

TEST(a_slice_can_be_extended_and_ends_with_the_next_switch)
{ /* T100 */
    weft_set_slice(0, 0.01);
    double begin = weft_now();
    ck_assert_int_eq(weft_extend_slice(0.02), 0);
    use_up_slice();
    ck_assert_slept(begin, 0.03);
    weft_snooze();
    begin = weft_now();
    use_up_slice();
    ck_assert_slept(begin, 0.01);
}

TEST(invalid_slices_are_refused_and_change_nothing)
{ /* T102 */
    weft_set_default_slice(0, 30);
    weft_set_slice(0, 20);
    ck_assert_int_eq(weft_set_slice(-1, 1), -EINVAL);
    ck_assert_int_eq(weft_set_slice(1, NAN), -EINVAL);
    ck_assert_int_eq(weft_set_default_slice(NAN, 1), -EINVAL);
    ck_assert_int_eq(weft_set_default_slice(1, -1), -EINVAL);
    ck_assert_int_eq(weft_extend_slice(-1), -EINVAL);
    ck_assert_int_eq(weft_extend_slice(NAN), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_check_slice(), 0);
    ck_assert(slice_of(weft_self()) == 20);
    weft_fiber f = weft_spin(return_arg, NULL);
    ck_assert(slice_of(f) == 30);
    weft_await(f);
}

static int warn_twice(void)
{
    weft_set_name(weft_self(), "slow");
    weft_set_slice(0.001, 0.002);
    use_up_slice();
    weft_check_slice();
    weft_snooze();
    use_up_slice();
    return 0;
}

TEST(a_long_slice_is_reported_once_with_the_fiber)
{ /* T101 */
    const outcome *o = run_apart(warn_twice);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "without a switch"), 2);
    ck_assert_uint_eq(count_in(o->text, "'slow' has run for 0."), 2);
}
