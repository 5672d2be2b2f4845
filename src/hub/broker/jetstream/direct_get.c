/* Selection of single messages, and direct gets. See direct_get.h. */
#include "hub/broker/jetstream/direct_get.h"

#include "hub/text/subject.h"

#include <inttypes.h>

/* Return the first message of a pattern from a sequence on, or NULL. */
static weft__stored_msg *message_next(const weft__stream *stream, weft__slice pattern, uint64_t seq)
{
    const weft__stored_msg *last = weft__store_last(&stream->store, pattern);
    if (last == NULL)
        return NULL;
    weft__stored_msg *m = weft__store_from(&stream->store, seq);
    while (m != NULL && m->seq < last->seq &&
           !weft__subject_matches(pattern, weft__stored_msg_subject(m)))
        m = weft__store_from(&stream->store, m->seq + 1);
    return m != NULL && m->seq <= last->seq ? m : NULL;
}

weft__api_error weft__stored_msg_select(const weft__stream *stream, const weft__json_doc *doc,
                                        weft__stored_msg **out)
{
    char text[WEFT__CONFIG_SUBJECT_BYTES_MAX + 1];
    int64_t seq = weft__json_integer(doc, "seq", 0);
    if (weft__json_copy_string(doc, "last_by_subj", text, sizeof text) > 0)
        *out = weft__store_last(&stream->store, weft__slice_of(text));
    else if (weft__json_copy_string(doc, "next_by_subj", text, sizeof text) > 0)
        *out = message_next(stream, weft__slice_of(text), seq > 0 ? (uint64_t)seq : 0);
    else if (seq > 0)
        *out = weft__store_find(&stream->store, (uint64_t)seq);
    else
        return WEFT__API_BAD_REQUEST;
    return *out != NULL ? WEFT__API_OK : WEFT__API_NO_MESSAGE;
}

static void direct_reply(weft_hub_broker *b, weft__slice reply, weft__slice headers,
                         weft__slice payload)
{
    const weft__publication p = {.subject = reply, .headers = headers, .payload = payload};
    if (reply.bytes > 0)
        weft__subjects_route(b, reply, &p, NULL);
}

/* Append the first lines of a reply: those of the message, without the empty line at their end. */
static int headers_begin(const weft__stored_msg *m, weft__buffer *out)
{
    weft__slice own = weft__stored_msg_headers(m);
    if (own.bytes < 2)
        return weft__output_text(out, "NATS/1.0\r\n");
    int rc = weft__buffer_reserve(out, own.bytes - 2);
    if (rc < 0)
        return rc;
    memcpy(out->data + out->bytes, own.data, own.bytes - 2);
    out->bytes += own.bytes - 2;
    return 0;
}

static int headers_build(const weft__stream *stream, const weft__stored_msg *m, weft__buffer *out)
{
    char time[WEFT__TIME_BYTES];
    weft__time_format(m->time_ns, time);
    int rc = headers_begin(m, out);
    return rc < 0 ? rc
                  : weft__output_printf(out,
                                        "Nats-Stream: %s\r\nNats-Subject: %s\r\n"
                                        "Nats-Sequence: %" PRIu64 "\r\nNats-Time-Stamp: %s\r\n\r\n",
                                        stream->config.name, m->log->subject, m->seq, time);
}

static void message_reply(const weft__stream *stream, const weft__stored_msg *m, weft__slice reply)
{
    weft__buffer headers = {0};
    if (headers_build(stream, m, &headers) == 0)
        direct_reply(stream->broker, reply, (weft__slice){headers.data, headers.bytes},
                     weft__stored_msg_payload(m));
    else
        direct_reply(stream->broker, reply, weft__slice_of("NATS/1.0 503 No Memory\r\n\r\n"),
                     (weft__slice){0});
    weft__buffer_free(&headers);
}

void weft__direct_get(weft_hub_broker *b, weft__slice stream_name, weft__slice subject,
                      const weft__publication *p)
{
    weft__stream *stream = weft__stream_find(b, stream_name);
    if (stream == NULL || !stream->config.values[WEFT__STREAM_ALLOW_DIRECT])
        return;
    weft__stored_msg *m = NULL;
    weft__json_doc doc = {0};
    weft__api_error error = WEFT__API_BAD_REQUEST;
    if (subject.bytes > 0) {
        m = weft__store_last(&stream->store, subject);
        error = m != NULL ? WEFT__API_OK : WEFT__API_NO_MESSAGE;
    } else if (weft__json_parse(&doc, p->payload.data, p->payload.bytes) == 0) {
        error = weft__stored_msg_select(stream, &doc, &m);
    }
    weft__json_free(&doc);
    if (error == WEFT__API_OK)
        message_reply(stream, m, p->reply);
    else
        direct_reply(b, p->reply,
                     weft__slice_of(error == WEFT__API_NO_MESSAGE
                                        ? "NATS/1.0 404 Message Not Found\r\n\r\n"
                                        : "NATS/1.0 408 Bad Request\r\n\r\n"),
                     (weft__slice){0});
}
