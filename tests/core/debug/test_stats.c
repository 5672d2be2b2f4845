/* Tests of counters: of the calling thread, of another cord, and of the process. */
#include "support/cord_support.h"
#include "support/result_support.h"

#include "core/cord/fork_support.h"
#include "support/suite.h"

static weft_counters counters_of(weft_cord cord)
{
    weft_counters now;
    ck_assert_int_eq(weft_stats_of(cord, &now), 0);
    return now;
}

static weft_counters counters_total(void)
{
    weft_counters now;
    ck_assert_int_eq(weft_stats_total(&now), 0);
    return now;
}

static void assert_not_decreased(const weft_counters *before, const weft_counters *after)
{
    ck_assert_uint_ge(after->switches, before->switches);
    ck_assert_uint_ge(after->polls, before->polls);
    ck_assert_uint_ge(after->polls_blocking, before->polls_blocking);
    ck_assert_uint_ge(after->ops, before->ops);
    ck_assert_uint_ge(after->messages, before->messages);
    ck_assert_uint_ge(after->wakes, before->wakes);
    ck_assert_uint_ge(after->runnable_max, before->runnable_max);
    ck_assert_uint_ge(after->syscalls, before->syscalls);
    ck_assert_uint_ge(after->fibers_spun, before->fibers_spun);
    ck_assert_uint_ge(after->stalls, before->stalls);
    ck_assert_uint_ge(after->stall_ns, before->stall_ns);
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
        ck_assert_uint_ge(after->wake_latency.buckets[i], before->wake_latency.buckets[i]);
    ck_assert_uint_ge(after->wake_latency.sum_ns, before->wake_latency.sum_ns);
}

TEST(counters_of_events_increase_and_reading_does_not_reset_them)
{ /* P15 */
    weft_counters before = stats();
    for (int i = 0; i < 10; i++)
        weft_spin(return_arg, NULL);
    weft_snooze();
    weft_counters first = stats(), second = stats();
    ck_assert_uint_eq(first.switches - before.switches, 11); /* main, and the end of each fiber */
    ck_assert_uint_ge(first.runnable_max, 10);
    ck_assert_uint_eq(first.runnable, 0);
    ck_assert_uint_eq(first.fibers_unawaited, 10);
    ck_assert_mem_eq(&first, &second, sizeof first);
    ck_assert_int_eq(weft_sleep(0.05), 0); /* long enough that the backend waits */
    second = stats();
    assert_not_decreased(&first, &second);
    ck_assert_uint_gt(second.polls, first.polls);
    ck_assert_uint_gt(second.polls_blocking, first.polls_blocking);
    ck_assert_uint_le(second.polls_blocking, second.polls);
    ck_assert_uint_eq(second.runnable_max, first.runnable_max);
}

FIBER(sleep_briefly, weft_sleep(0.01))

TEST(counters_of_resources_show_the_current_number)
{ /* P15, T48, T56 */
    int fd[2];
    weft_pipe(fd);
    ck_assert_uint_eq(stats().fibers, 0);
    weft_fiber reader = weft_spin(read_byte, &fd[0]);
    weft_fiber sleeper = spin_waiting(sleep_briefly, NULL);
    weft_counters c = stats();
    ck_assert_uint_eq(c.fibers, 2);
    ck_assert_uint_eq(c.ops_pending, 1);
    ck_assert_uint_eq(c.timers, 1);
    ck_assert_uint_ge(c.stacks - c.stacks_cached, 2);
    ck_assert_int_eq(cancel_and_await(reader), -ECANCELED);
    ck_assert_int_eq(weft_await(sleeper), 0);
    c = stats();
    ck_assert_uint_eq(c.fibers + c.ops_pending + c.timers + c.fibers_unawaited, 0);
    close_fd_pair(fd);
}

/* Cancel a cord that waits, and join it. */
static void end_cord(weft_cord cord)
{
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}

static weft_value snooze_until_cancelled(void *arg)
{
    while (weft_snooze() == 0)
        continue;
    return -ECANCELED;
}

