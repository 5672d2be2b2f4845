/* Tests of time and sleeping: durations, order, and wake-ups while other fibers are busy. */
#include "support/suite.h"

#include "core/cord/cord.h"

#include <time.h>

/* Read the clock of the kernel, without any clock that weft caches. */
static double kernel_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void burn_for(double seconds)
{
    for (double end = kernel_now() + seconds; kernel_now() < end;)
        continue;
}

TEST(the_clock_does_not_go_back_and_a_sleep_is_not_too_short)
{
    static const double times[] = {0.001, 1e-9, 1e-12, 0.0000015, 0.003};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        double before = weft_now();
        ck_assert(before > 0);
        ck_assert_int_eq(weft_sleep(times[i]), 0);
        /* The clock counts nanoseconds. A double may be off by a few. */
        ck_assert_double_ge(weft_now() - before, times[i] - 2e-8);
    }
}

TEST(virtual_time_advances_by_exactly_the_sleep)
{ /* Issue 2, 8 */
    if (!is_sim())
        return;
    double before = weft_now();
    ck_assert_int_eq(weft_sleep(86400), 0);
    ck_assert_double_eq_tol(weft_now() - before, 86400, 1e-6);
}

TEST(a_sleep_or_a_deadline_after_a_long_computation_is_not_too_short)
{ /* T12 */
    for (int i = 0; i < 2; i++) {
        weft_snooze();
        burn_for(0.03);
        double before = is_sim() ? weft_now() : kernel_now();
        if (i == 0)
            ck_assert_int_eq(weft_sleep(0.01), 0);
        else
            WEFT_MOVE_ON_AFTER(0.01)
                ck_assert_int_eq(weft_sleep(60), -ECANCELED);
        double after = is_sim() ? weft_now() : kernel_now();
        ck_assert_double_ge(after - before, 0.01 - 1e-7);
    }
}

TEST(a_sleep_until_a_time_ends_when_the_clock_has_reached_it)
{
    double at = weft_now();
    for (int i = 0; i < 20; i++) {
        at += 0.0001;
        ck_assert_int_eq(weft_sleep_until(at), 0);
        ck_assert_double_ge(weft_now(), at);
    }
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(a_sleep_until_a_past_time_lets_other_fibers_run_once)
{
    static const double times[] = {0, -1, -INFINITY};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_fiber f = weft_spin(return_arg, as_arg(1));
        ck_assert_int_eq(weft_sleep_until(times[i]), 0);
        ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
        ck_assert_int_eq(weft_await(f), 1);
    }
    ck_assert_int_eq(weft_sleep_until(weft_now()), 0);
}

