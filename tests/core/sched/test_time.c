/* Time and sleeping: how long, in which order, and that nobody can keep a sleeper from waking. */
#include "support.h"

#include "core/cord.h"

#include <time.h>

static bool has_virtual_time(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

static size_t timers(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.timers;
}

/* The kernel's clock, asked behind the back of whatever weft remembers. */
static double kernel_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compute_for(double seconds)
{
    for (double end = kernel_now() + seconds; kernel_now() < end;)
        continue;
}

START_TEST(the_clock_does_not_go_back_and_a_sleep_lasts_at_least_as_long_as_asked)
{
    static const double times[] = {0.001, 1e-9, 1e-12, 0.0000015, 0.003};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        double before = weft_now();
        ck_assert(before > 0);
        ck_assert_int_eq(weft_sleep(times[i]), 0);
        /* The clock counts nanoseconds; a double that holds it may be off by a few. */
        ck_assert_double_ge(weft_now() - before, times[i] - 2e-8);
    }
}
END_TEST

/* Issue 2, 8 */
START_TEST(virtual_time_jumps_by_exactly_what_is_slept)
{
    if (!has_virtual_time())
        return;
    double before = weft_now();
    ck_assert_int_eq(weft_sleep(86400), 0);
    ck_assert_double_eq_tol(weft_now() - before, 86400, 1e-6);
}
END_TEST

/* T12 */
START_TEST(a_sleep_after_a_long_computation_lasts_as_long_as_asked)
{
    weft_snooze();
    compute_for(0.03);
    double before = has_virtual_time() ? weft_now() : kernel_now();
    ck_assert_int_eq(weft_sleep(0.01), 0);
    double after = has_virtual_time() ? weft_now() : kernel_now();
    ck_assert_double_ge(after - before, 0.01 - 1e-7);
}
END_TEST

/* T12 */
START_TEST(a_deadline_after_a_long_computation_is_as_far_away_as_asked)
{
    weft_snooze();
    compute_for(0.03);
    double before = has_virtual_time() ? weft_now() : kernel_now();
    WEFT_MOVE_ON_AFTER(0.01) {
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    }
    double after = has_virtual_time() ? weft_now() : kernel_now();
    ck_assert_double_ge(after - before, 0.01 - 1e-7);
}
END_TEST

/* P46 */
START_TEST(a_negative_or_undefined_time_is_refused_with_words)
{
    static const double times[] = {-1, -1e-12, -INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_sleep(times[i]), -EINVAL);
        ck_assert_any_words(-EINVAL);
    }
    ck_assert_uint_eq(timers(), 0);
}
END_TEST

static bool is_over;

static weft_value snooze_until_over(void *arg)
{
    (void)arg;
    while (!is_over)
        if (weft_snooze() < 0)
            return 1;
    return 0;
}

static weft_value sleep_then_be_over(void *arg)
{
    int rc = weft_sleep(*(double *)arg);
    is_over = true;
    return rc;
}

/* P11, T11 */
START_TEST(a_sleeper_wakes_although_other_fibers_snooze_for_ever)
{
    double time_s = 0.01;
    weft_fiber snoozers[3];
    for (size_t i = 0; i < COUNT_OF(snoozers); i++)
        snoozers[i] = weft_spin(snooze_until_over, NULL);
    double before = weft_now();
    ck_assert_int_eq(weft_await(weft_spin(sleep_then_be_over, &time_s)), 0);
    double took = weft_now() - before;
    ck_assert_double_ge(took, time_s - 2e-8);
    if (has_virtual_time()) /* where no other process can make it late */
        ck_assert_double_le(took, time_s + 0.001);
    ck_assert_int_eq(weft_await_all(snoozers, COUNT_OF(snoozers), NULL), 0);
}
END_TEST

/* P12 */
START_TEST(a_timeout_strikes_inside_a_loop_that_only_snoozes)
{
    int rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        while (weft_snooze() == 0)
            continue;
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}
END_TEST

