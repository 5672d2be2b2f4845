/* Throttles: when one may pass, in which order, and that nobody's time is lost. */
#include "support.h"

/* Times a second: slow enough that what a test prepares is there in time. */
#define RATE 20.0

static weft_throttle throttle;
static double passed[16];
static int passes;

static void open_throttle(void)
{
    ck_assert_int_eq(weft_throttle_open(&throttle, RATE), 0);
}

/* Waits, notes the time, and marks its argument. */
static weft_value pass(void *arg)
{
    int rc = weft_throttle_wait(&throttle);
    if (rc < 0)
        return rc;
    passed[passes++] = weft_now();
    mark(arg);
    return 0;
}

static weft_fiber spin_waiting(void *arg)
{
    weft_fiber f = weft_spin(pass, arg);
    weft_snooze();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static bool is_time_exact(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

/* At least so many intervals between these; exactly, where the clock is virtual. */
static void assert_apart(double from, double to, int intervals)
{
    ck_assert(to - from >= intervals / RATE - 1e-9);
    if (is_time_exact())
        ck_assert(to - from <= intervals / RATE + 1e-5);
}

START_TEST(a_throttle_must_be_open_and_have_a_rate)
{
    ck_assert_int_eq(weft_throttle_wait(&throttle), -EINVAL);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, 0), -EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, -1), -EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, NAN), -EINVAL);
    ck_assert_int_eq(weft_throttle_wait(&throttle), -EINVAL); /* as it was */
    ck_assert_int_eq(weft_throttle_open(&throttle, INFINITY), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
}
END_TEST

START_TEST(the_first_need_not_wait)
{
    open_throttle();
    weft_spin(mark_and_return, "switched");
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    ck_assert_trail("");
}
END_TEST

START_TEST(the_others_pass_at_the_rate_one_after_the_other)
{
    open_throttle();
    double begin = weft_now();
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(pass(""), 0);
    for (int i = 0; i < 5; i++)
        assert_apart(begin, passed[i], i);
}
END_TEST

START_TEST(those_who_wait_pass_in_the_order_in_which_they_came)
{
    open_throttle();
    double begin = weft_now();
    weft_spin(pass, "a");
    weft_spin(pass, "b");
    weft_spin(pass, "c");
    weft_spin(pass, "d");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcd");
    for (int i = 0; i < 4; i++)
        assert_apart(begin, passed[i], i);
}
END_TEST

/* Time goes by, and nobody looks at the timers. */
static void compute_for(double intervals)
{
    double until = weft_now() + intervals / RATE;
    while (weft_now() < until)
        continue;
}

START_TEST(who_comes_when_others_wait_does_not_pass_them)
{
    open_throttle();
    pass("0");
    spin_waiting("a");
    compute_for(3);
    pass("m");
    ck_assert_trail("0am");
}
END_TEST

START_TEST(a_pass_that_is_late_is_not_followed_by_a_bunch)
{
    open_throttle();
    pass("0");
    spin_waiting("a");
    spin_waiting("b");
    spin_waiting("c");
    compute_for(3.5);
    double late = weft_now();
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("0abc");
    assert_apart(late, passed[1], 0);
    assert_apart(late, passed[2], 1);
    assert_apart(late, passed[3], 2);
}
END_TEST

START_TEST(a_pass_that_is_a_little_late_delays_nobody)
{
    open_throttle();
    double begin = weft_now();
    pass("0");
    spin_waiting("a");
    spin_waiting("b");
    compute_for(1.5);
    ck_assert_int_eq(weft_await_children(), 0);
    assert_apart(begin, passed[2], 2);
}
END_TEST

START_TEST(who_gives_up_takes_nobodys_time)
{
    open_throttle();
    double begin = weft_now();
    pass("0");
    weft_fiber a = spin_waiting("a");
    weft_fiber b = spin_waiting("b");
    weft_fiber c = spin_waiting("c");
    weft_fiber d = spin_waiting("d");
    weft_cancel(a); /* the first, whose timer runs */
    weft_cancel(c);
    ck_assert_int_eq(weft_await(c), -ECANCELED);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_int_eq(weft_await(d), 0);
    ck_assert_trail("0bd");
    assert_apart(begin, passed[1], 1);
    assert_apart(begin, passed[2], 2);
}
END_TEST

