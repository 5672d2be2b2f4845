/* Tests of the FPU environment: shared by the thread, or private to a fiber. */
#include "support/suite.h"

#include <fenv.h>

static weft_value round_up_and_wait(void *arg)
{
    ck_assert_int_eq(weft_own_fpu_env(true), 0);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    fesetround(FE_UPWARD);
    weft_value value;
    while ((value = weft_suspend()) == 1)
        ck_assert_int_eq(fegetround(), FE_UPWARD);
    return fegetround();
}

static weft_fiber spin_rounding_up(void)
{
    weft_fiber f = spin_waiting(round_up_and_wait, NULL);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    return f;
}

TEST(a_private_environment_survives_switches_and_is_invisible_to_others)
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

static weft_value round_down_and_schedule(void *arg)
{
    ck_assert_int_eq(weft_own_fpu_env(true), 0);
    fesetround(FE_DOWNWARD);
    weft_schedule(*(weft_fiber *)arg, 2);
    ck_assert_int_eq(weft_await(*(weft_fiber *)arg), FE_UPWARD);
    return fegetround();
}

TEST(two_fibers_with_private_environments_can_alternate)
{
    weft_fiber up = spin_rounding_up();
    weft_fiber down = weft_spin(round_down_and_schedule, &up);
    ck_assert_int_eq(weft_await(down), FE_DOWNWARD);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}

static weft_value round_up_temporarily(void *arg)
{
    weft_own_fpu_env(true);
    weft_own_fpu_env(true);
    fesetround(FE_UPWARD);
    if (arg != NULL)
        return fegetround(); /* the environment ends with the fiber */
    weft_own_fpu_env(false);
    int after = fegetround();
    weft_own_fpu_env(false);
    weft_snooze();
    return after;
}

TEST(giving_up_a_private_environment_or_ending_restores_the_one_of_the_thread)
{
    ck_assert_int_eq(weft_await(weft_spin(round_up_temporarily, NULL)), FE_TONEAREST);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
    ck_assert_int_eq(weft_await(weft_spin(round_up_temporarily, trail)), FE_UPWARD);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}

TEST(the_main_fiber_can_have_a_private_environment_too)
{
    ck_assert_int_eq(weft_own_fpu_env(true), 0);
    fesetround(FE_DOWNWARD);
    weft_fiber f = spin_waiting(round_up_and_wait, NULL);
    ck_assert_int_eq(fegetround(), FE_DOWNWARD);
    weft_schedule(f, 2);
    ck_assert_int_eq(weft_await(f), FE_UPWARD);
    ck_assert_int_eq(fegetround(), FE_DOWNWARD);
    ck_assert_int_eq(weft_own_fpu_env(false), 0);
    ck_assert_int_eq(fegetround(), FE_TONEAREST);
}
