/* Throttles: the times and the order of passes, and waiters that give up. */
#include "support/suite.h"

/* Passes per second. Low enough for a test to prepare its waiters within one interval. */
#define RATE 20.0
#define SLOW 0.001 /* one pass in a quarter of an hour */

static weft_throttle throttle;
static double begin, passed[16];
static int passes;

static void open_burst(double rate, size_t burst)
{
    weft_throttle_options options = {.burst = burst};
    ck_assert_int_eq(weft_throttle_open_with(&throttle, rate, &options), 0);
    begin = weft_now();
}

static void open_throttle(double rate)
{
    ck_assert_int_eq(weft_throttle_open(&throttle, rate), 0);
    begin = weft_now();
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

/* Spin a fiber for each letter. */
static void spin_all(const char *letters)
{
    static char names[8][2];
    for (size_t i = 0; letters[i] != '\0'; i++) {
        names[i][0] = letters[i];
        weft_spin(pass_throttle, names[i]);
    }
}

/* Assert at least this many intervals between two times, and exactly as many in virtual time. */
static void assert_apart(double from, double to, int intervals)
{
    ck_assert(to - from >= intervals / RATE - 1e-9);
    if (is_sim())
        ck_assert(to - from <= intervals / RATE + 1e-5);
}

/* Assert the intervals from a time to each pass, from pass number `first` on. */
#define assert_passes(from, first, ...)                                                \
    do {                                                                               \
        const int own_intervals[] = {__VA_ARGS__};                                     \
        ck_assert_int_eq(passes, (int)COUNT_OF(own_intervals) + (first));              \
        for (size_t own_i = 0; own_i < COUNT_OF(own_intervals); own_i++)               \
            assert_apart(from, passed[(size_t)(first) + own_i], own_intervals[own_i]); \
    } while (0)

TEST(a_throttle_must_be_open_and_have_a_rate)
{
    ck_assert_int_eq(weft_throttle_wait(&throttle), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, 0), -EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, -1), -EINVAL);
    ck_assert_int_eq(weft_throttle_open(&throttle, NAN), -EINVAL);
    ck_assert_int_eq(weft_throttle_wait(&throttle), -EINVAL); /* still not open */
    open_throttle(INFINITY);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
}

TEST(the_first_pass_does_not_wait)
{
    open_throttle(RATE);
    weft_spin(mark_and_return, "switched");
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    ck_assert_trail("");
}

TEST(waiters_pass_in_fifo_order_at_the_rate)
{
    open_throttle(RATE);
    spin_all("abcd");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcd");
    assert_passes(begin, 0, 0, 1, 2, 3);
}

TEST(one_fiber_passes_at_the_rate_after_a_burst)
{
    open_burst(RATE, 3);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pass_throttle(""), 0);
    assert_passes(begin, 0, 0, 0, 0, 1, 2, 3);
}

TEST(waiters_pass_in_fifo_order_after_a_burst)
{
    open_burst(RATE, 2);
    spin_all("abcde");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcde");
    assert_passes(begin, 0, 0, 0, 1, 2, 3);
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
    open_throttle(RATE);
    pass_throttle("0");
    spin_throttle_waiter("a");
    compute_for(3);
    pass_throttle("m");
    ck_assert_trail("0am");
}

TEST(a_late_pass_is_not_followed_by_a_burst)
{
    open_throttle(RATE);
    pass_throttle("0");
    spin_all("abc");
    weft_snooze();
    compute_for(3.5);
    double late = weft_now();
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("0abc");
    assert_passes(late, 1, 0, 1, 2);
}

TEST(a_slightly_late_pass_does_not_delay_later_passes)
{
    open_throttle(RATE);
    pass_throttle("0");
    spin_all("ab");
    weft_snooze();
    compute_for(1.5);
    ck_assert_int_eq(weft_await_children(), 0);
    assert_apart(begin, passed[2], 2);
}

TEST_LOOP(a_cancelled_waiter_does_not_use_up_a_pass, 2)
{
    open_burst(RATE, (size_t)_i + 1);
    for (int i = 0; i <= _i; i++)
        pass_throttle("0");
    weft_fiber a = spin_throttle_waiter("a"), b = spin_throttle_waiter("b");
    weft_fiber c = spin_throttle_waiter("c"), d = spin_throttle_waiter("d");
    weft_cancel(a); /* the first waiter, which has the timer */
    ck_assert_int_eq(cancel_and_await(c), -ECANCELED);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_int_eq(weft_await(d), 0);
    ck_assert_trail(_i == 0 ? "0bd" : "00bd");
    assert_passes(begin, _i + 1, 1, 2);
}

