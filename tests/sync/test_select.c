/* Select: the first of several events of channels, queues, fibers, mailboxes and times. */
#include "support/suite.h"

#include <pthread.h>

/* The arguments of weft_select in a fiber, which returns its result. */
typedef struct select_call {
    weft_clause c[12];
    size_t n;
} select_call;

static weft_value run_select(void *arg)
{
    select_call *j = arg;
    return weft_select(j->c, j->n);
}

/* Spin a fiber that waits in this select. */
static weft_fiber spin_select(select_call *j)
{
    weft_fiber f = weft_spin(run_select, j);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static uint64_t count_switches(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.switches;
}

static size_t timers_armed(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.timers;
}

/* Return a full channel with this one value. */
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

static weft_value send_value(void *arg)
{
    const send_order *o = arg;
    return weft_chan_send(o->chan, o->value);
}

/* One clause. */

TEST(a_ready_clause_is_chosen_without_a_switch)
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
    uint64_t switches = count_switches();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_clause c[2] = {{0}, cases[i].clause};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, cases[i].value);
    }
    ck_assert_uint_eq(count_switches(), switches);
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

TEST(a_select_waits_for_a_receive)
{
    for (size_t cap = 0; cap < 2; cap++) {
        weft_chan *chan = weft_chan_new(cap);
        select_call j = {{weft_clause_recv(chan)}, 1};
        weft_fiber f = spin_select(&j);
        ck_assert(weft_chan_has_receivers(chan));
        ck_assert_int_eq(weft_chan_try_send(chan, 7), 0);
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_int_eq(j.c[0].value, 7);
        ck_assert(!weft_chan_has_receivers(chan));
        weft_chan_free(chan);
    }
}

TEST(a_select_waits_for_a_send)
{
    weft_chan *chan = weft_chan_new(0), *full = chan_of_one(1);
    select_call j = {{weft_clause_send(chan, 7)}, 1}, k = {{weft_clause_send(full, 8)}, 1};
    weft_fiber f = spin_select(&j), g = spin_select(&k);
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

TEST(a_select_waits_for_a_value_in_a_queue)
{
    weft_queue *queue = weft_queue_new(0);
    select_call j = {{weft_clause_shift(queue)}, 1};
    weft_fiber f = spin_select(&j);
    weft_queue_push(queue, 7);
    weft_queue_push(queue, 8);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 7);
    ck_assert_uint_eq(weft_queue_count(queue), 1);
    weft_queue_free(queue);
}

TEST(a_select_waits_for_the_end_of_a_fiber)
{
    weft_fiber target = spin_suspended();
    select_call j = {{weft_clause_ended(target)}, 1};
    weft_fiber f = spin_select(&j);
    weft_schedule(target, 7);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 7);
    ck_assert_int_eq(weft_await(target), -ESRCH);
}

