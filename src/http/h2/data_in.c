/*
 * DATA frames of the peer, and the windows for them (RFC 9113, 5.2). The bytes of a frame pass to
 * the stream as they arrive. The stream may end before the frame does.
 */
#include "http/h2/internal.h"

void weft__h2_inflow_consume(weft__h2_session *s, int32_t id, weft__h2_inflow *flow,
                             uint32_t window_bytes, size_t bytes)
{
    flow->consumed += (uint32_t)bytes;
    /* Few large updates cost less than many small ones. */
    if (flow->consumed == 0 || flow->consumed < window_bytes / 2)
        return;
    uint32_t more = flow->consumed;
    flow->window_left += more;
    flow->consumed = 0;
    weft__h2_frame_window_update(s, id, more); /* if the session fails, flow may be freed */
}

void weft__h2_consume_connection(weft__h2_session *s, size_t bytes)
{
    weft__h2_inflow_consume(s, 0, &s->inflow, s->options.connection_window_bytes, bytes);
}

void weft__h2_consume_stream(weft__h2_stream *st, size_t bytes)
{
    if (!st->is_closed && !st->is_remote_ended && !st->is_reset)
        weft__h2_inflow_consume(st->session, st->id, &st->inflow, st->window_bytes, bytes);
}

/* Return the code of an error of the stream, or count the frame. */
static uint32_t count_frame(weft__h2_inflow *flow, const weft__h2_frame *f, uint32_t padding)
{
    int64_t body = f->bytes - padding;
    bool is_end = (f->flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (f->bytes > flow->window_left)
        return NGHTTP2_FLOW_CONTROL_ERROR;
    if (flow->body_left >= 0 && (body > flow->body_left || (is_end && body < flow->body_left)))
        return NGHTTP2_PROTOCOL_ERROR; /* the body contradicts Content-Length */
    flow->window_left -= f->bytes;
    flow->body_left -= flow->body_left >= 0 ? body : 0;
    return NGHTTP2_NO_ERROR;
}

/* Check a frame of a stream that exists or lingers. Returns whether its bytes are needed. */
static bool accept_frame(weft__h2_session *s, weft__h2_stream *st, weft__h2_inflow *flow,
                         const weft__h2_frame *f, uint32_t padding)
{
    bool has_no_head = st != NULL && !st->has_final_head;
    if (st != NULL && (st->is_remote_ended || (has_no_head && st->status == 0))) {
        weft__h2_connection_fail(s, has_no_head ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED);
        return false;
    }
    uint32_t code = has_no_head ? NGHTTP2_PROTOCOL_ERROR : count_frame(flow, f, padding);
    if (code == NGHTTP2_NO_ERROR)
        return true;
    weft__h2_stream_fail(s, f->id, code);
    return false;
}

void weft__h2_receive_data(weft__h2_session *s, const weft__h2_frame *f, uint32_t padding)
{
    weft__h2_input_state *in = &s->in;
    bool is_end = (f->flags & NGHTTP2_FLAG_END_STREAM) != 0;
    weft__h2_stream *st = weft__h2_stream_find(s, f->id);
    weft__h2_inflow *flow = st != NULL ? &st->inflow : weft__h2_linger_find(s, f->id);
    uint32_t code = flow != NULL ? NGHTTP2_NO_ERROR : weft__h2_id_error(s, f->id, NGHTTP2_DATA);
    if (f->bytes > s->inflow.window_left)
        code = NGHTTP2_FLOW_CONTROL_ERROR;
    if (code != NGHTTP2_NO_ERROR) {
        weft__h2_connection_fail(s, code);
        return;
    }
    s->inflow.window_left -= f->bytes;
    s->counts.empty_data += f->bytes == padding && !is_end;
    bool is_accepted = flow != NULL && accept_frame(s, st, flow, f, padding);
    in->is_in_data = true;
    in->is_data_end = is_end;
    in->is_data_ignored = !is_accepted;
    in->data_id = f->id;
    in->data_left = f->bytes - padding;
    in->padding_left = padding;
    if (padding > 0 && is_accepted && st != NULL)
        weft__h2_consume_stream(st, padding);
}

/* Pass bytes to the stream, or discard them. */
static void take_bytes(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    int32_t id = s->in.data_id;
    weft__h2_stream *st = s->in.is_data_ignored ? NULL : weft__h2_stream_find(s, id);
    if (st == NULL) {
        weft__h2_linger_discard(s, id, bytes);
        return;
    }
    if (weft__h2_body_in_add(st, data, bytes) < 0) {
        weft__h2_session_fail(s, -ENOMEM);
        return;
    }
    if (s->buffered_bytes > s->options.buffered_bytes_max)
        s->unconsumed += bytes;
    else
        weft__h2_consume_connection(s, bytes);
    if (s->events->on_data != NULL && s->failure == 0)
        s->events->on_data(s, st, bytes);
}

/* A DATA frame is complete. */
static void end_frame(weft__h2_session *s)
{
    weft__h2_input_state *in = &s->in;
    in->is_in_data = false;
    if (!in->is_data_end || in->is_data_ignored)
        return;
    weft__h2_stream *st = weft__h2_stream_find(s, in->data_id);
    if (st == NULL) {
        if (weft__h2_linger_remove(s, in->data_id))
            weft__h2_ids_add(&s->closed, in->data_id);
        return;
    }
    st->is_remote_ended = true;
    weft_cond_signal(&st->readable);
    if (st->is_local_ended)
        weft__h2_stream_ended(st, NGHTTP2_NO_ERROR);
}

size_t weft__h2_receive_data_bytes(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    weft__h2_input_state *in = &s->in;
    size_t n = 0;
    if (in->data_left > 0 && bytes > 0) {
        n = bytes < in->data_left ? bytes : in->data_left;
        in->data_left -= (uint32_t)n;
        take_bytes(s, data, n);
    }
    if (in->data_left == 0 && in->padding_left > 0 && n < bytes) {
        size_t padding = bytes - n < in->padding_left ? bytes - n : in->padding_left;
        in->padding_left -= (uint32_t)padding;
        weft__h2_consume_connection(s, padding);
        n += padding;
    }
    if (in->data_left == 0 && in->padding_left == 0 && s->failure == 0)
        end_frame(s);
    return n;
}
