/*
 * Tests of the counters that a page of metrics needs: wake-up latency, stalls, created fibers,
 * stacks, pending messages, cords and watches.
 */
#include "support/cord_support.h"

#include "support/suite.h"

#include "base/histogram.h"

/* The bounds of the histogram: 1, 2 and 5 times the powers of ten. */
TEST(bounds_of_histograms_increase_from_1_us_to_10_s)
{
    static const double factors[] = {2, 2.5, 2};
    ck_assert_double_eq(weft_histogram_bound(0), 1e-6);
    for (size_t i = 1; i < WEFT_HISTOGRAM_BUCKETS - 1; i++)
        ck_assert_double_eq_tol(weft_histogram_bound(i) / weft_histogram_bound(i - 1),
                                factors[(i - 1) % 3], 1e-9);
    ck_assert_double_eq(weft_histogram_bound(WEFT_HISTOGRAM_BUCKETS - 2), 10);
    ck_assert(isinf(weft_histogram_bound(WEFT_HISTOGRAM_BUCKETS - 1)));
    ck_assert(isinf(weft_histogram_bound(WEFT_HISTOGRAM_BUCKETS)));
}

static size_t bucket_by_search(uint64_t ns)
{
    size_t i = 0;
    while (i < WEFT_HISTOGRAM_BUCKETS - 1 && ns > weft__histogram_bounds_ns[i])
        i++;
    return i;
}

TEST(a_duration_is_in_the_first_bucket_whose_bound_is_not_less)
{
    for (int bit = 0; bit < 64; bit++)
        for (int delta = -1; delta <= 1; delta++) {
            uint64_t ns = (UINT64_C(1) << bit) + (uint64_t)(int64_t)delta;
            ck_assert_uint_eq(weft__histogram_bucket(ns), bucket_by_search(ns));
        }
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS - 1; i++) {
        uint64_t bound = weft__histogram_bounds_ns[i];
        ck_assert_uint_eq(weft__histogram_bucket(bound), i);
        ck_assert_uint_eq(weft__histogram_bucket(bound + 1), i + 1);
    }
}

static uint64_t samples_over(double seconds)
{
    weft_counters c = stats();
    uint64_t count = 0;
    for (size_t i = 1; i < WEFT_HISTOGRAM_BUCKETS; i++)
        if (weft_histogram_bound(i - 1) >= seconds)
            count += c.wake_latency.buckets[i];
    return count;
}

#define BUSY_S 0.03

static weft_value wake_and_compute(void *at)
{
    weft_sleep_until(*(double *)at);
    for (double until = weft_now() + BUSY_S; weft_now() < until;)
        continue;
    return 0;
}

/* Both fibers wake at the same time. The second one runs when the first one has ended. */
TEST(the_wait_of_a_fiber_behind_a_computing_fiber_is_a_sample_and_a_stall)
{
    if (is_sim())
        return; /* no samples with a virtual clock */
    uint64_t over = samples_over(0.02), stalls = stats().stalls, stall_ns = stats().stall_ns;
    while (samples_over(0.02) == over) {
        double at = weft_now() + 0.05; /* later than the next sample may begin */
        weft_fiber f[2];
        for (int i = 0; i < 2; i++)
            f[i] = weft_spin(wake_and_compute, &at);
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(weft_await(f[i]), 0);
    }
    weft_counters c = stats();
    ck_assert_uint_ge(c.wake_latency.sum_ns, 20000000);
    ck_assert_uint_gt(c.stalls, stalls);
    ck_assert_uint_ge(c.stall_ns - stall_ns, 10000000);
}

FIBER(snooze_often, ({
          for (int i = 0; i < 1000; i++)
              weft_snooze();
          0;
      }))

/* More fibers than a tick has switches. */
#define CROWD 200

TEST(a_cord_that_never_waits_samples_too)
{
    if (is_sim())
        return;
    weft_counters c = stats();
    uint64_t before = weft_histogram_count(&c.wake_latency);
    for (int i = 0; i < CROWD; i++)
        weft_spin(snooze_often, NULL);
    while (weft_histogram_count(&c.wake_latency) < before + 3) {
        weft_snooze();
        if (stats().fibers == 0)
            weft_spin(snooze_often, NULL);
        c = stats();
    }
    weft_await_children();
}

