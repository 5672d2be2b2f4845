/* Consumers: creation, deletion, and which messages are new. See consumer.h. */
#include "hub/broker/jetstream/consumer.h"

#include "hub/broker/jetstream/pending.h"
#include "hub/broker/jetstream/pull.h"
#include "hub/text/subject.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

weft__consumer *weft__consumer_find(const weft__stream *stream, weft__slice name)
{
    WEFT__LIST_FOR(node, &stream->consumers) {
        weft__consumer *c = CONTAINER_OF(node, weft__consumer, node);
        if (weft__slice_is(name, c->name))
            return c;
    }
    return NULL;
}

static bool consumer_wants(const weft__consumer *c, const weft__stored_msg *m)
{
    return c->config.filter[0] == '\0' ||
           weft__subject_matches(weft__slice_of(c->config.filter), weft__stored_msg_subject(m));
}

/* Return the first new message that matches the filter, or NULL. Skip the others for good. */
static weft__stored_msg *new_message(weft__consumer *c)
{
    if (c->new_count == 0)
        return NULL;
    weft__stored_msg *m = weft__store_from(&c->stream->store, c->next_seq);
    while (m != NULL && !consumer_wants(c, m)) {
        c->next_seq = m->seq + 1;
        m = weft__store_from(&c->stream->store, c->next_seq);
    }
    return m;
}

static void new_messages_count(weft__consumer *c)
{
    c->new_count = 0;
    for (weft__stored_msg *m = weft__store_from(&c->stream->store, c->next_seq); m != NULL;
         m = weft__store_from(&c->stream->store, m->seq + 1))
        c->new_count += consumer_wants(c, m);
}

/* Set the first sequence by the policy of delivery. */
static void position_set(weft__consumer *c)
{
    const weft__store *store = &c->stream->store;
    switch ((weft__deliver_policy)c->config.values[WEFT__CONSUMER_DELIVER_POLICY]) {
    case WEFT__DELIVER_ALL:
        c->next_seq = 1;
        break;
    case WEFT__DELIVER_LAST: {
        const char *filter = c->config.filter[0] != '\0' ? c->config.filter : ">";
        const weft__stored_msg *last = weft__store_last(store, weft__slice_of(filter));
        c->next_seq = last != NULL ? last->seq : store->last_seq + 1;
        break;
    }
    case WEFT__DELIVER_NEW:
        c->next_seq = store->last_seq + 1;
        break;
    case WEFT__DELIVER_BY_START_SEQ:
        c->next_seq = (uint64_t)c->config.values[WEFT__CONSUMER_OPT_START_SEQ];
        break;
    }
    new_messages_count(c);
}

/* The consumers of a work queue must not share messages. */
static weft__api_error work_queue_check(const weft__stream *stream,
                                        const weft__consumer_config *config, const char *name)
{
    if (config->values[WEFT__CONSUMER_ACK_POLICY] != WEFT__ACK_EXPLICIT)
        return WEFT__API_QUEUE_NEEDS_ACK;
    if (config->values[WEFT__CONSUMER_DELIVER_POLICY] != WEFT__DELIVER_ALL)
        return WEFT__API_QUEUE_DELIVERS_ALL;
    WEFT__LIST_FOR(node, &stream->consumers) {
        const weft__consumer *other = CONTAINER_OF(node, weft__consumer, node);
        if (strcmp(other->name, name) == 0)
            continue;
        if (config->filter[0] == '\0' || other->config.filter[0] == '\0')
            return WEFT__API_QUEUE_IS_TAKEN;
        if (strcmp(config->filter, other->config.filter) == 0)
            return WEFT__API_QUEUE_FILTER;
    }
    return WEFT__API_OK;
}

