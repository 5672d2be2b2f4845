/* The callbacks of nghttp2 for input. They pass heads and bodies to the streams and the owner. */
#include "http/h2/internal.h"

/*
 * Fields of this many times head_bytes_max reset their stream. The session reads and drops fields
 * between the limits, so that a server can reply to the request.
 */
#define DROPPED_FIELDS_FACTOR 16

/*
 * Before a client has seen the limit of streams, this many refused streams are not its fault. The
 * acknowledgement of SETTINGS shows that the client has seen the limit.
 */
#define EARLY_REFUSED_MAX 4096

static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *frame, void *ctx)
{
    (void)ng;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        weft__h2_check_add_reset(ctx, frame->hd.stream_id);
    return 0;
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *ctx)
{
    weft__h2_session *s = ctx;
    int32_t id = frame->hd.stream_id;
    s->head_bytes = s->head_fields = 0;
    weft__h2_stream *st;
    if (s->is_client || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        st = weft__h2_stream_find(s, id);
        if (st != NULL)
            st->has_status = st->is_head_too_large = false;
        return 0;
    }
    s->counts.opened++;
    st = s->is_goaway_sent || s->failure < 0 ? NULL : s->events->on_open(s, id);
    if (st != NULL) {
        weft__h2_stream_init(s, st, id);
        return nghttp2_session_set_stream_user_data(ng, id, st);
    }
    s->counts.refused++;
    return nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
}

/* Read the status. nghttp2 has checked that it has three digits. */
static void set_status(weft__h2_stream *st, const uint8_t *value)
{
    st->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0');
    st->has_status = true;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                     void *ctx)
{
    weft__h2_session *s = ctx;
    weft__h2_stream *st = weft__h2_stream_find(s, frame->hd.stream_id);
    (void)ng, (void)flags;
    if (UNLIKELY(st == NULL))
        return 0;
    s->head_bytes += name_bytes + value_bytes + 32;
    s->head_fields++;
    if (UNLIKELY(s->head_bytes > s->options.head_bytes_max ||
                 s->head_fields > s->options.fields_max)) {
        st->is_head_too_large = true;
        bool is_excessive = s->head_bytes / DROPPED_FIELDS_FACTOR > s->options.head_bytes_max;
        return is_excessive ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
    }
    if (s->is_client && name[0] == ':')
        set_status(st, value);
    if (s->events->on_field == NULL)
        return 0;
    int rc = s->events->on_field(s, st, (const char *)name, name_bytes, (const char *)value,
                                 value_bytes);
    return rc < 0 ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

/* By default, nghttp2 ignores some invalid fields. RFC 9113, 8.2.1: such a message is malformed. */
static int on_invalid_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_bytes, const uint8_t *value, size_t value_bytes,
                             uint8_t flags, void *ctx)
{
    (void)ng, (void)frame, (void)name, (void)name_bytes, (void)value, (void)value_bytes;
    (void)flags, (void)ctx;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data_chunk(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t bytes, void *ctx)
{
    weft__h2_session *s = ctx;
    weft__h2_stream *st = weft__h2_stream_find(s, id);
    (void)flags;
    if (st == NULL)
        return weft__h2_linger_discard(s, id, bytes);
    if (st->is_reset)
        return nghttp2_session_consume(ng, id, bytes);
    if (weft__h2_body_in_add(st, data, bytes) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (s->buffered_bytes > s->options.buffered_bytes_max)
        s->unconsumed += bytes;
    else if (nghttp2_session_consume_connection(ng, bytes) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (s->events->on_data != NULL)
        s->events->on_data(s, st, bytes);
    return 0;
}

static weft__h2_head head_kind(const weft__h2_session *s, const weft__h2_stream *st,
                               const nghttp2_frame *frame)
{
    if (!s->is_client)
        return frame->headers.cat == NGHTTP2_HCAT_REQUEST ? WEFT__H2_REQUEST : WEFT__H2_TRAILERS;
    if (!st->has_status)
        return WEFT__H2_TRAILERS;
    return st->status < 200 ? WEFT__H2_INTERIM : WEFT__H2_RESPONSE;
}

static void receive_settings(weft__h2_session *s, const nghttp2_frame *frame)
{
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
        s->counts.settings_acks++;
    else if (s->events->on_settings != NULL)
        s->events->on_settings(s);
}

static void receive_ping(weft__h2_session *s, const nghttp2_frame *frame)
{
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
        return;
    s->counts.pongs++;
    if (s->events->on_pong != NULL)
        s->events->on_pong(s);
}

static void receive_goaway(weft__h2_session *s, const nghttp2_frame *frame)
{
    s->is_goaway_received = s->is_going_away = true;
    s->goaway_code = frame->goaway.error_code;
    if (s->events->on_goaway != NULL)
        s->events->on_goaway(s, frame->goaway.last_stream_id, frame->goaway.error_code);
}

/*
 * Reset the stream of a response whose status is below 100. nghttp2 does not check it. If the head
 * ends the stream, no frame follows.
 */
static void refuse_status(weft__h2_session *s, weft__h2_stream *st)
{
    st->error = -EBADMSG;
    st->code = NGHTTP2_PROTOCOL_ERROR;
    weft__h2_session_check(s,
                           nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, st->id, st->code));
}

/* Handle a frame of a stream: the end of a head, of a body, or of the stream. */
static void receive_in_stream(weft__h2_session *s, const nghttp2_frame *frame)
{
    weft__h2_stream *st = weft__h2_stream_find(s, frame->hd.stream_id);
    if (st == NULL)
        return;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        st->is_reset_by_peer = true;
        return;
    }
    if (st->has_status && st->status < 100) {
        refuse_status(s, st);
        return;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        st->is_remote_ended = true;
        weft_cond_signal(&st->readable);
    }
    if (frame->hd.type != NGHTTP2_HEADERS || s->events->on_head == NULL)
        return;
    weft__h2_head kind = head_kind(s, st, frame);
    s->has_request |= kind == WEFT__H2_REQUEST;
    s->events->on_head(s, st, kind);
}

/* Count a frame here, because nghttp2 ignores some kinds of frames. */
static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *head, void *ctx)
{
    weft__h2_session *s = ctx;
    (void)ng;
    s->counts.frames[head->type < WEFT__H2_FRAMES_OTHER ? head->type : WEFT__H2_FRAMES_OTHER]++;
    return 0;
}

