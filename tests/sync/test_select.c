/* Select: the first of several things, among channels, queues, fibers, messages and times. */
#include "support.h"

#include <pthread.h>

/* A select for a fiber of its own; its value is what weft_select returned. */
typedef struct job {
    weft_clause c[12];
    size_t n;
} job;

static weft_value run_job(void *arg)
{
    job *j = arg;
    return weft_select(j->c, j->n);
}

/* A fiber that waits in that select. */
static weft_fiber spin_job(job *j)
{
    weft_fiber f = weft_spin(run_job, j);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static uint64_t switches_so_far(void)
{
    weft_counters counters;
    weft_stats(&counters); /* which begin again */
    return counters.switches;
}

static size_t timers_armed(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.timers;
}

/* A channel that holds this value, and no more. */
static weft_chan *chan_of_one(weft_value value)
{
    weft_chan *chan = weft_chan_new(1);
    ck_assert_int_eq(weft_chan_try_send(chan, value), 0);
    return chan;
}

typedef struct send_order {
    weft_chan *chan;
    weft_value value;
} send_order;

static weft_value send_it(void *arg)
{
    const send_order *o = arg;
    return weft_chan_send(o->chan, o->value);
}

/* One by itself. */

START_TEST(what_can_happen_at_once_happens_without_a_switch)
{
    weft_chan *full = chan_of_one(1), *empty = weft_chan_new(1);
    weft_queue *queue = weft_queue_new(0);
    weft_queue_push(queue, 3);
    weft_fiber ended = weft_spin(return_arg, as_arg(4));
    weft_tell(weft_self(), 5);
    let_run();
    const struct {
        weft_clause clause;
        weft_value value;
    } cases[] = {
        {weft_clause_recv(full), 1},   {weft_clause_send(empty, 2), 0},
        {weft_clause_shift(queue), 3}, {weft_clause_ended(ended), 4},
        {weft_clause_message(), 5},    {weft_clause_time(0), 0},
    };
    weft_spin(mark_and_return, "switched");
    switches_so_far();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_clause c[2] = {{0}, cases[i].clause};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, cases[i].value);
    }
    ck_assert_uint_eq(switches_so_far(), 0);
    ck_assert_trail("");
    ck_assert_uint_eq(weft_chan_count(full), 0);
    ck_assert_int_eq(weft_chan_try_recv(empty), 2);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    ck_assert_int_eq(weft_await(ended), -ESRCH);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    weft_queue_free(queue);
    weft_chan_free(full);
    weft_chan_free(empty);
}
END_TEST

START_TEST(a_receive_is_waited_for)
{
    for (size_t cap = 0; cap < 2; cap++) {
        weft_chan *chan = weft_chan_new(cap);
        job j = {{weft_clause_recv(chan)}, 1};
        weft_fiber f = spin_job(&j);
        ck_assert(weft_chan_has_receivers(chan));
        ck_assert_int_eq(weft_chan_try_send(chan, 7), 0);
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_int_eq(j.c[0].value, 7);
        ck_assert(!weft_chan_has_receivers(chan));
        weft_chan_free(chan);
    }
}
END_TEST

START_TEST(a_send_is_waited_for)
{
    weft_chan *chan = weft_chan_new(0), *full = chan_of_one(1);
    job j = {{weft_clause_send(chan, 7)}, 1}, k = {{weft_clause_send(full, 8)}, 1};
    weft_fiber f = spin_job(&j), g = spin_job(&k);
    ck_assert_int_eq(weft_chan_try_recv(chan), 7);
    ck_assert_int_eq(weft_chan_try_recv(full), 1);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 0);
    ck_assert_int_eq(weft_await(g), 0);
    ck_assert_int_eq(k.c[0].value, 0);
    ck_assert_int_eq(weft_chan_try_recv(full), 8);
    weft_chan_free(chan);
    weft_chan_free(full);
}
END_TEST

