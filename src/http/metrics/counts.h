/*
 * The counters of a server (include/weft/http_metrics.h).
 *
 * Each server counts in a block of its own, so that servers of different threads share no cache
 * line. Only the thread of the server writes the block, without atomic additions. Any thread reads
 * it. When a server ends, its block keeps the counts, and the next server continues with it.
 *
 * Reading the clock twice per request would cost 2 % of the instructions of a short request. A
 * server with many requests therefore measures one request in WEFT__TIMED_PART. The histogram
 * counts a measured request once, and once more for each request that was skipped before it.
 */
#ifndef WEFT_HTTP_METRICS_COUNTS_H
#define WEFT_HTTP_METRICS_COUNTS_H

#include <weft/http_metrics.h>

#include <stdbool.h>

/* While requests arrive faster than this, the server measures one in WEFT__TIMED_PART. */
#define WEFT__TIMED_PER_S 1000
#define WEFT__TIMED_PART 16

typedef struct weft__counts {
    _Alignas(64) weft_http_counters values; /* the server writes, any thread reads */
    double timed_s;   /* when the last request ended whose duration was measured; 0: none */
    unsigned to_skip; /* requests to end before the duration of a request is measured again */
    unsigned skipped; /* requests since timed_s that were not measured, when to_skip is 0 */
    struct weft__counts *next; /* in the list of all blocks; NULL: the last */
    bool is_used;              /* a server uses the block; protected by the lock */
} weft__counts;

/* Return a block for a server, or NULL if memory is exhausted. */
weft__counts *weft__counts_acquire(void);

/* Leave the block to another server. If counts is NULL, do nothing. */
void weft__counts_release(weft__counts *counts);

/* Add n to a field of a block. To subtract from a current value, add (size_t)-1. */
#define WEFT__COUNT(counts, field, n)                                               \
    do {                                                                            \
        __typeof__(&(counts)->values.field) counter = &(counts)->values.field;      \
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + (n), \
                         __ATOMIC_RELAXED);                                         \
    } while (0)

/* Return true if the server must read the clock when a request begins. With a log, always. */
static inline bool weft__counts_must_time(const weft__counts *c)
{
    return c->to_skip == 0;
}

/* Count the begin of a request. The end of the request counts a reply. */
#define WEFT__COUNT_REQUEST(counts, protocol) WEFT__COUNT(counts, requests_##protocol, 1)

/* Count the end of a request, after its reply. */
void weft__counts_end_request(const weft_http_request *r);

/* Count the end of a request that the server has rejected with this status. 0: without a reply. */
void weft__counts_end_rejected(weft__counts *c, int status, uint64_t bytes_out);

#endif
