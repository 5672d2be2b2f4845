/*
 * Workloads between threads, in real time: round trips, streams, remote calls, remote spins, and
 * cords that start and end.
 *
 * Threads that exchange messages busy poll for a while, and need no system call. `cords-woken`
 * disables the busy poll: both threads sleep at once, as on busy processors.
 */
#include "together.h"
#include "works.h"

#include "core/cord/inbox_poll.h"

#include <weft.h>

#define ROOM 128 /* capacity of the channel of a stream */

static weft_cord start(weft_fn *fn, void *arg)
{
    weft_cord cord = weft_cord_start(fn, arg, NULL);
    bench_require(cord != 0);
    return cord;
}

/* Round trips. */

typedef struct talk {
    weft_fiber other;
    weft_chan *there, *back; /* NULL: use mailboxes */
    size_t n;
    double took;
} talk;

static weft_value tell_back(void *arg)
{
    (void)arg;
    weft_fiber asker = (weft_fiber)weft_receive();
    weft_value value;
    while ((value = weft_receive()) > 0)
        weft_tell(asker, value);
    return value;
}

static weft_value tell_and_ask(void *arg)
{
    talk *t = arg;
    weft_tell(t->other, (weft_value)weft_self());
    double began = 0;
    for (size_t i = 0; i < BENCH_WARM_UP + t->n; i++) {
        if (i == BENCH_WARM_UP)
            began = bench_real_ns();
        bench_require(weft_tell(t->other, 1) == 0 && weft_receive() == 1);
    }
    t->took = bench_real_ns() - began;
    return weft_tell(t->other, 0);
}

static weft_value send_back(void *arg)
{
    const talk *t = arg;
    for (size_t i = 0; i < BENCH_WARM_UP + t->n; i++)
        weft_chan_send(t->back, weft_chan_recv(t->there));
    return 0;
}

static weft_value send_and_ask(void *arg)
{
    talk *t = arg;
    double began = 0;
    for (size_t i = 0; i < BENCH_WARM_UP + t->n; i++) {
        if (i == BENCH_WARM_UP)
            began = bench_real_ns();
        bench_require(weft_chan_send(t->there, 1) == 0 && weft_chan_recv(t->back) == 1);
    }
    t->took = bench_real_ns() - began;
    return 0;
}

static void run_talk(talk *t, weft_fn *ask, weft_fn *answer)
{
    t->other = start(answer, t);
    weft_cord asker = start(ask, t);
    bench_require(weft_cord_join(asker) == 0 && weft_cord_join(t->other) == 0);
    bench_print(t->took / (double)t->n);
}

void work_cords(size_t count, size_t n)
{
    (void)count;
    run_talk(&(talk){.n = n}, tell_and_ask, tell_back);
}

void work_cords_woken(size_t count, size_t n)
{
    weft__inbox_poll_is_off = true;
    work_cords(count, n);
}

void work_cords_chan(size_t count, size_t n)
{
    (void)count;
    talk t = {.there = weft_chan_new_shared(0), .back = weft_chan_new_shared(0), .n = n};
    run_talk(&t, send_and_ask, send_back);
    weft_chan_free(t.there);
    weft_chan_free(t.back);
}

/* Streams. */

typedef struct stream {
    together start;
    weft_fiber reader;
    weft_chan *chan; /* NULL: use the mailbox of the reader */
    size_t senders;
    size_t n; /* messages per sender */
    weft_value sum;
    double took;
} stream;

static weft_value send_all(void *arg)
{
    stream *s = arg;
    int rc = 0;
    together_begin(&s->start);
    for (size_t i = 0; i < s->n && rc == 0; i++)
        rc = s->chan != NULL ? weft_chan_send(s->chan, 1) : weft_tell(s->reader, 1);
    return rc;
}

static weft_value read_all(void *arg)
{
    stream *s = arg;
    s->reader = weft_self();
    double began = together_begin(&s->start);
    for (size_t left = s->n * s->senders; left > 0; left--)
        s->sum += s->chan != NULL ? weft_chan_recv(s->chan) : weft_receive();
    s->took = bench_real_ns() - began;
    return 0;
}