START_TEST(a_value_in_a_queue_is_waited_for)
{
    weft_queue *queue = weft_queue_new(0);
    job j = {{weft_clause_shift(queue)}, 1};
    weft_fiber f = spin_job(&j);
    weft_queue_push(queue, 7);
    weft_queue_push(queue, 8);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 7);
    ck_assert_uint_eq(weft_queue_count(queue), 1);
    weft_queue_free(queue);
}
END_TEST

START_TEST(the_end_of_a_fiber_is_waited_for)
{
    weft_fiber target = spin_suspended();
    job j = {{weft_clause_ended(target)}, 1};
    weft_fiber f = spin_job(&j);
    weft_schedule(target, 7);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 7);
    ck_assert_int_eq(weft_await(target), -ESRCH);
}
END_TEST

START_TEST(a_message_is_waited_for)
{
    job j = {{weft_clause_message()}, 1};
    weft_fiber f = spin_job(&j);
    ck_assert_int_eq(weft_tell(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 7);
}
END_TEST

START_TEST(a_time_is_waited_for_and_the_earliest_wins)
{
    double begin = weft_now();
    weft_clause c[] = {weft_clause_time(INFINITY), weft_clause_time(5), weft_clause_time(0.002),
                       weft_clause_time(6)};
    ck_assert_int_eq(weft_select(c, 4), 2);
    ck_assert_slept(begin, 0.002);
    ck_assert_int_eq(c[2].value, 0);
    ck_assert_uint_eq(timers_armed(), 0);
    for (int i = 0; i < 20; i++) {
        weft_clause falling[] = {weft_clause_time(1000), weft_clause_time(1000),
                                 weft_clause_time(999), weft_clause_time(1e-6)};
        ck_assert_int_eq(weft_select(falling, 4), 3);
    }
}
END_TEST

typedef struct point {
    int x, y, z;
} point;

WEFT_CHAN_OF(points, point);

START_TEST(items_of_any_size_are_sent_and_received)
{
    points *ps = points_new(1);
    weft_chan *chan = points_chan(ps);
    point out = {0}, in = {1, 2, 3};
    weft_clause send = weft_clause_send_from(chan, &in), recv = weft_clause_recv_into(chan, &out);
    send.value = recv.value = 99;
    ck_assert_int_eq(weft_select(&send, 1), 0);
    ck_assert_int_eq(send.value, 0);
    ck_assert_int_eq(weft_select(&recv, 1), 0);
    ck_assert_int_eq(recv.value, 0);
    ck_assert_int_eq(out.z, 3);

    job j = {{weft_clause_recv_into(chan, &out)}, 1};
    weft_fiber f = spin_job(&j);
    ck_assert_int_eq(points_try_send(ps, (point){4, 5, 6}), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 0);
    ck_assert_int_eq(out.z, 6);

    points_try_send(ps, (point){0});
    job k = {{weft_clause_send_from(chan, &in)}, 1};
    f = spin_job(&k);
    ck_assert_int_eq(points_try_recv(ps, &out), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(points_try_recv(ps, &out), 0);
    ck_assert_int_eq(out.z, 3);
    points_free(ps);
}
END_TEST

/* Several. */

/* A select among one of each kind that waits. */
typedef struct mixture {
    weft_chan *in, *out;
    weft_queue *queue;
    weft_fiber fiber;
    job job;
} mixture;

static weft_fiber spin_mixture(mixture *m)
{
    *m = (mixture){
        weft_chan_new(0), weft_chan_new(0), weft_queue_new(0), spin_suspended(), {{{0}}, 0}};
    const weft_clause c[] = {
        weft_clause_recv(m->in),     weft_clause_send(m->out, 20),
        weft_clause_shift(m->queue), {0},
        weft_clause_ended(m->fiber), weft_clause_message(),
        weft_clause_time(INFINITY),  weft_clause_time(1000),
    };
    memcpy(m->job.c, c, sizeof c);
    m->job.n = COUNT_OF(c);
    return spin_job(&m->job);
}

static void assert_untouched(const mixture *m, int winner)
{
    ck_assert(!weft_chan_has_receivers(m->in));
    ck_assert(!weft_chan_has_senders(m->out));
    ck_assert_uint_eq(weft_queue_waiting_to_shift(m->queue), 0);
    ck_assert_uint_eq(timers_armed(), 0);
    for (int i = 0; i < (int)m->job.n; i++)
        if (i != winner)
            ck_assert_int_eq(m->job.c[i].value, i == 1 ? 20 : 0);
    if (winner != 4) {
        weft_schedule(m->fiber, 44);
        ck_assert_int_eq(weft_await(m->fiber), 44);
    }
}

static void free_mixture(const mixture *m)
{
    weft_queue_free(m->queue);
    weft_chan_free(m->in);
    weft_chan_free(m->out);
}

static void make_happen(const mixture *m, weft_fiber f, int which)
{
    switch (which) {
    case 0:
        ck_assert_int_eq(weft_chan_try_send(m->in, 10), 0);
        break;
    case 1:
        ck_assert_int_eq(weft_chan_try_recv(m->out), 20);
        break;
    case 2:
        ck_assert_int_eq(weft_queue_push(m->queue, 30), 0);
        break;
    case 4:
        ck_assert_int_eq(weft_schedule(m->fiber, 40), 0);
        break;
    default:
        ck_assert_int_eq(weft_tell(f, 50), 0);
    }
}

START_TEST(to_those_that_lost_nothing_has_happened)
{
    static const struct {
        int which;
        weft_value value;
    } cases[] = {{0, 10}, {1, 0}, {2, 30}, {4, 40}, {5, 50}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        mixture m;
        weft_fiber f = spin_mixture(&m);
        make_happen(&m, f, cases[i].which);
        ck_assert_int_eq(weft_await(f), cases[i].which);
        ck_assert_int_eq(m.job.c[cases[i].which].value, cases[i].value);
        assert_untouched(&m, cases[i].which);
        free_mixture(&m);
    }
}
END_TEST

START_TEST(values_and_senders_of_the_clauses_that_lost_stay_where_they_are)
{
    weft_chan *a = chan_of_one(1), *b = weft_chan_new(0);
    send_order o = {b, 2};
    weft_fiber sender = weft_spin(send_it, &o);
    weft_fiber ended = weft_spin(return_arg, as_arg(3));
    weft_tell(weft_self(), 4);
    let_run();
    bool has_won[4] = {false};
    for (int left = 4; left > 0; left--) {
        weft_clause c[] = {weft_clause_recv(a), weft_clause_recv(b), weft_clause_ended(ended),
                           weft_clause_message()};
        for (int i = 0; i < 4; i++)
            if (has_won[i])
                c[i] = (weft_clause){0};
        int i = weft_select(c, 4);
        ck_assert(i >= 0 && i < 4 && !has_won[i]);
        ck_assert_int_eq(c[i].value, i + 1);
        has_won[i] = true;
        let_run();
        ck_assert_uint_eq(weft_chan_count(a), !has_won[0]);
        ck_assert_int_eq(weft_state_of(sender), has_won[1] ? WEFT_DEAD : WEFT_WAITING);
        ck_assert_int_eq(weft_mailbox_count(weft_self()), !has_won[3]);
    }
    ck_assert_int_eq(weft_await(ended), -ESRCH);
    ck_assert_int_eq(weft_await(sender), 0);
    weft_chan_free(a);
    weft_chan_free(b);
}
END_TEST

START_TEST(a_time_that_was_not_waited_for_is_not_waited_for)
{
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_time(1000), weft_clause_recv(chan)}, 2};
    weft_fiber f = spin_job(&j);
    ck_assert_uint_eq(timers_armed(), 1);
    weft_chan_try_send(chan, 1);
    ck_assert_uint_eq(timers_armed(), 0);
    ck_assert_int_eq(weft_await(f), 1);
    weft_chan_free(chan);
}
END_TEST

