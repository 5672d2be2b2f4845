/*
 * Metrics: counters of the HTTP servers of the process, and a page for monitoring systems.
 *
 *     weft_http_router *routes = weft_http_router_new();
 *     weft_http_route(routes, "GET", "/metrics", weft_http_metrics, NULL);
 *
 * Counting is always on. The counters of libweft itself are in debug.h and offload.h.
 *
 * weft_http_counters may gain fields at its end. See version.h.
 */
#ifndef WEFT_HTTP_METRICS_H
#define WEFT_HTTP_METRICS_H

#include <weft/histogram.h>
#include <weft/http.h>

WEFT_BEGIN

/* Classes of statuses, for replies of weft_http_counters. */
#define WEFT_HTTP_CLASSES 6

/*
 * Counters of all servers of the process, in all threads. The fields marked * never decrease, and
 * include servers that have ended. The other fields are current values.
 */
typedef struct weft_http_counters {
    uint64_t connections_accepted; /* * connections, without refused connections */
    /*
     * * Connections that a server refused, because of connections_max, connections_per_peer_max or
     * exhausted memory.
     */
    uint64_t connections_refused;
    uint64_t tls_handshakes; /* * complete TLS handshakes */
    uint64_t tls_failures;   /* * TLS handshakes that failed or took too long */
    uint64_t requests_http1; /* * requests of HTTP/1, also rejected requests */
    uint64_t requests_http2; /* * requests of HTTP/2, also rejected requests */
    uint64_t
        upgrades; /* * requests that have switched to another protocol, for example WebSocket */
    uint64_t rejected; /* * requests that a server rejected without calling the handler */
    uint64_t aborted;  /* * requests whose reply is incomplete */
    /*
     * * Requests that have ended, by the first digit of the status. replies[0] counts requests
     * without a status, because the connection was lost or the handler has taken it over.
     */
    uint64_t replies[WEFT_HTTP_CLASSES];
    uint64_t bytes_in;          /* * bytes of the bodies of requests that handlers have read */
    uint64_t bytes_out;         /* * bytes of the bodies of replies, as sent */
    size_t connections;         /* open connections, also those that rest */
    size_t connections_resting; /* open connections without a fiber */
    size_t requests_pending;    /* requests that have begun and not ended */
    /*
     * * The time from the first byte of a request to the end of its reply, of the requests that a
     * handler has served, except upgraded requests. A server with more than 1,000 requests per
     * second and without a log measures one request in 16, and counts it for the requests that it
     * has skipped. The number of durations is therefore up to 15 behind for each server.
     */
    weft_histogram duration;
} weft_http_counters;

/** Like weft_http_stats, for a result of size bytes. Private. */
WEFT_API int weft__http_stats(weft_http_counters *out, size_t size);

/**
 * Get the counters of all HTTP servers of the process.
 *
 * Any thread may call this function. The call resets no counter. A request is counted as it begins,
 * and its reply as it ends. A child of fork(2) starts with the counters of its parent.
 *
 * Returns 0.
 */
static inline int weft_http_stats(weft_http_counters *out)
{
    return weft__http_stats(out, sizeof *out);
}

/**
 * Reply with all counters, for Prometheus and similar systems.
 *
 * This function is a handler. ctx is not used. The reply is in the text format of Prometheus,
 * version 0.0.4, or in the format of OpenMetrics 1.0 if the Accept header contains its type. The
 * reply contains the counters of weft_stats_total, weft_offload_stats and weft_http_stats, some
 * counters of each cord, and the start time, CPU time and memory of the process. The label cord is
 * the index of a cord (see weft_cords).
 *
 * The page shows no data of requests. It does show the load and the version of the server, so do
 * not serve it to the public.
 *
 * Returns 0. Errors in addition to those of weft_http_reply:
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
WEFT_SWITCHPOINT int weft_http_metrics(weft_http_request *request, void *ctx);

WEFT_END

#endif
