/*
 * Between the parts: errors that meet a cancel, moving all children, what a restart keeps, defers
 * that add defers, deadlines that are moved, and how late a sleeper can be.
 */
#include "support.h"

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

/* P6: what moves a fiber to the front of the queue does not take from it what it is to get. */
START_TEST(a_cancel_does_not_drop_an_error_that_is_on_its_way)
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

/* Two threads, and one value that goes to and fro between a fiber of each. */
typedef struct match {
    _Atomic weft_fiber players[2];
    long rounds;
    _Atomic long lost;
} match;

static weft_fiber player(match *m, int i)
{
    weft_fiber f;
    while ((f = atomic_load(&m->players[i])) == 0)
        sched_yield();
    return f;
}

static void *return_every_ball(void *arg)
{
    match *m = arg;
    atomic_store(&m->players[1], weft_self());
    weft_fiber other = player(m, 0);
    for (long i = 0; i < m->rounds; i++) {
        m->lost += weft_suspend() != i;
        m->lost += weft_schedule(other, i + 1) != 0;
    }
    return NULL;
}

/*
 * P10: often enough for a wake-up to be lost between the last look and the poll, if it could be. A
 * round is two wake-ups by the kernel, 50 microseconds and more.
 */
START_TEST(no_wake_up_is_lost_between_threads_however_often_they_wake_each_other)
{
    match m = {.rounds = is_sanitized() ? 5000 : 30000};
    atomic_store(&m.players[0], weft_self());
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, return_every_ball, &m), 0);
    weft_fiber other = player(&m, 1);
    for (long i = 0; i < m.rounds; i++) {
        m.lost += weft_schedule(other, i) != 0;
        m.lost += weft_suspend() != i + 1;
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(m.lost, 0);
}
END_TEST

/* The time that is slept, and how often someone else ran since it was over. */
#define NAP_S 0.005
static bool is_woken;

static weft_value nap(void *arg)
{
    (void)arg;
    int rc = weft_sleep(NAP_S);
    is_woken = true;
    return rc;
}

