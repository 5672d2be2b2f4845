/* Pending messages and their acknowledgements. See pending.h. */
#include "hub/broker/jetstream/pending.h"

#include "hub/broker/jetstream/pull.h"

#include <stdlib.h>

weft__pending *weft__pending_find(const weft__consumer *c, uint64_t seq)
{
    WEFT__HASH_FOR(node, &c->pending, weft__hash_number(seq)) {
        weft__pending *pending = CONTAINER_OF(node, weft__pending, by_seq);
        if (pending->seq == seq)
            return pending;
    }
    return NULL;
}

weft__pending *weft__pending_new(weft__consumer *c, uint64_t seq)
{
    weft__pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL)
        return NULL;
    pending->seq = seq;
    pending->consumer_seq = c->consumer_seq + 1;
    pending->deliveries = 1;
    weft__list_init(&pending->node);
    if (weft__hash_insert(&c->pending, &pending->by_seq, weft__hash_number(seq)) < 0) {
        free(pending);
        return NULL;
    }
    return pending;
}

static void pending_unlink(weft__consumer *c, weft__pending *pending)
{
    c->due_count -= pending->is_due;
    pending->is_due = false;
    weft__list_remove(&pending->node);
}

void weft__pending_remove(weft__consumer *c, weft__pending *pending)
{
    pending_unlink(c, pending);
    weft__hash_remove(&c->pending, &pending->by_seq);
    free(pending);
}

void weft__pending_wait(weft__consumer *c, weft__pending *pending, int64_t time_ns)
{
    int64_t now_ns = weft__broker_now_ns(c->stream->broker);
    pending->late_ns = weft__broker_time_after(now_ns, time_ns);
    pending_unlink(c, pending);
    /* Most times are later than all others: search from the end. */
    weft__list *after = c->waiting.prev;
    while (after != &c->waiting &&
           CONTAINER_OF(after, weft__pending, node)->late_ns > pending->late_ns)
        after = after->prev;
    weft__list_insert(after->next, &pending->node);
    weft__broker_wake_at(c->stream->broker, pending->late_ns);
}

/* Deliver a message again, unless it was delivered as often as permitted. */
static void pending_make_due(weft__consumer *c, weft__pending *pending)
{
    int64_t deliveries_max = c->config.values[WEFT__CONSUMER_MAX_DELIVER];
    if (deliveries_max > 0 && pending->deliveries >= (uint64_t)deliveries_max) {
        weft__pending_remove(c, pending);
        return;
    }
    pending_unlink(c, pending);
    weft__list_insert(&c->due, &pending->node);
    pending->is_due = true;
    c->due_count++;
}

int64_t weft__pending_run_timers(weft__consumer *c, int64_t now_ns)
{
    bool has_changed = false;
    while (!weft__list_is_empty(&c->waiting)) {
        weft__pending *pending = CONTAINER_OF(c->waiting.next, weft__pending, node);
        if (pending->late_ns > now_ns)
            break;
        pending_make_due(c, pending);
        has_changed = true;
    }
    if (has_changed)
        weft__consumer_pump(c);
    return weft__list_is_empty(&c->waiting)
               ? WEFT__BROKER_NEVER
               : CONTAINER_OF(c->waiting.next, weft__pending, node)->late_ns;
}

void weft__pending_free_all(weft__consumer *c)
{
    while (!weft__list_is_empty(&c->waiting))
        weft__pending_remove(c, CONTAINER_OF(c->waiting.next, weft__pending, node));
    while (!weft__list_is_empty(&c->due))
        weft__pending_remove(c, CONTAINER_OF(c->due.next, weft__pending, node));
    weft__hash_free(&c->pending);
}

/* A message is done: acknowledged or terminated. */
static void pending_finish(weft__consumer *c, weft__pending *pending)
{
    weft__stream *stream = c->stream;
    weft__stored_msg *m = weft__store_find(&stream->store, pending->seq);
    weft__pending_remove(c, pending);
    if (m != NULL && stream->config.values[WEFT__STREAM_RETENTION] == WEFT__RETENTION_WORKQUEUE)
        weft__stream_remove(stream, m);
}

/* Return the delay of "-NAK {"delay":ns}", or 0. */
static int64_t nak_delay(weft__slice body)
{
    const char *brace = memchr(body.data, '{', body.bytes);
    weft__json_doc doc = {0};
    int64_t delay_ns = 0;
    if (brace != NULL &&
        weft__json_parse(&doc, brace, body.bytes - (size_t)(brace - body.data)) == 0)
        delay_ns = weft__json_integer(&doc, "delay", 0);
    weft__json_free(&doc);
    return delay_ns > 0 ? delay_ns : 0;
}

static bool starts_with(weft__slice s, const char *text)
{
    return s.bytes >= strlen(text) && memcmp(s.data, text, strlen(text)) == 0;
}

static void pending_nak(weft__consumer *c, weft__pending *pending, weft__slice body)
{
    int64_t delay_ns = nak_delay(body);
    if (delay_ns > 0)
        weft__pending_wait(c, pending, delay_ns);
    else
        pending_make_due(c, pending);
}

/* As in nats-server, the acknowledgement of an earlier delivery counts for the last one too. */
static void pending_apply(weft__consumer *c, weft__pending *pending, weft__slice body)
{
    if (starts_with(body, "-NAK"))
        pending_nak(c, pending, body);
    else if (starts_with(body, "+WPI"))
        weft__pending_wait(c, pending, c->config.values[WEFT__CONSUMER_ACK_WAIT]);
    else if (body.bytes == 0 || starts_with(body, "+ACK") || starts_with(body, "+NXT") ||
             starts_with(body, "+TERM"))
        pending_finish(c, pending);
}

void weft__consumer_ack(weft__consumer *c, uint64_t seq, const weft__publication *p)
{
    weft__pending *pending = weft__pending_find(c, seq);
    c->active_ns = weft__broker_now_ns(c->stream->broker);
    if (pending != NULL)
        pending_apply(c, pending, p->payload);
    if (starts_with(p->payload, "+NXT")) {
        weft__slice body = {p->payload.data + 4, p->payload.bytes - 4};
        while (body.bytes > 0 && body.data[0] == ' ')
            body.data++, body.bytes--;
        weft__pull_add(c, body, p->reply);
    } else if (p->reply.bytes > 0) {
        const weft__publication confirmation = {.subject = p->reply};
        weft__subjects_route(c->stream->broker, p->reply, &confirmation, NULL);
    }
    weft__consumer_pump(c);
}
