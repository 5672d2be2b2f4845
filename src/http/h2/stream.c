/* Streams of an HTTP/2 session: their records, heads, resets and end. */
#include "http/h2/internal.h"

/*
 * Ids. RFC 9113, 5.1: DATA and HEADERS on a closed stream are an error, unless this end has reset
 * the stream, because the peer may not know that yet. A server therefore remembers some closed and
 * some reset streams. A client ignores such frames.
 */

static weft__h2_stream **bucket_of(weft__h2_session *s, int32_t id)
{
    return &s->buckets[(uint32_t)id / 2 % WEFT__H2_BUCKETS];
}

weft__h2_stream *weft__h2_stream_find_slow(weft__h2_session *s, int32_t id)
{
    weft__h2_stream *st = *bucket_of(s, id);
    while (st != NULL && st->id != id)
        st = st->next_in_bucket;
    return s->last = st;
}

void weft__h2_stream_link(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    weft__h2_stream **bucket = bucket_of(s, st->id);
    st->next_in_bucket = *bucket;
    *bucket = st;
    weft__list_insert(&s->streams, &st->node);
    s->streams_count++;
    s->last = st;
}

void weft__h2_stream_unlink(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    weft__h2_stream **at = bucket_of(s, st->id);
    while (*at != st)
        at = &(*at)->next_in_bucket;
    *at = st->next_in_bucket;
    weft__list_remove(&st->node);
    s->streams_count--;
    if (s->last == st)
        s->last = NULL;
    weft__h2_schedule_remove(st);
}

void weft__h2_ids_add(weft__h2_ids *list, int32_t id)
{
    list->ids[list->count++ % WEFT__H2_IDS_MAX] = id;
}

static bool ids_has(const weft__h2_ids *list, int32_t id)
{
    for (size_t i = 0; i < WEFT__H2_IDS_MAX && i < list->count; i++)
        if (list->ids[i] == id)
            return true;
    return false;
}

bool weft__h2_id_is_idle(const weft__h2_session *s, int32_t id)
{
    return id % 2 == 0 || (s->is_client ? id >= s->next_id : id > s->last_id);
}

uint32_t weft__h2_id_error(const weft__h2_session *s, int32_t id, int type)
{
    if (weft__h2_id_is_idle(s, id))
        return NGHTTP2_PROTOCOL_ERROR;
    /* A client may have opened streams before it has received GOAWAY. */
    bool is_ignored =
        s->is_client || ids_has(&s->resets, id) || (s->is_goaway_sent && id > s->processed_id);
    if (is_ignored)
        return NGHTTP2_NO_ERROR;
    bool was_open = type == NGHTTP2_DATA || ids_has(&s->closed, id);
    return was_open ? NGHTTP2_STREAM_CLOSED : NGHTTP2_PROTOCOL_ERROR;
}

/*
 * The begin and the end
 */

void weft__h2_stream_init(weft__h2_session *s, weft__h2_stream *st, int32_t id)
{
    uint32_t window =
        s->are_settings_known ? s->options.stream_window_bytes : (uint32_t)WEFT__H2_WINDOW_INITIAL;
    *st = (weft__h2_stream){.session = s,
                            .id = id,
                            .window_bytes = s->options.stream_window_bytes,
                            .send_window = s->peer.window_bytes,
                            .priority = {.urgency = WEFT__H2_URGENCY_DEFAULT},
                            .inflow = {.window_left = window, .body_left = -1}};
    weft__h2_stream_link(st);
}

void weft__h2_stream_detach(weft__h2_stream *st, int error)
{
    weft__h2_session *s = st->session;
    weft__h2_stream_unlink(st);
    st->is_closed = true;
    if (st->error == 0)
        st->error = error;
    weft_cond_broadcast(&st->readable);
    weft_cond_broadcast(&st->writable);
    if (s->events->on_close != NULL)
        s->events->on_close(s, st);
}

/* The error of calls on a stream that has ended with a code. */
static int error_of_code(const weft__h2_stream *st, uint32_t code)
{
    if (code == NGHTTP2_NO_ERROR && st->is_remote_ended)
        return 0;
    bool is_own = !st->is_reset_by_peer && !st->is_reset && code != NGHTTP2_REFUSED_STREAM;
    return is_own ? -EBADMSG : st->is_reset ? -EPIPE : -ECONNRESET;
}

void weft__h2_stream_ended(weft__h2_stream *st, uint32_t code)
{
    if (!st->session->is_client)
        weft__h2_ids_add(&st->session->closed, st->id);
    st->code = code;
    weft__h2_stream_detach(st, error_of_code(st, code));
}

void weft__h2_stream_fail(weft__h2_session *s, int32_t id, uint32_t code)
{
    s->counts.bad_frames++;
    (void)weft__h2_linger_remove(s, id);
    weft__h2_frame_reset(s, id, code);
    weft__h2_stream *st = weft__h2_stream_find(s, id); /* NULL if the session has failed */
    if (st != NULL)
        weft__h2_stream_ended(st, code);
}

