/* Helpers for the tests of shared channels: stages that synchronise threads, and random numbers. */
#ifndef TESTS_SYNC_SHARED_SUPPORT_H
#define TESTS_SYNC_SHARED_SUPPORT_H

#include "support/cord_support.h"

#include <sched.h>

/* The stage that the test has reached. Threads wait for it without running their fibers. */
static atomic_int stage;

static inline void reach_stage(int n)
{
    atomic_store(&stage, n);
}

static inline void wait_for_stage(int n)
{
    while (atomic_load(&stage) < n)
        sched_yield();
}

/* As wait_for_stage, but run fibers and handle remote messages. */
static inline void run_fibers_until_stage(int n)
{
    while (atomic_load(&stage) < n)
        weft_sleep(0);
}

/* TSan calls this function. Tests may end the process without joining a cord. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* Return a fiber that has run until it waits. */
static inline weft_fiber spin_and_run(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin(fn, arg);
    let_run();
    return f;
}

/* Return a pseudorandom number. The sequence is the same in every run. */
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