START_TEST(the_time_comes_if_nothing_else_does)
{
    mixture m;
    weft_fiber f = spin_mixture(&m);
    weft_clause c[] = {weft_clause_recv(m.in), weft_clause_ended(f), weft_clause_message(),
                       weft_clause_shift(m.queue), weft_clause_time(0.001)};
    double begin = weft_now();
    ck_assert_int_eq(weft_select(c, 5), 4);
    ck_assert_slept(begin, 0.001);
    ck_assert_int_eq(c[4].value, 0);
    ck_assert(weft_chan_has_receivers(m.in)); /* the other one */
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    assert_untouched(&m, -1);
    free_mixture(&m);
}
END_TEST

/* Fibers that end. */

/* P37 */
START_TEST(a_fiber_that_has_ended_is_first)
{
    weft_fiber alive = spin_suspended(), dead = weft_spin(return_arg, as_arg(7));
    let_run();
    weft_clause c[] = {weft_clause_ended(alive), weft_clause_ended(dead)};
    ck_assert_int_eq(weft_select(c, 2), 1);
    ck_assert_int_eq(c[1].value, 7);
    ck_assert_int_eq(weft_state_of(alive), WEFT_WAITING);
    weft_schedule(alive, 8);
    ck_assert_int_eq(weft_await(alive), 8);
}
END_TEST

