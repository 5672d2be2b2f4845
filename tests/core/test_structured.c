/*
 * Tests of combined features: errors and cancellation, moving all children, the state after a
 * restart, nested deferred calls, moved deadlines, and the delay of sleeping fibers.
 */
#include "support/random.h"
#include "support/support.h"

#include <pthread.h>
#include <stdatomic.h>

static weft_value mark_two_results(void *arg)
{
    for (int i = 0; i < 2; i++) {
        weft_value rc = weft_suspend();
        mark(rc == -EIO ? "error " : rc == -ECANCELED ? "cancel " : "? ");
    }
    return (weft_value)arg;
}

/* P6: moving a fiber to the front of the queue does not discard its pending result. */
START_TEST(a_cancel_does_not_discard_a_pending_error)
{
    weft_fiber f = weft_spin(mark_two_results, NULL);
    let_run();
    ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("error cancel ");
    f = weft_spin(mark_two_results, NULL);
    let_run();
    ck_assert_int_eq(weft_raise(f, -EIO, "broken"), 0);
    ck_assert_int_eq(weft_stop(f, 5), 0);
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_trail("error cancel error cancel ");
}
END_TEST

/* Two threads that pass a value back and forth between a fiber of each. */
typedef struct exchange {
    _Atomic weft_fiber ids[2];
    long rounds;
    _Atomic long lost;
} exchange;

static weft_fiber wait_for_id(exchange *m, int i)
{
    weft_fiber f;
    while ((f = atomic_load(&m->ids[i])) == 0)
        sched_yield();
    return f;
}

static void *schedule_back(void *arg)
{
    exchange *m = arg;
    atomic_store(&m->ids[1], weft_self());
    weft_fiber other = wait_for_id(m, 0);
    for (long i = 0; i < m->rounds; i++) {
        m->lost += weft_suspend() != i;
        m->lost += weft_schedule(other, i + 1) != 0;
    }
    return NULL;
}

/*
 * P10: repeat often enough to hit the window between the last check and the poll. A round takes two
 * wake-ups by the kernel, 50 microseconds or more.
 */
START_TEST(no_wake_up_between_threads_is_lost)
{
    exchange m = {.rounds = is_sanitized() ? 5000 : 30000};
    atomic_store(&m.ids[0], weft_self());
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, schedule_back, &m), 0);
    weft_fiber other = wait_for_id(&m, 1);
    for (long i = 0; i < m.rounds; i++) {
        m.lost += weft_schedule(other, i) != 0;
        m.lost += weft_suspend() != i + 1;
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(m.lost, 0);
}
END_TEST

/* The duration of the sleep, and whether it is over. */
#define SLEEP_S 0.005
static bool is_woken;

static weft_value sleep_and_set_woken(void *arg)
{
    (void)arg;
    int rc = weft_sleep(SLEEP_S);
    is_woken = true;
    return rc;
}

/* P11: the clock is read after at most 64 switches, however long they take. */
START_TEST(a_sleeping_fiber_wakes_after_a_bounded_number_of_switches)
{
    for (int i = 0; i < 5; i++) {
        is_woken = false;
        weft_fiber f = weft_spin(sleep_and_set_woken, NULL);
        weft_snooze();
        double over = weft_now() + SLEEP_S; /* the fiber already sleeps, and not longer than this */
        int late = 0;
        while (!is_woken) {
            late += weft_now() >= over;
            weft_snooze();
        }
        ck_assert_int_le(late, 2 * 64);
        ck_assert_int_eq(weft_await(f), 0);
    }
}
END_TEST

/* P15 */
START_TEST(the_counter_of_operations_counts_each_operation_once)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_counters before, c;
    weft_stats(&before);
    weft_fiber readers[3];
    for (int i = 0; i < 3; i++)
        readers[i] = weft_spin(read_byte, &fd[0]);
    weft_snooze();
    weft_stats(&c);
    ck_assert_uint_eq(c.ops, before.ops + 3);
    ck_assert_uint_eq(c.ops_pending, 3);
    before = c;
    ck_assert_int_eq(weft_write(fd[1], "abc", 3), 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(readers[i]), 1);
    weft_stats(&c);
    ck_assert_uint_ge(c.ops, before.ops + 1); /* the write */
    ck_assert_uint_eq(c.ops_pending, 0);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

