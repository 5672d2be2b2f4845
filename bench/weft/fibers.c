/* Workloads of fibers: create, run, await, yield and park. */
#include "works.h"

#include <weft.h>

#define BATCH 100

/* Laps before the measurement. All fibers start in the first lap. */
#define WARM_LAPS 2

static weft_value snooze_on(void *arg)
{
    for (size_t left = (size_t)arg; left > 0; left--)
        weft_snooze();
    return 0;
}

void work_snooze(size_t count, size_t n)
{
    bench_require(count > 0);
    size_t laps = n / count + 1;
    for (size_t i = 1; i < count; i++)
        bench_require(weft_spin(snooze_on, (void *)(laps + WARM_LAPS)) != 0);
    for (size_t i = 0; i < WARM_LAPS; i++)
        weft_snooze();
    double began = bench_cpu_ns();
    for (size_t i = 0; i < laps; i++)
        weft_snooze();
    double took = bench_cpu_ns() - began;
    bench_require(weft_await_children() == 0);
    bench_print(took / ((double)laps * (double)count));
}

static weft_value end_at_once(void *arg)
{
    return (weft_value)arg;
}

static double spin_pass(size_t count, size_t n)
{
    (void)count;
    weft_value sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        sum += weft_await(weft_spin(end_at_once, (void *)1));
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)n);
    return took / (double)n;
}

void work_spin(size_t count, size_t n)
{
    bench_measure(spin_pass, count, n);
}

static double spin_batch_pass(size_t count, size_t n)
{
    (void)count;
    weft_fiber fibers[BATCH];
    size_t batches = (n + BATCH - 1) / BATCH;
    weft_value sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < batches; i++) {
        for (size_t j = 0; j < BATCH; j++)
            fibers[j] = weft_spin(end_at_once, (void *)1);
        for (size_t j = 0; j < BATCH; j++)
            sum += weft_await(fibers[j]);
    }
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)(batches * BATCH));
    return took / (double)(batches * BATCH);
}

void work_spin_batch(size_t count, size_t n)
{
    bench_measure(spin_batch_pass, count, n);
}

static weft_value count_up(void *arg)
{
    ++*(size_t *)arg;
    return 0;
}

static double go_pass(size_t count, size_t n)
{
    (void)count;
    size_t ended = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        weft_go(count_up, &ended);
        weft_snooze();
    }
    double took = bench_cpu_ns() - began;
    bench_require(ended == n);
    return took / (double)n;
}

void work_go(size_t count, size_t n)
{
    bench_measure(go_pass, count, n);
}

static double new_pass(size_t count, size_t n)
{
    (void)count;
    weft_value sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        weft_fiber f = weft_new(end_at_once, (void *)1);
        weft_start(f);
        sum += weft_await(f);
    }
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)n);
    return took / (double)n;
}

void work_new(size_t count, size_t n)
{
    bench_measure(new_pass, count, n);
}

static weft_value wait_here(void *arg)
{
    (void)arg;
    return weft_suspend();
}

static void park(size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_require(weft_spin(wait_here, NULL) != 0);
    weft_snooze();
}

void work_parked(size_t count, size_t n)
{
    (void)n;
    park(1);
    bench_measure_parked(park, count);
}