TEST(counters_of_a_busy_cord_increase_and_never_decrease)
{
    weft_cord cord = start_cord(snooze_until_cancelled, NULL);
    weft_counters last = counters_of(cord);
    for (int increases = 0; increases < 5;) {
        weft_counters now = counters_of(cord), total = counters_total();
        assert_not_decreased(&last, &now);
        assert_not_decreased(&now, &total);
        increases += now.switches > last.switches;
        last = now;
    }
    end_cord(cord);
}

#define RECEIVERS 7

static weft_value spin_receivers(void *arg)
{
    int *fd = arg;
    if (weft_pipe(fd) < 0)
        return -EMFILE;
    for (int i = 0; i < RECEIVERS - 1; i++)
        weft_spin(receive_one, NULL);
    weft_spin(read_byte, &fd[0]);
    return weft_receive();
}

/* The cord waits, and nothing wakes it. */
TEST(resources_of_a_sleeping_cord_are_visible_to_other_cords)
{
    int fd[2];
    weft_counters own = stats();
    weft_cord cord = start_cord(spin_receivers, fd);
    while (counters_of(cord).fibers != RECEIVERS || counters_of(cord).ops_pending != 1)
        sched_yield();
    weft_counters c = counters_of(cord), total = counters_total();
    ck_assert_uint_ge(c.runnable_max, RECEIVERS);
    ck_assert_uint_eq(c.runnable, 0);
    ck_assert_uint_eq(c.stacks - c.stacks_cached, RECEIVERS);
    ck_assert_uint_eq(total.fibers, own.fibers + c.fibers);
    ck_assert_uint_eq(total.stacks, stats().stacks + c.stacks);
    end_cord(cord);
    ck_assert_uint_eq(counters_total().stacks, stats().stacks);
    weft_close(fd[0]); /* fails on sim, where the pipe belongs to the cord */
    weft_close(fd[1]);
}

FIBER_DO(account_and_wait, weft_account(true), weft_sleep(INFINITY))

TEST(idle_time_of_a_sleeping_cord_increases)
{
    if (is_sim())
        return; /* a wait takes no time */
    weft_cord cord = start_cord(account_and_wait, NULL);
    double first_s, total_s;
    while ((first_s = counters_of(cord).idle_s) == 0)
        sched_yield();
    while (counters_of(cord).idle_s == first_s)
        sched_yield();
    while ((total_s = counters_total().idle_s) == first_s)
        sched_yield();
    ck_assert_double_gt(total_s, first_s);
    ck_assert_double_gt(counters_of(cord).idle_share, 0);
    ck_assert_double_le(counters_of(cord).idle_share, 1);
    end_cord(cord);
    ck_assert_double_eq(counters_total().idle_s, 0);
}

static weft_value read_other_counters(void *cord)
{
    weft_counters c;
    int rc = weft_stats_of(arg_id(cord), &c);
    return rc < 0 ? rc : (weft_value)c.fibers;
}

TEST(the_main_thread_is_a_cord_with_counters_too)
{
    weft_cord self = weft_cord_self();
    weft_fiber f = spin_suspended();
    ck_assert_uint_eq(counters_of(self).fibers, 1);
    ck_assert_uint_eq(counters_of(self).switches, stats().switches);
    weft_value fibers = 0;
    while (fibers != 1) {
        fibers = weft_cord_join(start_cord(read_other_counters, id_arg(self)));
        ck_assert_int_ge(fibers, 0);
    }
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
}

static void *read_without_fibers(void *arg)
{
    weft_counters c, total;
    ck_assert_int_eq(weft_stats_of(arg_id(arg), &c), 0);
    ck_assert_int_eq(weft_stats_total(&total), 0);
    assert_not_decreased(&c, &total);
    return NULL;
}

TEST(a_plain_thread_can_read_counters_and_does_not_become_a_cord)
{
    weft_counters before = counters_total();
    join_thread(start_thread(read_without_fibers, id_arg(weft_cord_self())));
    weft_counters after = counters_total();
    ck_assert_uint_eq(after.stacks, before.stacks);
    ck_assert_uint_eq(after.polls, before.polls);
}

#define SNOOZES 1000

static weft_value snooze_and_count(void *arg)
{
    for (int i = 0; i < SNOOZES; i++)
        weft_snooze();
    return weft_stats(arg);
}