static weft_value spin_three_children(void *arg)
{
    weft_fiber *children = arg;
    for (int i = 0; i < 3; i++)
        children[i] = weft_spin(suspend, NULL);
    return weft_suspend();
}

static void attach_all(weft_fiber from, weft_fiber to)
{
    weft_fiber children[8];
    int n = weft_children(from, children, COUNT_OF(children));
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(weft_attach(children[i], to), 0);
}

/* P27 */
START_TEST(all_children_of_a_fiber_can_be_moved_and_end_with_their_new_parent)
{
    weft_fiber children[3];
    weft_fiber old_parent = weft_spin(spin_three_children, children);
    weft_fiber new_parent = spin_suspended();
    attach_all(old_parent, new_parent);
    ck_assert_int_eq(weft_children(old_parent, NULL, 0), 0);
    weft_fiber now[3];
    ck_assert_int_eq(weft_children(new_parent, now, 3), 3);
    ck_assert_mem_eq(now, children, sizeof now);
    ck_assert_int_eq(weft_terminate(old_parent, 1), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_state_of(children[i]), WEFT_WAITING);
    weft_schedule(children[1], -EIO); /* its error goes to the new parent, which ends the others */
    ck_assert_int_eq(weft_await(new_parent), -EIO);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_state_of(children[i]), WEFT_DEAD);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static weft_value suspend_then_receive(void *arg)
{
    (void)arg;
    weft_value rc = weft_suspend();
    return weft_is_error(rc) ? rc : weft_receive();
}

/* P30 */
START_TEST(restarting_a_fiber_empties_its_mailbox)
{
    weft_fiber f = weft_spin(suspend_then_receive, NULL);
    let_run();
    ck_assert_int_eq(weft_tell(f, 1), 0);
    ck_assert_int_eq(weft_tell(f, 2), 0);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_mailbox_count(f), 0);
    let_run();
    ck_assert_int_eq(weft_tell(f, 3), 0);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 3);
    f = weft_spin(return_arg, NULL); /* also for an ended fiber */
    ck_assert_int_eq(weft_tell(f, 4), 0);
    weft_snooze();
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_mailbox_count(f), 0);
    ck_assert_int_eq(weft_await(f), 0);
}
END_TEST

static weft_value return_first_value(void *arg)
{
    (void)arg;
    return weft_first_value();
}

/* P31: a restart takes no value. The first schedule sets the first value, as for a new fiber. */
START_TEST(a_restarted_fiber_keeps_its_monitors_and_gets_a_new_first_value)
{
    weft_fiber f = weft_new(return_first_value, NULL);
    weft_set_name(f, "again");
    ck_assert_int_eq(weft_monitor(f), 0);
    ck_assert_int_eq(weft_schedule(f, 5), 0);
    ck_assert_uint_eq((weft_fiber)weft_receive(), f);
    for (weft_value first = 6; first < 9; first++) {
        ck_assert_int_eq(weft_restart(f), 0);
        ck_assert_str_eq(weft_name_of(f), "again");
        ck_assert_uint_eq(weft_parent(f), weft_self());
        ck_assert_int_eq(weft_schedule(f, first), 0);
        ck_assert_uint_eq((weft_fiber)weft_receive(), f);
    }
    ck_assert_int_eq(weft_await(f), 8);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}
END_TEST

static int sleep_with_two_deadlines(double patience_s, double outer_s, int *outer)
{
    int inner = 0;
    WEFT_CANCEL_AFTER(outer_s, *outer) {
        WEFT_CANCEL_AFTER(patience_s, inner) {
            weft_sleep(60);
        }
        if (inner == -ETIMEDOUT)
            return weft_fail(-EPROTO, "no answer in %g s", patience_s);
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
    }
    return weft_fail(-EPIPE, "given up");
}