static weft_value fail_when_scheduled(void *arg)
{
    weft_suspend();
    return fail_with(arg);
}

/* P37 */
START_TEST(the_error_of_a_fiber_is_the_value_with_its_words_and_the_parent_is_not_told)
{
    for (int is_late = 0; is_late < 2; is_late++) {
        weft_fiber f = weft_spin(fail_when_scheduled, as_arg(-EIO));
        let_run();
        weft_schedule(f, 0);
        if (is_late) {
            WEFT_SHIELD(INFINITY) { /* it ends, and its error waits for us */
                let_run();
            }
        }
        weft_clause c[] = {weft_clause_time(INFINITY), weft_clause_ended(f)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, -EIO);
        ck_assert_words(-EIO, "broken");
        ck_assert_int_eq(weft_snooze(), 0);
    }
}
END_TEST

/* P37 */
START_TEST(a_fiber_that_is_stopped_ends_too)
{
    weft_fiber f = spin_suspended(), g = spin_suspended();
    job j = {{weft_clause_ended(f), weft_clause_ended(g)}, 2};
    weft_fiber s = spin_job(&j);
    weft_stop(g, 9);
    ck_assert_int_eq(weft_await(s), 1);
    ck_assert_int_eq(j.c[1].value, 9);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
}
END_TEST

START_TEST(fibers_that_end_in_one_turn_are_told_of_once_each)
{
    weft_fiber f = spin_suspended(), g = spin_suspended();
    weft_schedule(f, 1);
    weft_schedule(g, 2);
    weft_clause c[] = {weft_clause_ended(g), weft_clause_ended(f), weft_clause_ended(f)};
    int i = weft_select(c, 3);
    ck_assert_int_ge(i, 1); /* f was first, in one clause or the other */
    ck_assert_int_eq(c[i].value, 1);
    ck_assert_int_eq(c[0].value, 0);
    ck_assert_int_eq(c[3 - i].value, 0);
    ck_assert_int_eq(weft_await(g), 2);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}
END_TEST

static weft_value await_it(void *arg)
{
    return weft_await(arg_id(arg));
}

