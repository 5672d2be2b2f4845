/*
 * Write frames to the output of a session. A frame that is written cannot be lost: the peer would
 * wait for it, or could not read later heads. If memory is exhausted, the session fails.
 */
#include "http/h2/internal.h"

/* The maximum length of a head, compressed. */
#define HEAD_BYTES_MAX ((size_t)1 << 20)

/* Fail the session, because a frame is lost. */
static COLD void frame_lost(weft__h2_session *s)
{
    s->is_output_closed = true;
    weft__h2_session_fail(s, -ENOMEM);
}

uint8_t *weft__h2_frame_add(weft__h2_session *s, size_t bytes, int type, int flags, int32_t id)
{
    if (UNLIKELY(s->is_output_closed))
        return NULL;
    if (UNLIKELY(weft__h2_output_reserve(s, WEFT__H2_FRAME_HEAD_BYTES + bytes) < 0)) {
        frame_lost(s);
        return NULL;
    }
    uint8_t *to = (uint8_t *)s->fill.data + s->fill.bytes;
    weft__h2_put_frame(to, bytes, type, flags, id);
    s->fill.bytes += WEFT__H2_FRAME_HEAD_BYTES + bytes;
    return to + WEFT__H2_FRAME_HEAD_BYTES;
}

static void send_number(weft__h2_session *s, int type, int32_t id, uint32_t number)
{
    uint8_t *payload = weft__h2_frame_add(s, 4, type, 0, id);
    if (payload != NULL)
        weft__h2_put_u32(payload, number);
}

void weft__h2_frame_reset(weft__h2_session *s, int32_t id, uint32_t code)
{
    if (!s->is_client)
        weft__h2_ids_add(&s->resets, id);
    send_number(s, NGHTTP2_RST_STREAM, id, code);
}

void weft__h2_frame_window_update(weft__h2_session *s, int32_t id, uint32_t bytes)
{
    send_number(s, NGHTTP2_WINDOW_UPDATE, id, bytes);
}

void weft__h2_frame_goaway(weft__h2_session *s, int32_t last_id, uint32_t code)
{
    uint8_t *payload = weft__h2_frame_add(s, 8, NGHTTP2_GOAWAY, 0, 0);
    if (payload == NULL)
        return;
    weft__h2_put_u32(payload, (uint32_t)last_id);
    weft__h2_put_u32(payload + 4, code);
}

void weft__h2_frame_ping(weft__h2_session *s, const uint8_t data[8], bool is_ack)
{
    uint8_t *payload = weft__h2_frame_add(s, 8, NGHTTP2_PING, is_ack ? NGHTTP2_FLAG_ACK : 0, 0);
    if (payload != NULL)
        memcpy(payload, data, 8);
}

/*
 * Put the heads of the frames before the parts of a compressed head. The head has bytes bytes, and
 * begins after the space for the first frame at the end of the output.
 */
static void divide_head(weft__h2_session *s, size_t bytes, bool is_end, int32_t id)
{
    const size_t max = WEFT__H2_PAYLOAD_BYTES_MAX, own = WEFT__H2_FRAME_HEAD_BYTES;
    uint8_t *first = (uint8_t *)s->fill.data + s->fill.bytes;
    size_t count = bytes <= max ? 1 : (bytes + max - 1) / max;
    s->fill.bytes += bytes + count * own;
    for (size_t i = count - 1; i > 0; i--) { /* the last part moves first */
        uint8_t *to = first + i * (max + own);
        size_t part = i == count - 1 ? bytes - i * max : max;
        memmove(to + own, first + own + i * max, part);
        weft__h2_put_frame(to, part, NGHTTP2_CONTINUATION,
                           i == count - 1 ? NGHTTP2_FLAG_END_HEADERS : 0, id);
    }
    int flags =
        (is_end ? NGHTTP2_FLAG_END_STREAM : 0) | (count == 1 ? NGHTTP2_FLAG_END_HEADERS : 0);
    weft__h2_put_frame(first, count == 1 ? bytes : max, NGHTTP2_HEADERS, flags, id);
}

/*
 * Fields that most responses have, and that do not change the dynamic table. They are compressed
 * here, because nghttp2 needs several hundred instructions (docs/adr/0064).
 */

/* Compress a status that is in the static table (RFC 7541, A). Returns the bytes, or 0. */
static size_t put_status(uint8_t *to, const nghttp2_nv *field)
{
    static const char statuses[] = "200204206304400404500"; /* entries 8 to 14 */
    if (field->namelen != 7 || field->valuelen != 3 || memcmp(field->name, ":status", 7) != 0)
        return 0;
    for (int i = 0; i < 7; i++)
        if (memcmp(field->value, statuses + 3 * i, 3) == 0) {
            *to = (uint8_t)(0x80 | (8 + i)); /* RFC 7541, 6.1 */
            return 1;
        }
    return 0;
}

static bool is_length(const nghttp2_nv *field)
{
    return field->namelen == 14 && field->valuelen < 20 &&
           memcmp(field->name, "content-length", 14) == 0;
}

/* Compress a Content-Length (entry 28) without indexing (RFC 7541, 6.2.2). Returns the bytes. */
static size_t put_length(uint8_t *to, const nghttp2_nv *field)
{
    to[0] = 0x0f; /* 4 bits have 15, the rest of 28 follows */
    to[1] = 28 - 15;
    to[2] = (uint8_t)field->valuelen;
    memcpy(to + 3, field->value, field->valuelen);
    return 3 + field->valuelen;
}

/* Compress fields. Returns the number of bytes, or an error of nghttp2. */
static ssize_t compress(weft__h2_session *s, uint8_t *to, size_t bytes_max,
                        const nghttp2_nv *fields, size_t count)
{
    /* After a change of the table, nghttp2 must write the begin of the head (RFC 7541, 4.2). */
    size_t bytes = s->has_new_table || count == 0 ? 0 : put_status(to, fields);
    const nghttp2_nv *rest = fields + bytes, *end = fields + count;
    const nghttp2_nv *length = bytes > 0 && is_length(end - 1) ? --end : NULL;
    if (rest < end) {
        ssize_t n = nghttp2_hd_deflate_hd(s->deflater, to + bytes, bytes_max - bytes, rest,
                                          (size_t)(end - rest));
        if (n < 0)
            return n;
        bytes += (size_t)n;
        s->has_new_table = false;
    }
    if (length != NULL)
        bytes += put_length(to + bytes, length);
    return (ssize_t)bytes;
}

int weft__h2_frame_head(weft__h2_session *s, int32_t id, const nghttp2_nv *fields, size_t count,
                        bool is_end)
{
    size_t bytes_max = nghttp2_hd_deflate_bound(s->deflater, fields, count);
    if (bytes_max > HEAD_BYTES_MAX)
        return -EMSGSIZE;
    if (UNLIKELY(s->is_output_closed))
        return 0;
    size_t frames_max = bytes_max / WEFT__H2_PAYLOAD_BYTES_MAX + 1;
    size_t space = bytes_max + frames_max * WEFT__H2_FRAME_HEAD_BYTES;
    ssize_t n = NGHTTP2_ERR_NOMEM;
    if (weft__h2_output_reserve(s, space) == 0)
        n = compress(s, (uint8_t *)s->fill.data + s->fill.bytes + WEFT__H2_FRAME_HEAD_BYTES,
                     bytes_max, fields, count);
    if (UNLIKELY(n < 0)) { /* only for lack of memory */
        frame_lost(s);
        return -ENOMEM;
    }
    divide_head(s, (size_t)n, is_end, id);
    return 0;
}
