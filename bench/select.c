/*
 * Select: nanoseconds to receive from whichever of 2 or of 10 channels, when it has to wait for
 * another fiber that sends to each in turn, and when one of them always holds something. The same
 * in other runtimes: bench/peers/compare.
 *
 * The clauses are made anew for each select, as they must be.
 *
 * NUMBER: selects a round.
 */
#include "bare.h"
#include "rounds.h"

#include <weft.h>

#define CHANNELS_MAX 10

typedef struct fan {
    size_t channels;
    weft_chan *chans[CHANNELS_MAX];
    size_t n;
} fan;

static void fan_open(fan *f)
{
    for (size_t i = 0; i < f->channels; i++)
        f->chans[i] = weft_chan_new(0);
}

static void fan_close(fan *f)
{
    for (size_t i = 0; i < f->channels; i++)
        weft_chan_free(f->chans[i]);
}

/* One value from whichever channel. */
static inline weft_value receive_any(const fan *f)
{
    weft_clause clauses[CHANNELS_MAX];
    for (size_t i = 0; i < f->channels; i++)
        clauses[i] = weft_clause_recv(f->chans[i]);
    int chosen = weft_select(clauses, f->channels);
    bench_require(chosen >= 0, "weft_select");
    return clauses[chosen].value;
}

static weft_value receive_n(const fan *f)
{
    weft_value sum = 0;
    for (size_t i = 0; i < f->n; i++)
        sum += receive_any(f);
    return sum;
}

static weft_value feed(void *arg)
{
    const fan *f = arg;
    size_t at = 0;
    for (size_t i = 0; i < f->n; i++) {
        weft_chan_send(f->chans[at], 1);
        at = at + 1 < f->channels ? at + 1 : 0;
    }
    return 0;
}

static double select_waiting(void *arg, size_t n)
{
    fan f = {.channels = *(const size_t *)arg, .n = n};
    fan_open(&f);
    weft_fiber other = weft_spin(feed, &f);
    double began = bench_now_ns();
    weft_value sum = receive_n(&f);
    double took = bench_now_ns() - began;
    bench_require(weft_await(other) == 0 && sum == (weft_value)n, "messages are missing");
    fan_close(&f);
    return took / (double)n;
}

static double select_ready(void *arg, size_t n)
{
    fan f = {.channels = *(const size_t *)arg, .n = n};
    fan_open(&f);
    weft_chan **last = &f.chans[f.channels - 1];
    weft_chan_free(*last);
    *last = weft_chan_new(n);
    for (size_t i = 0; i < n; i++)
        weft_chan_send(*last, 1);
    double began = bench_now_ns();
    weft_value sum = receive_n(&f);
    double took = bench_now_ns() - began;
    bench_require(sum == (weft_value)n, "messages are missing");
    fan_close(&f);
    return took / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = bench_start(argc, argv, 10000);
    static size_t two = 2, ten = 10;
    const bench_case cases[] = {
        {"bare switch", bare_ping_pong, NULL},
        {"select of 2, waiting", select_waiting, &two},
        {"select of 10, waiting", select_waiting, &ten},
        {"select of 2, ready", select_ready, &two},
        {"select of 10, ready", select_ready, &ten},
    };
    BENCH_RUN(cases, n);
    return 0;
}