START_TEST(select_and_await_are_told_the_same)
{
    weft_fiber f = spin_suspended();
    job j = {{weft_clause_ended(f), weft_clause_time(INFINITY)}, 2};
    weft_fiber a = weft_spin(await_it, id_arg(f)), s = spin_job(&j),
               b = weft_spin(await_it, id_arg(f));
    let_run();
    weft_schedule(f, 6);
    ck_assert_int_eq(weft_await(s), 0);
    ck_assert_int_eq(j.c[0].value, 6);
    ck_assert_int_eq(weft_await(a), 6);
    ck_assert_int_eq(weft_await(b), 6);
}
END_TEST

/* The end of a channel. */

START_TEST(a_closed_channel_happens_at_once)
{
    weft_chan *chan = chan_of_one(1);
    weft_queue *queue = weft_queue_new(0);
    weft_queue_close(queue);
    weft_chan_close(chan);
    point out = {0};
    weft_clause c = weft_clause_recv(chan);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    ck_assert_int_eq(c.value, 1); /* what is left comes first */
    weft_clause all[] = {weft_clause_recv(chan), weft_clause_send(chan, 2),
                         weft_clause_shift(queue), weft_clause_recv_into(chan, &out),
                         weft_clause_send_from(chan, &out)};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        ck_assert_int_eq(weft_select(&all[i], 1), 0);
        ck_assert_int_eq(all[i].value, -EPIPE);
    }
    weft_queue_free(queue);
    weft_chan_free(chan);
}
END_TEST

START_TEST(a_channel_that_is_closed_or_freed_meanwhile_happens)
{
    for (int is_freed = 0; is_freed < 2; is_freed++) {
        weft_chan *in = weft_chan_new(1), *out = weft_chan_new(0);
        weft_queue *queue = weft_queue_new(0);
        weft_value item = 5;
        job jobs[] = {
            {{weft_clause_time(INFINITY), weft_clause_recv(in)}, 2},
            {{weft_clause_recv(in), weft_clause_recv_into(in, &item)}, 2},
            {{weft_clause_time(INFINITY), weft_clause_send(out, 1), weft_clause_send(out, 2)}, 3},
            {{weft_clause_send_from(out, &item), weft_clause_send(out, 2)}, 2},
            {{weft_clause_time(INFINITY), weft_clause_shift(queue), weft_clause_message()}, 3},
        };
        weft_fiber f[COUNT_OF(jobs)];
        for (size_t i = 0; i < COUNT_OF(jobs); i++)
            f[i] = spin_job(&jobs[i]);
        is_freed ? weft_chan_free(in) : (void)weft_chan_close(in);
        is_freed ? weft_chan_free(out) : (void)weft_chan_close(out);
        is_freed ? weft_queue_free(queue) : (void)weft_queue_close(queue);
        for (size_t i = 0; i < COUNT_OF(jobs); i++) {
            weft_value which = weft_await(f[i]);
            ck_assert_int_eq(which, jobs[i].c[0].kind == WEFT_CLAUSE_TIME ? 1 : 0);
            ck_assert_int_eq(jobs[i].c[which].value, -EPIPE);
        }
        ck_assert_int_eq(item, 5);
        if (!is_freed) {
            weft_chan_free(in);
            weft_chan_free(out);
            weft_queue_free(queue);
        }
    }
}
END_TEST

/* One channel, several clauses. */

START_TEST(the_same_channel_may_be_in_two_clauses)
{
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_recv(chan), weft_clause_recv(chan), weft_clause_recv(chan)}, 3};
    weft_fiber f = spin_job(&j);
    ck_assert_int_eq(weft_chan_try_send(chan, 7), 0);
    ck_assert_int_eq(weft_chan_try_send(chan, 8), -EAGAIN); /* only one of them receives */
    int i = (int)weft_await(f);
    ck_assert_int_ge(i, 0);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(j.c[k].value, k == i ? 7 : 0);

    job k = {{weft_clause_send(chan, 1), weft_clause_send(chan, 2)}, 2};
    f = spin_job(&k);
    weft_value got = weft_chan_try_recv(chan);
    ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
    i = (int)weft_await(f);
    ck_assert_int_eq(got, i + 1);
    weft_chan_free(chan);
}
END_TEST