START_TEST(when_all_give_up_the_next_who_comes_has_their_time)
{
    open_throttle();
    double begin = weft_now();
    pass("0");
    for (int i = 0; i < 3; i++)
        spin_waiting("x");
    ck_assert_int_eq(weft_terminate_children(1), 0);
    pass("m");
    assert_apart(begin, passed[1], 1);
    ck_assert_trail("0m");
}
END_TEST

START_TEST(a_wait_that_is_cut_short_has_not_passed)
{
    weft_throttle_open(&throttle, 0.001); /* once in a quarter of an hour */
    pass("0");
    weft_fiber a = spin_waiting("a");
    weft_fiber b = spin_waiting("b");
    weft_fiber c = spin_waiting("c");
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_interrupt(a, -EINTR), 0);
    ck_assert_int_eq(weft_await(a), -EINTR);
    ck_assert_int_eq(weft_raise(b, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(b), -EIO);
    ck_assert_words(-EIO, "raised");
    ck_assert_int_eq(weft_stop(c, 4), 0);
    ck_assert_int_eq(weft_await(c), 4);
    ck_assert_trail("0");
}
END_TEST

START_TEST(passes_that_were_missed_are_not_made_up_for_in_a_bunch)
{
    open_throttle();
    pass("0");
    weft_sleep(3.5 / RATE);
    double late = weft_now();
    for (int i = 1; i < 4; i++)
        pass("");
    for (int i = 1; i < 4; i++)
        assert_apart(late, passed[i], i - 1);
}
END_TEST

static weft_value sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(1000);
}

START_TEST(a_rate_of_hardly_ever_waits_for_ever)
{
    ck_assert_int_eq(weft_throttle_open(&throttle, 1e-300), 0);
    ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    spin_waiting("x");
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(sleep_long, NULL, &options);
    double begin = weft_now();
    ck_assert_int_eq(weft_suspend(), 0); /* nothing is left that could happen */
    ck_assert(weft_now() - begin < 1000);
    ck_assert_trail("");
}
END_TEST

START_TEST(main_suspends_until_all_have_passed_but_not_for_daemons)
{
    open_throttle();
    weft_spin(pass, "a");
    weft_spin(pass, "b");
    weft_spin(pass, "c");
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("abc");
    weft_throttle_open(&throttle, 0.001);
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(pass, "d", &options);
    weft_spin_with(pass, "e", &options);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("abcd");
}
END_TEST

static int end_while_others_wait(void)
{
    weft_throttle_open(&throttle, 0.001);
    for (int i = 0; i < 3; i++)
        weft_spin(pass, "x");
    weft_snooze();
    return 0;
}

static weft_value exit_now(void *arg)
{
    (void)arg;
    exit_here(3);
    return 0;
}

static int wait_while_a_child_exits(void)
{
    weft_throttle_open(&throttle, 0.001);
    pass("0");
    weft_spin(pass, "x");
    weft_spin(exit_now, NULL);
    return pass("m");
}

START_TEST(the_process_may_end_while_they_wait)
{
    ck_assert_quiet(run_apart(end_while_others_wait), 0);
    ck_assert_quiet(run_apart(wait_while_a_child_exits), 3);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_throttle_must_be_open_and_have_a_rate,
    &the_first_need_not_wait,
    &the_others_pass_at_the_rate_one_after_the_other,
    &those_who_wait_pass_in_the_order_in_which_they_came,
    &who_comes_when_others_wait_does_not_pass_them,
    &a_pass_that_is_late_is_not_followed_by_a_bunch,
    &a_pass_that_is_a_little_late_delays_nobody,
    &who_gives_up_takes_nobodys_time,
    &when_all_give_up_the_next_who_comes_has_their_time,
    &a_wait_that_is_cut_short_has_not_passed,
    &passes_that_were_missed_are_not_made_up_for_in_a_bunch,
    &a_rate_of_hardly_ever_waits_for_ever,
    &main_suspends_until_all_have_passed_but_not_for_daemons,
    &the_process_may_end_while_they_wait,
};

int main(void)
{
    return run_suite("throttle", tests, COUNT_OF(tests));
}
