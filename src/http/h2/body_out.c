/*
 * Write the body of a stream. nghttp2 asks for bytes when a DATA frame can leave. The bytes are
 * taken from the memory of the call that writes, if that call is still there, else from held.
 */
#include "http/h2/internal.h"

/* nghttp2 asks how many bytes the next DATA frame has. send_frame then copies them. */
static ssize_t read_source(nghttp2_session *ng, int32_t id, uint8_t *buffer, size_t bytes_max,
                           uint32_t *flags, nghttp2_data_source *source, void *ctx)
{
    weft__h2_stream *st = weft__h2_stream_find(ctx, id);
    (void)buffer, (void)source;
    if (st == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t unsent = weft__h2_stream_unsent(st), bytes = unsent < bytes_max ? unsent : bytes_max;
    if (unsent == 0 && !st->is_ending) {
        st->is_deferred = true;
        weft_cond_signal(&st->writable);
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (bytes < unsent || !st->is_ending)
        return (ssize_t)bytes;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (st->trailers != NULL) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(ng, id, st->trailers, st->trailers_count) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        st->trailers = NULL;
    }
    st->is_local_ended = true;
    weft_cond_signal(&st->writable);
    return (ssize_t)bytes;
}

const nghttp2_data_provider weft__h2_body_source = {.read_callback = read_source};

/* Copy the next bytes of the body, and remove them. */
static void take_unsent(weft__h2_stream *st, char *to, size_t bytes)
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

static int send_frame(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *frame_head,
                      size_t bytes, nghttp2_data_source *source, void *ctx)
{
    weft__h2_session *s = ctx;
    weft__h2_stream *st = weft__h2_stream_find(s, frame->hd.stream_id);
    (void)ng, (void)source;
    if (st == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (weft__h2_output_reserve(s, WEFT__H2_FRAME_HEAD_BYTES + bytes) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    char *to = s->fill.data + s->fill.bytes;
    memcpy(to, frame_head, WEFT__H2_FRAME_HEAD_BYTES);
    take_unsent(st, to + WEFT__H2_FRAME_HEAD_BYTES, bytes);
    s->fill.bytes += WEFT__H2_FRAME_HEAD_BYTES + bytes;
    if (weft__h2_stream_unsent(st) <= s->options.unsent_bytes_max)
        weft_cond_signal(&st->writable);
    return weft__h2_output_is_full(s) ? NGHTTP2_ERR_PAUSE : 0;
}

void weft__h2_body_out_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_frame);
}

void weft__h2_body_out_clear(weft__h2_stream *st)
{
    weft__buffer_free(&st->held);
    st->held_at = 0;
    st->span = NULL;
    st->span_bytes = 0;
    st->trailers = NULL;
}

/* Let nghttp2 ask for the body again, and move what it takes to the output. */
static void resume_source(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    if (st->is_deferred) {
        st->is_deferred = false;
        weft__h2_session_check(s, nghttp2_session_resume_data(s->ng, st->id));
    }
    weft__h2_output(s);
}

/* Copy the bytes in span to held. */
static int hold_span(weft__h2_stream *st)
{
    int rc = weft__buffer_reserve(&st->held, st->span_bytes);
    if (rc < 0)
        return rc;
    memcpy(st->held.data + st->held.bytes, st->span, st->span_bytes);
    st->held.bytes += st->span_bytes;
    st->span_bytes = 0;
    return 0;
}

/*
 * Send the bytes in span: at once, by copying them, or by waiting. Returns 0 or an error. After an
 * error, span may have a rest.
 */
static int send_span(weft__h2_stream *st)
{
    int rc = 0;
    resume_source(st);
    while (rc == 0 && st->span_bytes > 0) {
        if (st->error < 0 || st->is_closed || st->is_shut || st->is_write_stopped)
            return st->error < 0 ? st->error : st->is_shut ? -EBADF : -EPIPE;
        rc = weft__h2_stream_unsent(st) <= st->session->options.unsent_bytes_max
                 ? hold_span(st)
                 : weft_cond_wait(&st->writable, NULL);
    }
    return rc;
}

/* Send bytes. Returns the number of bytes taken, or an error if none were taken. */
static ssize_t send_bytes(weft__h2_stream *st, const void *data, size_t bytes)
{
    st->is_writing = true;
    st->span = data;
    st->span_bytes = bytes;
    int rc = send_span(st);
    st->is_writing = false;
    size_t taken = bytes - st->span_bytes;
    st->span = NULL;
    st->span_bytes = 0;
    return taken > 0 ? (ssize_t)taken : rc;
}

ssize_t weft__h2_stream_write(weft__h2_stream *st, const void *data, size_t bytes)
{
    int rc = st->is_writing ? -EBUSY : weft__h2_stream_check_send(st);
    if (rc < 0 || bytes == 0)
        return rc;
    return st->has_source ? send_bytes(st, data, bytes) : -EPIPE;
}

ssize_t weft__h2_stream_write_last(weft__h2_stream *st, const void *data, size_t bytes)
{
    int rc = st->is_writing ? -EBUSY : weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    return weft__h2_body_out_last(st, data, bytes);
}

ssize_t weft__h2_body_out_last(weft__h2_stream *st, const void *data, size_t bytes)
{
    st->is_ending = true;
    ssize_t n = send_bytes(st, data, bytes);
    if (n < 0 || (size_t)n < bytes)
        st->is_ending = false;
    return n;
}

int weft__h2_stream_write_later(weft__h2_stream *st, const void *data, size_t bytes)
{
    int rc = st->is_writing ? -EBUSY : weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    st->span = data;
    st->span_bytes = bytes;
    rc = hold_span(st);
    st->span = NULL;
    st->span_bytes = 0;
    st->is_ending = rc == 0;
    resume_source(st);
    return rc;
}

void weft__h2_stream_stop_write(weft__h2_stream *st)
{
    st->is_write_stopped = true;
    weft_cond_broadcast(&st->writable);
}

int weft__h2_stream_end(weft__h2_stream *st)
{
    int rc = st->is_writing ? -EBUSY : weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    st->is_ending = true;
    resume_source(st);
    return 0;
}

int weft__h2_stream_end_with(weft__h2_stream *st, const nghttp2_nv *fields, size_t count)
{
    int rc = st->is_writing ? -EBUSY : weft__h2_stream_check_send(st);
    if (rc < 0)
        return rc;
    st->is_writing = st->is_ending = true;
    st->trailers = fields;
    st->trailers_count = count;
    resume_source(st);
    while (rc == 0 && !st->is_local_ended)
        rc = st->error < 0 ? st->error : weft_cond_wait(&st->writable, NULL);
    st->is_writing = false;
    st->is_ending = st->is_local_ended;
    st->trailers = NULL;
    return rc;
}

int weft__h2_stream_finish(weft__h2_stream *st)
{
    while (st->error == 0 &&
           (weft__h2_stream_unsent(st) > 0 || (st->is_ending && !st->is_local_ended))) {
        int rc = weft_cond_wait(&st->writable, NULL);
        if (rc < 0)
            return rc;
    }
    return st->is_local_ended ? 0 : st->error;
}
