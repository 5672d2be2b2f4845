/*
 * Write an entry of a stream, with an expected sequence.
 *
 * A reply can be lost. The write is then repeated, and must not be stored twice, nor fail because
 * of its own first attempt. Two headers provide for that:
 *   - Nats-Msg-Id: the servers store an entry with an id once within the duplicate window.
 *   - Weft-Attempt, with an expected sequence: a text that no other call has. An entry with this
 *     text is the entry of the call.
 *
 * The id of a write with an expected sequence is the subject and that sequence, because clusters of
 * nats-server before 2.9.21 compare an expected sequence above 0 only when an entry is proposed,
 * and not when it is stored: two writers at the same time would both succeed. With equal ids, the
 * servers store only the first of both entries.
 */
#include "hub/jetstream/entry.h"
#include "hub/jetstream/stream_config.h"
#include "hub/text/header.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

typedef struct write_state {
    weft_hub *hub;
    const weft__js_write *write;
    uint64_t expected;               /* as in write, or the sequence of a marker instead of 0 */
    weft__buffer headers;            /* of the attempts */
    char attempt[WEFT__INBOX_BYTES]; /* the value of Weft-Attempt */
    bool is_own_id; /* no other call has the id: a duplicate is this call's entry */
    bool is_lost;   /* the reply to an earlier attempt is lost */
} write_state;

/* Append the id. Returns 0 or -ENOMEM. */
static int write_id(write_state *s)
{
    if (s->is_own_id)
        return weft__output_printf(&s->headers, "Nats-Msg-Id: %s\r\n", s->attempt);
    if (s->write->id != NULL)
        return weft__output_printf(&s->headers, "Nats-Msg-Id: %s\r\n", s->write->id);
    return weft__output_printf(&s->headers, "Nats-Msg-Id: %s@%" PRIu64 "\r\n", s->write->subject,
                               s->expected);
}

/* Compose the headers for an expected sequence. Returns 0 or -ENOMEM. */
static int write_compose(write_state *s, uint64_t expected)
{
    const weft__js_write *w = s->write;
    bool is_any = expected == WEFT_HUB_ANY_REVISION;
    s->expected = expected;
    s->is_own_id = w->id == NULL && (expected == 0 || is_any);
    s->headers.bytes = 0;
    int rc = weft__output_text(&s->headers, "NATS/1.0\r\n");
    if (rc == 0)
        rc = write_id(s);
    if (rc == 0 && !is_any)
        rc = weft__output_printf(&s->headers,
                                 WEFT__JS_ATTEMPT_HEADER
                                 ": %s\r\n"
                                 "Nats-Expected-Last-Subject-Sequence: %" PRIu64 "\r\n",
                                 s->attempt, expected);
    if (rc == 0 && w->operation != NULL)
        rc = weft__output_printf(&s->headers, "KV-Operation: %s\r\n", w->operation);
    return rc == 0 ? weft__output_text(&s->headers, "\r\n") : rc;
}

/* Return 1 if an entry was written by this call, 0 if not, or an error. Free the entry. */
static int write_owns(const write_state *s, int rc, weft__js_entry *e)
{
    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return rc;
    weft__slice attempt = weft__header_find(e->headers, WEFT__JS_ATTEMPT_HEADER);
    bool is_own = attempt.data != NULL && weft__slice_is(attempt, s->attempt);
    weft__js_entry_free(e);
    return is_own;
}

/*
 * The servers had an entry with the id. Return 0 if it is of this call, 1 for a known id, or
 * -ESTALE.
 */
static int write_duplicate(const write_state *s, uint64_t sequence)
{
    if (s->is_own_id)
        return 0;
    if (s->write->id != NULL)
        return 1;
    if (!s->is_lost)
        return -ESTALE;
    weft__js_entry e;
    int rc = weft__js_read_next(s->hub, s->write->stream, s->write->subject, sequence, &e);
    bool is_at_sequence = rc == 0 && e.sequence == sequence;
    rc = write_owns(s, rc, &e);
    return rc < 0 ? rc : rc > 0 && is_at_sequence ? 0 : -ESTALE;
}

/*
 * The subject has another sequence. Return 0 if the cause is a lost attempt of this call. If there
 * must be no entry, a marker is none: return -ERESTART to write after the marker.
 */
static int write_mismatch(write_state *s, uint64_t *sequence)
{
    bool may_be_marker = s->write->expected == 0;
    if (!s->is_lost && !may_be_marker)
        return -ESTALE;
    weft__js_entry e;
    int rc = weft__js_read_last(s->hub, s->write->stream, s->write->subject, &e);
    if (rc < 0 && rc != -ENOENT)
        return rc;
    uint64_t last = rc == 0 ? e.sequence : 0;
    bool is_free = rc == -ENOENT || e.is_deleted; /* without an entry: the marker has expired */
    if (write_owns(s, rc, &e) > 0) {
        *sequence = last;
        return 0;
    }
    if (!may_be_marker || !is_free)
        return -ESTALE;
    rc = write_compose(s, last);
    return rc < 0 ? rc : -ERESTART;
}

/* No server stores the subject: the stream has no leader, or does not exist. */
static int write_unreachable(const write_state *s)
{
    int rc = weft__js_stream_find(s->hub, s->write->stream);
    if (rc == -ENOENT && s->write->create_stream != NULL)
        rc = s->write->create_stream(s->hub);
    return rc < 0 ? rc : -EAGAIN;
}

/*
 * Make one attempt. Returns as weft__js_write_entry does, -EAGAIN to try again later, or -ERESTART
 * to try again at once.
 */
static int write_attempt(write_state *s, uint64_t *sequence)
{
    const weft__js_write *w = s->write;
    weft__publication p = {.subject = weft__slice_of(w->subject),
                           .headers = {s->headers.data, s->headers.bytes},
                           .payload = w->data};
    weft__js_answer answer;
    int rc =
        weft__js_attempt(s->hub, &p, w->attempt_s > 0 ? w->attempt_s : WEFT__JS_ATTEMPT_S, &answer);
    if (rc == 0) {
        *sequence = (uint64_t)weft__json_integer(&answer.doc, "seq", 0);
        if (*sequence == 0)
            rc = weft_fail(-EPROTO, "a reply of stream %s has no sequence", w->stream);
        else if (weft__json_is_true(&answer.doc, "duplicate"))
            rc = write_duplicate(s, *sequence);
    } else if (rc == -ESTALE && answer.reply.memory != NULL) {
        /* Without a reply, -ESTALE was raised in the caller: the lease of its name is lost. */
        rc = write_mismatch(s, sequence);
    } else if (rc == -EHOSTUNREACH) {
        rc = write_unreachable(s);
    } else if (weft__js_is_lost(rc)) {
        s->is_lost = true;
        rc = -EAGAIN;
    }
    weft__js_answer_free(&answer);
    return rc;
}

int weft__js_write_entry(weft_hub *hub, const weft__js_write *w, uint64_t *sequence)
{
    write_state state = {.hub = hub, .write = w};
    weft__hub_inbox(hub, state.attempt);
    uint64_t written = 0;
    weft__js_retry retry = {0};
    int rc = write_compose(&state, w->expected);
    while (rc == 0) {
        rc = write_attempt(&state, &written);
        if (rc == -ERESTART)
            rc = 0;
        else if (rc == -EAGAIN)
            rc = weft__js_retry_wait(&retry, hub);
        else
            break;
    }
    weft__buffer_free(&state.headers);
    if (rc >= 0)
        *sequence = written;
    return rc;
}