int weft__h2_stream_check_send(const weft__h2_stream *st)
{
    if (st->error < 0)
        return st->error;
    return st->session == NULL || st->is_closed || st->is_ending || st->is_local_ended ? -EPIPE : 0;
}

/*
 * Heads
 */

/* Note that the head is sent, and whether a body follows. */
static void head_sent(weft__h2_stream *st, bool is_end)
{
    st->has_body = !is_end;
    st->is_local_ended = is_end;
}

/* Note the method of a request, which decides whether its response has a body. */
static void note_method(weft__h2_stream *st, const nghttp2_nv *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].namelen == 7 && memcmp(fields[i].name, ":method", 7) == 0) {
            const char *method = (const char *)fields[i].value;
            st->is_bodiless = fields[i].valuelen == 4 && memcmp(method, "HEAD", 4) == 0;
            st->is_connect = fields[i].valuelen == 7 && memcmp(method, "CONNECT", 7) == 0;
            return;
        }
}

/* Send the head of a request on a new stream. */
static int send_request(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *fields,
                        size_t count, bool is_end)
{
    if (s->is_going_away || s->next_id < 0)
        return -ESHUTDOWN;
    if (weft__h2_session_streams_left(s) == 0)
        return -EAGAIN;
    int rc = weft__h2_frame_head(s, s->next_id, fields, count, is_end);
    if (rc < 0)
        return rc;
    weft__h2_stream_init(s, st, s->next_id);
    s->next_id = s->next_id > INT32_MAX - 2 ? -1 : s->next_id + 2;
    note_method(st, fields, count);
    head_sent(st, is_end);
    return 0;
}

int weft__h2_stream_open(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *fields,
                         size_t count, bool is_end)
{
    int rc = send_request(s, st, fields, count, is_end);
    if (rc == 0)
        weft__h2_output(s);
    return rc;
}

int weft__h2_stream_interim(weft__h2_stream *st, const nghttp2_nv *fields, size_t count)
{
    int rc = weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    rc = weft__h2_frame_head(st->session, st->id, fields, count, false);
    weft__h2_output(st->session);
    return rc;
}

static int send_response(weft__h2_stream *st, const nghttp2_nv *fields, size_t count, bool is_end)
{
    int rc = weft__h2_stream_check_send(st);
    if (rc == 0)
        rc = weft__h2_frame_head(st->session, st->id, fields, count, is_end);
    if (rc < 0)
        return rc;
    head_sent(st, is_end);
    if (is_end && st->is_remote_ended)
        weft__h2_stream_ended(st, NGHTTP2_NO_ERROR);
    return 0;
}

int weft__h2_stream_head(weft__h2_stream *st, const nghttp2_nv *fields, size_t count, bool is_end)
{
    int rc = send_response(st, fields, count, is_end);
    if (rc == 0)
        weft__h2_output(st->session);
    return rc;
}

int weft__h2_stream_reply(weft__h2_stream *st, const nghttp2_nv *fields, size_t count,
                          const void *body, size_t bytes)
{
    int rc = send_response(st, fields, count, bytes == 0);
    if (rc < 0)
        return rc;
    ssize_t n = weft__h2_body_out_last(st, body, bytes);
    if (n < 0 || (size_t)n == bytes)
        return n < 0 ? (int)n : 0;
    return st->error < 0 ? st->error : -ECANCELED;
}

void weft__h2_stream_reset(weft__h2_stream *st, uint32_t code)
{
    weft__h2_session *s = st->session;
    if (s == NULL || st->is_closed || st->is_reset)
        return;
    st->is_reset = true;
    st->error = -EPIPE;
    weft__h2_body_in_discard(st);
    weft__h2_body_out_clear(st);
    weft_cond_broadcast(&st->readable);
    weft_cond_broadcast(&st->writable);
    weft__h2_frame_reset(s, st->id, code);
    if (!st->is_closed) /* the session has not failed */
        weft__h2_stream_ended(st, code);
    weft__h2_output(s);
}

void weft__h2_stream_close(weft__h2_stream *st, uint32_t code)
{
    weft__h2_session *s = st->session;
    if (s == NULL)
        return;
    bool is_open = !st->is_closed;
    if (is_open) {
        bool is_replied = st->is_local_ended && !s->is_client;
        weft__h2_stream_unlink(st);
        st->is_closed = true;
        if (!is_replied || weft__h2_linger_add(s, st) < 0)
            weft__h2_frame_reset(s, st->id, is_replied ? NGHTTP2_NO_ERROR : code);
    }
    weft__h2_body_in_clear(st);
    weft__h2_body_out_clear(st);
    st->session = NULL;
    if (is_open)
        weft__h2_output(s);
}
