/* Pulls: the requests of clients for messages of a consumer. See pull.h. */
#include "hub/broker/jetstream/pull.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STATUS_BYTES 160

/* Send a message without payload to a pull. headers is a whole block. */
static void status_send(const weft__consumer *c, weft__slice reply, const char *headers)
{
    const weft__publication p = {.subject = reply, .headers = weft__slice_of(headers)};
    weft__subjects_route(c->stream->broker, reply, &p, NULL);
}

static void pull_free(weft__consumer *c, weft__pull *pull)
{
    weft__list_unlink(&pull->node);
    c->pull_count--;
    c->no_wait_count -= pull->is_no_wait;
    free(pull);
}

void weft__pull_end(weft__consumer *c, weft__pull *pull)
{
    c->active_ns = weft__broker_now_ns(c->stream->broker);
    pull_free(c, pull);
}

/* End a pull that did not get all its messages. */
static void pull_time_out(weft__consumer *c, weft__pull *pull)
{
    char headers[STATUS_BYTES];
    snprintf(headers, sizeof headers,
             "NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: %" PRIu64
             "\r\nNats-Pending-Bytes: 0\r\n\r\n",
             pull->left);
    status_send(c, weft__pull_reply(pull), headers);
    weft__pull_end(c, pull);
}

static void heartbeat_send(weft__consumer *c, weft__pull *pull)
{
    char headers[STATUS_BYTES];
    snprintf(headers, sizeof headers,
             "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %" PRIu64
             "\r\nNats-Last-Stream: %" PRIu64 "\r\n\r\n",
             c->consumer_seq, c->delivered_seq);
    status_send(c, weft__pull_reply(pull), headers);
}

/* What a client asks for. Times are 0 if they are not set. */
typedef struct pull_request {
    int64_t batch, expires_ns, heartbeat_ns;
    bool is_no_wait;
} pull_request;

static int request_read_json(pull_request *r, weft__slice body)
{
    weft__json_doc doc = {0};
    int rc = weft__json_parse(&doc, body.data, body.bytes);
    if (rc == 0) {
        r->batch = weft__json_integer(&doc, "batch", 1);
        r->expires_ns = weft__json_integer(&doc, "expires", 0);
        r->heartbeat_ns = weft__json_integer(&doc, "idle_heartbeat", 0);
        r->is_no_wait = weft__json_is_true(&doc, "no_wait");
    }
    weft__json_free(&doc);
    return rc;
}

/* Return the number that a body consists of, or 1, as in nats-server. */
static int64_t batch_read(weft__slice body)
{
    int64_t batch = 0;
    for (size_t i = 0; i < body.bytes; i++)
        if (body.data[i] < '0' || body.data[i] > '9' || __builtin_mul_overflow(batch, 10, &batch) ||
            __builtin_add_overflow(batch, body.data[i] - '0', &batch))
            return 1;
    return batch;
}

static int request_read(pull_request *r, weft__slice body)
{
    *r = (pull_request){0};
    int rc = 0;
    if (body.bytes > 0 && body.data[0] == '{')
        rc = request_read_json(r, body);
    else
        r->batch = batch_read(body);
    r->batch = r->batch < 1 ? 1 : r->batch;
    return rc < 0 || r->expires_ns < 0 || r->heartbeat_ns < 0 ? -EBADMSG : 0;
}

/* A span of 0 is not set: it has no end. */
static int64_t span_end(int64_t now_ns, int64_t span_ns)
{
    return span_ns > 0 ? weft__broker_time_after(now_ns, span_ns) : WEFT__BROKER_NEVER;
}

static weft__pull *pull_new(weft__consumer *c, const pull_request *r, weft__slice reply)
{
    weft__pull *pull = malloc(sizeof *pull + reply.bytes);
    if (pull == NULL)
        return NULL;
    int64_t now_ns = weft__broker_now_ns(c->stream->broker);
    pull->left = (uint64_t)r->batch;
    pull->sent = 0;
    pull->is_no_wait = r->is_no_wait;
    pull->expires_ns = span_end(now_ns, r->expires_ns);
    pull->heartbeat_ns = r->heartbeat_ns;
    pull->heartbeat_due_ns = span_end(now_ns, r->heartbeat_ns);
    pull->reply_bytes = reply.bytes;
    memcpy(pull->reply, reply.data, reply.bytes);
    return pull;
}

