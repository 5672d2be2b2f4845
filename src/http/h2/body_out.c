/*
 * Write the body of a stream. schedule.c takes the bytes when a DATA frame can leave: from the
 * memory of the call that writes, if that call is still there, else from held.
 */
#include "http/h2/internal.h"

void weft__h2_body_out_clear(weft__h2_stream *st)
{
    weft__buffer_free(&st->held);
    st->held_at = 0;
    st->span = NULL;
    st->span_bytes = 0;
    st->trailers = NULL;
}

/* Move what the windows allow to the output. */
static void send_unsent(weft__h2_stream *st)
{
    weft__h2_schedule_update(st);
    weft__h2_output(st->session);
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
    send_unsent(st);
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
    return st->has_body ? send_bytes(st, data, bytes) : -EPIPE;
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
    send_unsent(st);
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
    send_unsent(st);
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
    send_unsent(st);
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
