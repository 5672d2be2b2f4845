/* Frames of the peer other than HEADERS, CONTINUATION, DATA and SETTINGS. */
#include "http/h2/internal.h"

/*
 * The maximum output of a connection whose peer sends frames that need a reply, without reading the
 * replies.
 */
#define UNREAD_BYTES_MAX ((size_t)256 << 10)

bool weft__h2_may_acknowledge(weft__h2_session *s)
{
    if (s->fill.bytes <= UNREAD_BYTES_MAX)
        return true;
    weft__h2_connection_fail(s, NGHTTP2_ENHANCE_YOUR_CALM);
    return false;
}

static void receive_ping(weft__h2_session *s, const weft__h2_frame *f)
{
    if ((f->flags & NGHTTP2_FLAG_ACK) == 0) {
        if (weft__h2_may_acknowledge(s))
            weft__h2_frame_ping(s, f->payload, true);
        return;
    }
    s->counts.pongs++;
    if (s->events->on_pong != NULL)
        s->events->on_pong(s);
}

/* End the own streams that the peer has not processed. */
static void refuse_streams_above(weft__h2_session *s, int32_t last_id)
{
    weft__list *node = s->streams.prev; /* on_close may free a stream; the newest is the last */
    while (node != &s->streams && s->failure == 0) {
        weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, node);
        if (st->id <= last_id)
            break;
        weft__h2_stream_ended(st, NGHTTP2_REFUSED_STREAM);
        node = s->streams.prev;
    }
}

static void receive_goaway(weft__h2_session *s, const weft__h2_frame *f)
{
    int32_t last_id = weft__h2_get_u31(f->payload);
    if (last_id > s->goaway_id) { /* RFC 9113, 6.8 */
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    s->goaway_id = last_id;
    s->is_goaway_received = s->is_going_away = true;
    s->goaway_code = weft__h2_get_u32(f->payload + 4);
    if (s->events->on_goaway != NULL)
        s->events->on_goaway(s, last_id, s->goaway_code);
    if (s->is_client)
        refuse_streams_above(s, last_id);
}

static void receive_reset(weft__h2_session *s, const weft__h2_frame *f)
{
    weft__h2_stream *st = weft__h2_stream_find(s, f->id);
    if (st != NULL) {
        st->is_reset_by_peer = true;
        weft__h2_stream_ended(st, weft__h2_get_u32(f->payload));
    } else if (weft__h2_linger_remove(s, f->id)) {
        weft__h2_ids_add(&s->closed, f->id);
    }
}

static void grow_stream_window(weft__h2_session *s, int32_t id, int32_t bytes)
{
    weft__h2_stream *st = weft__h2_stream_find(s, id);
    int64_t *window = st != NULL ? &st->send_window : weft__h2_linger_send_window(s, id);
    if (window == NULL)
        return;
    *window += bytes;
    if (bytes == 0)
        weft__h2_stream_fail(s, id, NGHTTP2_PROTOCOL_ERROR);
    else if (*window > WEFT__H2_WINDOW_MAX)
        weft__h2_stream_fail(s, id, NGHTTP2_FLOW_CONTROL_ERROR);
    else if (st != NULL)
        weft__h2_schedule_update(st);
}

static void receive_window_update(weft__h2_session *s, const weft__h2_frame *f)
{
    int32_t bytes = weft__h2_get_u31(f->payload);
    if (f->id != 0) {
        grow_stream_window(s, f->id, bytes);
        return;
    }
    s->send_window += bytes;
    if (bytes == 0)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    else if (s->send_window > WEFT__H2_WINDOW_MAX)
        weft__h2_connection_fail(s, NGHTTP2_FLOW_CONTROL_ERROR);
}

/* Priorities of RFC 7540 are ignored. A stream must still not depend on itself. */
static void receive_priority(weft__h2_session *s, const weft__h2_frame *f)
{
    if (weft__h2_get_u31(f->payload) == f->id)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
}

/* RFC 9218, 7.1: only clients send this frame. A stream with an even id would be a push. */
static void receive_priority_update(weft__h2_session *s, const weft__h2_frame *f)
{
    int32_t id = weft__h2_get_u31(f->payload);
    if (s->is_client || id % 2 == 0)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    else
        weft__h2_priority_update(s, id, (const char *)f->payload + 4, f->bytes - 4);
}

/* What a frame must have. A stream is used if it is not idle. */
typedef struct control_type {
    void (*receive)(weft__h2_session *s, const weft__h2_frame *f); /* NULL: ignore */
    uint32_t bytes_min;
    uint32_t bytes_max;
    enum { ON_ANY, ON_CONNECTION, ON_USED_OR_CONNECTION, ON_STREAM, ON_USED_STREAM } on;
} control_type;

static const control_type *control_type_of(int type)
{
    static const control_type types[] = {
        [NGHTTP2_PRIORITY] = {receive_priority, 5, 5, ON_STREAM},
        [NGHTTP2_RST_STREAM] = {receive_reset, 4, 4, ON_USED_STREAM},
        [NGHTTP2_PING] = {receive_ping, 8, 8, ON_CONNECTION},
        [NGHTTP2_GOAWAY] = {receive_goaway, 8, UINT32_MAX, ON_CONNECTION},
        [NGHTTP2_WINDOW_UPDATE] = {receive_window_update, 4, 4, ON_USED_OR_CONNECTION},
    };
    static const control_type priority_update = {receive_priority_update, 4, UINT32_MAX,
                                                 ON_CONNECTION};
    static const control_type unknown = {NULL, 0, UINT32_MAX, ON_ANY};
    if (type == NGHTTP2_PRIORITY_UPDATE)
        return &priority_update;
    bool is_known = (size_t)type < sizeof types / sizeof *types && types[type].receive != NULL;
    return is_known ? &types[type] : &unknown;
}

void weft__h2_receive_control(weft__h2_session *s, const weft__h2_frame *f)
{
    const control_type *t = control_type_of(f->type);
    bool must_be_used = t->on == ON_USED_STREAM || (t->on == ON_USED_OR_CONNECTION && f->id != 0);
    if ((t->on == ON_CONNECTION && f->id != 0) || (t->on >= ON_STREAM && f->id == 0) ||
        f->type == NGHTTP2_PUSH_PROMISE)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    else if (f->bytes < t->bytes_min || f->bytes > t->bytes_max)
        weft__h2_connection_fail(s, NGHTTP2_FRAME_SIZE_ERROR);
    else if (must_be_used && weft__h2_id_is_idle(s, f->id))
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    else if (t->receive != NULL)
        t->receive(s, f);
}
