/* Throttles: the times and the order of passes, and waiters that give up. */
#include "support/suite.h"

/* Passes per second. Low enough for a test to prepare its waiters within one interval. */
#define RATE 20.0

static weft_throttle throttle;
static double passed[16];
static int passes;

static void open_throttle(void)
{
    ck_assert_int_eq(weft_throttle_open(&throttle, RATE), 0);
}

/* Wait, record the time, and mark arg. */
static weft_value pass_throttle(void *arg)
{
    int rc = weft_throttle_wait(&throttle);
    if (rc < 0)
        return rc;
    passed[passes++] = weft_now();
    mark(arg);
    return 0;
}

static weft_fiber spin_throttle_waiter(void *arg)
{
    weft_fiber f = weft_spin(pass_throttle, arg);
    weft_snooze();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* Assert at least this many intervals between two times, and exactly as many in virtual time. */
static void assert_apart(double from, double to, int intervals)
{
    ck_assert(to - from >= intervals / RATE - 1e-9);
    if (is_sim())
        ck_assert(to - from <= intervals / RATE + 1e-5);
}

TEST(a_throttle_must_be_open_and_have_a_rate)
{
    ck_assert_int_eq(weft_throttle_wait(&throttle), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, 0), -EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, -1), -EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, NAN), -EINVAL);
    ck_assert_int_eq(weft_throttle_wait(&throttle), -EINVAL); /* still not open */
    ck_assert_int_eq(weft_throttle_open(&throttle, INFINITY), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
}

TEST(the_first_pass_does_not_wait)
{
    open_throttle();
    weft_spin(mark_and_return, "switched");
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    ck_assert_trail("");
}

TEST(further_passes_happen_at_the_rate)
{
    open_throttle();
    double begin = weft_now();
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(pass_throttle(""), 0);
    for (int i = 0; i < 5; i++)
        assert_apart(begin, passed[i], i);
}

TEST(waiters_pass_in_fifo_order)
{
    open_throttle();
    double begin = weft_now();
    weft_spin(pass_throttle, "a");
    weft_spin(pass_throttle, "b");
    weft_spin(pass_throttle, "c");
    weft_spin(pass_throttle, "d");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcd");
    for (int i = 0; i < 4; i++)
        assert_apart(begin, passed[i], i);
}

/* Use time without handling timers. */
static void compute_for(double intervals)
{
    double until = weft_now() + intervals / RATE;
    while (weft_now() < until)
        continue;
}

TEST(a_new_fiber_does_not_pass_ahead_of_waiters)
{
    open_throttle();
    pass_throttle("0");
    spin_throttle_waiter("a");
    compute_for(3);
    pass_throttle("m");
    ck_assert_trail("0am");
}

TEST(a_late_pass_is_not_followed_by_a_burst)
{
    open_throttle();
    pass_throttle("0");
    spin_throttle_waiter("a");
    spin_throttle_waiter("b");
    spin_throttle_waiter("c");
    compute_for(3.5);
    double late = weft_now();
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("0abc");
    assert_apart(late, passed[1], 0);
    assert_apart(late, passed[2], 1);
    assert_apart(late, passed[3], 2);
}

TEST(a_slightly_late_pass_does_not_delay_later_passes)
{
    open_throttle();
    double begin = weft_now();
    pass_throttle("0");
    spin_throttle_waiter("a");
    spin_throttle_waiter("b");
    compute_for(1.5);
    ck_assert_int_eq(weft_await_children(), 0);
    assert_apart(begin, passed[2], 2);
}

TEST(a_cancelled_waiter_does_not_use_up_a_pass)
{
    open_throttle();
    double begin = weft_now();
    pass_throttle("0");
    weft_fiber a = spin_throttle_waiter("a");
    weft_fiber b = spin_throttle_waiter("b");
    weft_fiber c = spin_throttle_waiter("c");
    weft_fiber d = spin_throttle_waiter("d");
    weft_cancel(a); /* the first waiter, which has the timer */
    weft_cancel(c);
    ck_assert_int_eq(weft_await(c), -ECANCELED);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_int_eq(weft_await(d), 0);
    ck_assert_trail("0bd");
    assert_apart(begin, passed[1], 1);
    assert_apart(begin, passed[2], 2);
}

