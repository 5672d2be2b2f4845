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

/*
 * For programs whose main fiber waits and never runs again. A fiber ends the process, and a cord
 * wakes the main fiber before, if is_woken.
 */
static bool is_woken;
static weft_chan *wake_chan, *last_chan; /* of the wake; of which no receiver may remain */

FIBER_DO(end_process, reach_stage(1), wait_for_stage(2), exit_with(arg))

static inline weft_value wake_then_check(void *arg)
{
    wait_for_stage(1);
    if (is_woken && weft_chan_try_send(wake_chan, 1) != 0)
        _exit(4);
    reach_stage(2);
    weft_suspend(); /* cancelled when the process ends */
    while (weft_chan_has_receivers(last_chan))
        sched_yield();
    return (weft_value)arg;
}

/* The caller waits next in last_chan. */
static inline void start_end_of_process(weft_chan *wake, weft_chan *last)
{
    reach_stage(0);
    wake_chan = wake;
    last_chan = last;
    start_cord(wake_then_check, NULL);
    weft_spin(end_process, as_arg(3));
}

static inline void assert_ends_woken_or_not(int (*program)(void))
{
    for (int i = 0; i < 2; i++) {
        is_woken = i == 1;
        ck_assert_quiet(run_apart(program), 3);
    }
}

#endif