/* P12 */
START_TEST(a_timeout_of_a_waiting_fiber_strikes_while_another_one_snoozes)
{
    weft_fiber snoozer = weft_spin(snooze_until_over, NULL);
    int rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert_int_eq(weft_suspend(), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    is_over = true;
    ck_assert_int_eq(weft_await(snoozer), 0);
}
END_TEST

static weft_value read_then_be_over(void *arg)
{
    char byte;
    ssize_t n = weft_read(*(int *)arg, &byte, 1);
    is_over = true;
    return n;
}

/* T11 */
START_TEST(a_loop_of_sleeps_for_0_s_lets_io_proceed)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber reader = weft_spin(read_then_be_over, &fd[0]);
    ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    for (int i = 0; i < 3 && !is_over; i++)
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert(is_over);
    ck_assert_int_eq(weft_await(reader), 1);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

/* T11 */
START_TEST(a_loop_of_sleeps_for_0_s_lets_timers_proceed)
{
    double time_s = 0.005;
    weft_fiber sleeper = weft_spin(sleep_then_be_over, &time_s);
    while (!is_over)
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(weft_await(sleeper), 0);
}
END_TEST

/* T11 */
START_TEST(a_loop_of_snoozes_lets_io_proceed)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber reader = weft_spin(read_then_be_over, &fd[0]);
    weft_fiber snoozer = weft_spin(snooze_until_over, NULL);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    ck_assert_int_eq(weft_await(reader), 1);
    ck_assert_int_eq(weft_await(snoozer), 0);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

typedef struct nap {
    double time_s;
    const char *name;
} nap;

static weft_value sleep_and_mark(void *arg)
{
    const nap *n = arg;
    int rc = weft_sleep(n->time_s);
    mark(n->name);
    return rc;
}

START_TEST(sleepers_wake_in_the_order_of_their_deadlines)
{
    static nap naps[] = {{0.09, "3"}, {0.03, "1"}, {0.12, "4"}, {0.06, "2"}};
    weft_fiber f[COUNT_OF(naps)];
    for (size_t i = 0; i < COUNT_OF(naps); i++)
        f[i] = weft_spin(sleep_and_mark, &naps[i]);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_trail("1234");
}
END_TEST

START_TEST(sleepers_with_the_same_deadline_wake_in_the_order_in_which_they_went_to_sleep)
{
    static nap naps[] = {{0.002, "0"}, {0.002, "1"}, {0.002, "2"}, {0.002, "3"}, {0.002, "4"},
                         {0.002, "5"}, {0.002, "6"}, {0.002, "7"}, {0.002, "8"}, {0.002, "9"}};
    weft_fiber f[COUNT_OF(naps)];
    for (size_t i = 0; i < COUNT_OF(naps); i++)
        f[i] = weft_spin(sleep_and_mark, &naps[i]);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_trail("0123456789");
}
END_TEST

static weft_value sleep_for_arg(void *arg)
{
    return weft_sleep(*(double *)arg);
}

START_TEST(an_endless_sleep_takes_no_timer_and_can_be_cancelled)
{
    static double times[] = {INFINITY, 1e300, 1e10};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_fiber f = weft_spin(sleep_for_arg, &times[i]);
        weft_snooze();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_uint_eq(timers(), 0);
        ck_assert_int_eq(weft_cancel(f), 0);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
    }
}
END_TEST

START_TEST(a_sleep_returns_what_it_is_interrupted_with_and_its_timer_is_gone)
{
    static double time_s = 60;
    weft_fiber f = weft_spin(sleep_for_arg, &time_s);
    weft_snooze();
    ck_assert_uint_eq(timers(), 1);
    ck_assert_int_eq(weft_interrupt(f, -42), 0);
    ck_assert_uint_eq(timers(), 0);
    ck_assert_int_eq(weft_interrupt(f, -43), -EBUSY);
    ck_assert_int_eq(weft_await(f), -42);
}
END_TEST