TEST(when_all_waiters_are_terminated_the_next_fiber_gets_their_pass)
{
    open_throttle();
    double begin = weft_now();
    pass_throttle("0");
    for (int i = 0; i < 3; i++)
        spin_throttle_waiter("x");
    ck_assert_int_eq(weft_terminate_children(1), 0);
    pass_throttle("m");
    assert_apart(begin, passed[1], 1);
    ck_assert_trail("0m");
}

TEST(an_interrupted_wait_does_not_pass)
{
    weft_throttle_open(&throttle, 0.001); /* one pass in a quarter of an hour */
    pass_throttle("0");
    weft_fiber a = spin_throttle_waiter("a");
    weft_fiber b = spin_throttle_waiter("b");
    weft_fiber c = spin_throttle_waiter("c");
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_interrupt(a, -EINTR), 0);
    ck_assert_int_eq(weft_await(a), -EINTR);
    ck_assert_int_eq(weft_raise(b, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(b), -EIO);
    ck_assert_error(-EIO, "raised");
    ck_assert_int_eq(weft_stop(c, 4), 0);
    ck_assert_int_eq(weft_await(c), 4);
    ck_assert_trail("0");
}

TEST(missed_passes_are_not_made_up_for_in_a_burst)
{
    open_throttle();
    pass_throttle("0");
    weft_sleep(3.5 / RATE);
    double late = weft_now();
    for (int i = 1; i < 4; i++)
        pass_throttle("");
    for (int i = 1; i < 4; i++)
        assert_apart(late, passed[i], i - 1);
}

static weft_value sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(1000);
}

TEST(an_extremely_low_rate_waits_forever)
{
    ck_assert_int_eq(weft_throttle_open(&throttle, 1e-300), 0);
    ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    spin_throttle_waiter("x");
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(sleep_long, NULL, &options);
    double begin = weft_now();
    ck_assert_int_eq(weft_suspend(), 0); /* no further event can happen */
    ck_assert(weft_now() - begin < 1000);
    ck_assert_trail("");
}

TEST(main_suspends_until_all_have_passed_but_not_for_daemons)
{
    open_throttle();
    weft_spin(pass_throttle, "a");
    weft_spin(pass_throttle, "b");
    weft_spin(pass_throttle, "c");
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("abc");
    weft_throttle_open(&throttle, 0.001);
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(pass_throttle, "d", &options);
    weft_spin_with(pass_throttle, "e", &options);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("abcd");
}

static int end_while_others_wait(void)
{
    weft_throttle_open(&throttle, 0.001);
    for (int i = 0; i < 3; i++)
        weft_spin(pass_throttle, "x");
    weft_snooze();
    return 0;
}

static weft_value exit_now(void *arg)
{
    (void)arg;
    exit_here(3);
    return 0;
}

static int pass_while_a_child_exits(void)
{
    weft_throttle_open(&throttle, 0.001);
    pass_throttle("0");
    weft_spin(pass_throttle, "x");
    weft_spin(exit_now, NULL);
    return pass_throttle("m");
}

TEST(the_process_may_end_while_fibers_wait_for_a_throttle)
{
    ck_assert_quiet(run_apart(end_while_others_wait), 0);
    ck_assert_quiet(run_apart(pass_while_a_child_exits), 3);
}

static void open_burst(double rate, size_t burst)
{
    weft_throttle_options options = {.burst = burst};
    ck_assert_int_eq(weft_throttle_open_with(&throttle, rate, &options), 0);
}

/* Return the number of calls that pass without waiting. */
static int passes_now(void)
{
    int n = 0;
    WEFT_MOVE_ON_AFTER(0) {
        while (weft_throttle_wait(&throttle) == 0)
            n++;
    }
    return n;
}

TEST(without_a_burst_one_call_passes_at_once)
{
    ck_assert_int_eq(weft_throttle_open_with(&throttle, 0.001, NULL), 0);
    ck_assert_int_eq(passes_now(), 1);
    open_burst(0.001, 0);
    ck_assert_int_eq(passes_now(), 1);
    open_burst(0.001, 1);
    ck_assert_int_eq(passes_now(), 1);
}

TEST(a_burst_passes_at_once_and_never_more)
{
    open_burst(0.001, 5);
    ck_assert_int_eq(passes_now(), 5);
    ck_assert_int_eq(passes_now(), 0);
}