TEST(created_fibers_are_counted_by_every_way_to_create_them)
{
    weft_counters before = stats();
    weft_await(weft_spin(return_arg, NULL));
    weft_await(weft_spin(return_arg, NULL)); /* in a warm record */
    weft_go(return_arg, NULL);
    weft_await(weft_spin_with(return_arg, NULL, &(weft_spin_options){.stack_bytes = 1 << 20}));
    weft_await_children();
    ck_assert_uint_eq(stats().fibers_spun - before.fibers_spun, 4);
}

TEST(the_address_space_of_stacks_follows_their_size)
{
    size_t large = (size_t)64 << 20;
    weft_counters before = stats();
    weft_fiber f = weft_spin_with(suspend, NULL, &(weft_spin_options){.stack_bytes = large});
    weft_counters with = stats();
    ck_assert_uint_ge(with.stack_bytes - before.stack_bytes, large);
    ck_assert_uint_lt(with.stack_bytes - before.stack_bytes, 3 * large);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
}

#define MESSAGES 5

typedef struct busy_receiver {
    atomic_bool is_ready, is_sent;
    weft_counters before, after;
} busy_receiver;

/* Do not switch while the messages arrive. */
static weft_value count_pending(void *arg)
{
    busy_receiver *r = arg;
    atomic_store(&r->is_ready, true);
    while (!atomic_load(&r->is_sent))
        sched_yield();
    weft_stats(&r->before);
    for (int i = 0; i < MESSAGES; i++)
        weft_receive();
    return weft_stats(&r->after);
}

TEST(messages_that_are_not_delivered_yet_are_pending)
{
    busy_receiver r = {.is_ready = false};
    weft_cord cord = start_cord(count_pending, &r);
    while (!atomic_load(&r.is_ready))
        sched_yield();
    for (int i = 0; i < MESSAGES; i++)
        ck_assert_int_eq(weft_tell(cord, i), 0);
    atomic_store(&r.is_sent, true);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    ck_assert_uint_eq(r.before.messages_pending, MESSAGES);
    ck_assert_uint_eq(r.after.messages_pending, 0);
}

TEST(cords_are_listed_by_their_index)
{
    weft_cord list[8], self = weft_cord_self();
    ck_assert_int_eq(weft_cords(list, COUNT_OF(list)), 1);
    ck_assert_uint_eq(list[0], self);
    weft_cord cord = start_waiting_cord();
    ck_assert_int_eq(weft_cords(list, COUNT_OF(list)), 2);
    ck_assert_uint_eq(list[1], cord);
    ck_assert_uint_eq(list[2], 0);
    ck_assert_int_eq(weft_cords(NULL, 0), 2);
    weft_counters total;
    do
        ck_assert_int_eq(weft_stats_total(&total), 0);
    while (total.cords != 2);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    ck_assert_int_eq(weft_stats_total(&total), 0);
    ck_assert_uint_eq(total.cords, 1);
    ck_assert_int_eq(weft_cords(list, COUNT_OF(list)), 1);
}

FIBER_DO(set_flag, *(bool *)arg = true, 0)

TEST(open_watches_are_counted)
{
    int fd[2];
    bool has_run = false;
    weft_fd_watch watch = {0};
    weft_pipe(fd);
    ck_assert_int_eq(weft_fd_watch_open(&watch, fd[0], INFINITY, NULL, set_flag, &has_run, NULL),
                     0);
    ck_assert_uint_eq(stats().watches, 1);
    ck_assert_int_eq(weft_fd_watch_close(&watch), 0);
    ck_assert_uint_eq(stats().watches, 0);
    ck_assert_int_eq(weft_fd_watch_open(&watch, fd[0], INFINITY, NULL, set_flag, &has_run, NULL),
                     0);
    ck_assert_int_eq(weft_write_all(fd[1], "x", 1), 1);
    while (!has_run)
        weft_sleep(0);
    ck_assert_uint_eq(stats().watches, 0);
    weft_await_children();
    close_fd_pair(fd);
}