TEST(the_sum_includes_ended_cords)
{
    weft_counters before = counters_total(), cord;
    for (int i = 1; i <= 3; i++) {
        ck_assert_int_eq(weft_cord_join(start_cord(snooze_and_count, &cord)), 0);
        ck_assert_uint_ge(cord.switches, SNOOZES);
        ck_assert_uint_lt(cord.switches, 2 * SNOOZES);
        weft_counters total = counters_total();
        ck_assert_uint_ge(total.switches - before.switches, (uint64_t)i * SNOOZES);
        ck_assert_uint_lt(total.switches - before.switches, (uint64_t)i * SNOOZES + SNOOZES);
        ck_assert_uint_eq(total.fibers, 0);
    }
}

#define SHORT_CORDS (IS_SLOW ? 50 : 100)

static weft_value run_short_cords(void *arg)
{
    static weft_counters ignored;
    for (int i = 0; i < SHORT_CORDS; i++)
        ck_assert_int_eq(weft_cord_join(weft_cord_start(snooze_and_count, &ignored, NULL)), 0);
    atomic_store((atomic_bool *)arg, true);
    return 0;
}

TEST(the_sum_never_decreases_while_cords_start_and_end)
{
    atomic_bool is_over = false;
    weft_cord cord = start_cord(run_short_cords, &is_over);
    weft_counters last = counters_total();
    while (!atomic_load(&is_over)) {
        weft_counters now = counters_total();
        assert_not_decreased(&last, &now);
        last = now;
    }
    ck_assert_int_eq(weft_cord_join(cord), 0);
    ck_assert_uint_ge(counters_total().switches, (uint64_t)SHORT_CORDS * SNOOZES);
}

TEST(a_cord_that_has_ended_has_no_counters)
{
    weft_counters c;
    weft_cord ended = start_cord(return_arg, NULL);
    await_cord_end(ended);
    ck_assert_int_eq(weft_stats_of(ended, &c), -ESRCH); /* not joined */
    ck_assert_int_eq(weft_cord_join(ended), 0);
    ck_assert_int_eq(weft_stats_of(ended, &c), -ESRCH);
    weft_cord later = start_waiting_cord(); /* in the same slot of the registry */
    ck_assert_int_eq(weft_stats_of(ended, &c), -ESRCH);
    ck_assert_int_eq(weft_stats_of(later, &c), 0);
    ck_assert_int_eq(weft_stats_of(0, &c), -ESRCH);
    weft_fiber f = weft_spin(suspend, NULL);
    ck_assert_int_eq(weft_stats_of(f, &c), -ESRCH); /* not a main fiber */
    weft_cancel(f);
    end_cord(later);
}

TEST(a_forked_process_counts_only_its_own_cords)
{
    weft_counters c;
    ck_assert_int_eq(weft_cord_join(start_cord(snooze_and_count, &c)), 0);
    weft_cord other = start_waiting_cord();
    pid_t pid = weft_fork();
    if (pid == 0) {
        weft_counters own, total;
        require(weft_stats(&own) == 0 && weft_stats_total(&total) == 0);
        require(total.switches == own.switches && total.polls == own.polls);
        require(total.stacks == own.stacks);
        require(weft_stats_of(other, &total) == -ESRCH);
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    end_cord(other);
}

static int fill_info(void *out, size_t size)
{
    return weft__info_of(weft_self(), out, size);
}

static int fill_stats(void *out, size_t size)
{
    return weft__stats(out, size);
}

static int fill_stats_of(void *out, size_t size)
{
    return weft__stats_of(weft_cord_self(), out, size);
}

static int fill_stats_total(void *out, size_t size)
{
    return weft__stats_total(out, size);
}

TEST(results_for_programs_with_older_and_newer_headers_have_their_size)
{
    assert_result_is_sized(sizeof(weft_info), fill_info);
    assert_result_is_sized(sizeof(weft_counters), fill_stats);
    assert_result_is_sized(sizeof(weft_counters), fill_stats_of);
    assert_result_is_sized(sizeof(weft_counters), fill_stats_total);
}