TEST(a_select_waits_for_a_message)
{
    select_call j = {{weft_clause_message()}, 1};
    weft_fiber f = spin_select(&j);
    ck_assert_int_eq(weft_tell(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 7);
}

TEST(a_select_waits_for_the_earliest_time)
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

typedef struct point {
    int x, y, z;
} point;

WEFT_CHAN_OF(points, point);

TEST(items_of_any_size_are_sent_and_received)
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

    select_call j = {{weft_clause_recv_into(chan, &out)}, 1};
    weft_fiber f = spin_select(&j);
    ck_assert_int_eq(points_try_send(ps, (point){4, 5, 6}), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(j.c[0].value, 0);
    ck_assert_int_eq(out.z, 6);

    points_try_send(ps, (point){0});
    select_call k = {{weft_clause_send_from(chan, &in)}, 1};
    f = spin_select(&k);
    ck_assert_int_eq(points_try_recv(ps, &out), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(points_try_recv(ps, &out), 0);
    ck_assert_int_eq(out.z, 3);
    points_free(ps);
}

/* Several clauses. */

/* A waiting select with one clause of each kind. */
typedef struct mixture {
    weft_chan *in, *out;
    weft_queue *queue;
    weft_fiber fiber;
    select_call select_call;
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
    memcpy(m->select_call.c, c, sizeof c);
    m->select_call.n = COUNT_OF(c);
    return spin_select(&m->select_call);
}

static void assert_losers_unchanged(const mixture *m, int winner)
{
    ck_assert(!weft_chan_has_receivers(m->in));
    ck_assert(!weft_chan_has_senders(m->out));
    size_t queued = weft_queue_count(m->queue);
    ck_assert_int_eq(weft_queue_push(m->queue, 9), 0); /* no fiber waits to shift */
    ck_assert_uint_eq(weft_queue_count(m->queue), queued + 1);
    ck_assert_uint_eq(timers_armed(), 0);
    for (int i = 0; i < (int)m->select_call.n; i++)
        if (i != winner)
            ck_assert_int_eq(m->select_call.c[i].value, i == 1 ? 20 : 0);
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

static void complete_clause(const mixture *m, weft_fiber f, int which)
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

TEST(clauses_that_lose_have_no_effect)
{
    static const struct {
        int which;
        weft_value value;
    } cases[] = {{0, 10}, {1, 0}, {2, 30}, {4, 40}, {5, 50}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        mixture m;
        weft_fiber f = spin_mixture(&m);
        complete_clause(&m, f, cases[i].which);
        ck_assert_int_eq(weft_await(f), cases[i].which);
        ck_assert_int_eq(m.select_call.c[cases[i].which].value, cases[i].value);
        assert_losers_unchanged(&m, cases[i].which);
        free_mixture(&m);
    }
}

TEST(values_and_senders_of_losing_clauses_stay_where_they_are)
{
    weft_chan *a = chan_of_one(1), *b = weft_chan_new(0);
    send_order o = {b, 2};
    weft_fiber sender = weft_spin(send_value, &o);
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

TEST(the_timer_of_a_losing_clause_is_disarmed)
{
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_time(1000), weft_clause_recv(chan)}, 2};
    weft_fiber f = spin_select(&j);
    ck_assert_uint_eq(timers_armed(), 1);
    weft_chan_try_send(chan, 1);
    ck_assert_uint_eq(timers_armed(), 0);
    ck_assert_int_eq(weft_await(f), 1);
    weft_chan_free(chan);
}

TEST(a_time_clause_wins_if_no_other_is_ready)
{
    mixture m;
    weft_fiber f = spin_mixture(&m);
    weft_clause c[] = {weft_clause_recv(m.in), weft_clause_ended(f), weft_clause_message(),
                       weft_clause_shift(m.queue), weft_clause_time(0.001)};
    double begin = weft_now();
    ck_assert_int_eq(weft_select(c, 5), 4);
    ck_assert_slept(begin, 0.001);
    ck_assert_int_eq(c[4].value, 0);
    ck_assert(weft_chan_has_receivers(m.in)); /* the receiver of the mixture */
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    assert_losers_unchanged(&m, -1);
    free_mixture(&m);
}

/* Fibers that end. */

/* P37 */
TEST(the_clause_of_an_ended_fiber_is_ready)
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

static weft_value fail_when_scheduled(void *arg)
{
    weft_suspend();
    return fail_with(arg);
}

/* P37 */
TEST(the_error_of_a_fiber_becomes_the_value_with_its_message_and_does_not_reach_the_parent)
{
    for (int is_late = 0; is_late < 2; is_late++) {
        weft_fiber f = weft_spin(fail_when_scheduled, as_arg(-EIO));
        let_run();
        weft_schedule(f, 0);
        if (is_late) {
            WEFT_SHIELD(INFINITY) { /* the error of f must not fail let_run */
                let_run();
            }
        }
        weft_clause c[] = {weft_clause_time(INFINITY), weft_clause_ended(f)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, -EIO);
        ck_assert_error(-EIO, "broken");
        ck_assert_int_eq(weft_snooze(), 0);
    }
}

/* P37 */
TEST(a_fiber_that_is_stopped_ends_too)
{
    weft_fiber f = spin_suspended(), g = spin_suspended();
    select_call j = {{weft_clause_ended(f), weft_clause_ended(g)}, 2};
    weft_fiber s = spin_select(&j);
    weft_stop(g, 9);
    ck_assert_int_eq(weft_await(s), 1);
    ck_assert_int_eq(j.c[1].value, 9);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
}

TEST(fibers_that_end_in_one_tick_are_reported_once_each)
{
    weft_fiber f = spin_suspended(), g = spin_suspended();
    weft_schedule(f, 1);
    weft_schedule(g, 2);
    weft_clause c[] = {weft_clause_ended(g), weft_clause_ended(f), weft_clause_ended(f)};
    int i = weft_select(c, 3);
    ck_assert_int_ge(i, 1); /* f ended first, in either clause */
    ck_assert_int_eq(c[i].value, 1);
    ck_assert_int_eq(c[0].value, 0);
    ck_assert_int_eq(c[3 - i].value, 0);
    ck_assert_int_eq(weft_await(g), 2);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

TEST(select_and_await_get_the_same_value)
{
    weft_fiber f = spin_suspended();
    select_call j = {{weft_clause_ended(f), weft_clause_time(INFINITY)}, 2};
    weft_fiber a = weft_spin(await_fiber, id_arg(f)), s = spin_select(&j),
               b = weft_spin(await_fiber, id_arg(f));
    let_run();
    weft_schedule(f, 6);
    ck_assert_int_eq(weft_await(s), 0);
    ck_assert_int_eq(j.c[0].value, 6);
    ck_assert_int_eq(weft_await(a), 6);
    ck_assert_int_eq(weft_await(b), 6);
}

/* Closed channels. */

TEST(a_clause_of_a_closed_channel_is_ready_at_once)
{
    weft_chan *chan = chan_of_one(1);
    weft_queue *queue = weft_queue_new(0);
    weft_queue_close(queue);
    weft_chan_close(chan);
    point out = {0};
    weft_clause c = weft_clause_recv(chan);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    ck_assert_int_eq(c.value, 1); /* remaining values first */
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

TEST(closing_or_freeing_a_channel_ends_a_waiting_select)
{
    for (int is_freed = 0; is_freed < 2; is_freed++) {
        weft_chan *in = weft_chan_new(1), *out = weft_chan_new(0);
        weft_queue *queue = weft_queue_new(0);
        weft_value item = 5;
        select_call calls[] = {
            {{weft_clause_time(INFINITY), weft_clause_recv(in)}, 2},
            {{weft_clause_recv(in), weft_clause_recv_into(in, &item)}, 2},
            {{weft_clause_time(INFINITY), weft_clause_send(out, 1), weft_clause_send(out, 2)}, 3},
            {{weft_clause_send_from(out, &item), weft_clause_send(out, 2)}, 2},
            {{weft_clause_time(INFINITY), weft_clause_shift(queue), weft_clause_message()}, 3},
        };
        weft_fiber f[COUNT_OF(calls)];
        for (size_t i = 0; i < COUNT_OF(calls); i++)
            f[i] = spin_select(&calls[i]);
        is_freed ? weft_chan_free(in) : (void)weft_chan_close(in);
        is_freed ? weft_chan_free(out) : (void)weft_chan_close(out);
        is_freed ? weft_queue_free(queue) : (void)weft_queue_close(queue);
        for (size_t i = 0; i < COUNT_OF(calls); i++) {
            weft_value which = weft_await(f[i]);
            ck_assert_int_eq(which, calls[i].c[0].kind == WEFT_CLAUSE_TIME ? 1 : 0);
            ck_assert_int_eq(calls[i].c[which].value, -EPIPE);
        }
        ck_assert_int_eq(item, 5);
        if (!is_freed) {
            weft_chan_free(in);
            weft_chan_free(out);
            weft_queue_free(queue);
        }
    }
}

/* One channel in several clauses. */

TEST(the_same_channel_may_be_in_two_clauses)
{
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_recv(chan), weft_clause_recv(chan), weft_clause_recv(chan)}, 3};
    weft_fiber f = spin_select(&j);
    ck_assert_int_eq(weft_chan_try_send(chan, 7), 0);
    ck_assert_int_eq(weft_chan_try_send(chan, 8), -EAGAIN); /* only one clause receives */
    int i = (int)weft_await(f);
    ck_assert_int_ge(i, 0);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(j.c[k].value, k == i ? 7 : 0);

    select_call k = {{weft_clause_send(chan, 1), weft_clause_send(chan, 2)}, 2};
    f = spin_select(&k);
    weft_value got = weft_chan_try_recv(chan);
    ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
    i = (int)weft_await(f);
    ck_assert_int_eq(got, i + 1);
    weft_chan_free(chan);
}

TEST(a_send_and_a_receive_of_one_select_do_not_meet)
{
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_send(chan, 7), weft_clause_recv(chan)}, 2};
    weft_fiber f = spin_select(&j);
    ck_assert_int_eq(weft_chan_try_recv(chan), 7);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));

    select_call k = {{weft_clause_send(chan, 7), weft_clause_recv(chan)}, 2};
    f = spin_select(&k);
    ck_assert_int_eq(weft_chan_try_send(chan, 8), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(k.c[1].value, 8);
    ck_assert_int_eq(k.c[0].value, 7);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    weft_chan_free(chan);
}

