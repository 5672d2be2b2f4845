/* Floating-point modes: the thread's, or a fiber's own. */
#include "support.h"

#include <fenv.h>

static weft_value round_up_and_wait(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_own_modes(true), 0);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    fesetround(FE_UPWARD);
    weft_value value;
    while ((value = weft_suspend()) == 1)
        ck_assert_int_eq(fegetround(), FE_UPWARD);
    return fegetround();
}

static weft_fiber spin_rounding_up(void)
{
    weft_fiber f = weft_spin(round_up_and_wait, NULL);
    let_run();
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    return f;
}

START_TEST(modes_of_its_own_are_kept_over_switches_and_unknown_to_others)
{
    weft_fiber f = spin_rounding_up();
    for (int i = 0; i < 3; i++) {
        weft_schedule(f, 1);
        let_run();
        ck_assert_int_eq(fegetround(), FE_TONEAREST);
    }
    weft_schedule(f, 2);
    ck_assert_int_eq(weft_await(f), FE_UPWARD);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}
END_TEST

static weft_value round_down_and_pass_on(void *arg)
{
    ck_assert_int_eq(weft_own_modes(true), 0);
    fesetround(FE_DOWNWARD);
    weft_schedule(*(weft_fiber *)arg, 2);
    ck_assert_int_eq(weft_await(*(weft_fiber *)arg), FE_UPWARD);
    return fegetround();
}

START_TEST(two_fibers_with_modes_of_their_own_can_follow_each_other)
{
    weft_fiber up = spin_rounding_up();
    weft_fiber down = weft_spin(round_down_and_pass_on, &up);
    ck_assert_int_eq(weft_await(down), FE_DOWNWARD);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}
END_TEST

static weft_value round_up_for_a_while(void *arg)
{
    (void)arg;
    weft_own_modes(true);
    weft_own_modes(true);
    fesetround(FE_UPWARD);
    weft_own_modes(false);
    int after = fegetround();
    weft_own_modes(false);
    weft_snooze();
    return after;
}

START_TEST(modes_given_back_are_those_of_the_thread_again)
{
    ck_assert_int_eq(weft_await(weft_spin(round_up_for_a_while, NULL)), FE_TONEAREST);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}
END_TEST

static weft_value end_at_once_rounding_up(void *arg)
{
    (void)arg;
    weft_own_modes(true);
    fesetround(FE_UPWARD);
    return 0;
}

START_TEST(modes_of_its_own_end_with_the_fiber)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_await(weft_spin(end_at_once_rounding_up, NULL)), 0);
        ck_assert_int_eq(fegetround(), FE_TONEAREST);
    }
}
END_TEST

START_TEST(the_main_fiber_can_have_modes_of_its_own_too)
{
    ck_assert_int_eq(weft_own_modes(true), 0);
    fesetround(FE_DOWNWARD);
    weft_fiber f = weft_spin(round_up_and_wait, NULL);
    let_run();
    ck_assert_int_eq(fegetround(), FE_DOWNWARD);
    weft_schedule(f, 2);
    ck_assert_int_eq(weft_await(f), FE_UPWARD);
    ck_assert_int_eq(fegetround(), FE_DOWNWARD);
    ck_assert_int_eq(weft_own_modes(false), 0);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &modes_of_its_own_are_kept_over_switches_and_unknown_to_others,
        &two_fibers_with_modes_of_their_own_can_follow_each_other,
        &modes_given_back_are_those_of_the_thread_again,
        &modes_of_its_own_end_with_the_fiber,
        &the_main_fiber_can_have_modes_of_its_own_too,
    };
    return run_suite("modes", tests, COUNT_OF(tests));
}