START_TEST(a_send_and_a_receive_of_one_select_do_not_meet)
{
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_send(chan, 7), weft_clause_recv(chan)}, 2};
    weft_fiber f = spin_job(&j);
    ck_assert_int_eq(weft_chan_try_recv(chan), 7);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));

    job k = {{weft_clause_send(chan, 7), weft_clause_recv(chan)}, 2};
    f = spin_job(&k);
    ck_assert_int_eq(weft_chan_try_send(chan, 8), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(k.c[1].value, 8);
    ck_assert_int_eq(k.c[0].value, 7);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    weft_chan_free(chan);
}
END_TEST

/* Cut short. */

START_TEST(what_can_happen_at_once_happens_even_to_a_fiber_that_is_cancelled)
{
    weft_chan *full = chan_of_one(7), *empty = weft_chan_new(0);
    WEFT_MOVE_ON_AFTER(0) {
        weft_sleep(1);
        ck_assert(weft_is_cancelled());
        weft_clause c[] = {weft_clause_recv(empty), weft_clause_recv(full)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, 7);
        ck_assert_int_eq(weft_select(c, 2), -ECANCELED);
        ck_assert(!weft_chan_has_receivers(full) && !weft_chan_has_receivers(empty));
        ck_assert_int_eq(weft_try_select(c, 2), -EAGAIN);
    }
    weft_chan_free(full);
    weft_chan_free(empty);
}
END_TEST

START_TEST(a_select_that_is_cut_short_leaves_all_its_places)
{
    for (int how = 0; how < 4; how++) {
        mixture m;
        weft_fiber f = spin_mixture(&m);
        switch (how) {
        case 0:
            weft_cancel(f);
            ck_assert_int_eq(weft_await(f), -ECANCELED);
            break;
        case 1:
            weft_raise(f, -EIO, "raised");
            ck_assert_int_eq(weft_await(f), -EIO);
            ck_assert_words(-EIO, "raised");
            break;
        case 2:
            ck_assert_int_eq(weft_interrupt(f, -99), 0);
            ck_assert_int_eq(weft_await(f), -99);
            break;
        default:
            ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
            weft_stop(f, 17);
            ck_assert_int_eq(weft_await(f), 17);
        }
        assert_untouched(&m, -1);
        free_mixture(&m);
    }
}
END_TEST

START_TEST(the_deadline_of_a_scope_ends_a_select)
{
    weft_chan *chan = weft_chan_new(0);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        weft_clause c[] = {weft_clause_recv(chan), weft_clause_time(1000)};
        ck_assert_int_eq(weft_select(c, 2), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert(!weft_chan_has_receivers(chan));
    ck_assert_uint_eq(timers_armed(), 0);
    weft_chan_free(chan);
}
END_TEST

/* The select, and what the next call says. */
static weft_value select_and_sleep(void *arg)
{
    job *j = arg;
    int rc = weft_select(j->c, j->n);
    j->c[11].value = weft_sleep(0);
    return rc;
}

START_TEST(a_cancel_after_a_clause_has_won_strikes_at_the_next_call)
{
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_time(INFINITY), weft_clause_recv(chan)}, 2};
    weft_fiber f = weft_spin(select_and_sleep, &j);
    let_run();
    weft_chan_try_send(chan, 7);
    ck_assert_int_eq(weft_interrupt(f, -5), -EBUSY);
    weft_raise(f, -EIO, "late");
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(j.c[1].value, 7);
    ck_assert_int_eq(j.c[11].value, -EIO);
    weft_chan_free(chan);
}
END_TEST