/* Cancelled and interrupted selects. */

TEST(a_ready_clause_is_chosen_even_in_a_cancelled_fiber)
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

TEST(an_interrupted_select_leaves_all_wait_queues)
{
    for (int disturbance = 0; disturbance < 4; disturbance++) {
        mixture m;
        weft_fiber f = spin_mixture(&m);
        switch (disturbance) {
        case 0:
            weft_cancel(f);
            ck_assert_int_eq(weft_await(f), -ECANCELED);
            break;
        case 1:
            weft_raise(f, -EIO, "raised");
            ck_assert_int_eq(weft_await(f), -EIO);
            ck_assert_error(-EIO, "raised");
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
        assert_losers_unchanged(&m, -1);
        free_mixture(&m);
    }
}

TEST(the_deadline_of_a_scope_ends_a_select)
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

/* Select, then store the result of the next call. */
static weft_value select_and_sleep(void *arg)
{
    select_call *j = arg;
    int rc = weft_select(j->c, j->n);
    j->c[11].value = weft_sleep(0);
    return rc;
}

TEST(an_error_raised_after_a_clause_has_won_fails_the_next_call)
{
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_time(INFINITY), weft_clause_recv(chan)}, 2};
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

TEST(a_select_that_fails_first_has_no_effect)
{
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_time(INFINITY), weft_clause_recv(chan)}, 2};
    weft_fiber f = weft_spin(select_and_sleep, &j);
    let_run();
    weft_raise(f, -EIO, "first");
    ck_assert_int_eq(weft_chan_try_send(chan, 7), -EAGAIN);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_int_eq(j.c[1].value, 0);
    ck_assert_int_eq(j.c[11].value, 0);
    weft_chan_free(chan);
}

