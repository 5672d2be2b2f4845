/*
 * Busy polling: before a thread sleeps it looks for a while whether there is work, if that has paid
 * lately. To sleep and to be woken takes both sides tens of microseconds, to find a thread awake
 * less than one.
 */
#ifndef WEFT_BASE_BUSY_POLL_H
#define WEFT_BASE_BUSY_POLL_H

#include "base/clock.h"
#include "base/cpu.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * How long a thread looks (ns): about what it takes to wake a thread and get its answer. Tried
 * after a sleep that work has ended within SLEPT_NS; given up after CREDIT failures in a row, and
 * not tried again for REST such sleeps: in the worst case it costs 3 us for each.
 */
#define WEFT__BUSY_POLL_NS 25000
#define WEFT__BUSY_POLL_SLEPT_NS 100000
#define WEFT__BUSY_POLL_CREDIT 2
#define WEFT__BUSY_POLL_REST 16
/* Looks between two looks at the clock, which takes as long as some ten of them. */
#define WEFT__BUSY_POLL_LOOKS 32

/* What a thread has learned; all-zero: nothing yet. */
typedef struct weft__busy_poll {
    int credit; /* > 0: looking pays; < 0: so many short sleeps until it is tried again */
} weft__busy_poll;

static inline bool weft__busy_poll_pays(const weft__busy_poll *p)
{
    return p->credit > 0;
}

/* Look until has_work(arg) is true: true, or false when the time is up. */
__attribute__((always_inline)) static inline bool
weft__busy_poll_run(weft__busy_poll *p, bool (*has_work)(void *arg), void *arg)
{
    int64_t until_ns = weft__clock_ns() + WEFT__BUSY_POLL_NS;
    do {
        for (int i = 0; i < WEFT__BUSY_POLL_LOOKS; i++) {
            if (has_work(arg)) {
                p->credit = WEFT__BUSY_POLL_CREDIT;
                return true;
            }
            weft__cpu_relax();
        }
    } while (weft__clock_ns() < until_ns);
    if (--p->credit == 0)
        p->credit = -WEFT__BUSY_POLL_REST;
    return false;
}

/* A sleep of so long is over; whether work ended it. */
void weft__busy_poll_learn(weft__busy_poll *p, int64_t slept_ns, bool was_for_work);

#endif