/* P41: a caller can replace -ETIMEDOUT, and can tell which deadline expired. */
START_TEST(a_deadline_can_return_a_specific_error)
{
    int outer = 1;
    ck_assert_int_eq(sleep_with_two_deadlines(0.001, 60, &outer), -EPROTO);
    ck_assert_int_eq(outer, 0);
    ck_assert_error(-EPROTO, "no answer in 0.001 s");
    ck_assert_int_eq(sleep_with_two_deadlines(60, 0.001, &outer), -EPIPE);
    ck_assert_int_eq(outer, -ETIMEDOUT);
    ck_assert_error(-EPIPE, "given up");
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

/* Five scopes, one of which expires. All are moved back and forth first. */
static weft_value expire_in_one_of_five(void *arg)
{
    unsigned due = random_below(5);
    weft_scope scopes[5];
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(
            weft_scope_open(&scopes[i], i == due ? 60 : random_below(100) * 0.01 + 0.5), 0);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(weft_scope_reset(&scopes[random_below(5)], 0.5 + i), 0);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(
            weft_scope_reset(&scopes[i], i == due ? random_below(16) * 1e-3 + 1e-3 : 60), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    for (unsigned i = 5; i-- > 0;)
        ck_assert_int_eq(weft_scope_close(&scopes[i]), i == due ? -ETIMEDOUT : 0);
    ++*(int *)arg;
    return weft_snooze();
}

/* P48: there is one kind of timer, and it is cheap. Thousands expire in the same ticks. */
START_TEST(thousands_of_moved_nested_deadlines_expire_in_their_own_scopes)
{
    int expired = 0;
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(expire_in_one_of_five, &expired), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(expired, 1000);
    weft_counters c;
    weft_stats(&c);
    ck_assert_uint_eq(c.timers, 0);
}
END_TEST

static weft_fiber youngest_child(void)
{
    weft_fiber children[8];
    int n = weft_children(weft_self(), children, COUNT_OF(children));
    ck_assert_int_gt(n, 0);
    return children[n - 1];
}

/* T29, T30: whether a value is stored is decided when a fiber is created. */
START_TEST(values_are_stored_for_spun_fibers_and_not_for_detached_ones)
{
    weft_fiber spun = weft_spin(return_arg, as_arg(3));
    ck_assert_int_eq(weft_go(return_arg, as_arg(4)), 0);
    weft_fiber gone = youngest_child();
    weft_snooze();
    ck_assert_int_eq(weft_await(gone), -ESRCH);
    ck_assert_int_eq(weft_await(spun), 3);
    ck_assert_int_eq(weft_await(spun), -ESRCH);
    ck_assert_int_eq(weft_go(return_arg, as_arg(5)), 0);
    ck_assert_int_eq(weft_await(youngest_child()), 5);
    weft_counters c;
    weft_stats(&c);
    ck_assert_uint_eq(c.fibers + c.fibers_unawaited, 0);
}
END_TEST

static weft_value suspend_then_mark(void *arg)
{
    weft_value rc = weft_suspend();
    mark(arg);
    return rc;
}

static weft_value defer_set_and_spin(void *arg)
{
    weft_local_set(*(weft_key *)arg, "local ");
    weft_defer(mark_arg, "first ");
    weft_defer(mark_arg, "second ");
    weft_spin(suspend_then_mark, "child ");
    weft_snooze();
    mark("body ");
    return 1;
}

static weft_value await_and_mark(void *arg)
{
    weft_value rc = weft_await(arg_id(arg));
    mark("awaiter ");
    return rc;
}

/* T36 */
START_TEST(the_end_of_a_fiber_runs_deferred_calls_children_destructors_and_then_awaiters)
{
    weft_key key = weft_key_new(mark_arg);
    weft_fiber f = weft_spin(defer_set_and_spin, &key);
    weft_fiber awaiter = weft_spin(await_and_mark, id_arg(f));
    ck_assert_int_eq(weft_await(awaiter), 1);
    ck_assert_trail("body second first child local awaiter ");
}
END_TEST

/* One of five deferred calls: a letter, and whether it defers another call. */
typedef struct deferred {
    char letter[2], other[2];
    bool defers_another;
} deferred;

static void mark_and_defer(void *arg)
{
    deferred *d = arg;
    mark(d->letter);
    if (d->defers_another)
        ck_assert_int_eq(weft_defer(mark_arg, d->other), 0);
}

static weft_value defer_five(void *arg)
{
    deferred *d = arg;
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(weft_defer(mark_and_defer, &d[i]), 0);
    return weft_suspend();
}

/* T37: each of five deferred calls may defer another call, in all combinations. */
START_TEST(a_call_deferred_by_a_deferred_call_runs_next_in_every_combination)
{
    for (unsigned mask = 0; mask < 32; mask++) {
        deferred d[5];
        char expected[11] = "";
        for (int i = 0; i < 5; i++) {
            char c = (char)('a' + i);
            d[i] = (deferred){{c}, {(char)(c - 'a' + 'A')}, mask >> i & 1};
        }
        for (int i = 5; i-- > 0;) {
            strcat(expected, d[i].letter);
            strcat(expected, d[i].defers_another ? d[i].other : "");
        }
        trail[0] = '\0';
        weft_fiber f = weft_spin(defer_five, d);
        weft_snooze();
        ck_assert_int_eq(mask % 2 ? weft_cancel(f) : weft_schedule(f, 1), 0);
        ck_assert_int_eq(weft_await(f), mask % 2 ? -ECANCELED : 1);
        ck_assert_trail(expected);
    }
}
END_TEST

static weft_value work_in_a_shield(void *arg)
{
    WEFT_SHIELD(60) {
        for (int i = 0; i < 3; i++)
            if (weft_suspend() == 1)
                mark("work ");
        ck_assert(!weft_is_cancelled());
    }
    ck_assert(weft_is_cancelled());
    mark(weft_suspend() == -ECANCELED ? "cancelled" : "?");
    return (weft_value)arg;
}

/* T43 */
START_TEST(a_shield_delays_a_cancel_until_its_end)
{
    weft_fiber f = weft_spin(work_in_a_shield, NULL);
    let_run();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_cancel(f), 0);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(weft_schedule(f, 1), 0);
        let_run();
    }
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("work work work cancelled");
}
END_TEST