TEST(when_all_waiters_are_terminated_the_next_fiber_gets_their_pass)
{
    open_throttle(RATE);
    pass_throttle("0");
    spin_all("xxx");
    weft_snooze();
    ck_assert_int_eq(weft_terminate_children(1), 0);
    pass_throttle("m");
    assert_passes(begin, 1, 1);
    ck_assert_trail("0m");
}

TEST(an_interrupted_wait_does_not_pass)
{
    open_throttle(SLOW);
    pass_throttle("0");
    weft_fiber a = spin_throttle_waiter("a"), b = spin_throttle_waiter("b");
    weft_fiber c = spin_throttle_waiter("c");
    ck_assert_times_out(0.001, ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED));
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
    open_throttle(RATE);
    pass_throttle("0");
    weft_sleep(3.5 / RATE);
    double late = weft_now();
    for (int i = 0; i < 3; i++)
        pass_throttle("");
    assert_passes(late, 1, 0, 1, 2);
}

FIBER(sleep_long, weft_sleep(1000))

TEST(an_extremely_low_rate_waits_forever)
{
    open_throttle(1e-300);
    ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(weft_throttle_wait(&throttle), -ECANCELED);
    }
    spin_throttle_waiter("x");
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(sleep_long, NULL, &options);
    double before = weft_now();
    ck_assert_int_eq(weft_suspend(), 0); /* no further event can happen */
    ck_assert(weft_now() - before < 1000);
    ck_assert_trail("");
}

TEST(main_suspends_until_all_have_passed_but_not_for_daemons)
{
    open_throttle(RATE);
    spin_all("abc");
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("abc");
    open_throttle(SLOW);
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(pass_throttle, "d", &options);
    weft_spin_with(pass_throttle, "e", &options);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("abcd");
}

TEST_PROGRAM(the_process_may_end_while_fibers_wait_for_a_throttle, 0, "")
{
    open_throttle(SLOW);
    spin_all("xxx");
    weft_snooze();
    return 0;
}

TEST_PROGRAM(the_process_may_end_while_main_waits_for_a_throttle, 3, "")
{
    open_throttle(SLOW);
    pass_throttle("0");
    spin_all("x");
    weft_spin(exit_with, as_arg(3));
    return (int)pass_throttle("m");
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

TEST(a_burst_passes_at_once_and_never_more)
{
    static const size_t bursts[][2] = {{0, 1}, {1, 1}, {5, 5}};
    ck_assert_int_eq(weft_throttle_open_with(&throttle, SLOW, NULL), 0);
    ck_assert_int_eq(passes_now(), 1);
    for (size_t i = 0; i < COUNT_OF(bursts); i++) {
        open_burst(SLOW, bursts[i][0]);
        ck_assert_int_eq(passes_now(), (int)bursts[i][1]);
        ck_assert_int_eq(passes_now(), 0);
    }
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

TEST(the_long_run_rate_is_exact)
{
    enum { PASSES = 1000, BURST = 7 };
    open_burst(10000, BURST);
    for (int i = 0; i < PASSES; i++)
        ck_assert_int_eq(weft_throttle_wait(&throttle), 0);
    double took = weft_now() - begin, expected = (PASSES - BURST) / 10000.0;
    ck_assert_double_ge(took, expected - 1e-9);
    if (is_sim())
        ck_assert_double_le(took, expected + 1e-4);
}

/* Let fibers wait for an empty bucket, and handle no timers for some intervals. */
static void wait_late(double intervals)
{
    open_burst(RATE, 3);
    for (int i = 0; i < 3; i++)
        pass_throttle("0");
    spin_all("xxxxx");
    weft_snooze();
    compute_for(intervals);
    ck_assert_int_eq(weft_await_children(), 0);
}

TEST(late_tokens_let_several_waiters_pass_and_keep_the_rate)
{
    wait_late(2.5);
    for (int i = 3; i < 8; i++)
        ck_assert_double_ge(passed[i] - begin, (i - 2) / RATE - 1e-9);
    if (!is_sim())
        return;
    assert_apart(passed[3], passed[4], 0); /* two tokens had arrived */
    assert_passes(begin, 5, 3, 4, 5);      /* the others keep their times */
}

TEST(after_a_long_delay_not_more_than_a_burst_passes)
{
    if (!is_sim())
        return;
    wait_late(20.5);
    assert_passes(passed[3], 3, 0, 0, 0, 1, 2);
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