static int on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *ctx)
{
    weft__h2_session *s = ctx;
    (void)ng;
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
            s->counts.empty_data++;
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
            receive_in_stream(s, frame);
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_RST_STREAM:
        receive_in_stream(s, frame);
        break;
    case NGHTTP2_SETTINGS:
        receive_settings(s, frame);
        break;
    case NGHTTP2_PING:
        receive_ping(s, frame);
        break;
    case NGHTTP2_GOAWAY:
        receive_goaway(s, frame);
        break;
    default:
        break;
    }
    return 0;
}

static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *ctx)
{
    weft__h2_session *s = ctx;
    (void)ng, (void)frame;
    if (error == NGHTTP2_ERR_REFUSED_STREAM && s->counts.settings_acks == 0 &&
        s->counts.early_refused < EARLY_REFUSED_MAX)
        s->counts.early_refused++;
    else
        s->counts.bad_frames++;
    return 0;
}

/* nghttp2 does not send a head, for example because the head is too long. End the stream. */
static int on_frame_not_send(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *ctx)
{
    int32_t id = frame->hd.stream_id;
    weft__h2_stream *st =
        frame->hd.type == NGHTTP2_HEADERS ? nghttp2_session_get_stream_user_data(ng, id) : NULL;
    (void)ctx;
    if (st == NULL || st->is_closed)
        return 0;
    if (st->error == 0 && error == NGHTTP2_ERR_FRAME_SIZE_ERROR)
        st->error = -EMSGSIZE;
    /* nghttp2 itself ends the stream of a request. */
    return frame->headers.cat == NGHTTP2_HCAT_REQUEST
               ? 0
               : nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
}

/* The error of calls on a stream that has ended with a code. */
static int error_of_code(const weft__h2_stream *st, uint32_t code)
{
    if (code == NGHTTP2_NO_ERROR && st->is_remote_ended)
        return 0;
    bool is_own = !st->is_reset_by_peer && !st->is_reset && code != NGHTTP2_REFUSED_STREAM;
    return is_own ? -EBADMSG : st->is_reset ? -EPIPE : -ECONNRESET;
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *ctx)
{
    weft__h2_session *s = ctx;
    weft__h2_stream *st = weft__h2_stream_find(s, id);
    (void)ng;
    if (!s->is_client)
        weft__h2_check_add_closed(s, id);
    if (st == NULL) {
        (void)weft__h2_linger_remove(s, id);
        return 0;
    }
    if (st->code == NGHTTP2_NO_ERROR)
        st->code = code;
    weft__h2_stream_detach(st, error_of_code(st, code));
    return 0;
}

void weft__h2_receive_set_callbacks(nghttp2_session_callbacks *callbacks, bool is_client)
{
    if (!is_client)
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
