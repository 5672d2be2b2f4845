/*
 * Divide the input of a session into frames. A frame that has arrived as a whole is handled in
 * place. The begin of another frame is copied, until the frame is complete. The bytes of DATA
 * frames pass at once.
 */
#include "http/h2/internal.h"

/* Compare bytes with the preface of a client (RFC 9113, 3.4). */
static size_t read_preface(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    static const char preface[] = NGHTTP2_CLIENT_MAGIC;
    size_t *at = &s->in.preface_bytes, left = NGHTTP2_CLIENT_MAGIC_LEN - *at;
    size_t n = bytes < left ? bytes : left;
    if (memcmp(data, preface + *at, n) != 0)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    *at += n;
    return n;
}

/* Return the code of an error that the head of a frame shows. */
static uint32_t check_frame(const weft__h2_session *s, const weft__h2_frame *f)
{
    if (!s->has_settings &&
        (f->type != NGHTTP2_SETTINGS || (f->flags & NGHTTP2_FLAG_ACK) != 0)) /* RFC 9113, 3.4 */
        return NGHTTP2_PROTOCOL_ERROR;
    if (s->head.id != 0 && (f->type != NGHTTP2_CONTINUATION || f->id != s->head.id))
        return NGHTTP2_PROTOCOL_ERROR; /* nothing may interrupt a head */
    return f->bytes > WEFT__H2_PAYLOAD_BYTES_MAX ? NGHTTP2_FRAME_SIZE_ERROR : NGHTTP2_NO_ERROR;
}

/* Count a frame by its type. */
static void count_frame(weft__h2_session *s, const weft__h2_frame *f)
{
    s->counts.frames[f->type < WEFT__H2_FRAMES_OTHER ? f->type : WEFT__H2_FRAMES_OTHER]++;
}

static void handle_frame(weft__h2_session *s, weft__h2_frame *f)
{
    count_frame(s, f);
    switch (f->type) {
    case NGHTTP2_HEADERS:
        weft__h2_receive_headers(s, f);
        break;
    case NGHTTP2_CONTINUATION:
        weft__h2_receive_continuation(s, f);
        break;
    case NGHTTP2_SETTINGS:
        weft__h2_receive_settings(s, f);
        break;
    default:
        weft__h2_receive_control(s, f);
    }
}

/*
 * Begin a DATA frame, whose first bytes are at data. Returns the number of bytes used, or 0 if the
 * length of the padding has not arrived.
 */
static size_t begin_data(weft__h2_session *s, const weft__h2_frame *f, size_t bytes)
{
    bool is_padded = (f->flags & NGHTTP2_FLAG_PADDED) != 0;
    if (is_padded && f->bytes > 0 && bytes == WEFT__H2_FRAME_HEAD_BYTES)
        return 0;
    uint32_t padding = is_padded && f->bytes > 0 ? f->payload[0] + 1u : 0;
    count_frame(s, f);
    if (is_padded && f->bytes == 0)
        weft__h2_connection_fail(s, NGHTTP2_FRAME_SIZE_ERROR);
    else if (padding > f->bytes || f->id == 0)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    else
        weft__h2_receive_data(s, f, padding);
    if (s->is_terminated)
        return bytes;
    if (padding > 0) { /* the length of the padding is a part of it */
        s->in.padding_left--;
        weft__h2_consume_connection(s, 1);
    }
    if (s->in.data_left == 0 && s->in.padding_left == 0)
        (void)weft__h2_receive_data_bytes(s, NULL, 0);
    return WEFT__H2_FRAME_HEAD_BYTES + (padding > 0);
}

/* Handle the frame at data. Returns the number of bytes used, or 0 if the frame is incomplete. */
static size_t take_frame(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    if (bytes < WEFT__H2_FRAME_HEAD_BYTES)
        return 0;
    weft__h2_frame f = weft__h2_get_frame(data);
    uint32_t code = check_frame(s, &f);
    if (UNLIKELY(code != NGHTTP2_NO_ERROR)) {
        weft__h2_connection_fail(s, code);
        return bytes;
    }
    if (f.type == NGHTTP2_DATA)
        return begin_data(s, &f, bytes);
    size_t needed = WEFT__H2_FRAME_HEAD_BYTES + f.bytes;
    if (bytes < needed)
        return 0;
    handle_frame(s, &f);
    return needed;
}

/* Copy bytes to the part of a frame, at most up to its end. Returns the number of bytes. */
static size_t add_to_part(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    weft__buffer *part = &s->in.part;
    size_t needed = WEFT__H2_FRAME_HEAD_BYTES;
    if (part->bytes >= needed) {
        weft__h2_frame f = weft__h2_get_frame((const uint8_t *)part->data);
        needed += f.type == NGHTTP2_DATA ? 1 : f.bytes;
    }
    size_t n = needed - part->bytes < bytes ? needed - part->bytes : bytes;
    if (weft__buffer_reserve(part, n) < 0) {
        weft__h2_session_fail(s, -ENOMEM);
        return bytes;
    }
    memcpy(part->data + part->bytes, data, n);
    part->bytes += n;
    return n;
}

/* Complete a frame whose begin has arrived before. Returns the number of bytes used. */
static size_t continue_part(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    weft__buffer *part = &s->in.part;
    size_t n = add_to_part(s, data, bytes);
    if (s->failure == 0 && take_frame(s, (const uint8_t *)part->data, part->bytes) > 0) {
        weft__buffer_free(part);
    }
    return n;
}

static size_t take_part(weft__h2_session *s, const uint8_t *data, size_t bytes)
{
    if (UNLIKELY(s->in.preface_bytes < NGHTTP2_CLIENT_MAGIC_LEN))
        return read_preface(s, data, bytes);
    if (s->in.is_in_data)
        return weft__h2_receive_data_bytes(s, data, bytes);
    if (s->in.part.bytes > 0)
        return continue_part(s, data, bytes);
    size_t n = take_frame(s, data, bytes);
    return n > 0 ? n : continue_part(s, data, bytes);
}

size_t weft__h2_input(weft__h2_session *s, const void *data, size_t bytes)
{
    size_t at = 0;
    s->is_in_input = true;
    s->has_request = false;
    while (at < bytes && !s->has_request && !s->is_terminated && s->failure == 0)
        at += take_part(s, (const uint8_t *)data + at, bytes - at);
    s->is_in_input = false;
    return s->is_terminated ? bytes : at;
}

uint64_t weft__h2_session_head_number(const weft__h2_session *s)
{
    const weft__buffer *part = &s->in.part;
    uint64_t begun = s->counts.frames[NGHTTP2_HEADERS];
    if (s->head.id != 0)
        return begun;
    bool is_in_part = part->bytes >= WEFT__H2_FRAME_HEAD_BYTES &&
                      weft__h2_get_frame((const uint8_t *)part->data).type == NGHTTP2_HEADERS;
    return is_in_part ? begun + 1 : 0;
}
