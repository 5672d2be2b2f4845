/*
 * Workloads of messages between fibers of one thread: round trips, and streams with a buffer. The
 * messages pass through channels, shared channels or mailboxes.
 */
#include "works.h"

#include <weft.h>

typedef weft_chan *chan_maker(size_t cap);

/* State of both sides. */
typedef struct talk {
    weft_chan *there, *back;
    weft_fiber asker;
    size_t n;
} talk;

static weft_value answer(void *arg)
{
    const talk *t = arg;
    for (size_t i = 0; i < t->n; i++)
        weft_chan_send(t->back, weft_chan_recv(t->there));
    return 0;
}

static double ask(chan_maker *make, size_t n)
{
    talk t = {.there = make(0), .back = make(0), .n = n};
    weft_value sum = 0;
    weft_fiber other = weft_spin(answer, &t);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        weft_chan_send(t.there, 1);
        sum += weft_chan_recv(t.back);
    }
    double took = bench_cpu_ns() - began;
    bench_require(weft_await(other) == 0 && sum == (weft_value)n);
    weft_chan_free(t.there);
    weft_chan_free(t.back);
    return took / (double)n;
}

static double rendezvous_pass(size_t count, size_t n)
{
    (void)count;
    return ask(weft_chan_new, n);
}

void work_rendezvous(size_t count, size_t n)
{
    bench_measure(rendezvous_pass, count, n);
}

static double rendezvous_shared_pass(size_t count, size_t n)
{
    (void)count;
    return ask(weft_chan_new_shared, n);
}

void work_rendezvous_shared(size_t count, size_t n)
{
    bench_measure(rendezvous_shared_pass, count, n);
}

static weft_value drain(void *arg)
{
    const talk *t = arg;
    weft_value sum = 0;
    for (size_t i = 0; i < t->n; i++)
        sum += weft_chan_recv(t->there);
    return sum;
}

static double stream(chan_maker *make, size_t room, size_t n)
{
    talk t = {.there = make(room), .n = n};
    weft_fiber other = weft_spin(drain, &t);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        weft_chan_send(t.there, 1);
    weft_value sum = weft_await(other);
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)n);
    weft_chan_free(t.there);
    return took / (double)n;
}

static double buffered_pass(size_t count, size_t n)
{
    return stream(weft_chan_new, count, n);
}

void work_buffered(size_t count, size_t n)
{
    bench_measure(buffered_pass, count, n);
}

static double buffered_shared_pass(size_t count, size_t n)
{
    return stream(weft_chan_new_shared, count, n);
}

void work_buffered_shared(size_t count, size_t n)
{
    bench_measure(buffered_shared_pass, count, n);
}

static weft_value mailbox_answer(void *arg)
{
    const talk *t = arg;
    for (size_t i = 0; i < t->n; i++)
        weft_tell(t->asker, weft_receive());
    return 0;
}

static double mailbox_pass(size_t count, size_t n)
{
    (void)count;
    talk t = {.asker = weft_self(), .n = n};
    weft_value sum = 0;
    weft_fiber other = weft_spin(mailbox_answer, &t);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        weft_tell(other, 1);
        sum += weft_receive();
    }
    double took = bench_cpu_ns() - began;
    bench_require(weft_await(other) == 0 && sum == (weft_value)n);
    return took / (double)n;
}

void work_mailbox(size_t count, size_t n)
{
    bench_measure(mailbox_pass, count, n);
}

static size_t mailbox_room;

static weft_value mailbox_drain(void *arg)
{
    const talk *t = arg;
    weft_value sum = weft_mailbox_set_bound(mailbox_room);
    for (size_t i = 0; i < t->n; i++)
        sum += weft_receive();
    return sum;
}

static double mailbox_stream_pass(size_t count, size_t n)
{
    mailbox_room = count;
    talk t = {.n = n};
    weft_fiber other = weft_spin(mailbox_drain, &t);
    weft_snooze(); /* the receiver sets its bound */
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        weft_tell(other, 1);
    weft_value sum = weft_await(other);
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)n);
    return took / (double)n;
}

void work_mailbox_stream(size_t count, size_t n)
{
    bench_measure(mailbox_stream_pass, count, n);
}
