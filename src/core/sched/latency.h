/*
 * The histogram of the time from the wake-up of a fiber until the fiber runs.
 *
 * A sample is the wait of one fiber: of the fiber at the tail of the run queue when the sample
 * begins. All fibers before it run first. A sample begins at most every WEFT__STATS_NS, at the end
 * of a tick, or when the idle loop has found runnable fibers. The sample ends when the tail fiber
 * is about to run. At that switch a tick ends: the tick has as many switches as fibers were queued.
 * Switches outside of samples cost nothing.
 */
#ifndef WEFT_CORE_SCHED_LATENCY_H
#define WEFT_CORE_SCHED_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

struct weft__cord;

typedef struct weft__latency {
    int64_t due_ns;    /* when the next sample may begin; at most last_tick_ns + WEFT__STATS_NS */
    int64_t began_ns;  /* when the current sample began; 0: none */
    uint32_t mark;     /* the index behind the tail fiber, in the ring of the run queue */
    uint32_t mask;     /* of the ring; another value means that mark is not valid */
    uint64_t stalls;   /* times that fibers ran for WEFT__STALL_NS without a tick */
    uint64_t stall_ns; /* the sum of these times */
} weft__latency;

/*
 * Begin a sample, unless no fiber is runnable, a sample is in progress, or the clock is virtual.
 * The fibers are runnable since c->now_ns. `popped` is 1 if the caller has removed a fiber from the
 * run queue that runs next, else 0. Shorten the current tick.
 */
void weft__latency_begin(struct weft__cord *c, uint32_t popped);

/*
 * End the sample, because a tick ends. If the tail fiber is not about to run, continue the sample
 * or discard it. Call this function before the next tick begins.
 *
 * Returns the number of switches after which the next tick must end, at most span.
 */
uint32_t weft__latency_end_tick(struct weft__cord *c, uint32_t span);

/* Count a stall if fibers ran for ns nanoseconds, and ns is at least WEFT__STALL_NS. */
void weft__latency_count_stall(struct weft__cord *c, int64_t ns);

/*
 * Note that the idle loop has polled since began_ns, and that due_ns is over. Count a stall before
 * the poll. The end of the idle loop begins a sample. A stall implies that due_ns is over, so the
 * idle loop needs one test for both. Call this function before last_tick_ns changes.
 */
void weft__latency_polled(struct weft__cord *c, int64_t began_ns);

#endif