/* T4 */
START_TEST(scheduling_a_sleeper_is_refused_and_does_not_shorten_its_sleep)
{
    static double time_s = 0.005;
    double before = weft_now();
    weft_fiber f = weft_spin(sleep_for_arg, &time_s);
    weft_snooze();
    ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
    ck_assert_int_eq(weft_schedule(weft_self(), 1), -EBUSY);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_double_ge(weft_now() - before, time_s - 2e-8);
}
END_TEST

static unsigned random_state = 1;

/* 0 to 99. */
static unsigned random_percent(void)
{
    random_state = random_state * 1103515245 + 12345;
    return random_state / 65536 % 100;
}

static weft_value sleep_a_little(void *arg)
{
    int rc = weft_sleep(random_percent() * 1e-6);
    ++*(int *)arg;
    return rc;
}

/* T16 */
START_TEST(of_many_short_random_sleeps_none_is_lost)
{
    for (int round = 0; round < 10; round++) {
        int woken = 0;
        for (int i = 0; i < 300; i++)
            ck_assert_int_eq(weft_go(sleep_a_little, &woken), 0);
        ck_assert_int_eq(weft_await_children(), 0);
        ck_assert_int_eq(woken, 300);
    }
    ck_assert_uint_eq(timers(), 0);
}
END_TEST

static weft_value sleep_for_nothing(void *arg)
{
    int rc = weft_sleep(0);
    ++*(int *)arg;
    return rc;
}

/* T15 */
START_TEST(a_thousand_fibers_that_sleep_for_0_s_all_go_on)
{
    int woken = 0;
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(sleep_for_nothing, &woken), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(woken, 1000);
}
END_TEST

/* Issue 2, 6 */
START_TEST(many_sleepers_are_woken_by_few_polls)
{
    static double time_s = 0.02;
    for (int i = 0; i < 2000; i++)
        ck_assert_int_eq(weft_go(sleep_for_arg, &time_s), 0);
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_stats(&counters);
    ck_assert_uint_lt(counters.polls, 1000);
}
END_TEST

static double earliest_s, latest_s; /* of all sleeps: how much longer than asked */

static weft_value sleep_in_a_crowd(void *arg)
{
    double time_s = 0.02 + (double)(intptr_t)arg * 5e-5, before = weft_now();
    ck_assert_int_eq(weft_sleep(time_s), 0);
    double late_s = weft_now() - before - time_s;
    earliest_s = late_s < earliest_s ? late_s : earliest_s;
    latest_s = late_s > latest_s ? late_s : latest_s;
    return 0;
}

START_TEST(a_crowd_of_sleepers_is_woken_in_beats_and_nobody_too_early)
{
    for (intptr_t i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(sleep_in_a_crowd, (void *)i), 0);
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_stats(&counters);
    ck_assert_double_ge(earliest_s, -2e-8); /* what a double may be off by */
    if (has_virtual_time())
        ck_assert_double_le(latest_s, 1e-4); /* exact, but for what time the others took */
    else
        ck_assert_uint_lt(counters.polls, 400);
}
END_TEST

static weft_value sleep_in_a_medium_crowd(void *arg)
{
    return weft_sleep(0.02 + (double)(intptr_t)arg * 1e-4);
}

/* Ten timers a millisecond. */
START_TEST(a_medium_crowd_of_sleepers_is_woken_in_beats_too)
{
    if (has_virtual_time())
        return;
    for (intptr_t i = 0; i < 500; i++)
        ck_assert_int_eq(weft_go(sleep_in_a_medium_crowd, (void *)i), 0);
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_stats(&counters);
    ck_assert_uint_lt(counters.polls, 250);
}
END_TEST

/* A backend that notes for how long it is asked to wait. */
static const weft__backend_type *real_type;
static int64_t longest_wait_ns;

static int poll_by_spy(weft__backend *b, int64_t timeout_ns)
{
    longest_wait_ns = timeout_ns > longest_wait_ns ? timeout_ns : longest_wait_ns;
    return real_type->poll(b, timeout_ns);
}