/* P11: the clock is looked at after at most 64 switches, however long those take. */
START_TEST(a_sleeper_is_late_by_a_bounded_number_of_switches)
{
    for (int i = 0; i < 5; i++) {
        is_woken = false;
        weft_fiber f = weft_spin(nap, NULL);
        weft_snooze();
        double over = weft_now() + NAP_S; /* it sleeps already, and not longer than that */
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

static weft_value read_byte(void *arg)
{
    char byte;
    return weft_read(*(int *)arg, &byte, 1);
}

/* P15 */
START_TEST(operations_are_counted_and_the_count_begins_again_when_it_is_read)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_counters c;
    weft_stats(&c);
    weft_fiber readers[3];
    for (int i = 0; i < 3; i++)
        readers[i] = weft_spin(read_byte, &fd[0]);
    weft_snooze();
    weft_stats(&c);
    ck_assert_uint_eq(c.ops, 3);
    ck_assert_uint_eq(c.ops_pending, 3);
    weft_stats(&c);
    ck_assert_uint_eq(c.ops, 0);
    ck_assert_uint_eq(c.ops_pending, 3);
    ck_assert_int_eq(weft_write(fd[1], "abc", 3), 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(readers[i]), 1);
    weft_stats(&c);
    ck_assert_uint_ge(c.ops, 1); /* the write */
    ck_assert_uint_eq(c.ops_pending, 0);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

static weft_value have_three_children(void *arg)
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
    weft_fiber old_parent = weft_spin(have_three_children, children);
    weft_fiber new_parent = spin_suspended();
    attach_all(old_parent, new_parent);
    ck_assert_int_eq(weft_children(old_parent, NULL, 0), 0);
    weft_fiber now[3];
    ck_assert_int_eq(weft_children(new_parent, now, 3), 3);
    ck_assert_mem_eq(now, children, sizeof now);
    ck_assert_int_eq(weft_terminate(old_parent, 1), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_state_of(children[i]), WEFT_WAITING);
    weft_schedule(children[1], -EIO); /* its error goes to the new one, which ends the others */
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
START_TEST(a_fiber_that_is_restarted_begins_with_an_empty_mailbox)
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
    f = weft_spin(return_arg, NULL); /* the same for one that has ended */
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

/* P31: there is no value to restart with; the first schedule brings it, as with a new one. */
START_TEST(a_fiber_that_runs_again_has_its_monitors_and_takes_a_new_first_value)
{
    weft_fiber f = weft_new(return_first_value, NULL);
    weft_name(f, "again");
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

static int ask(double patience_s, double outer_s, int *outer)
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

/* P41: the error of a deadline may be another than -ETIMEDOUT, and says which deadline it was. */
START_TEST(a_deadline_can_have_an_error_of_its_own)
{
    int outer = 1;
    ck_assert_int_eq(ask(0.001, 60, &outer), -EPROTO);
    ck_assert_int_eq(outer, 0);
    ck_assert_words(-EPROTO, "no answer in 0.001 s");
    ck_assert_int_eq(ask(60, 0.001, &outer), -EPIPE);
    ck_assert_int_eq(outer, -ETIMEDOUT);
    ck_assert_words(-EPIPE, "given up");
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

static uint64_t random_state = 48;

static unsigned roll(unsigned sides)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(random_state >> 33) % sides;
}

/* Five scopes, one of which is due; all of them are moved there and back before. */
static weft_value be_due_in_one_of_five(void *arg)
{
    unsigned due = roll(5);
    weft_scope scopes[5];
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(weft_scope_open(&scopes[i], i == due ? 60 : roll(100) * 0.01 + 0.5), 0);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(weft_scope_reset(&scopes[roll(5)], 0.5 + i), 0);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(weft_scope_reset(&scopes[i], i == due ? roll(16) * 1e-3 + 1e-3 : 60), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    for (unsigned i = 5; i-- > 0;)
        ck_assert_int_eq(weft_scope_close(&scopes[i]), i == due ? -ETIMEDOUT : 0);
    ++*(int *)arg;
    return weft_snooze();
}

/* P48: there is one kind of timer, and it is cheap; thousands fall into the same ticks. */
START_TEST(thousands_of_nested_deadlines_that_are_moved_strike_each_in_its_own_scope)
{
    int struck = 0;
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(be_due_in_one_of_five, &struck), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(struck, 1000);
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

/* T29, T30: whether a value is kept is said when a fiber is made. */
START_TEST(a_value_is_kept_of_what_was_spun_and_not_of_what_was_let_go)
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

static weft_value mark_when_cancelled(void *arg)
{
    weft_value rc = weft_suspend();
    mark(arg);
    return rc;
}

static weft_value leave_everything(void *arg)
{
    weft_local_set(*(weft_key *)arg, "local ");
    weft_defer(mark_arg, "first ");
    weft_defer(mark_arg, "second ");
    weft_spin(mark_when_cancelled, "child ");
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
START_TEST(an_end_goes_from_the_body_to_defers_to_children_to_destructors_to_who_awaits_it)
{
    weft_key key = weft_key_new(mark_arg);
    weft_fiber f = weft_spin(leave_everything, &key);
    weft_fiber awaiter = weft_spin(await_and_mark, id_arg(f));
    ck_assert_int_eq(weft_await(awaiter), 1);
    ck_assert_trail("body second first child local awaiter ");
}
END_TEST

/* One of five deferred calls: a letter, and whether it defers another. */
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

/* T37: each of five may defer another while they run, in all combinations. */
START_TEST(what_a_defer_defers_runs_next_in_every_combination)
{
    for (unsigned who = 0; who < 32; who++) {
        deferred d[5];
        char expected[11] = "";
        for (int i = 0; i < 5; i++) {
            char c = (char)('a' + i);
            d[i] = (deferred){{c}, {(char)(c - 'a' + 'A')}, who >> i & 1};
        }
        for (int i = 5; i-- > 0;) {
            strcat(expected, d[i].letter);
            strcat(expected, d[i].defers_another ? d[i].other : "");
        }
        trail[0] = '\0';
        weft_fiber f = weft_spin(defer_five, d);
        weft_snooze();
        ck_assert_int_eq(who % 2 ? weft_cancel(f) : weft_schedule(f, 1), 0);
        ck_assert_int_eq(weft_await(f), who % 2 ? -ECANCELED : 1);
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
START_TEST(a_fiber_in_a_shield_ignores_a_cancel_until_it_leaves_it)
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

static void say(void *words)
{
    dprintf(STDERR_FILENO, "%s", (const char *)words);
}

static weft_value serve(void *arg)
{
    weft_defer(say, arg);
    while (weft_sleep(0.001) == 0)
        continue;
    return 0;
}

static int leave_a_daemon_behind(void)
{
    weft_spin_with(serve, "ended", &(weft_spin_options){.is_daemon = true});
    weft_fiber worker = weft_spin(suspend, NULL);
    weft_snooze();
    weft_schedule(worker, 3);
    return (int)weft_await(worker);
}

/* T43: what runs behind the scenes is ended with everyone else, and its clean-up is done. */
START_TEST(a_daemon_is_ended_with_the_process)
{
    assert_ended(run_apart(leave_a_daemon_behind), 3, "ended");
}
END_TEST

static const TTest *const *const tests[] = {
    &a_cancel_does_not_drop_an_error_that_is_on_its_way,
    &no_wake_up_is_lost_between_threads_however_often_they_wake_each_other,
    &a_sleeper_is_late_by_a_bounded_number_of_switches,
    &operations_are_counted_and_the_count_begins_again_when_it_is_read,
    &all_children_of_a_fiber_can_be_moved_and_end_with_their_new_parent,
    &a_fiber_that_is_restarted_begins_with_an_empty_mailbox,
    &a_fiber_that_runs_again_has_its_monitors_and_takes_a_new_first_value,
    &a_deadline_can_have_an_error_of_its_own,
    &thousands_of_nested_deadlines_that_are_moved_strike_each_in_its_own_scope,
    &a_value_is_kept_of_what_was_spun_and_not_of_what_was_let_go,
    &an_end_goes_from_the_body_to_defers_to_children_to_destructors_to_who_awaits_it,
    &what_a_defer_defers_runs_next_in_every_combination,
    &a_fiber_in_a_shield_ignores_a_cancel_until_it_leaves_it,
    &a_daemon_is_ended_with_the_process,
};

int main(void)
{
    return run_suite("structured", tests, COUNT_OF(tests));
}
