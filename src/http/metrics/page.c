/* The page of metrics (weft_http_metrics). */
#include "base/compiler.h"
#include "http/metrics/text.h"
#include "http/server/server.h"

#include <weft/debug.h>
#include <weft/http_metrics.h>
#include <weft/io.h>
#include <weft/offload.h>
#include <weft/version.h>

#include <stdio.h>
#include <stdlib.h>

/* The number of cords with samples of their own. The sums include all cords. */
#define CORDS_MAX 256

static void add_build(weft__metrics *m)
{
    char labels[128];
    snprintf(labels, sizeof labels, "version=\"%d.%d.%d\",backend=\"%s\"", WEFT_VERSION_MAJOR,
             WEFT_VERSION_MINOR, WEFT_VERSION_PATCH, weft_backend_name());
    weft__metrics_begin(m, "weft_build_info", "gauge",
                        "Version of weft, and the backend of the cord that replies.");
    weft__metrics_add(m, "weft_build_info", labels, 1);
}

static void add_counts(weft__metrics *m, const weft_counters *c)
{
    weft__metrics_counter(m, "weft_switches_total", "Switches between fibers.", c->switches);
    weft__metrics_counter(m, "weft_fibers_spun_total", "Fibers created.", c->fibers_spun);
    weft__metrics_counter(m, "weft_polls_total", "Polls of the backends.", c->polls);
    weft__metrics_counter(m, "weft_polls_blocking_total",
                          "Polls of the backends that were allowed to wait.", c->polls_blocking);
    weft__metrics_counter(m, "weft_syscalls_total", "System calls of the backends.", c->syscalls);
    weft__metrics_counter(m, "weft_operations_total", "Operations submitted to the backends.",
                          c->ops);
    weft__metrics_counter(m, "weft_messages_total", "Messages received from other threads.",
                          c->messages);
    weft__metrics_counter(m, "weft_wakes_total", "Wake-ups of cords by messages.", c->wakes);
    weft__metrics_counter(m, "weft_stalls_total",
                          "Times that fibers ran for 10 ms or longer without a poll.", c->stalls);
    weft__metrics_begin(m, "weft_stall_seconds_total", "counter", "Time of all stalls.");
    weft__metrics_add_seconds(m, "weft_stall_seconds_total", "", c->stall_ns);
    weft__metrics_histogram(m, "weft_wake_latency_seconds",
                            "Sampled time from the wake-up of a fiber until it runs.",
                            &c->wake_latency);
}

static void add_gauges(weft__metrics *m, const weft_counters *c)
{
    weft__metrics_gauge(m, "weft_cords", "Threads with fibers.", c->cords);
    weft__metrics_gauge(m, "weft_fibers", "Live fibers.", c->fibers);
    weft__metrics_gauge(m, "weft_fibers_unawaited", "Ended fibers that no fiber has awaited.",
                        c->fibers_unawaited);
    weft__metrics_gauge(m, "weft_runnable_fibers", "Fibers on the run queues.", c->runnable);
    weft__metrics_gauge(m, "weft_runnable_fibers_max",
                        "Maximum of the runnable fibers of a cord since the start.",
                        c->runnable_max);
    weft__metrics_gauge(m, "weft_operations_pending", "Operations pending in the backends.",
                        c->ops_pending);
    weft__metrics_gauge(m, "weft_timers", "Armed timers.", c->timers);
    weft__metrics_gauge(m, "weft_watches", "Watched descriptors.", c->watches);
    weft__metrics_gauge(m, "weft_messages_pending", "Messages that are not delivered yet.",
                        c->messages_pending);
    weft__metrics_gauge(m, "weft_stacks", "Mapped stacks.", c->stacks);
    weft__metrics_gauge(m, "weft_stacks_cached", "Mapped stacks in the caches.", c->stacks_cached);
    weft__metrics_gauge(m, "weft_stacks_unguarded", "Mapped stacks without a guard.",
                        c->stacks_unguarded);
    weft__metrics_gauge(m, "weft_stack_bytes", "Address space of the mapped stacks.",
                        c->stack_bytes);
}

/* The counters of one cord that the page shows. */
typedef struct cord_sample {
    char label[24];
    weft_counters counters;
} cord_sample;

#define OFFSET(field) offsetof(weft_counters, field)

