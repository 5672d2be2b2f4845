/* What the tests of shared channels have in common: threads, and telling each other how far. */
#ifndef TESTS_SHARED_SUPPORT_H
#define TESTS_SHARED_SUPPORT_H

#include "cord_support.h"

#include <sched.h>

/* How far things are; threads wait for it without letting their fibers run. */
static atomic_int stage;

static inline void reach(int n)
{
    atomic_store(&stage, n);
}

static inline void wait_for_stage(int n)
{
    while (atomic_load(&stage) < n)
        sched_yield();
}

/* The same, while fibers run and letters arrive. */
static inline void let_run_until_stage(int n)
{
    while (atomic_load(&stage) < n)
        weft_sleep(0);
}

/* TSan asks this, if it is there: a cord that the process ends without a join is no mistake. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* A fiber that is in its wait by now. */
static inline weft_fiber spin_waiting(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin(fn, arg);
    let_run();
    return f;
}

/* A number that looks random; the same in every run. */
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
