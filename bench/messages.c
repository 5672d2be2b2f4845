/*
 * Values from fiber to fiber: nanoseconds a round trip, or a message.
 *
 * A round trip is two messages between two fibers that take turns: two switches. A stream is one
 * fiber that sends and one that receives, with room for 128 messages between them: a switch every
 * 128 messages or so. The same in other runtimes: bench/peers/compare.
 *
 * NUMBER: round trips, or messages, a round.
 */
#include "bare.h"
#include "rounds.h"

#include <weft.h>

#define ROOM 128

/* What both sides know. */
typedef struct talk {
    weft_chan *there, *back;
    weft_fiber asker;
    size_t n;
} talk;

static weft_value chan_answer(void *arg)
{
    const talk *t = arg;
    for (size_t i = 0; i < t->n; i++)
        weft_chan_send(t->back, weft_chan_recv(t->there));
    return 0;
}

static double chan_round_trip(void *arg, size_t n)
{
    (void)arg;
    talk t = {.there = weft_chan_new(0), .back = weft_chan_new(0), .n = n};
    weft_value got = 0;
    weft_fiber other = weft_spin(chan_answer, &t);
    double began = bench_now_ns();
    for (size_t i = 1; i <= n; i++) {
        weft_chan_send(t.there, (weft_value)i);
        got = weft_chan_recv(t.back);
    }
    double took = bench_now_ns() - began;
    bench_require(weft_await(other) == 0 && got == (weft_value)n, "the last answer is wrong");
    weft_chan_free(t.there);
    weft_chan_free(t.back);
    return took / (double)n;
}

static weft_value chan_drain(void *arg)
{
    const talk *t = arg;
    weft_value sum = 0;
    for (size_t i = 0; i < t->n; i++)
        sum += weft_chan_recv(t->there);
    return sum;
}

/* 1 + 2 + ... + n */
static weft_value sum_to(size_t n)
{
    return (weft_value)(n * (n + 1) / 2);
}

static double chan_stream(void *arg, size_t n)
{
    (void)arg;
    talk t = {.there = weft_chan_new(ROOM), .n = n};
    weft_fiber other = weft_spin(chan_drain, &t);
    double began = bench_now_ns();
    for (size_t i = 1; i <= n; i++)
        weft_chan_send(t.there, (weft_value)i);
    weft_value sum = weft_await(other);
    double took = bench_now_ns() - began;
    bench_require(sum == sum_to(n), "messages are missing");
    weft_chan_free(t.there);
    return took / (double)n;
}

static weft_value mailbox_answer(void *arg)
{
    const talk *t = arg;
    for (size_t i = 0; i < t->n; i++)
        weft_tell(t->asker, weft_receive());
    return 0;
}

static double mailbox_round_trip(void *arg, size_t n)
{
    (void)arg;
    talk t = {.asker = weft_self(), .n = n};
    weft_value got = 0;
    weft_fiber other = weft_spin(mailbox_answer, &t);
    double began = bench_now_ns();
    for (size_t i = 1; i <= n; i++) {
        weft_tell(other, (weft_value)i);
        got = weft_receive();
    }
    double took = bench_now_ns() - began;
    bench_require(weft_await(other) == 0 && got == (weft_value)n, "the last answer is wrong");
    return took / (double)n;
}

static weft_value mailbox_drain(void *arg)
{
    const talk *t = arg;
    weft_value sum = weft_mailbox_bound(ROOM);
    for (size_t i = 0; i < t->n; i++)
        sum += weft_receive();
    return sum;
}

static double mailbox_stream(void *arg, size_t n)
{
    (void)arg;
    talk t = {.n = n};
    weft_fiber other = weft_spin(mailbox_drain, &t);
    weft_snooze(); /* it sets its bound */
    double began = bench_now_ns();
    for (size_t i = 1; i <= n; i++)
        weft_tell(other, (weft_value)i);
    weft_value sum = weft_await(other);
    double took = bench_now_ns() - began;
    bench_require(sum == sum_to(n), "messages are missing");
    return took / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = bench_start(argc, argv, 10000);
    const bench_case cases[] = {
        {"bare switch", bare_ping_pong, NULL},
        {"channel round trip", chan_round_trip, NULL},
        {"channel of 128, a message", chan_stream, NULL},
        {"mailbox round trip", mailbox_round_trip, NULL},
        {"mailbox of 128, a message", mailbox_stream, NULL},
    };
    BENCH_RUN(cases, n);
    return 0;
}
