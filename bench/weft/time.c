/*
 * Workloads of time. `timeout` opens a scope with a deadline and closes it before the deadline.
 * `timeout-wait` receives a message in such a scope, as a server reads with a timeout. `sleepers`
 * runs fibers that sleep once.
 */
#include "works.h"

#include <weft.h>

#define TIMEOUT_S 60
/* Samples that calibrate the clock of deadlines to the processor's counter (base/fast_clock.c). */
#define SAMPLES 5
#define SAMPLE_S 0.02

static double timeout_pass(size_t count, size_t n)
{
    (void)count;
    int rc = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        weft_scope scope;
        rc |= weft_scope_open(&scope, TIMEOUT_S);
        rc |= weft_scope_close(&scope);
    }
    double took = bench_cpu_ns() - began;
    bench_require(rc == 0);
    return took / (double)n;
}

void work_timeout(size_t count, size_t n)
{
    for (int i = 0; i < SAMPLES; i++) {
        timeout_pass(count, 1);
        bench_require(weft_sleep(SAMPLE_S) == 0);
    }
    bench_measure(timeout_pass, count, n);
}

static weft_chan *values;

static weft_value send_all(void *arg)
{
    for (size_t left = (size_t)arg; left > 0; left--)
        weft_chan_send(values, 1);
    return 0;
}

static weft_value receive_in_time(void)
{
    weft_scope scope;
    weft_scope_open(&scope, TIMEOUT_S);
    weft_value value = weft_chan_recv(values);
    return value + weft_scope_close(&scope);
}

static double timeout_wait_pass(size_t count, size_t n)
{
    (void)count;
    values = weft_chan_new(0);
    weft_fiber sender = weft_spin(send_all, (void *)n);
    weft_value sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        sum += receive_in_time();
    double took = bench_cpu_ns() - began;
    bench_require(weft_await(sender) == 0 && sum == (weft_value)n);
    weft_chan_free(values);
    return took / (double)n;
}

void work_timeout_wait(size_t count, size_t n)
{
    bench_measure(timeout_wait_pass, count, n);
}

static weft_value sleep_once(void *arg)
{
    return weft_sleep(bench_sleep_us((size_t)arg) * 1e-6);
}

static weft_value sleep_shortly(void *arg)
{
    (void)arg;
    return weft_sleep(0.001);
}

void work_sleepers(size_t count, size_t n)
{
    (void)n;
    bench_require(weft_await(weft_spin(sleep_shortly, NULL)) == 0);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < count; i++)
        bench_require(weft_go(sleep_once, (void *)i) == 0);
    bench_require(weft_await_children() == 0);
    bench_print((bench_cpu_ns() - began) / 1e6);
}
