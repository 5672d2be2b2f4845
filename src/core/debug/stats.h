/*
 * Counters of cords, for their own thread and for other threads (weft_stats, weft_stats_of,
 * weft_stats_total).
 *
 * The fields of a cord that count are plain fields, because the fast paths update them. A cord
 * publishes a copy for other threads, with relaxed atomic stores. A copy takes about 50
 * instructions. Therefore a cord publishes in a tick at most every WEFT__STATS_NS, and before a
 * wait at most every WEFT__CHECK_NS (weft__cord_check_backend).
 */
#ifndef WEFT_CORE_DEBUG_STATS_H
#define WEFT_CORE_DEBUG_STATS_H

#include <weft/debug.h>

struct weft__cord;

/* The published counters of a cord. */
typedef struct weft__cord_stats {
    weft_counters counters; /* only the cord writes, and any thread reads, with relaxed atomics */
    int64_t due_ns;         /* when to publish in a tick */
} weft__cord_stats;

/* Publish the counters of the calling thread's cord. */
void weft__stats_publish(struct weft__cord *c);

/* Read the published counters of a cord that the caller has acquired. Any thread may call this. */
void weft__stats_read(struct weft__cord *c, weft_counters *out);

/* Publish the idle time of the calling thread's cord. */
void weft__stats_publish_idle(struct weft__cord *c);

/* Add a sample to the published histogram of the calling thread's cord. */
void weft__stats_add_latency(struct weft__cord *c, uint64_t ns);

/*
 * Add the counters of a cord to the totals, because the cord ends. The thread of the cord calls
 * this function, and holds the lock of the registry.
 */
void weft__stats_add_ended(struct weft__cord *c);

/* Reset the totals of ended cords, in a child of weft_fork. */
void weft__stats_reset_ended(void);

#endif
