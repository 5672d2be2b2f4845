/* Publishing into a stream: conditions, limits, storage and the reply. */
#include "hub/broker/jetstream/api.h"
#include "hub/broker/jetstream/message_id.h"
#include "hub/text/header.h"

/* What a publication has led to, for the reply. */
typedef struct outcome {
    weft__api_error error;
    uint64_t seq; /* of the stored message; of a duplicate: of the first one */
    bool is_duplicate;
    uint64_t number; /* for the description of the error */
    bool has_number;
} outcome;

static void outcome_write(const weft__stream *stream, const outcome *o, weft__json_out *out)
{
    weft__json_out_begin(out, '{');
    if (o->error != WEFT__API_OK)
        weft__api_error_write(o->error, o->has_number ? &o->number : NULL, out);
    weft__json_out_text_member(out, "stream", stream->config.name);
    weft__json_out_integer_member(out, "seq", (int64_t)o->seq);
    if (o->is_duplicate) {
        weft__json_out_name(out, "duplicate");
        weft__json_out_flag(out, true);
    }
    weft__json_out_end(out, '}');
}

static void publish_reply(const weft__stream *stream, weft__slice reply, const outcome *o)
{
    if (stream->config.values[WEFT__STREAM_NO_ACK])
        return;
    weft__json_out out = {0};
    outcome_write(stream, o, &out);
    weft__api_reply(stream->broker, reply, &out);
    weft__buffer_free(&out.buffer);
}

/* Check a condition on a sequence that a header states. */
static bool sequence_check(weft__slice headers, const char *name, uint64_t actual, outcome *o)
{
    if (weft__header_find(headers, name).data == NULL ||
        weft__header_number(headers, name, UINT64_MAX) == actual)
        return true;
    *o = (outcome){.error = WEFT__API_OTHER_LAST_SEQUENCE, .number = actual, .has_number = true};
    return false;
}

static bool last_id_check(const weft__stream *stream, weft__slice headers, outcome *o)
{
    weft__slice expected = weft__header_find(headers, "Nats-Expected-Last-Msg-Id");
    const weft__message_id *last = weft__message_id_last(stream);
    size_t bytes = last == NULL ? 0 : last->bytes;
    if (expected.data == NULL ||
        (expected.bytes == bytes && (bytes == 0 || memcmp(expected.data, last->text, bytes) == 0)))
        return true;
    o->error = WEFT__API_OTHER_LAST_ID;
    return false;
}

/* Check the conditions of the headers. Returns false if the message is not stored. */
static bool headers_check(weft__stream *stream, const weft__publication *p, outcome *o)
{
    weft__slice headers = p->headers, id = weft__header_find(headers, "Nats-Msg-Id");
    weft__slice expected = weft__header_find(headers, "Nats-Expected-Stream");
    if (expected.data != NULL && !weft__slice_is(expected, stream->config.name)) {
        o->error = WEFT__API_OTHER_STREAM;
        return false;
    }
    const weft__message_id *first = id.bytes == 0 ? NULL : weft__message_id_find(stream, id);
    if (first != NULL) {
        o->seq = first->seq;
        o->is_duplicate = true;
        return false;
    }
    const weft__stored_msg *last = weft__store_last(&stream->store, p->subject);
    return sequence_check(headers, "Nats-Expected-Last-Subject-Sequence",
                          last == NULL ? 0 : last->seq, o) &&
           sequence_check(headers, "Nats-Expected-Last-Sequence", stream->store.last_seq, o) &&
           last_id_check(stream, headers, o);
}

/* Return whether a limit is set and reached. */
static bool is_at_limit(const weft__stream *stream, weft__stream_field field, uint64_t value)
{
    int64_t limit = stream->config.values[field];
    return limit >= 0 && value >= (uint64_t)limit;
}

/* Check the limits of a stream that discards new messages. */
static weft__api_error room_check(const weft__stream *stream, const weft__publication *p)
{
    const int64_t *v = stream->config.values;
    const weft__subject_log *log = weft__store_log(&stream->store, p->subject);
    /* The message then replaces an older message of its subject. */
    bool is_replacing =
        log != NULL && is_at_limit(stream, WEFT__STREAM_MAX_MSGS_PER_SUBJECT, log->count);
    if (is_replacing)
        return v[WEFT__STREAM_DISCARD_NEW_PER_SUBJECT] ? WEFT__API_TOO_MANY_PER_SUBJECT
                                                       : WEFT__API_OK;
    if (is_at_limit(stream, WEFT__STREAM_MAX_MSGS, stream->store.count))
        return WEFT__API_TOO_MANY_MESSAGES;
    if (is_at_limit(stream, WEFT__STREAM_MAX_BYTES, stream->store.bytes + weft__store_cost(p) - 1))
        return WEFT__API_TOO_MANY_BYTES;
    return WEFT__API_OK;
}