static weft__api_error config_check(const weft__stream *stream, const weft__consumer_config *config,
                                    const char *name)
{
    const int64_t *v = config->values;
    if (v[WEFT__CONSUMER_ACK_POLICY] == WEFT__ACK_ALL || v[WEFT__CONSUMER_OPT_START_SEQ] < 0)
        return WEFT__API_CONSUMER_UNSUPPORTED;
    if (config->filter[0] != '\0' && !weft__subject_is_valid(weft__slice_of(config->filter), true))
        return WEFT__API_CONSUMER_FILTER;
    if (stream->config.values[WEFT__STREAM_RETENTION] == WEFT__RETENTION_WORKQUEUE)
        return work_queue_check(stream, config, name);
    return WEFT__API_OK;
}

/* The position of a consumer and its policy of acknowledgement do not change. */
static bool is_update(const weft__consumer *c, const weft__consumer_config *config)
{
    static const weft__consumer_field fixed[] = {
        WEFT__CONSUMER_DELIVER_POLICY, WEFT__CONSUMER_OPT_START_SEQ, WEFT__CONSUMER_ACK_POLICY,
        WEFT__CONSUMER_REPLAY_POLICY};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (c->config.values[fixed[i]] != config->values[fixed[i]])
            return false;
    return true;
}

static void consumer_update(weft__consumer *c, const weft__consumer_config *config)
{
    c->config = *config;
    new_messages_count(c);
    weft__consumer_pump(c);
}

static weft__consumer *consumer_new(weft__stream *stream, const weft__consumer_config *config,
                                    const char *name)
{
    weft__consumer *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->stream = stream;
    c->config = *config;
    if (name[0] != '\0')
        snprintf(c->name, sizeof c->name, "%s", name);
    else
        snprintf(c->name, sizeof c->name, "%016" PRIx64, weft__broker_random(stream->broker));
    c->created_ns = c->active_ns = weft__broker_now_ns(stream->broker);
    weft__list_init(&c->waiting);
    weft__list_init(&c->due);
    weft__list_init(&c->pulls);
    position_set(c);
    weft__list_insert(&stream->consumers, &c->node);
    stream->consumer_count++;
    return c;
}

/* Return the time at which an idle consumer is deleted. */
static int64_t idle_end(const weft__consumer *c)
{
    int64_t idle_ns = c->config.values[WEFT__CONSUMER_INACTIVE_THRESHOLD];
    return idle_ns > 0 && c->pull_count == 0 ? weft__broker_time_after(c->active_ns, idle_ns)
                                             : WEFT__BROKER_NEVER;
}

weft__api_error weft__consumer_create(weft__stream *stream, const weft__consumer_config *config,
                                      const char *name, weft__consumer **out)
{
    *out = weft__consumer_find(stream, weft__slice_of(name));
    if (*out != NULL && !is_update(*out, config))
        return WEFT__API_CONSUMER_FIXED;
    weft__api_error error = config_check(stream, config, name);
    if (error != WEFT__API_OK)
        return error;
    if (*out != NULL) {
        consumer_update(*out, config);
        return WEFT__API_OK;
    }
    *out = consumer_new(stream, config, name);
    if (*out == NULL)
        return WEFT__API_NO_MEMORY;
    weft__broker_wake_at(stream->broker, idle_end(*out));
    return WEFT__API_OK;
}

void weft__consumer_delete(weft__consumer *c)
{
    weft__broker_pulls_end(c, "NATS/1.0 409 Consumer Deleted\r\n\r\n");
    weft__pending_free_all(c);
    weft__list_unlink(&c->node);
    c->stream->consumer_count--;
    free(c);
}

uint64_t weft__consumer_available(const weft__consumer *c)
{
    return c->new_count + c->due_count;
}

/* Write the subject that acknowledges a delivery. */
static int ack_subject(const weft__consumer *c, const weft__stored_msg *m, uint64_t deliveries,
                       uint64_t new_count, char *out, size_t room)
{
    return snprintf(out, room,
                    "$JS.ACK.%s.%s.%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%" PRId64 ".%" PRIu64,
                    c->stream->config.name, c->name, deliveries, m->seq, c->consumer_seq + 1,
                    m->time_ns, new_count);
}

