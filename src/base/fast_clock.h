/*
 * A clock for deadlines that reads the processor's tick counter.
 *
 * With the kernel's clock, a timeout takes 2.2 times as long (docs/adr/0051). The result is never
 * earlier than the time of the monotonic clock, and at most a few microseconds later. Therefore a
 * timeout that is computed from the result never ends too early.
 *
 * The clock synchronises with the monotonic clock every millisecond. If the processor has no
 * reliable counter, every read synchronises.
 */
#ifndef WEFT_BASE_FAST_CLOCK_H
#define WEFT_BASE_FAST_CLOCK_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

/* A clock for one thread. All-zero is the initial state. */
typedef struct weft__fast_clock {
    uint64_t ticks;       /* the counter just before ns was read */
    int64_t ns;           /* the monotonic clock at the last synchronisation */
    uint64_t valid_ticks; /* ticks until the next synchronisation; 0: synchronise at every read */
    uint64_t rate;        /* ns per tick, rounded up, times 2^32; 0: not measured yet */
    int64_t last_ns;      /* the last result; later results are not smaller */
    uint64_t first_ticks; /* start of the measurement: the counter just after first_ns was read */
    int64_t first_ns;     /* start of the measurement; 0: none in progress */
    double measured_rate; /* ns per tick in the last measurement; 0: none */
} weft__fast_clock;

static inline uint64_t weft__cpu_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* Return true if the counter has a constant rate in every power state of the processor. */
bool weft__cpu_ticks_are_steady(void);

/* Synchronise with the monotonic clock. Return the time of the monotonic clock. */
int64_t weft__fast_clock_sync(weft__fast_clock *clock);

static inline int64_t weft__fast_clock_ns(weft__fast_clock *clock)
{
    uint64_t passed = weft__cpu_ticks() - clock->ticks;
    int64_t ns = clock->ns + (int64_t)(passed * clock->rate >> 32);
    if (UNLIKELY(passed >= clock->valid_ticks))
        ns = weft__fast_clock_sync(clock);
    if (UNLIKELY(ns < clock->last_ns))
        ns = clock->last_ns;
    return clock->last_ns = ns;
}

#endif