TEST(a_negative_or_undefined_time_is_refused_with_a_message)
{ /* P46 */
    static const double times[] = {-1, -1e-12, -INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_sleep(times[i]), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_uint_eq(armed_timers(), 0);
}

static bool is_over;

static weft_value snooze_until_over(void *arg)
{
    while (!is_over)
        if (weft_snooze() < 0)
            return 1;
    return 0;
}

FIBER_DO(sleep_then_be_over, int rc = weft_sleep(*(double *)arg), is_over = true, rc)

TEST(a_timeout_ends_a_loop_that_only_snoozes_and_a_wait_beside_it)
{ /* P12, T14 */
    int rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        while (weft_snooze() == 0)
            continue;
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    weft_fiber snoozer = weft_spin(snooze_until_over, NULL);
    ck_assert_times_out(0.002, ck_assert_int_eq(weft_suspend(), -ECANCELED));
    is_over = true;
    ck_assert_int_eq(weft_await(snoozer), 0);
}

static weft_value read_then_be_over(void *arg)
{
    char byte;
    ssize_t n = weft_read(*(int *)arg, &byte, 1);
    is_over = true;
    return n;
}

TEST(loops_of_sleeps_for_0_s_and_of_snoozes_let_io_and_timers_proceed)
{ /* T11 */
    for (int i = 0; i < 2; i++) {
        int fd[2];
        ck_assert_int_eq(weft_pipe(fd), 0);
        is_over = false;
        weft_fiber reader = weft_spin(read_then_be_over, &fd[0]);
        ck_assert_int_eq(weft_sleep(0), 0);
        ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
        while (!is_over)
            ck_assert_int_eq(i == 0 ? weft_sleep(0) : weft_snooze(), 0);
        ck_assert_int_eq(weft_await(reader), 1);
        close_fd_pair(fd);
    }
    double time_s = 0.005;
    is_over = false;
    weft_fiber sleeper = weft_spin(sleep_then_be_over, &time_s);
    while (!is_over)
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(weft_await(sleeper), 0);
}

typedef struct nap {
    double time_s;
    const char *name;
} nap;

static weft_value sleep_then_mark_name(void *arg)
{
    const nap *n = arg;
    int rc = weft_sleep(n->time_s);
    mark(n->name);
    return rc;
}

TEST(sleeping_fibers_wake_in_the_order_of_their_deadlines_and_of_their_calls)
{
    static nap naps[] = {{0.06, "5"}, {0.02, "1"}, {0.08, "6"},
                         {0.04, "2"}, {0.04, "3"}, {0.04, "4"}};
    weft_fiber f[COUNT_OF(naps)];
    for (size_t i = 0; i < COUNT_OF(naps); i++)
        f[i] = weft_spin(sleep_then_mark_name, &naps[i]);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_trail("123456");
}

FIBER(sleep_for_arg, weft_sleep(*(double *)arg))
FIBER(sleep_until_infinity, weft_sleep_until(INFINITY))

TEST(an_infinite_sleep_arms_no_timer_and_can_be_cancelled)
{
    static double times[] = {INFINITY, 1e300, 1e10, NAN};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        weft_fiber f = spin_waiting(i < 3 ? sleep_for_arg : sleep_until_infinity, &times[i]);
        ck_assert_uint_eq(armed_timers(), 0);
        ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    }
    ck_assert_int_eq(weft_sleep_until(NAN), -EINVAL);
    ck_assert_error(-EINVAL, "weft_sleep_until: deadline is nan");
}

static double earliest_s, latest_s; /* the smallest and the largest delay of all sleeps */

static weft_value sleep_among_many(void *arg)
{
    double time_s = 0.02 + (double)(intptr_t)arg * 5e-5, before = weft_now();
    ck_assert_int_eq(weft_sleep(time_s), 0);
    double late_s = weft_now() - before - time_s;
    earliest_s = late_s < earliest_s ? late_s : earliest_s;
    latest_s = late_s > latest_s ? late_s : latest_s;
    return 0;
}

TEST(many_timers_are_coalesced_and_none_expires_too_early)
{ /* Issue 2, 6 */
    for (intptr_t i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(sleep_among_many, (void *)i), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_double_ge(earliest_s, -2e-8); /* rounding of a double */
    if (is_sim())
        ck_assert_double_le(latest_s, 1e-4); /* exact, except for the time that other fibers take */
    else
        ck_assert_uint_lt(stats().polls, 400);
}

/* A backend that records the longest timeout of a poll. */
static const weft__backend_type *real_type;
static int64_t longest_wait_ns;

static int poll_and_record(weft__backend *b, int64_t timeout_ns)
{
    longest_wait_ns = timeout_ns > longest_wait_ns ? timeout_ns : longest_wait_ns;
    return real_type->poll(b, timeout_ns);
}

FIBER(sleep_for_hours, weft_sleep(3600.0 + (double)(intptr_t)arg))

#define LONE_SLEEP_NS 20000

TEST(a_single_timer_is_not_coalesced)
{
    weft__backend *b = (weft_self(), weft__cord_self->backend);
    weft__backend_type recording_type = *b->type;
    weft_fiber far[100]; /* deadlines that never expire */
    for (intptr_t i = 0; i < 100; i++)
        far[i] = weft_spin(sleep_for_hours, (void *)i);
    let_run();
    real_type = b->type;
    recording_type.poll = poll_and_record;
    b->type = &recording_type;
    for (int i = 0; i < 100;
         i++) /* far more timers within the coalescing interval than the limit */
        ck_assert_int_eq(weft_sleep(LONE_SLEEP_NS * 1e-9), 0);
    b->type = real_type;
    ck_assert_int_le(longest_wait_ns, 5 * LONE_SLEEP_NS); /* the clock of the deadlines is ahead */
    for (int i = 0; i < 100; i++)
        weft_cancel(far[i]);
    weft_await_all(far, 100, NULL);
}