START_TEST(nothing_happens_to_a_select_that_was_cancelled_first)
{
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_time(INFINITY), weft_clause_recv(chan)}, 2};
    weft_fiber f = weft_spin(select_and_sleep, &j);
    let_run();
    weft_raise(f, -EIO, "first");
    ck_assert_int_eq(weft_chan_try_send(chan, 7), -EAGAIN);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_int_eq(j.c[1].value, 0);
    ck_assert_int_eq(j.c[11].value, 0);
    weft_chan_free(chan);
}
END_TEST

/* Without waiting. */

START_TEST(try_select_never_waits)
{
    weft_chan *full = chan_of_one(7), *empty = weft_chan_new(0);
    weft_fiber alive = spin_suspended();
    weft_queue *queue = weft_queue_new(0);
    weft_clause c[] = {
        weft_clause_recv(empty),    weft_clause_send(full, 8), {0},
        weft_clause_shift(queue),   weft_clause_ended(alive),  weft_clause_message(),
        weft_clause_time(INFINITY), weft_clause_time(1e-9),    weft_clause_recv(full)};
    switches_so_far();
    ck_assert_int_eq(weft_try_select(c, 8), -EAGAIN);
    ck_assert_int_eq(weft_try_select(c, 9), 8);
    ck_assert_int_eq(c[8].value, 7);
    ck_assert_int_eq(c[1].value, 8);
    ck_assert_int_eq(weft_try_select(c, 2), 1);
    ck_assert_int_eq(c[1].value, 0);
    ck_assert_uint_eq(switches_so_far(), 0);
    ck_assert(!weft_chan_has_receivers(empty) && !weft_chan_has_senders(full));
    weft_queue_free(queue);
    weft_chan_free(full);
    weft_chan_free(empty);
}
END_TEST

START_TEST(clauses_that_never_happen_are_passed_over)
{
    weft_clause c[3] = {{0}};
    ck_assert_int_eq(weft_select(c, 3), -EINVAL);
    ck_assert_any_words(-EINVAL);
    weft_chan *chan = weft_chan_new(0);
    job j = {{{0}, weft_clause_recv(chan), {0}}, 3};
    weft_fiber f = spin_job(&j);
    weft_chan_try_send(chan, 7);
    ck_assert_int_eq(weft_await(f), 1);
    weft_chan_free(chan);
}
END_TEST

static void *id_of_this_thread(void *arg)
{
    *(weft_fiber *)arg = weft_self();
    return NULL;
}

static weft_fiber fiber_of_another_thread(void)
{
    pthread_t thread;
    weft_fiber fiber = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, id_of_this_thread, &fiber), 0);
    pthread_join(thread, NULL);
    return fiber;
}

static weft_value select_parent(void *arg)
{
    weft_clause c[] = {weft_clause_time(0), weft_clause_ended(arg_id(arg))};
    return weft_select(c, 2) == -EDEADLK;
}

START_TEST(a_clause_without_sense_is_refused_and_nothing_has_happened)
{
    weft_chan *chan = chan_of_one(7);
    points *ps = points_new(1);
    weft_clause odd = weft_clause_time(0);
    odd.kind = (weft_clause_kind)99;
    weft_fiber gone = weft_spin(return_arg, NULL);
    weft_await(gone);
    const struct {
        weft_clause clause;
        int error;
    } cases[] = {
        {weft_clause_recv(NULL), -EINVAL},
        {weft_clause_send(NULL, 1), -EINVAL},
        {weft_clause_send(chan, -EIO), -EINVAL},
        {weft_clause_shift(NULL), -EINVAL},
        {weft_clause_recv(points_chan(ps)), -EINVAL},
        {weft_clause_send(points_chan(ps), 1), -EINVAL},
        {weft_clause_time(-1e-9), -EINVAL},
        {weft_clause_time((double)NAN), -EINVAL},
        {weft_clause_fd(0, 0), -EINVAL},
        {odd, -EINVAL},
        {weft_clause_ended(0), -ESRCH},
        {weft_clause_ended(gone), -ESRCH},
        {weft_clause_ended(weft_self()), -EDEADLK},
        {weft_clause_ended(fiber_of_another_thread()), -EXDEV},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_clause c[] = {weft_clause_recv(chan), weft_clause_time(0), cases[i].clause};
        ck_assert_int_eq(weft_select(c, 3), cases[i].error);
        ck_assert_int_eq(weft_try_select(c, 3), cases[i].error);
        ck_assert_uint_eq(weft_chan_count(chan), 1);
        ck_assert_int_eq(c[0].value, 0);
    }
    ck_assert_int_eq(weft_select(NULL, 0), -EINVAL);
    ck_assert_int_eq(weft_select(NULL, 3), -EINVAL);
    ck_assert_int_eq(weft_try_select(&odd, 0), -EINVAL);
    ck_assert_int_eq(weft_await(weft_spin(select_parent, id_arg(weft_self()))), 1);
    points_free(ps);
    weft_chan_free(chan);
}
END_TEST