static weft_value print_at_end(void *arg)
{
    weft_defer(print_stderr_arg, arg);
    while (weft_sleep(0.001) == 0)
        continue;
    return 0;
}

static int return_with_daemon(void)
{
    weft_spin_with(print_at_end, "ended", &(weft_spin_options){.is_daemon = true});
    weft_fiber worker = weft_spin(suspend, NULL);
    weft_snooze();
    weft_schedule(worker, 3);
    return (int)weft_await(worker);
}

/* T43: a daemon is cancelled like all fibers, and its cleanup runs. */
START_TEST(a_daemon_is_ended_with_the_process)
{
    assert_exited(run_apart(return_with_daemon), 3, "ended");
}
END_TEST

static const TTest *const *const tests[] = {
    &a_cancel_does_not_discard_a_pending_error,
    &no_wake_up_between_threads_is_lost,
    &a_sleeping_fiber_wakes_after_a_bounded_number_of_switches,
    &the_counter_of_operations_counts_each_operation_once,
    &all_children_of_a_fiber_can_be_moved_and_end_with_their_new_parent,
    &restarting_a_fiber_empties_its_mailbox,
    &a_restarted_fiber_keeps_its_monitors_and_gets_a_new_first_value,
    &a_deadline_can_return_a_specific_error,
    &thousands_of_moved_nested_deadlines_expire_in_their_own_scopes,
    &values_are_stored_for_spun_fibers_and_not_for_detached_ones,
    &the_end_of_a_fiber_runs_deferred_calls_children_destructors_and_then_awaiters,
    &a_call_deferred_by_a_deferred_call_runs_next_in_every_combination,
    &a_shield_delays_a_cancel_until_its_end,
    &a_daemon_is_ended_with_the_process,
};

int main(void)
{
    return run_suite("structured", tests, COUNT_OF(tests));
}
