/* SETTINGS of both ends (RFC 9113, 6.5). */
#include "http/h2/internal.h"

#define SETTING_BYTES 6
/* The maximum number of settings in a frame. Each may cost a walk over all streams. */
#define SETTINGS_MAX 32
/* The number of streams that a client opens before it knows the settings of the server. */
#define EARLY_STREAMS_MAX 100

static const char preface[] = NGHTTP2_CLIENT_MAGIC;

static void put_setting(uint8_t *to, int id, uint32_t value)
{
    to[0] = 0;
    to[1] = (uint8_t)id;
    weft__h2_put_u32(to + 2, value);
}

void weft__h2_settings_init(weft__h2_session *s)
{
    s->peer = (weft__h2_peer_settings){.streams_max = EARLY_STREAMS_MAX,
                                       .window_bytes = WEFT__H2_WINDOW_INITIAL};
    s->send_window = s->inflow.window_left = WEFT__H2_WINDOW_INITIAL;
    if (s->options.connection_window_bytes < WEFT__H2_WINDOW_INITIAL)
        s->options.connection_window_bytes = WEFT__H2_WINDOW_INITIAL;
}

/* Send the preface of a client. */
static void send_preface(weft__h2_session *s)
{
    /* A frame without a payload has space for the head of the next frame only. */
    uint8_t *to =
        weft__h2_frame_add(s, NGHTTP2_CLIENT_MAGIC_LEN - WEFT__H2_FRAME_HEAD_BYTES, 0, 0, 0);
    if (to != NULL)
        memcpy(to - WEFT__H2_FRAME_HEAD_BYTES, preface, NGHTTP2_CLIENT_MAGIC_LEN);
}

void weft__h2_settings_send(weft__h2_session *s)
{
    const weft__h2_options *o = &s->options;
    size_t count = o->allows_connect ? 5 : 4;
    if (s->is_client)
        send_preface(s);
    uint8_t *to = weft__h2_frame_add(s, count * SETTING_BYTES, NGHTTP2_SETTINGS, 0, 0);
    if (to == NULL)
        return;
    put_setting(to, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, o->stream_window_bytes);
    put_setting(to + 6, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, o->head_bytes_max);
    put_setting(to + 12, NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1);
    if (s->is_client) /* a client without push has no use for a limit of streams */
        put_setting(to + 18, NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
    else
        put_setting(to + 18, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o->streams_max);
    if (o->allows_connect)
        put_setting(to + 24, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1);
    uint32_t more = o->connection_window_bytes - WEFT__H2_WINDOW_INITIAL;
    if (more == 0)
        return;
    s->inflow.window_left += more;
    weft__h2_frame_window_update(s, 0, more);
}

/*
 * The peer has acknowledged the settings. Streams that it has opened before now have another
 * window.
 */
static void receive_ack(weft__h2_session *s)
{
    int64_t more = (int64_t)s->options.stream_window_bytes - WEFT__H2_WINDOW_INITIAL;
    s->counts.settings_acks++;
    if (s->are_settings_known) {
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    s->are_settings_known = true;
    WEFT__LIST_FOR(node, &s->streams)
        CONTAINER_OF(node, weft__h2_stream, node)->inflow.window_left += more;
    weft__h2_linger_grow_windows(s, more);
}

/* Change the windows of all streams for the output. Returns the code of an error. */
static uint32_t set_window(weft__h2_session *s, uint32_t bytes)
{
    if (bytes > WEFT__H2_WINDOW_MAX)
        return NGHTTP2_FLOW_CONTROL_ERROR;
    int64_t more = (int64_t)bytes - s->peer.window_bytes;
    s->peer.window_bytes = bytes;
    WEFT__LIST_FOR(node, &s->streams) {
        weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, node);
        st->send_window += more;
        if (st->send_window > WEFT__H2_WINDOW_MAX)
            return NGHTTP2_FLOW_CONTROL_ERROR;
        weft__h2_schedule_update(st);
    }
    return NGHTTP2_NO_ERROR;
}

/* Apply a setting of the peer. Unknown ones are ignored. Returns the code of an error. */
static uint32_t apply_setting(weft__h2_session *s, int id, uint32_t value)
{
    bool is_valid = true;
    switch (id) {
    case NGHTTP2_SETTINGS_HEADER_TABLE_SIZE:
        if (nghttp2_hd_deflate_change_table_size(s->deflater, value) != 0)
            weft__h2_session_fail(s, -ENOMEM);
        s->has_new_table = true;
        break;
    case NGHTTP2_SETTINGS_ENABLE_PUSH:
        is_valid = value <= (s->is_client ? 0 : 1);
        break;
    case NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS:
        s->peer.streams_max = value;
        break;
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
        return set_window(s, value);
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE: /* frames of this end are never longer than the minimum */
        is_valid = value >= WEFT__H2_PAYLOAD_BYTES_MAX && value < 1u << 24;
        break;
    case NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL: /* RFC 8441, 3: cannot be taken back */
        is_valid = value == 1 || (value == 0 && !s->peer.allows_connect);
        s->peer.allows_connect = value == 1;
        break;
    case NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES:
        is_valid = value <= 1;
        break;
    default:
        break;
    }
    return is_valid ? NGHTTP2_NO_ERROR : NGHTTP2_PROTOCOL_ERROR;
}

static uint32_t apply_settings(weft__h2_session *s, const weft__h2_frame *f)
{
    uint32_t code = NGHTTP2_NO_ERROR;
    if (f->bytes > SETTINGS_MAX * SETTING_BYTES)
        return NGHTTP2_ENHANCE_YOUR_CALM;
    if (!s->has_settings)
        s->peer.streams_max = UINT32_MAX;
    s->has_settings = true;
    for (uint32_t at = 0; at < f->bytes && code == NGHTTP2_NO_ERROR; at += SETTING_BYTES) {
        const uint8_t *entry = f->payload + at;
        code = apply_setting(s, entry[0] << 8 | entry[1], weft__h2_get_u32(entry + 2));
    }
    return code;
}

void weft__h2_receive_settings(weft__h2_session *s, const weft__h2_frame *f)
{
    bool is_ack = (f->flags & NGHTTP2_FLAG_ACK) != 0;
    uint32_t code = f->id != 0 ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
    if (code == NGHTTP2_NO_ERROR && (is_ack ? f->bytes > 0 : f->bytes % SETTING_BYTES != 0))
        code = NGHTTP2_FRAME_SIZE_ERROR;
    if (code == NGHTTP2_NO_ERROR && !is_ack)
        code = apply_settings(s, f);
    if (code != NGHTTP2_NO_ERROR) {
        weft__h2_connection_fail(s, code);
    } else if (is_ack) {
        receive_ack(s);
    } else if (weft__h2_may_acknowledge(s)) {
        (void)weft__h2_frame_add(s, 0, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0);
        if (s->events->on_settings != NULL)
            s->events->on_settings(s);
    }
}