/* Send a message to the first pull. Returns false if the client of the pull is gone. */
static bool message_send(weft__consumer *c, const weft__stored_msg *m, uint64_t deliveries,
                         uint64_t new_count)
{
    weft__pull *pull = CONTAINER_OF(c->pulls.next, weft__pull, node);
    char subject[WEFT__ACK_SUBJECT_BYTES];
    int bytes = ack_subject(c, m, deliveries, new_count, subject, sizeof subject);
    const weft__publication p = {.subject = weft__stored_msg_subject(m),
                                 .reply = {subject, (size_t)bytes},
                                 .headers = weft__stored_msg_headers(m),
                                 .payload = weft__stored_msg_payload(m)};
    if (weft__subjects_route(c->stream->broker, weft__pull_reply(pull), &p, NULL) == 0) {
        weft__pull_end(c, pull);
        return false;
    }
    c->consumer_seq++;
    weft__pull_sent(c, pull);
    return true;
}

/* Deliver a new message. Returns false if memory is exhausted. */
static bool new_deliver(weft__consumer *c, weft__stored_msg *m)
{
    bool needs_ack = c->config.values[WEFT__CONSUMER_ACK_POLICY] != WEFT__ACK_NONE;
    weft__pending *pending = needs_ack ? weft__pending_new(c, m->seq) : NULL;
    if (needs_ack && pending == NULL)
        return false;
    if (!message_send(c, m, 1, c->new_count - 1)) {
        if (pending != NULL)
            weft__pending_remove(c, pending);
        return true;
    }
    c->new_count--;
    c->next_seq = m->seq + 1;
    c->delivered_seq = m->seq;
    if (pending != NULL)
        weft__pending_wait(c, pending, c->config.values[WEFT__CONSUMER_ACK_WAIT]);
    return true;
}

static void due_deliver(weft__consumer *c, weft__pending *pending)
{
    weft__stored_msg *m = weft__store_find(&c->stream->store, pending->seq);
    if (!message_send(c, m, pending->deliveries + 1, c->new_count))
        return;
    pending->deliveries++;
    pending->consumer_seq = c->consumer_seq;
    weft__pending_wait(c, pending, c->config.values[WEFT__CONSUMER_ACK_WAIT]);
}

static bool is_at_ack_limit(const weft__consumer *c)
{
    int64_t limit = c->config.values[WEFT__CONSUMER_MAX_ACK_PENDING];
    return limit > 0 && c->pending.count >= (size_t)limit;
}

void weft__consumer_pump(weft__consumer *c)
{
    while (!weft__list_is_empty(&c->pulls)) {
        if (!weft__list_is_empty(&c->due)) {
            due_deliver(c, CONTAINER_OF(c->due.next, weft__pending, node));
            continue;
        }
        weft__stored_msg *m = is_at_ack_limit(c) ? NULL : new_message(c);
        if (m == NULL || !new_deliver(c, m))
            break;
    }
    weft__pulls_end_no_wait(c);
}

void weft__consumer_stored(weft__consumer *c, const weft__stored_msg *m)
{
    c->new_count += m->seq >= c->next_seq && consumer_wants(c, m);
}

void weft__consumer_removed(weft__consumer *c, const weft__stored_msg *m)
{
    if (m->seq >= c->next_seq) {
        c->new_count -= consumer_wants(c, m);
        return;
    }
    weft__pending *pending = weft__pending_find(c, m->seq);
    if (pending != NULL)
        weft__pending_remove(c, pending);
}

int64_t weft__consumer_run_timers(weft__consumer *c, int64_t now_ns)
{
    int64_t late_ns = weft__pending_run_timers(c, now_ns);
    int64_t pull_ns = weft__pulls_run_timers(c, now_ns);
    int64_t idle_ns = idle_end(c);
    if (idle_ns <= now_ns) {
        weft__consumer_delete(c);
        return WEFT__BROKER_NEVER;
    }
    int64_t next_ns = late_ns < pull_ns ? late_ns : pull_ns;
    return next_ns < idle_ns ? next_ns : idle_ns;
}