START_TEST(words_say_which_clause_it_is)
{
    weft_clause c[] = {weft_clause_time(1), weft_clause_time(-1)};
    ck_assert_int_eq(weft_select(c, 2), -EINVAL);
    ck_assert_words(-EINVAL, "clause 1: a negative time, or none");
}
END_TEST

static int select_for_ever(void)
{
    weft_chan *chan = weft_chan_new(0);
    weft_clause c[] = {weft_clause_recv(chan), weft_clause_send(chan, 1), weft_clause_message(),
                       weft_clause_time(INFINITY)};
    int rc = weft_select(c, 4);
    bool has_left = !weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan);
    weft_chan_free(chan);
    return rc == -EDEADLK && has_left ? 0 : 1;
}

/* P80 */
START_TEST(a_select_that_nothing_can_end_is_reported)
{
    const outcome *o = run_apart(select_for_ever);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "one of several");
}
END_TEST

static const TTest *const *const tests[] = {
    &what_can_happen_at_once_happens_without_a_switch,
    &a_receive_is_waited_for,
    &a_send_is_waited_for,
    &a_value_in_a_queue_is_waited_for,
    &the_end_of_a_fiber_is_waited_for,
    &a_message_is_waited_for,
    &a_time_is_waited_for_and_the_earliest_wins,
    &items_of_any_size_are_sent_and_received,
    &to_those_that_lost_nothing_has_happened,
    &values_and_senders_of_the_clauses_that_lost_stay_where_they_are,
    &a_time_that_was_not_waited_for_is_not_waited_for,
    &the_time_comes_if_nothing_else_does,
    &a_fiber_that_has_ended_is_first,
    &the_error_of_a_fiber_is_the_value_with_its_words_and_the_parent_is_not_told,
    &a_fiber_that_is_stopped_ends_too,
    &fibers_that_end_in_one_turn_are_told_of_once_each,
    &select_and_await_are_told_the_same,
    &a_closed_channel_happens_at_once,
    &a_channel_that_is_closed_or_freed_meanwhile_happens,
    &the_same_channel_may_be_in_two_clauses,
    &a_send_and_a_receive_of_one_select_do_not_meet,
    &what_can_happen_at_once_happens_even_to_a_fiber_that_is_cancelled,
    &a_select_that_is_cut_short_leaves_all_its_places,
    &the_deadline_of_a_scope_ends_a_select,
    &a_cancel_after_a_clause_has_won_strikes_at_the_next_call,
    &nothing_happens_to_a_select_that_was_cancelled_first,
    &try_select_never_waits,
    &clauses_that_never_happen_are_passed_over,
    &a_clause_without_sense_is_refused_and_nothing_has_happened,
    &words_say_which_clause_it_is,
    &a_select_that_nothing_can_end_is_reported,
};

int main(void)
{
    return run_suite("select", tests, COUNT_OF(tests));
}
