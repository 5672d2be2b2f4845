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
 * nats-server before 2.9.19 compare an expected sequence above 0 only when an entry is proposed,
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
    char attempt[WEFT__INBOX_BYTES]; /* the value of Weft-Attempt */
    bool is_own_id; /* no other call has the id: a duplicate is this call's entry */
    bool is_lost;   /* the reply to an earlier attempt is lost */
} write_state;

/* Compose the headers of a write. Returns 0 or -ENOMEM. */
static int write_headers(const write_state *s, weft__buffer *out)
{
    const weft__js_write *w = s->write;
    int rc = weft__output_text(out, "NATS/1.0\r\n");
    if (rc == 0 && s->is_own_id)
        rc = weft__output_printf(out, "Nats-Msg-Id: %s\r\n", s->attempt);
    else if (rc == 0 && w->id != NULL)
        rc = weft__output_printf(out, "Nats-Msg-Id: %s\r\n", w->id);
    else if (rc == 0)
        rc = weft__output_printf(out, "Nats-Msg-Id: %s@%" PRIu64 "\r\n", w->subject, w->expected);
    if (rc == 0 && w->expected != WEFT_HUB_ANY_REVISION)
        rc = weft__output_printf(out,
                                 WEFT__JS_ATTEMPT_HEADER
                                 ": %s\r\n"
                                 "Nats-Expected-Last-Subject-Sequence: %" PRIu64 "\r\n",
                                 s->attempt, w->expected);
    if (rc == 0 && w->operation != NULL)
        rc = weft__output_printf(out, "KV-Operation: %s\r\n", w->operation);
    return rc == 0 ? weft__output_text(out, "\r\n") : rc;
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

/* The subject has another sequence. Return 0 if the cause is a lost attempt of this call. */
static int write_mismatch(const write_state *s, uint64_t *sequence)
{
    if (!s->is_lost)
        return -ESTALE;
    weft__js_entry e;
    int rc = weft__js_read_last(s->hub, s->write->stream, s->write->subject, &e);
    uint64_t last = rc == 0 ? e.sequence : 0;
    rc = write_owns(s, rc, &e);
    if (rc > 0)
        *sequence = last;
    return rc < 0 ? rc : rc > 0 ? 0 : -ESTALE;
}

/* No server stores the subject: the stream has no leader, or does not exist. */
static int write_unreachable(const write_state *s)
{
    int rc = weft__js_stream_find(s->hub, s->write->stream);
    if (rc == -ENOENT && s->write->create_stream != NULL)
        rc = s->write->create_stream(s->hub);
    return rc < 0 ? rc : -EAGAIN;
}

/* Make one attempt. Returns as weft__js_write_entry does, or -EAGAIN to try again. */
static int write_attempt(write_state *s, const weft__publication *p, uint64_t *sequence)
{
    weft__js_answer answer;
    double attempt_s = s->write->attempt_s > 0 ? s->write->attempt_s : WEFT__JS_ATTEMPT_S;
    int rc = weft__js_attempt(s->hub, p, attempt_s, &answer);
    if (rc == 0) {
        *sequence = (uint64_t)weft__json_integer(&answer.doc, "seq", 0);
        if (*sequence == 0)
            rc = weft_fail(-EPROTO, "a reply of stream %s has no sequence", s->write->stream);
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
    state.is_own_id = w->id == NULL && (w->expected == 0 || w->expected == WEFT_HUB_ANY_REVISION);
    weft__hub_inbox(hub, state.attempt);
    weft__buffer headers = {0};
    int rc = write_headers(&state, &headers);
    weft__publication p = {.subject = weft__slice_of(w->subject), .payload = w->data};
    p.headers = (weft__slice){headers.data, headers.bytes};
    uint64_t written = 0;
    weft__js_retry retry = {0};
    while (rc == 0) {
        rc = write_attempt(&state, &p, &written);
        if (rc != -EAGAIN)
            break;
        rc = weft__js_retry_wait(&retry, hub);
    }
    weft__buffer_free(&headers);
    if (rc >= 0)
        *sequence = written;
    return rc;
}
