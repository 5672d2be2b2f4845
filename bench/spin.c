/*
 * Making a fiber and waiting for its end, warm: nanoseconds for both.
 *
 * The lower limit is a bare context made on a stack that is there, switched to, and switching
 * back at its end: no id, no parent, no value, no queue. What lies between the two is the
 * bookkeeping; `tools/bench --instructions spin` counts it function by function.
 *
 * NUMBER: fibers a round.
 */
#include "bare.h"
#include "rounds.h"

#include <weft.h>

#define BATCH 100

static weft_value nothing(void *arg)
{
    return (weft_value)arg;
}

static double spin_and_await(void *arg, size_t n)
{
    (void)arg;
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i++)
        weft_await(weft_spin(nothing, (void *)i));
    return (bench_now_ns() - began) / (double)n;
}

static double spin_and_await_batch(void *arg, size_t n)
{
    (void)arg;
    weft_fiber fibers[BATCH];
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i += BATCH) {
        for (size_t j = 0; j < BATCH; j++)
            fibers[j] = weft_spin(nothing, NULL);
        for (size_t j = 0; j < BATCH; j++)
            weft_await(fibers[j]);
    }
    return (bench_now_ns() - began) / (double)n;
}

static double go_and_snooze(void *arg, size_t n)
{
    (void)arg;
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i++) {
        weft_go(nothing, NULL);
        weft_snooze();
    }
    return (bench_now_ns() - began) / (double)n;
}

static double new_start_and_await(void *arg, size_t n)
{
    (void)arg;
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i++) {
        weft_fiber f = weft_new(nothing, NULL);
        weft_start(f);
        weft_await(f);
    }
    return (bench_now_ns() - began) / (double)n;
}

static bare_context parent, child;

static void end_at_once(intptr_t value)
{
    (void)value;
    bare_switch(&child, &parent);
}

static double bare_make_and_switch(void *arg, size_t n)
{
    (void)arg;
    static char *stack;
    if (stack == NULL)
        stack = bench_map(BARE_STACK_BYTES);
    double began = bench_now_ns();
    for (size_t i = 0; i < n; i++) {
        bare_make(&child, stack, BARE_STACK_BYTES, end_at_once);
        bare_switch(&parent, &child);
    }
    return (bench_now_ns() - began) / (double)n;
}

int main(int argc, char **argv)
{
    size_t n = (bench_start(argc, argv, 10000) + BATCH - 1) / BATCH * BATCH;
    const bench_case cases[] = {
        {"bare switch", bare_ping_pong, NULL},
        {"bare context made, run, left", bare_make_and_switch, NULL},
        {"weft_spin + weft_await", spin_and_await, NULL},
        {"weft_spin + weft_await, by the 100", spin_and_await_batch, NULL},
        {"weft_go + weft_snooze", go_and_snooze, NULL},
        {"weft_new + weft_start + weft_await", new_start_and_await, NULL},
    };
    BENCH_RUN(cases, n);
    return 0;
}
