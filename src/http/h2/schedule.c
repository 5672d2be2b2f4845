/*
 * Write the bodies of streams to the output, in the order of their priorities (RFC 9218, 10): the
 * most urgent streams first. Streams of one urgency share the connection if they are incremental.
 * Otherwise the first one sends its whole body first.
 *
 * A stream is ready if it has bytes and a window, or only its end. Bytes are taken from the memory
 * of the call that writes, if that call is still there, else from held. A body is thus copied once.
 */
#include "http/h2/internal.h"
#include "http/text/field.h"

void weft__h2_schedule_remove(weft__h2_stream *st)
{
    if (!st->is_ready)
        return;
    st->is_ready = false;
    weft__list_remove(&st->ready_node);
    st->session->ready_count--;
}

void weft__h2_schedule_update(weft__h2_stream *st)
{
    bool has_output = st->has_body && !st->is_local_ended && !st->is_closed &&
                      (weft__h2_stream_unsent(st) > 0 ? st->send_window > 0 : st->is_ending);
    if (!has_output) {
        weft__h2_schedule_remove(st);
    } else if (!st->is_ready) {
        st->is_ready = true;
        weft__list_insert(&st->session->ready[st->priority.urgency], &st->ready_node);
        st->session->ready_count++;
    }
}

/*
 * Priorities
 */

static void priority_set(weft__h2_stream *st, weft__h2_priority priority)
{
    bool was_ready = st->is_ready;
    weft__h2_schedule_remove(st);
    st->priority = priority;
    if (was_ready)
        weft__h2_schedule_update(st);
}

/* Read a member of the dictionary, for example "u=3" or "i". Ignore other members. */
static void parse_member(weft__h2_priority *p, weft__span member)
{
    const char *text = member.at;
    if (member.bytes == 3 && text[0] == 'u' && text[1] == '=' && text[2] >= '0' && text[2] <= '7')
        p->urgency = (uint8_t)(text[2] - '0');
    else if (member.bytes == 1 && text[0] == 'i')
        p->is_incremental = true;
    else if (member.bytes == 4 && memcmp(text, "i=?", 3) == 0)
        p->is_incremental = text[3] == '1';
}

static weft__h2_priority parse_priority(const char *text, size_t bytes)
{
    weft__h2_priority p = {.urgency = WEFT__H2_URGENCY_DEFAULT};
    weft__span rest = {text, bytes}, member;
    while (weft__field_element(&rest, &member))
        parse_member(&p, member);
    return p;
}

void weft__h2_priority_field(weft__h2_stream *st, const char *value, size_t bytes)
{
    if (!st->has_own_priority)
        priority_set(st, parse_priority(value, bytes));
}

void weft__h2_priority_update(weft__h2_session *s, int32_t id, const char *value, size_t bytes)
{
    weft__h2_stream *st = weft__h2_stream_find(s, id);
    if (st != NULL) {
        weft__h2_priority_field(st, value, bytes);
    } else if (weft__h2_id_is_idle(s, id)) { /* of several early frames, remember the last */
        s->early_id = id;
        s->early_priority = parse_priority(value, bytes);
    }
}

void weft__h2_priority_apply_early(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    if (s->early_id != st->id)
        return;
    s->early_id = 0;
    priority_set(st, s->early_priority);
}

void weft__h2_stream_set_priority(weft__h2_stream *st, int urgency, bool is_incremental)
{
    if (st->is_closed || st->session == NULL)
        return;
    st->has_own_priority = true;
    priority_set(st, (weft__h2_priority){(uint8_t)urgency, is_incremental});
}

/*
 * DATA frames
 */

/* Return the stream that sends next, or NULL. */
static weft__h2_stream *schedule_next(const weft__h2_session *s)
{
    for (int i = 0; i < WEFT__H2_URGENCIES; i++)
        WEFT__LIST_FOR(node, &s->ready[i]) {
            weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, ready_node);
            if (s->send_window > 0 || weft__h2_stream_unsent(st) == 0)
                return st;
        }
    return NULL;
}

bool weft__h2_schedule_has_next(const weft__h2_session *s)
{
    return schedule_next(s) != NULL;
}

/* Copy the next bytes of the body, and remove them. */
static void take_unsent(weft__h2_stream *st, uint8_t *to, size_t bytes)
{
    size_t held = st->held.bytes - st->held_at, n = held < bytes ? held : bytes;
    if (n > 0) {
        memcpy(to, st->held.data + st->held_at, n);
        st->held_at += n;
        if (st->held_at == st->held.bytes) {
            weft__buffer_free(&st->held);
            st->held_at = 0;
        }
    }
    if (bytes == n)
        return;
    memcpy(to + n, st->span, bytes - n);
    st->span += bytes - n;
    st->span_bytes -= bytes - n;
}

/* Return how many bytes the next DATA frame has. */
static size_t next_bytes(const weft__h2_stream *st)
{
    const weft__h2_session *s = st->session;
    size_t bytes = weft__h2_stream_unsent(st);
    if (bytes > WEFT__H2_PAYLOAD_BYTES_MAX)
        bytes = WEFT__H2_PAYLOAD_BYTES_MAX;
    int64_t window = s->send_window < st->send_window ? s->send_window : st->send_window;
    return window >= (int64_t)bytes ? bytes : window > 0 ? (size_t)window : 0;
}

/* The body is sent. End the stream of this end, with the trailers if there are any. */
static void finish_body(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    int rc = 0;
    if (st->trailers != NULL)
        rc = weft__h2_frame_head(s, st->id, st->trailers, st->trailers_count, true);
    st->trailers = NULL;
    if (s->failure < 0)
        return;
    if (rc < 0) {
        weft__h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    st->is_local_ended = true;
    weft_cond_signal(&st->writable);
    weft__h2_schedule_remove(st);
    if (st->is_remote_ended)
        weft__h2_stream_ended(st, NGHTTP2_NO_ERROR);
}

/* Write one DATA frame of a stream that is ready. */
static void send_data(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    size_t bytes = next_bytes(st);
    bool is_last = st->is_ending && bytes == weft__h2_stream_unsent(st);
    bool has_end = is_last && st->trailers == NULL;
    if (bytes > 0 || has_end) {
        uint8_t *to = weft__h2_frame_add(s, bytes, NGHTTP2_DATA,
                                         has_end ? NGHTTP2_FLAG_END_STREAM : 0, st->id);
        if (to == NULL)
            return;
        take_unsent(st, to, bytes);
        s->send_window -= (int64_t)bytes;
        st->send_window -= (int64_t)bytes;
    }
    if (is_last) {
        finish_body(st);
        return;
    }
    if (st->priority.is_incremental)
        weft__h2_schedule_remove(st); /* let the next stream send */
    weft__h2_schedule_update(st);
    if (weft__h2_stream_unsent(st) <= s->options.unsent_bytes_max)
        weft_cond_signal(&st->writable);
}

void weft__h2_schedule_send(weft__h2_session *s)
{
    weft__h2_stream *st;
    while (s->ready_count > 0 && !weft__h2_output_is_full(s) && !s->is_output_closed &&
           (st = schedule_next(s)) != NULL)
        send_data(st);
    if (s->has_input_ended) /* no window opens any more: the reader fails streams that wait */
        weft__h2_session_nudge(s);
}
