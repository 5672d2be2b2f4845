/* Streams of an HTTP/2 session: their records, heads, resets and end. */
#include "http/h2/internal.h"

weft__h2_stream *weft__h2_stream_find(weft__h2_session *s, int32_t id)
{
    if (s->last == NULL || s->last->id != id)
        s->last = nghttp2_session_get_stream_user_data(s->ng, id);
    return s->last;
}

void weft__h2_stream_init(weft__h2_session *s, weft__h2_stream *st, int32_t id)
{
    *st = (weft__h2_stream){.session = s, .id = id, .window_bytes = s->options.stream_window_bytes};
    weft__list_insert(&s->streams, &st->node);
    s->streams_count++;
    s->last = st;
}

/* Remove a stream from its session. */
static void stream_unlink(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    weft__list_remove(&st->node);
    s->streams_count--;
    if (s->last == st)
        s->last = NULL;
    st->is_closed = true;
}

void weft__h2_stream_detach(weft__h2_stream *st, int error)
{
    weft__h2_session *s = st->session;
    stream_unlink(st);
    if (st->error == 0)
        st->error = error;
    weft_cond_broadcast(&st->readable);
    weft_cond_broadcast(&st->writable);
    if (s->events->on_close != NULL)
        s->events->on_close(s, st);
}

int weft__h2_stream_check_send(const weft__h2_stream *st)
{
    if (st->error < 0)
        return st->error;
    return st->session == NULL || st->is_closed || st->is_ending || st->is_local_ended ? -EPIPE : 0;
}

/* Return the source of a body for nghttp2, and note it. */
static const nghttp2_data_provider *body_source(weft__h2_stream *st, bool is_end)
{
    st->has_source = !is_end;
    st->is_local_ended = is_end;
    return is_end ? NULL : &weft__h2_body_source;
}

/* Give a request to nghttp2. */
static int submit_request(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *fields,
                          size_t count, bool is_end)
{
    if (s->is_going_away)
        return -ESHUTDOWN;
    if (weft__h2_session_streams_left(s) == 0)
        return -EAGAIN;
    int32_t id = nghttp2_submit_request(s->ng, NULL, fields, count,
                                        is_end ? NULL : &weft__h2_body_source, st);
    if (id < 0)
        return weft__h2_error_of(id);
    weft__h2_stream_init(s, st, id);
    body_source(st, is_end);
    return 0;
}

int weft__h2_stream_open(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *fields,
                         size_t count, bool is_end)
{
    int rc = submit_request(s, st, fields, count, is_end);
    if (rc == 0)
        weft__h2_output(s);
    return rc;
}

int weft__h2_stream_interim(weft__h2_stream *st, const nghttp2_nv *fields, size_t count)
{
    int rc = weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    rc = nghttp2_submit_headers(st->session->ng, NGHTTP2_FLAG_NONE, st->id, NULL, fields, count,
                                NULL);
    weft__h2_output(st->session);
    return weft__h2_error_of(rc);
}

static int submit_response(weft__h2_stream *st, const nghttp2_nv *fields, size_t count, bool is_end)
{
    int rc = weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    rc = nghttp2_submit_response(st->session->ng, st->id, fields, count, body_source(st, is_end));
    if (rc != 0)
        st->has_source = st->is_local_ended = false;
    return weft__h2_error_of(rc);
}

int weft__h2_stream_head(weft__h2_stream *st, const nghttp2_nv *fields, size_t count, bool is_end)
{
    int rc = submit_response(st, fields, count, is_end);
    if (rc == 0)
        weft__h2_output(st->session);
    return rc;
}

int weft__h2_stream_reply(weft__h2_stream *st, const nghttp2_nv *fields, size_t count,
                          const void *body, size_t bytes)
{
    int rc = submit_response(st, fields, count, bytes == 0);
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
    weft__h2_session_check(s, nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, st->id, code));
    weft__h2_output(s);
}

void weft__h2_stream_close(weft__h2_stream *st, uint32_t code)
{
    weft__h2_session *s = st->session;
    bool must_output = false;
    if (s == NULL)
        return;
    if (!st->is_closed) {
        bool is_reset = st->is_reset || (st->is_local_ended && st->is_remote_ended);
        bool is_replied = st->is_local_ended && !s->is_client;
        uint32_t why = is_replied ? NGHTTP2_NO_ERROR : code;
        (void)nghttp2_session_set_stream_user_data(s->ng, st->id, NULL);
        stream_unlink(st);
        must_output = !is_reset;
        if (!is_reset && !(is_replied && weft__h2_linger_add(s, st->id) == 0))
            weft__h2_session_check(
                s, nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, st->id, why));
    }
    weft__h2_body_in_clear(st);
    weft__h2_body_out_clear(st);
    st->session = NULL;
    if (must_output)
        weft__h2_output(s);
}
