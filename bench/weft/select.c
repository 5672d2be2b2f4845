/*
 * Receive values from several channels. `select` waits for a fiber that sends to each channel in
 * turn. `select-ready` always finds a value in the last channel. Each call fills in its clauses
 * again, as weft_select requires.
 */
#include "works.h"

#include <weft.h>

#define CHANNELS_MAX 16

typedef struct fan {
    size_t channels;
    weft_chan *chans[CHANNELS_MAX];
    size_t n;
} fan;

static void fan_open(fan *f)
{
    bench_require(f->channels > 0 && f->channels <= CHANNELS_MAX);
    for (size_t i = 0; i < f->channels; i++)
        f->chans[i] = weft_chan_new(0);
}

static void fan_close(fan *f)
{
    for (size_t i = 0; i < f->channels; i++)
        weft_chan_free(f->chans[i]);
}

static inline weft_value receive_any(const fan *f)
{
    weft_clause clauses[CHANNELS_MAX];
    for (size_t i = 0; i < f->channels; i++)
        clauses[i] = weft_clause_recv(f->chans[i]);
    int chosen = weft_select(clauses, f->channels);
    bench_require(chosen >= 0);
    return clauses[chosen].value;
}

/* Receive all values. Return the elapsed time. */
static double receive_all(const fan *f)
{
    weft_value sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < f->n; i++)
        sum += receive_any(f);
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)f->n);
    return took;
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

static double waiting_pass(size_t count, size_t n)
{
    fan f = {.channels = count, .n = n};
    fan_open(&f);
    weft_fiber other = weft_spin(feed, &f);
    double took = receive_all(&f);
    bench_require(weft_await(other) == 0);
    fan_close(&f);
    return took / (double)n;
}

void work_select(size_t count, size_t n)
{
    bench_measure(waiting_pass, count, n);
}

static double ready_pass(size_t count, size_t n)
{
    fan f = {.channels = count, .n = n};
    fan_open(&f);
    weft_chan **last = &f.chans[count - 1];
    weft_chan_free(*last);
    *last = weft_chan_new(n);
    for (size_t i = 0; i < n; i++)
        weft_chan_send(*last, 1);
    double took = receive_all(&f);
    fan_close(&f);
    return took / (double)n;
}

void work_select_ready(size_t count, size_t n)
{
    bench_measure(ready_pass, count, n);
}
