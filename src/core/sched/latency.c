/* The wake-up latency of fibers. See latency.h. */
#include "core/sched/latency.h"

#include "base/histogram.h"
#include "core/sched/sched.h"

#include <math.h>

double weft_histogram_bound(size_t index)
{
    return index < WEFT_HISTOGRAM_BUCKETS - 1 ? (double)weft__histogram_bounds_ns[index] / 1e9
                                              : INFINITY;
}

uint64_t weft_histogram_count(const weft_histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
        count += histogram->buckets[i];
    return count;
}

COLD void weft__latency_begin(weft__cord *c, uint32_t popped)
{
    const weft__runqueue *q = &c->runqueue;
    weft__latency *l = &c->latency;
    uint32_t queued = q->tail - q->head + popped;
    l->due_ns = c->last_tick_ns + WEFT__STATS_NS;
    /* An additional tick would advance a virtual clock. */
    if (queued == 0 || l->began_ns != 0 || weft__backend_is_virtual(c->backend))
        return;
    l->began_ns = c->now_ns;
    l->mark = q->tail;
    l->mask = q->mask;
    if (queued < c->tick_left)
        weft__tick_set(c, queued);
}

COLD uint32_t weft__latency_end_tick(weft__cord *c, uint32_t span)
{
    const weft__runqueue *q = &c->runqueue;
    weft__latency *l = &c->latency;
    int32_t left = (int32_t)(l->mark - q->head);
    if (left > 0 && l->mask == q->mask)
        return (uint32_t)left < span ? (uint32_t)left : span;
    if (left == 0 && l->mask == q->mask) { /* otherwise the tail fiber was cancelled or parked */
        weft__stats_add_latency(c, (uint64_t)(c->now_ns - l->began_ns));
    }
    l->began_ns = 0;
    return span;
}

void weft__latency_count_stall(weft__cord *c, int64_t ns)
{
    if (ns < WEFT__STALL_NS)
        return;
    c->latency.stalls++;
    c->latency.stall_ns += (uint64_t)ns;
}

_Static_assert(WEFT__STATS_NS <= WEFT__STALL_NS, "due_ns is not later than the end of a stall");

COLD void weft__latency_polled(weft__cord *c, int64_t began_ns)
{
    weft__latency_count_stall(c, began_ns - c->last_tick_ns);
    c->is_sample_due = true;
}