static double run_stream(weft_chan *chan, size_t threads, size_t n)
{
    bench_require(threads > 1);
    stream s = {.chan = chan, .senders = threads - 1, .n = n / (threads - 1) + 1};
    weft_cord *senders = calloc(s.senders, sizeof *senders);
    bench_require(senders != NULL);
    together_init(&s.start, (unsigned)threads);
    for (size_t i = 0; i < s.senders; i++)
        senders[i] = start(send_all, &s);
    bench_require(weft_cord_join(start(read_all, &s)) == 0);
    for (size_t i = 0; i < s.senders; i++)
        bench_require(weft_cord_join(senders[i]) == 0);
    together_destroy(&s.start);
    free(senders);
    bench_require(s.sum == (weft_value)(s.senders * s.n));
    return s.took / (double)(s.senders * s.n);
}

static double flow_pass(size_t count, size_t n)
{
    return run_stream(NULL, count, n);
}

void work_flow(size_t count, size_t n)
{
    bench_measure(flow_pass, count, n);
}

static double flow_chan_pass(size_t count, size_t n)
{
    weft_chan *chan = weft_chan_new_shared(ROOM);
    double each = run_stream(chan, count, n);
    weft_chan_free(chan);
    return each;
}

void work_flow_chan(size_t count, size_t n)
{
    bench_measure(flow_chan_pass, count, n);
}

/* Remote calls and remote spins. */

static weft_value count_up(void *arg)
{
    ++*(size_t *)arg;
    return 0;
}

static weft_value call_all(void *arg)
{
    talk *t = arg;
    size_t calls = 0;
    double began = 0;
    for (size_t i = 0; i < BENCH_WARM_UP + t->n; i++) {
        if (i == BENCH_WARM_UP)
            began = bench_real_ns();
        weft_cord_call(t->other, count_up, &calls);
    }
    t->took = bench_real_ns() - began;
    return calls == BENCH_WARM_UP + t->n ? 0 : -1;
}

/*
 * Spin fibers in the other cord. Requests run in order, so that all fibers have ended when the last
 * call returns.
 */
static void make_fibers(const talk *t, size_t *ended)
{
    size_t calls = 0;
    for (size_t i = 0; i < t->n; i++)
        while (weft_cord_spin(t->other, count_up, ended) == 0)
            weft_cord_call(t->other, count_up, &calls); /* too many are pending: wait */
    weft_cord_call(t->other, count_up, &calls);
}

static weft_value spin_all(void *arg)
{
    talk *t = arg;
    size_t ended = 0;
    make_fibers(t, &ended); /* fill the stack cache */
    double began = bench_real_ns();
    make_fibers(t, &ended);
    t->took = bench_real_ns() - began;
    return ended == 2 * t->n ? 0 : -1;
}

static void run_there(weft_fn *fn, size_t n)
{
    talk t = {.n = n};
    t.other = start(NULL, NULL);
    bench_require(weft_cord_join(start(fn, &t)) == 0);
    weft_cord_cancel(t.other);
    weft_cord_join(t.other);
    bench_print(t.took / (double)n);
}

void work_call(size_t count, size_t n)
{
    (void)count;
    run_there(call_all, n);
}

void work_cord_spin(size_t count, size_t n)
{
    (void)count;
    run_there(spin_all, n);
}

/* Start and end of cords. */

static weft_value end_at_once(void *arg)
{
    (void)arg;
    return 0;
}

void work_cord_start(size_t count, size_t n)
{
    (void)count;
    bench_require(weft_cord_join(start(end_at_once, NULL)) == 0);
    double began = bench_real_ns();
    for (size_t i = 0; i < n; i++)
        bench_require(weft_cord_join(start(end_at_once, NULL)) == 0);
    bench_print((bench_real_ns() - began) / (double)n);
}