/* A metric with one sample for each cord. */
typedef struct cord_metric {
    const char *name, *type, *help;
    size_t offset;
    bool is_size; /* the field is a size_t, else a uint64_t */
} cord_metric;

static const cord_metric cord_metrics[] = {
    {"weft_cord_switches_total", "counter", "Switches of a cord.", OFFSET(switches), false},
    {"weft_cord_syscalls_total", "counter", "System calls of a cord.", OFFSET(syscalls), false},
    {"weft_cord_stalls_total", "counter", "Stalls of a cord.", OFFSET(stalls), false},
    {"weft_cord_fibers", "gauge", "Live fibers of a cord.", OFFSET(fibers), true},
    {"weft_cord_runnable_fibers", "gauge", "Runnable fibers of a cord.", OFFSET(runnable), true},
    {"weft_cord_operations_pending", "gauge", "Pending operations of a cord.", OFFSET(ops_pending),
     true},
};

static uint64_t field_of(const weft_counters *c, const cord_metric *metric)
{
    const char *at = (const char *)c + metric->offset;
    return metric->is_size ? *(const size_t *)at : *(const uint64_t *)at;
}

/* Get the counters of the cords. Returns the number of cords with counters. */
static size_t cords_sample(cord_sample *samples)
{
    weft_cord cords[CORDS_MAX];
    int end = weft_cords(cords, CORDS_MAX);
    size_t count = 0;
    for (int i = 0; i < end && i < CORDS_MAX; i++) {
        cord_sample *s = &samples[count];
        if (cords[i] == 0 || weft_stats_of(cords[i], &s->counters) < 0)
            continue;
        snprintf(s->label, sizeof s->label, "cord=\"%d\"", i);
        count++;
    }
    return count;
}

static void add_cords(weft__metrics *m)
{
    cord_sample *samples = malloc(CORDS_MAX * sizeof *samples);
    if (samples == NULL) {
        m->has_failed = true;
        return;
    }
    size_t count = cords_sample(samples);
    for (size_t i = 0; i < sizeof cord_metrics / sizeof *cord_metrics; i++) {
        const cord_metric *metric = &cord_metrics[i];
        weft__metrics_begin(m, metric->name, metric->type, metric->help);
        for (size_t j = 0; j < count; j++)
            weft__metrics_add(m, metric->name, samples[j].label,
                              field_of(&samples[j].counters, metric));
    }
    free(samples);
}

/* A metric with one sample for each worker queue. */
#define ADD_QUEUES(name, type, help, field)                            \
    do {                                                               \
        weft__metrics_begin(m, name, type, help);                      \
        weft__metrics_add(m, name, "queue=\"files\"", c.files.field);  \
        weft__metrics_add(m, name, "queue=\"names\"", c.names.field);  \
        weft__metrics_add(m, name, "queue=\"offload\"", c.user.field); \
    } while (0)

/* The sum of the times of jobs in the queues. */
static void add_queue_times(weft__metrics *m, const weft_offload_counters *c)
{
    static const char name[] = "weft_worker_queue_seconds_total";
    weft__metrics_begin(m, name, "counter", "Time that jobs waited for a worker.");
    weft__metrics_add_seconds(m, name, "queue=\"files\"", (uint64_t)(c->files.queue_s_total * 1e9));
    weft__metrics_add_seconds(m, name, "queue=\"names\"", (uint64_t)(c->names.queue_s_total * 1e9));
    weft__metrics_add_seconds(m, name, "queue=\"offload\"",
                              (uint64_t)(c->user.queue_s_total * 1e9));
}

static void add_workers(weft__metrics *m)
{
    weft_offload_counters c;
    (void)weft_offload_stats(&c);
    ADD_QUEUES("weft_worker_threads", "gauge", "Worker threads.", threads);
    ADD_QUEUES("weft_worker_jobs_queued", "gauge", "Jobs that wait for a worker.", queued);
    ADD_QUEUES("weft_worker_jobs_running", "gauge", "Jobs that a worker runs.", running);
    ADD_QUEUES("weft_worker_jobs_done_total", "counter", "Jobs that have ended.", done);
    ADD_QUEUES("weft_worker_jobs_abandoned_total", "counter", "Jobs that were cancelled.",
               abandoned);
    add_queue_times(m, &c);
}

