/*
 * A clock for deadlines that reads the processor's counter of ticks instead of asking the kernel's
 * clock, which takes three times as long. What it says is the monotonic clock's time, or up to a
 * few microseconds more, never less: so what is due a second from then is never due too early.
 *
 * It looks at the real clock every millisecond, and always where the counter is no good.
 */
#ifndef WEFT_BASE_QUICK_H
#define WEFT_BASE_QUICK_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

/* All-zero is one that has not looked yet. It belongs to one thread. */
typedef struct weft__quick {
    uint64_t ticks;       /* just before ns was read */
    int64_t ns;           /* the clock then */
    uint64_t span;        /* ticks from then on for which that serves; 0: none */
    uint64_t rate;        /* nanoseconds a tick, rounded up, times 2^32; 0: not known yet */
    int64_t last_ns;      /* what was said last: it does not go back */
    uint64_t first_ticks; /* what the rate is measured from: just after first_ns was read */
    int64_t first_ns;     /* 0: nothing yet */
    double first_rate;    /* what was measured last; 0: nothing yet */
} weft__quick;

static inline uint64_t weft__ticks(void)
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

/* Look at the real clock. */
int64_t weft__quick_look(weft__quick *q);

static inline int64_t weft__quick_ns(weft__quick *q)
{
    uint64_t passed = weft__ticks() - q->ticks;
    int64_t ns = q->ns + (int64_t)(passed * q->rate >> 32);
    if (UNLIKELY(passed >= q->span))
        ns = weft__quick_look(q);
    if (UNLIKELY(ns < q->last_ns))
        ns = q->last_ns;
    return q->last_ns = ns;
}

#endif