TEST(a_burst_is_available_again_after_an_idle_time)
{
    open_burst(1000, 4);
    for (int idle = 4; idle <= 64; idle *= 4) {
        passes_now();
        weft_sleep(idle * 0.001 + 1e-6);
        int n = passes_now();
        ck_assert_int_ge(n, 4);
        if (is_sim())
            ck_assert_int_eq(n, 4);
    }
}

TEST(a_short_idle_time_adds_one_token_per_interval)
{
    if (!is_sim()) /* other clocks may be late at any time */
        return;
    open_burst(1000, 4);
    ck_assert_int_eq(passes_now(), 4);
    weft_sleep(0.0025);
    ck_assert_int_eq(passes_now(), 2);
    weft_sleep(0.0006); /* the half interval has counted */
    ck_assert_int_eq(passes_now(), 1);
}

TEST(after_a_burst_passes_happen_at_the_rate)
{
    open_burst(RATE, 3);
    double begin = weft_now();
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(pass_throttle(""), 0);
    for (int i = 0; i < 10; i++)
        assert_apart(begin, passed[i], i < 3 ? 0 : i - 2);
}

TEST(the_long_run_rate_is_exact)
{
    enum { PASSES = 1000, BURST = 7 };
    open_burst(10000, BURST);
    double begin = weft_now();
    for (int i = 0; i < PASSES; i++)
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
    double took = weft_now() - begin, expected = (PASSES - BURST) / 10000.0;
    ck_assert_double_ge(took, expected - 1e-9);
    if (is_sim())
        ck_assert_double_le(took, expected + 1e-4);
}

TEST(waiters_pass_in_fifo_order_after_a_burst)
{
    open_burst(RATE, 2);
    double begin = weft_now();
    static char *const names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++)
        weft_spin(pass_throttle, names[i]);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcde");
    for (int i = 0; i < 5; i++)
        assert_apart(begin, passed[i], i < 2 ? 0 : i - 1);
}

/* Let `count` fibers wait for an empty bucket, and handle no timers for some intervals. */
static double wait_late(int count, double intervals)
{
    open_burst(RATE, 3);
    double begin = weft_now();
    for (int i = 0; i < 3; i++)
        pass_throttle("0");
    for (int i = 0; i < count; i++)
        spin_throttle_waiter("x");
    compute_for(intervals);
    ck_assert_int_eq(weft_await_children(), 0);
    return begin;
}

TEST(late_tokens_let_several_waiters_pass_and_keep_the_rate)
{
    double begin = wait_late(5, 2.5);
    for (int i = 3; i < 8; i++)
        ck_assert_double_ge(passed[i] - begin, (i - 2) / RATE - 1e-9);
    if (!is_sim())
        return;
    assert_apart(passed[3], passed[4], 0); /* two tokens had arrived */
    assert_apart(begin, passed[5], 3);     /* the others keep their times */
    assert_apart(begin, passed[6], 4);
    assert_apart(begin, passed[7], 5);
}

TEST(after_a_long_delay_not_more_than_a_burst_passes)
{
    wait_late(5, 20.5);
    if (!is_sim())
        return;
    assert_apart(passed[3], passed[5], 0); /* a burst of 3 */
    assert_apart(passed[3], passed[6], 1);
    assert_apart(passed[3], passed[7], 2);
}

TEST(a_cancelled_waiter_takes_no_token)
{
    open_burst(RATE, 2);
    double begin = weft_now();
    pass_throttle("0");
    pass_throttle("1");
    weft_fiber a = spin_throttle_waiter("a");
    weft_fiber b = spin_throttle_waiter("b");
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_trail("01b");
    assert_apart(begin, passed[2], 1);
}

TEST(a_burst_beyond_32_bits_is_refused)
{
    weft_throttle_options options = {.burst = UINT32_MAX};
    ck_assert_int_eq(weft_throttle_open_with(&throttle, 1, &options), 0);
    ck_assert_int_eq(weft_throttle_open_with(&throttle, 0, &options), -EINVAL);
    if (sizeof(size_t) > 4) {
        options.burst += 1;
        ck_assert_int_eq(weft_throttle_open_with(&throttle, 1, &options), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
}