static void add_replies(weft__metrics *m, const weft_http_counters *c)
{
    static const char *const classes[WEFT_HTTP_CLASSES] = {"class=\"none\"", "class=\"1xx\"",
                                                           "class=\"2xx\"",  "class=\"3xx\"",
                                                           "class=\"4xx\"",  "class=\"5xx\""};
    weft__metrics_begin(m, "weft_http_replies_total", "counter",
                        "Requests that have ended, by the class of the status.");
    for (size_t i = 0; i < WEFT_HTTP_CLASSES; i++)
        weft__metrics_add(m, "weft_http_replies_total", classes[i], c->replies[i]);
}

static void add_connections(weft__metrics *m, const weft_http_counters *c)
{
    weft__metrics_counter(m, "weft_http_connections_accepted_total", "Connections accepted.",
                          c->connections_accepted);
    weft__metrics_counter(m, "weft_http_connections_refused_total",
                          "Connections refused because of a limit.", c->connections_refused);
    weft__metrics_gauge(m, "weft_http_connections", "Open connections.", c->connections);
    weft__metrics_gauge(m, "weft_http_connections_resting", "Open connections without a fiber.",
                        c->connections_resting);
    weft__metrics_begin(m, "weft_http_tls_handshakes_total", "counter", "TLS handshakes.");
    weft__metrics_add(m, "weft_http_tls_handshakes_total", "result=\"ok\"", c->tls_handshakes);
    weft__metrics_add(m, "weft_http_tls_handshakes_total", "result=\"failed\"", c->tls_failures);
}

static void add_http(weft__metrics *m)
{
    weft_http_counters c;
    (void)weft_http_stats(&c);
    add_connections(m, &c);
    weft__metrics_begin(m, "weft_http_requests_total", "counter", "Requests that have begun.");
    weft__metrics_add(m, "weft_http_requests_total", "protocol=\"http/1\"", c.requests_http1);
    weft__metrics_add(m, "weft_http_requests_total", "protocol=\"http/2\"", c.requests_http2);
    weft__metrics_gauge(m, "weft_http_requests_pending", "Requests that have not ended.",
                        c.requests_pending);
    weft__metrics_counter(m, "weft_http_upgrades_total",
                          "Requests that switched to another protocol, such as WebSocket.",
                          c.upgrades);
    weft__metrics_counter(m, "weft_http_rejected_total", "Requests rejected without a handler.",
                          c.rejected);
    weft__metrics_counter(m, "weft_http_aborted_total", "Requests with an incomplete reply.",
                          c.aborted);
    add_replies(m, &c);
    weft__metrics_counter(m, "weft_http_request_body_bytes_total",
                          "Bytes of request bodies that handlers have read.", c.bytes_in);
    weft__metrics_counter(m, "weft_http_reply_body_bytes_total", "Bytes of reply bodies sent.",
                          c.bytes_out);
    weft__metrics_histogram(m, "weft_http_request_duration_seconds",
                            "Time from the first byte of a request to the end of its reply.",
                            &c.duration);
}

/* Return true if the client accepts the format of OpenMetrics. */
static bool accepts_openmetrics(const weft_http_request *request)
{
    const char *accept = weft_http_header(request, "Accept");
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
}

static int reply_page(weft_http_request *request, weft__metrics *m)
{
    weft_counters total;
    int rc = weft_stats_total(&total);
    if (rc < 0)
        return rc;
    add_build(m);
    weft__metrics_add_process(m);
    add_counts(m, &total);
    add_gauges(m, &total);
    add_cords(m);
    add_workers(m);
    add_http(m);
    rc = weft__metrics_end(m);
    const char *type = m->is_openmetrics
                           ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain; version=0.0.4; charset=utf-8";
    return rc < 0 ? rc : weft_http_reply(request, 200, type, m->text.data, m->text.bytes);
}

int weft_http_metrics(weft_http_request *request, void *ctx)
{
    (void)ctx;
    int rc = 0;
    if (!weft__request_is(request, "GET") && !weft__request_is(request, "HEAD")) {
        rc = weft_http_set(request, "Allow", "GET, HEAD");
        return rc < 0 ? rc : weft_http_reply_status(request, 405);
    }
    rc = weft_http_set(request, "Cache-Control", "no-store");
    if (rc == 0)
        rc = weft_http_set(request, "Vary", "Accept");
    weft__metrics m = {.is_openmetrics = accepts_openmetrics(request)};
    if (rc == 0)
        rc = reply_page(request, &m);
    weft__buffer_free(&m.text);
    return rc;
}
