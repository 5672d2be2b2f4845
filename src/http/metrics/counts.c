/* The counters of servers. See counts.h. */
#include "http/metrics/counts.h"

#include "base/histogram.h"
#include "base/result.h"
#include "http/server/server.h"

#include <weft/time.h>

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft__counts *blocks; /* all blocks; NULL: none; readers need no lock */

weft__counts *weft__counts_acquire(void)
{
    pthread_mutex_lock(&lock);
    weft__counts *c = blocks;
    while (c != NULL && c->is_used)
        c = c->next;
    if (c == NULL && (c = aligned_alloc(_Alignof(weft__counts), sizeof *c)) != NULL) {
        *c = (weft__counts){.next = blocks};
        __atomic_store_n(&blocks, c, __ATOMIC_RELEASE);
    }
    if (c != NULL)
        c->is_used = true;
    pthread_mutex_unlock(&lock);
    return c;
}

void weft__counts_release(weft__counts *counts)
{
    if (counts == NULL)
        return;
    pthread_mutex_lock(&lock);
    counts->is_used = false;
    pthread_mutex_unlock(&lock);
}

static unsigned class_of(int status)
{
    unsigned class = (unsigned)status / 100;
    return class < WEFT_HTTP_CLASSES ? class : 0;
}

/* Count the duration of a request that ends now, also for the requests skipped before it. */
static void count_duration(weft__counts *c, double begun_s, bool has_log)
{
    double now_s = weft_now();
    unsigned weight = 1 + c->skipped;
    bool is_busy = (now_s - c->timed_s) * WEFT__TIMED_PER_S < weight;
    uint64_t ns = now_s > begun_s ? (uint64_t)((now_s - begun_s) * 1e9) : 0;
    c->timed_s = now_s;
    c->to_skip = c->skipped = is_busy && !has_log ? WEFT__TIMED_PART - 1 : 0;
    WEFT__COUNT(c, duration.buckets[weft__histogram_bucket(ns)], weight);
    WEFT__COUNT(c, duration.sum_ns, weight * ns);
}

/* Count what few requests have: a body, an upgrade, an incomplete reply, a measured duration. */
static COLD void count_rare(weft__counts *c, const weft_http_request *r)
{
    WEFT__COUNT(c, bytes_in, r->body_bytes);
    if (r->state == WEFT__REPLY_UPGRADED) {
        WEFT__COUNT(c, upgrades, 1);
        return;
    }
    if (r->state != WEFT__REPLY_ENDED)
        WEFT__COUNT(c, aborted, 1);
    if (c->to_skip > 0)
        c->to_skip--;
    else if (r->begun_s == 0)
        c->skipped++; /* the request began while to_skip was not 0 */
    else
        count_duration(c, r->begun_s, r->server->options.log != NULL);
}

void weft__counts_end_request(const weft_http_request *r)
{
    weft__counts *c = r->server->counts;
    WEFT__COUNT(c, replies[class_of(r->status)], 1);
    WEFT__COUNT(c, bytes_out, r->sent);
    if (UNLIKELY(r->state != WEFT__REPLY_ENDED || r->body_bytes != 0 || c->to_skip == 0))
        count_rare(c, r);
    else
        c->to_skip--;
}

void weft__counts_end_rejected(weft__counts *c, int status, uint64_t bytes_out)
{
    WEFT__COUNT(c, rejected, 1);
    WEFT__COUNT(c, replies[class_of(status)], 1);
    WEFT__COUNT(c, bytes_out, bytes_out);
}

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static void add_histogram(weft_histogram *sum, const weft_histogram *from)
{
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
        sum->buckets[i] += LOAD(from->buckets[i]);
    sum->sum_ns += LOAD(from->sum_ns);
}

static void add_counters(weft_http_counters *sum, const weft_http_counters *from)
{
    sum->connections_accepted += LOAD(from->connections_accepted);
    sum->connections_refused += LOAD(from->connections_refused);
    sum->tls_handshakes += LOAD(from->tls_handshakes);
    sum->tls_failures += LOAD(from->tls_failures);
    sum->upgrades += LOAD(from->upgrades);
    sum->rejected += LOAD(from->rejected);
    sum->aborted += LOAD(from->aborted);
    for (size_t i = 0; i < WEFT_HTTP_CLASSES; i++)
        sum->replies[i] += LOAD(from->replies[i]);
    /* After the replies, so that each reply has a request. */
    sum->requests_http1 += LOAD(from->requests_http1);
    sum->requests_http2 += LOAD(from->requests_http2);
    sum->bytes_in += LOAD(from->bytes_in);
    sum->bytes_out += LOAD(from->bytes_out);
    sum->connections += LOAD(from->connections);
    sum->connections_resting += LOAD(from->connections_resting);
    add_histogram(&sum->duration, &from->duration);
}

int weft__http_stats(weft_http_counters *out, size_t size)
{
    weft_http_counters sum = {0};
    for (const weft__counts *c = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE); c != NULL; c = c->next)
        add_counters(&sum, &c->values);
    uint64_t begun = sum.requests_http1 + sum.requests_http2, ended = 0;
    for (size_t i = 0; i < WEFT_HTTP_CLASSES; i++)
        ended += sum.replies[i];
    sum.requests_pending = begun > ended ? (size_t)(begun - ended) : 0;
    weft__result_copy(out, size, &sum, sizeof sum);
    return 0;
}