static weft_value sleep_for_hours(void *arg)
{
    return weft_sleep(3600.0 + (double)(intptr_t)arg);
}

#define LONE_SLEEP_NS 20000

START_TEST(a_timer_that_is_alone_is_never_waited_for_longer_than_it_takes)
{
    weft__backend *b = (weft_self(), weft__cord_self->backend);
    weft__backend_type spy = *b->type;
    weft_fiber far[100]; /* deadlines that do not come */
    for (intptr_t i = 0; i < 100; i++)
        far[i] = weft_spin(sleep_for_hours, (void *)i);
    let_run();
    real_type = b->type;
    spy.poll = poll_by_spy;
    b->type = &spy;
    for (int i = 0; i < 100; i++) /* far more in a beat than a crowd is */
        ck_assert_int_eq(weft_sleep(LONE_SLEEP_NS * 1e-9), 0);
    b->type = real_type;
    ck_assert_int_le(longest_wait_ns, 5 * LONE_SLEEP_NS); /* the clock of deadlines is ahead */
    for (int i = 0; i < 100; i++)
        weft_cancel(far[i]);
    weft_await_all(far, 100, NULL);
}
END_TEST

typedef struct pause {
    double timeout_s;
    weft_value got;
} pause_for;

static weft_value suspend_for_a_while(void *arg)
{
    pause_for *p = arg;
    int rc;
    WEFT_CANCEL_AFTER(p->timeout_s, rc) {
        p->got = weft_suspend();
    }
    return -rc;
}

/* T14 */
START_TEST(a_suspend_with_a_deadline_knows_whether_it_was_the_deadline)
{
    pause_for brief = {.timeout_s = 0.002}, endless = {.timeout_s = 1000};
    ck_assert_int_eq(weft_await(weft_spin(suspend_for_a_while, &brief)), ETIMEDOUT);
    ck_assert_int_eq(brief.got, -ECANCELED);
    weft_fiber f = weft_spin(suspend_for_a_while, &endless);
    let_run();
    ck_assert_int_eq(weft_schedule(f, 8), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(endless.got, 8);
}
END_TEST

static const TTest *const *const tests[] = {
    &the_clock_does_not_go_back_and_a_sleep_lasts_at_least_as_long_as_asked,
    &virtual_time_jumps_by_exactly_what_is_slept,
    &a_sleep_after_a_long_computation_lasts_as_long_as_asked,
    &a_deadline_after_a_long_computation_is_as_far_away_as_asked,
    &a_negative_or_undefined_time_is_refused_with_words,
    &a_sleeper_wakes_although_other_fibers_snooze_for_ever,
    &a_timeout_strikes_inside_a_loop_that_only_snoozes,
    &a_timeout_of_a_waiting_fiber_strikes_while_another_one_snoozes,
    &a_loop_of_sleeps_for_0_s_lets_io_proceed,
    &a_loop_of_sleeps_for_0_s_lets_timers_proceed,
    &a_loop_of_snoozes_lets_io_proceed,
    &sleepers_wake_in_the_order_of_their_deadlines,
    &sleepers_with_the_same_deadline_wake_in_the_order_in_which_they_went_to_sleep,
    &an_endless_sleep_takes_no_timer_and_can_be_cancelled,
    &a_sleep_returns_what_it_is_interrupted_with_and_its_timer_is_gone,
    &scheduling_a_sleeper_is_refused_and_does_not_shorten_its_sleep,
    &of_many_short_random_sleeps_none_is_lost,
    &a_thousand_fibers_that_sleep_for_0_s_all_go_on,
    &many_sleepers_are_woken_by_few_polls,
    &a_crowd_of_sleepers_is_woken_in_beats_and_nobody_too_early,
    &a_medium_crowd_of_sleepers_is_woken_in_beats_too,
    &a_timer_that_is_alone_is_never_waited_for_longer_than_it_takes,
    &a_suspend_with_a_deadline_knows_whether_it_was_the_deadline,
};

int main(void)
{
    return run_suite("time", tests, COUNT_OF(tests));
}