/* Without waiting. */

TEST(try_select_never_waits)
{
    weft_chan *full = chan_of_one(7), *empty = weft_chan_new(0);
    weft_fiber alive = spin_suspended();
    weft_queue *queue = weft_queue_new(0);
    weft_clause c[] = {
        weft_clause_recv(empty),    weft_clause_send(full, 8), {0},
        weft_clause_shift(queue),   weft_clause_ended(alive),  weft_clause_message(),
        weft_clause_time(INFINITY), weft_clause_time(1e-9),    weft_clause_recv(full)};
    uint64_t switches = count_switches();
    ck_assert_int_eq(weft_try_select(c, 8), -EAGAIN);
    ck_assert_int_eq(weft_try_select(c, 9), 8);
    ck_assert_int_eq(c[8].value, 7);
    ck_assert_int_eq(c[1].value, 8);
    ck_assert_int_eq(weft_try_select(c, 2), 1);
    ck_assert_int_eq(c[1].value, 0);
    ck_assert_uint_eq(count_switches(), switches);
    ck_assert(!weft_chan_has_receivers(empty) && !weft_chan_has_senders(full));
    weft_queue_free(queue);
    weft_chan_free(full);
    weft_chan_free(empty);
}

TEST(clauses_that_are_never_ready_are_ignored)
{
    weft_clause c[3] = {{0}};
    ck_assert_int_eq(weft_select(c, 3), -EINVAL);
    ck_assert_any_error(-EINVAL);
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{{0}, weft_clause_recv(chan), {0}}, 3};
    weft_fiber f = spin_select(&j);
    weft_chan_try_send(chan, 7);
    ck_assert_int_eq(weft_await(f), 1);
    weft_chan_free(chan);
}

static void *store_id_of_thread(void *arg)
{
    *(weft_fiber *)arg = weft_self();
    return NULL;
}

static weft_fiber fiber_of_another_thread(void)
{
    pthread_t thread;
    weft_fiber fiber = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, store_id_of_thread, &fiber), 0);
    pthread_join(thread, NULL);
    return fiber;
}

static weft_value select_parent(void *arg)
{
    weft_clause c[] = {weft_clause_time(0), weft_clause_ended(arg_id(arg))};
    return weft_select(c, 2) == -EDEADLK;
}

TEST(an_invalid_clause_is_refused_without_any_effect)
{
    weft_chan *chan = chan_of_one(7);
    points *ps = points_new(1);
    weft_clause invalid = weft_clause_time(0);
    invalid.kind = (weft_clause_kind)99;
    weft_fiber awaited = weft_spin(return_arg, NULL);
    weft_await(awaited);
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
        {invalid, -EINVAL},
        {weft_clause_ended(0), -ESRCH},
        {weft_clause_ended(awaited), -ESRCH},
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
    ck_assert_int_eq(weft_try_select(&invalid, 0), -EINVAL);
    ck_assert_int_eq(weft_await(weft_spin(select_parent, id_arg(weft_self()))), 1);
    points_free(ps);
    weft_chan_free(chan);
}

TEST(the_error_message_names_the_invalid_clause)
{
    weft_clause c[] = {weft_clause_time(1), weft_clause_time(-1)};
    ck_assert_int_eq(weft_select(c, 2), -EINVAL);
    ck_assert_error(-EINVAL, "weft_select: clause 1: seconds is negative or NaN");
}

static int select_in_deadlock(void)
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
TEST(a_select_that_no_event_can_end_is_reported)
{
    const outcome *o = run_apart(select_in_deadlock);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "a select");
}