/* Return the status that rejects a request, or NULL. */
static const char *request_refusal(const weft__consumer *c, const pull_request *r)
{
    /* nats-server requires that at least two heartbeats fit into the time of the request. */
    if (r->heartbeat_ns > 0 && r->heartbeat_ns > r->expires_ns / 2)
        return "NATS/1.0 400 Bad Request - heartbeat value too large\r\n\r\n";
    if (c->pull_count >= (size_t)c->config.values[WEFT__CONSUMER_MAX_WAITING])
        return "NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n";
    if (r->is_no_wait && r->expires_ns == 0 && weft__consumer_available(c) == 0)
        return "NATS/1.0 404 No Messages\r\n\r\n";
    return NULL;
}

void weft__pull_add(weft__consumer *c, weft__slice body, weft__slice reply)
{
    pull_request r;
    if (reply.bytes == 0)
        return;
    c->active_ns = weft__broker_now_ns(c->stream->broker);
    const char *refusal =
        request_read(&r, body) < 0 ? "NATS/1.0 400 Bad Request\r\n\r\n" : request_refusal(c, &r);
    weft__pull *pull = refusal == NULL ? pull_new(c, &r, reply) : NULL;
    if (pull == NULL) {
        status_send(c, reply, refusal != NULL ? refusal : "NATS/1.0 409 Server Shutdown\r\n\r\n");
        return;
    }
    weft__list_insert(&c->pulls, &pull->node);
    c->pull_count++;
    c->no_wait_count += pull->is_no_wait;
    weft__broker_wake_at(c->stream->broker, pull->expires_ns < pull->heartbeat_due_ns
                                                ? pull->expires_ns
                                                : pull->heartbeat_due_ns);
    weft__consumer_pump(c);
}

void weft__pull_sent(weft__consumer *c, weft__pull *pull)
{
    pull->sent++;
    if (--pull->left == 0) {
        weft__pull_end(c, pull);
        return;
    }
    if (pull->heartbeat_ns > 0)
        pull->heartbeat_due_ns = weft__broker_now_ns(c->stream->broker) + pull->heartbeat_ns;
    weft__list_unlink(&pull->node);
    weft__list_insert(&c->pulls, &pull->node);
}

void weft__pulls_end_no_wait(weft__consumer *c)
{
    if (c->no_wait_count == 0 || weft__consumer_available(c) > 0)
        return;
    for (weft__list *node = c->pulls.next; node != &c->pulls;) {
        weft__pull *pull = CONTAINER_OF(node, weft__pull, node);
        node = node->next;
        if (pull->is_no_wait && pull->sent > 0)
            pull_time_out(c, pull);
    }
}

void weft__broker_pulls_end(weft__consumer *c, const char *status)
{
    while (!weft__list_is_empty(&c->pulls)) {
        weft__pull *pull = CONTAINER_OF(c->pulls.next, weft__pull, node);
        status_send(c, weft__pull_reply(pull), status);
        pull_free(c, pull);
    }
}

int64_t weft__pulls_run_timers(weft__consumer *c, int64_t now_ns)
{
    int64_t next_ns = WEFT__BROKER_NEVER;
    for (weft__list *node = c->pulls.next; node != &c->pulls;) {
        weft__pull *pull = CONTAINER_OF(node, weft__pull, node);
        node = node->next;
        if (pull->expires_ns <= now_ns) {
            pull_time_out(c, pull);
            continue;
        }
        if (pull->heartbeat_due_ns <= now_ns) {
            heartbeat_send(c, pull);
            pull->heartbeat_due_ns = span_end(now_ns, pull->heartbeat_ns);
        }
        next_ns = pull->expires_ns < next_ns ? pull->expires_ns : next_ns;
        next_ns = pull->heartbeat_due_ns < next_ns ? pull->heartbeat_due_ns : next_ns;
    }
    return next_ns;
}
