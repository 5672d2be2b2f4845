/*
 * Checks of the frames of a client that nghttp2 omits. A server reads the head of each frame before
 * nghttp2 does. This file also divides the input after the head of each request.
 *
 * nghttp2 ignores DATA and HEADERS on streams that it has forgotten. RFC 9113, 5.1: such a frame is
 * an error, unless this end has reset the stream. nghttp2 must have handled all earlier frames
 * before the check.
 *
 * nghttp2 ignores PRIORITY, because the server uses the priorities of RFC 9218. RFC 9113, 6.3 still
 * requires a stream, and RFC 7540, 5.3.1 another stream than that of the frame. RFC 9218, 7.1
 * requires that PRIORITY_UPDATE names a stream.
 */
#include "http/h2/internal.h"

#define PRIORITY_PAYLOAD_BYTES 5
/* The head of a frame and the stream that PRIORITY or PRIORITY_UPDATE names. */
#define PRIORITY_BYTES (WEFT__H2_FRAME_HEAD_BYTES + 4)

static inline uint32_t number_of(const uint8_t *bytes, int count)
{
    uint32_t number = 0;
    for (int i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

static int32_t id_of(const uint8_t *bytes)
{
    return (int32_t)(number_of(bytes, 4) & 0x7fffffff);
}

static void ids_add(weft__h2_ids *list, int32_t id)
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

void weft__h2_check_add_closed(weft__h2_session *s, int32_t id)
{
    ids_add(&s->check.closed, id);
}

void weft__h2_check_add_reset(weft__h2_session *s, int32_t id)
{
    ids_add(&s->check.resets, id);
}

/* Return how many bytes of a frame the check needs. */
static size_t bytes_needed(const weft__h2_check *c)
{
    if (c->count < WEFT__H2_FRAME_HEAD_BYTES)
        return WEFT__H2_FRAME_HEAD_BYTES;
    uint32_t payload = number_of(c->bytes, 3);
    bool names_stream = (c->bytes[3] == NGHTTP2_PRIORITY && payload == PRIORITY_PAYLOAD_BYTES) ||
                        (c->bytes[3] == NGHTTP2_PRIORITY_UPDATE && payload >= 4);
    return names_stream ? PRIORITY_BYTES : WEFT__H2_FRAME_HEAD_BYTES;
}

/* Return the code for a frame on a stream that is not open. */
static uint32_t check_closed_stream(weft__h2_session *s, int type, int32_t id)
{
    const weft__h2_check *c = &s->check;
    /* nghttp2 itself checks streams that it knows, also those that linger. */
    if (nghttp2_session_get_stream_remote_close(s->ng, id) != -1 || ids_has(&c->resets, id))
        return NGHTTP2_NO_ERROR;
    bool was_open = type == NGHTTP2_DATA || ids_has(&c->closed, id);
    return was_open ? NGHTTP2_STREAM_CLOSED : NGHTTP2_PROTOCOL_ERROR;
}

/* Return the code of the error of a PRIORITY_UPDATE frame. */
static uint32_t check_priority_update(const weft__h2_check *c)
{
    bool is_bad = c->count == PRIORITY_BYTES && id_of(c->bytes + 9) == 0;
    return is_bad ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
}

/* Return the code of the error of a PRIORITY frame. */
static uint32_t check_priority(const weft__h2_check *c, int32_t id)
{
    bool is_bad = id == 0 || (c->count == PRIORITY_BYTES && id_of(c->bytes + 9) == id);
    return is_bad ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
}

/* Skip the rest of a frame. Returns the number of bytes. */
static size_t skip_frame(weft__h2_check *c, size_t bytes)
{
    size_t n = c->skip < bytes ? c->skip : bytes;
    c->skip -= n;
    return n;
}

/*
 * Read bytes until the head of a frame is complete. Returns the number of bytes. The head is
 * complete if count is bytes_needed.
 */
static size_t read_frame_head(weft__h2_check *c, const uint8_t *data, size_t bytes)
{
    size_t at = 0;
    if (LIKELY(c->count == 0 && bytes >= WEFT__H2_FRAME_HEAD_BYTES)) {
        memcpy(c->bytes, data, WEFT__H2_FRAME_HEAD_BYTES);
        at = c->count = WEFT__H2_FRAME_HEAD_BYTES;
    }
    while (at < bytes && c->count < bytes_needed(c))
        c->bytes[c->count++] = data[at++];
    return at;
}

/* Begin the next frame. */
static void next_frame(weft__h2_check *c)
{
    int type = c->bytes[3];
    c->ends_head = (type == NGHTTP2_HEADERS || type == NGHTTP2_CONTINUATION) &&
                   (c->bytes[4] & NGHTTP2_FLAG_END_HEADERS) != 0;
    c->skip = number_of(c->bytes, 3) - (c->count - WEFT__H2_FRAME_HEAD_BYTES);
    c->count = 0;
}

/*
 * Check the frame whose head is complete. Before, pass the first bytes to nghttp2 if the result
 * depends on them. *passed is the number of these bytes, or an error of nghttp2. Returns the code
 * of an error of the frame.
 */
static uint32_t check_frame(weft__h2_session *s, const uint8_t *data, size_t bytes, ssize_t *passed)
{
    weft__h2_check *c = &s->check;
    int type = c->bytes[3];
    int32_t id = id_of(c->bytes + 5);
    if (type == NGHTTP2_PRIORITY)
        return check_priority(c, id);
    if (type == NGHTTP2_PRIORITY_UPDATE)
        return check_priority_update(c);
    if ((type != NGHTTP2_DATA && type != NGHTTP2_HEADERS) || id == 0)
        return NGHTTP2_NO_ERROR;
    if (id > c->last_id) {
        c->last_id = type == NGHTTP2_HEADERS ? id : c->last_id;
        return NGHTTP2_NO_ERROR;
    }
    *passed = nghttp2_session_mem_recv(s->ng, data, bytes);
    return *passed < 0 ? NGHTTP2_NO_ERROR : check_closed_stream(s, type, id);
}

ssize_t weft__h2_check_recv(weft__h2_session *s, const uint8_t *data, size_t *bytes)
{
    weft__h2_check *c = &s->check;
    size_t at = 0, passed = 0;
    while (at < *bytes) {
        at += skip_frame(c, *bytes - at);
        if (c->ends_head && c->skip == 0) {
            c->ends_head = false;
            *bytes = at;
            break;
        }
        size_t begun = c->count;
        at += read_frame_head(c, data + at, *bytes - at);
        if (c->count < bytes_needed(c))
            break;
        size_t head = c->count - begun;
        ssize_t more = 0;
        uint32_t code = check_frame(s, data + passed, at - head - passed, &more);
        if (more < 0)
            return more; /* nghttp2 must not get further input */
        passed += (size_t)more;
        if (code != NGHTTP2_NO_ERROR)
            return nghttp2_session_terminate_session(s->ng, code);
        next_frame(c);
    }
    return nghttp2_session_mem_recv(s->ng, data + passed, *bytes - passed);
}