static weft__api_error limits_check(const weft__stream *stream, const weft__publication *p)
{
    const int64_t *v = stream->config.values;
    size_t bytes = p->headers.bytes + p->payload.bytes;
    if (v[WEFT__STREAM_MAX_MSG_SIZE] >= 0 && bytes > (uint64_t)v[WEFT__STREAM_MAX_MSG_SIZE])
        return WEFT__API_MESSAGE_TOO_LARGE;
    if (weft__header_find(p->headers, "Nats-Rollup").data != NULL && !v[WEFT__STREAM_ALLOW_ROLLUP])
        return WEFT__API_ROLLUP_DENIED;
    return v[WEFT__STREAM_DISCARD] == WEFT__DISCARD_NEW ? room_check(stream, p) : WEFT__API_OK;
}

/* Return whether a stream has more than a limit permits. */
static bool is_over_limit(const weft__stream *stream, weft__stream_field field, uint64_t value)
{
    int64_t limit = stream->config.values[field];
    return limit >= 0 && value > (uint64_t)limit;
}

/* Remove old messages that a new message replaces. */
static void limits_enforce(weft__stream *stream, weft__stored_msg *m)
{
    weft__slice rollup = weft__header_find(weft__stored_msg_headers(m), "Nats-Rollup");
    if (weft__slice_is(rollup, "all"))
        weft__stream_purge(stream, (weft__slice){0}, m->seq, 0);
    else if (weft__slice_is(rollup, "sub"))
        weft__stream_purge(stream, weft__stored_msg_subject(m), m->seq, 0);
    while (is_over_limit(stream, WEFT__STREAM_MAX_MSGS_PER_SUBJECT, m->log->count) &&
           m->log->count > 1)
        weft__stream_remove(stream, CONTAINER_OF(m->log->messages.next, weft__stored_msg, in_log));
    while ((is_over_limit(stream, WEFT__STREAM_MAX_MSGS, stream->store.count) ||
            is_over_limit(stream, WEFT__STREAM_MAX_BYTES, stream->store.bytes)) &&
           stream->store.count > 1)
        weft__stream_remove(stream, weft__store_from(&stream->store, 0));
}

/* Store a message and its id. Returns NULL if memory is exhausted. */
static weft__stored_msg *message_store(weft__stream *stream, const weft__publication *p)
{
    weft__slice id = weft__header_find(p->headers, "Nats-Msg-Id");
    weft__message_id *added = NULL;
    if (id.bytes > 0 && (added = weft__message_id_add(stream, id)) == NULL)
        return NULL;
    weft__stored_msg *m =
        weft__store_append(&stream->store, p, weft__broker_now_ns(stream->broker));
    if (m == NULL && added != NULL)
        weft__message_id_forget(stream, added);
    return m;
}

/* Store a message that has passed all checks. */
static weft__api_error message_accept(weft__stream *stream, const weft__publication *p,
                                      uint64_t *seq)
{
    weft__stored_msg *m = message_store(stream, p);
    if (m == NULL)
        return WEFT__API_NO_MEMORY;
    *seq = m->seq;
    WEFT__LIST_FOR(node, &stream->consumers) {
        weft__consumer_stored(CONTAINER_OF(node, weft__consumer, node), m);
    }
    limits_enforce(stream, m);
    int64_t age_ns = stream->config.values[WEFT__STREAM_MAX_AGE];
    if (age_ns > 0)
        weft__broker_wake_at(stream->broker, weft__broker_time_after(m->time_ns, age_ns));
    return WEFT__API_OK;
}

void weft__stream_publish(weft__stream *stream, const weft__publication *p)
{
    outcome o = {0};
    if (headers_check(stream, p, &o) && (o.error = limits_check(stream, p)) == WEFT__API_OK)
        o.error = message_accept(stream, p, &o.seq);
    publish_reply(stream, p->reply, &o);
    if (o.error != WEFT__API_OK || o.is_duplicate)
        return;
    WEFT__LIST_FOR(node, &stream->consumers) {
        weft__consumer_pump(CONTAINER_OF(node, weft__consumer, node));
    }
}
