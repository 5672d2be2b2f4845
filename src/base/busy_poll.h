/*
 * Adaptive busy polling. If recent polls found work, a thread polls for work before it sleeps.
 *
 * A sleep and a wake-up cost tens of microseconds, both in the sleeping thread and in the waking
 * thread. A polling thread finds new work in less than a microsecond.
 */
#ifndef WEFT_BASE_BUSY_POLL_H
#define WEFT_BASE_BUSY_POLL_H

#include "base/clock.h"
#include "base/cpu.h"

#include <stdbool.h>
#include <stdint.h>

/* Duration of one busy poll, in ns: about the time to wake a thread and to get its reply. */
#define WEFT__BUSY_POLL_NS 25000
/*
 * A sleep of at most this many ns is short. Polling starts after a short sleep that new work ended.
 */
#define WEFT__BUSY_POLL_SLEPT_NS 100000
/* Polling stops after this many unsuccessful polls in a row. */
#define WEFT__BUSY_POLL_CREDIT 2
/*
 * Short sleeps after unsuccessful polls, before the next poll. This limits the cost of polling to 3
 * us per short sleep.
 */
#define WEFT__BUSY_POLL_PAUSE 16
/*
 * Checks for work between two reads of the clock. Reading the clock takes as long as about ten
 * checks.
 */
#define WEFT__BUSY_POLL_CHECKS 32

/* The polling state of one thread. All-zero is the initial state. */
typedef struct weft__busy_poll {
    int credit; /* > 0: polls that may still fail; < 0: short sleeps until the next poll */
} weft__busy_poll;

static inline bool weft__busy_poll_pays(const weft__busy_poll *p)
{
    return p->credit > 0;
}

/*
 * Poll until has_work(arg) returns true. Return false if has_work(arg) has not returned true within
 * WEFT__BUSY_POLL_NS.
 */
__attribute__((always_inline)) static inline bool
weft__busy_poll_run(weft__busy_poll *p, bool (*has_work)(void *arg), void *arg)
{
    int64_t until_ns = weft__clock_ns() + WEFT__BUSY_POLL_NS;
    do {
        for (int i = 0; i < WEFT__BUSY_POLL_CHECKS; i++) {
            if (has_work(arg)) {
                p->credit = WEFT__BUSY_POLL_CREDIT;
                return true;
            }
            weft__cpu_relax();
        }
    } while (weft__clock_ns() < until_ns);
    if (--p->credit == 0)
        p->credit = -WEFT__BUSY_POLL_PAUSE;
    return false;
}

/* Update the state after a sleep of slept_ns. was_for_work is true if new work ended the sleep. */
void weft__busy_poll_adapt(weft__busy_poll *p, int64_t slept_ns, bool was_for_work);

#endif
