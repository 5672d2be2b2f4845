/*
 * Shared channels: nanoseconds a round trip, or a message. Within one cord, what the lock costs
 * beside a plain channel, in the thread's own time; between two, each on a processor of its own if
 * there are two, in time that passes: there it is the wake-up that counts, or the waiting for it.
 *
 * NUMBER: round trips, or messages, a round.
 */
#include "rounds.h"

#include <weft.h>

#define ROOM 128

typedef struct talk {
    weft_chan *(*make)(size_t cap);
    bool is_abroad; /* the other side is another cord */
    weft_chan *there, *back;
    size_t n;
} talk;

static double now_ns(const talk *t)
{
    if (!t->is_abroad)
        return bench_now_ns();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* A processor that is not this one, counted from 1. */
static int other_cpu(void)
{
    return sched_getcpu() == 0 ? 2 : 1;
}

static weft_value answer(void *arg)
{
    const talk *t = arg;
    for (size_t i = 0; i < t->n; i++)
        weft_chan_send(t->back, weft_chan_recv(t->there));
    return 0;
}

/* The first message only says that it is there. */
static weft_value drain(void *arg)
{
    const talk *t = arg;
    weft_value sum = 0;
    weft_chan_send(t->back, 0);
    for (size_t i = 0; i < t->n; i++)
        sum += weft_chan_recv(t->there);
    return sum;
}

/* The other side, and the end of it. */
static weft_value start(talk *t, weft_fn *fn)
{
    if (!t->is_abroad)
        return (weft_value)weft_spin(fn, t);
    weft_cord cord = weft_cord_start(fn, t, &(weft_cord_options){.cpu = other_cpu()});
    if (cord == 0)
        cord = weft_cord_start(fn, t, NULL);
    bench_require(cord != 0, "no thread can be started");
    return (weft_value)cord;
}

static weft_value finish(const talk *t, weft_value other)
{
    weft_value value =
        t->is_abroad ? weft_cord_join((weft_cord)other) : weft_await((weft_fiber)other);
    weft_chan_free(t->there);
    weft_chan_free(t->back);
    return value;
}

static double round_trip(void *arg, size_t n)
{
    talk *t = arg;
    t->there = t->make(0);
    t->back = t->make(0);
    t->n = n + 1;
    weft_value other = start(t, answer), got = 0;
    double began = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i == 1)
            began = now_ns(t);
        weft_chan_send(t->there, (weft_value)i);
        got = weft_chan_recv(t->back);
    }
    double took = now_ns(t) - began;
    bench_require(finish(t, other) == 0 && got == (weft_value)n, "the last answer is wrong");
    return took / (double)n;
}

static double stream(void *arg, size_t n)
{
    talk *t = arg;
    t->there = t->make(ROOM);
    t->back = t->make(0);
    t->n = n;
    weft_value other = start(t, drain);
    weft_chan_recv(t->back);
    double began = now_ns(t);
    for (size_t i = 1; i <= n; i++)
        weft_chan_send(t->there, (weft_value)i);
    double took = now_ns(t) - began;
    bench_require(finish(t, other) == (weft_value)(n * (n + 1) / 2), "messages are missing");
    return took / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = bench_start(argc, argv, 2000);
    talk plain = {.make = weft_chan_new}, shared = {.make = weft_chan_new_shared};
    talk abroad = {.make = weft_chan_new_shared, .is_abroad = true};
    const bench_case cases[] = {
        {"plain round trip", round_trip, &plain},
        {"shared round trip", round_trip, &shared},
        {"shared round trip, two cords", round_trip, &abroad},
        {"plain of 128, a message", stream, &plain},
        {"shared of 128, a message", stream, &shared},
        {"shared of 128, a message, two cords", stream, &abroad},
    };
    BENCH_RUN(cases, n);
    return 0;
}
