/* Heads of the peer: HEADERS and CONTINUATION frames, new streams, the fields of a head. */
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

/*
 * Open no stream while the output has this many bytes. Only heads exceed OUTPUT_BYTES_MAX this far:
 * the client sends requests without reading the replies.
 */
#define UNREAD_BYTES_MAX ((size_t)1 << 20)

/* The length of the priority in a HEADERS frame (RFC 9113, 6.2). */
#define PRIORITY_BYTES 5

/*
 * Fields
 */

/* Count a field. Returns 1 to keep it, 0 to drop it, or an error to reset the stream. */
static int count_field(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *field)
{
    weft__h2_head_in *head = &s->head;
    head->bytes += field->namelen + field->valuelen + 32;
    head->fields++;
    if (LIKELY(head->bytes <= s->options.head_bytes_max && head->fields <= s->options.fields_max))
        return 1;
    st->is_head_too_large = true;
    return head->bytes / DROPPED_FIELDS_FACTOR > s->options.head_bytes_max ? -EMSGSIZE : 0;
}

static void take_field(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *field)
{
    bool is_trailer = s->is_client ? st->has_final_head : !s->head.is_first;
    int rc = weft__h2_message_field(st, field, is_trailer);
    if (UNLIKELY(rc < 0)) {
        weft__h2_stream_fail(s, st->id, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (rc > 0)
        rc = count_field(s, st, field);
    if (rc > 0 && s->events->on_field != NULL)
        rc = s->events->on_field(s, st, (const char *)field->name, field->namelen,
                                 (const char *)field->value, field->valuelen);
    if (UNLIKELY(rc < 0))
        weft__h2_stream_fail(s, st->id, NGHTTP2_INTERNAL_ERROR);
}

/*
 * Decompress a part of a head. Fields of streams that do not exist (any more) are dropped, but they
 * change the state of the decompression.
 */
static void inflate(weft__h2_session *s, const uint8_t *data, size_t bytes, bool is_final)
{
    int flags;
    do {
        nghttp2_nv field;
        flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(s->inflater, &field, &flags, data, bytes, is_final);
        if (n == NGHTTP2_ERR_NOMEM)
            weft__h2_session_fail(s, -ENOMEM);
        if (n < 0) {
            weft__h2_connection_fail(s, NGHTTP2_COMPRESSION_ERROR);
            return;
        }
        data += n;
        bytes -= (size_t)n;
        weft__h2_stream *st = (flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && !s->head.is_ignored
                                  ? weft__h2_stream_find(s, s->head.id)
                                  : NULL;
        if (st != NULL)
            take_field(s, st, &field);
    } while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0 &&
             (bytes > 0 || (flags & NGHTTP2_HD_INFLATE_EMIT) != 0));
    if (is_final)
        (void)nghttp2_hd_inflate_end_headers(s->inflater);
}

/*
 * The end of a head
 */

static weft__h2_head head_kind(const weft__h2_session *s, const weft__h2_stream *st)
{
    if (!s->is_client)
        return s->head.is_first ? WEFT__H2_REQUEST : WEFT__H2_TRAILERS;
    if (!st->has_status)
        return WEFT__H2_TRAILERS;
    return st->status < 200 ? WEFT__H2_INTERIM : WEFT__H2_RESPONSE;
}

static void deliver_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind)
{
    int32_t id = st->id;
    if (s->head.is_end) {
        st->is_remote_ended = true;
        weft_cond_signal(&st->readable);
    }
    st->has_final_head |= kind == WEFT__H2_REQUEST || kind == WEFT__H2_RESPONSE;
    if (kind == WEFT__H2_REQUEST) {
        s->has_request = true;
        weft__h2_priority_apply_early(st);
    }
    if (s->events->on_head != NULL)
        s->events->on_head(s, st, kind);
    st = s->head.is_end ? weft__h2_stream_find(s, id) : NULL; /* on_head may have closed it */
    if (st != NULL && st->is_local_ended)
        weft__h2_stream_ended(st, NGHTTP2_NO_ERROR);
}

/* A head is complete. */
static void end_head(weft__h2_session *s)
{
    weft__h2_stream *st = s->head.is_ignored ? NULL : weft__h2_stream_find(s, s->head.id);
    if (st != NULL) {
        weft__h2_head kind = head_kind(s, st);
        bool is_trailer = s->is_client ? st->has_final_head : !s->head.is_first;
        if (weft__h2_message_end(st, is_trailer, s->head.is_end))
            deliver_head(s, st, kind);
        else
            weft__h2_stream_fail(s, st->id, NGHTTP2_PROTOCOL_ERROR);
    } else if (s->head.is_end && weft__h2_linger_remove(s, s->head.id)) {
        weft__h2_ids_add(&s->closed, s->head.id);
    }
    s->head.id = 0;
}

static void take_block(weft__h2_session *s, const uint8_t *data, size_t bytes, bool is_final)
{
    inflate(s, data, bytes, is_final);
    if (is_final && !s->is_terminated && s->failure == 0)
        end_head(s);
}

/*
 * The begin of a head
 */

/* Refuse a stream. The client may repeat the request on another connection. */
static void refuse_stream(weft__h2_session *s, int32_t id)
{
    s->head.is_ignored = true;
    weft__h2_frame_reset(s, id, NGHTTP2_REFUSED_STREAM);
}

/* Return whether the client has opened too many streams. */
static bool has_too_many_streams(const weft__h2_session *s)
{
    return s->streams_count + weft__h2_linger_count(s) >= s->options.streams_max;
}

/* The client has opened too many streams. A client that knows the limit breaks the protocol. */
static void refuse_above_limit(weft__h2_session *s, int32_t id)
{
    if (s->are_settings_known) {
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (s->counts.early_refused < EARLY_REFUSED_MAX)
        s->counts.early_refused++;
    else
        s->counts.bad_frames++;
    refuse_stream(s, id);
}

/* A client opens a stream. */
static void open_stream(weft__h2_session *s, int32_t id)
{
    s->last_id = id;
    if (s->is_goaway_sent) {
        s->head.is_ignored = true;
        return;
    }
    if (has_too_many_streams(s)) {
        refuse_above_limit(s, id);
        return;
    }
    s->processed_id = id;
    s->counts.opened++;
    weft__h2_stream *st = s->fill.bytes <= UNREAD_BYTES_MAX ? s->events->on_open(s, id) : NULL;
    if (st != NULL) {
        weft__h2_stream_init(s, st, id);
        return;
    }
    s->counts.refused++;
    refuse_stream(s, id);
}

/* The head of a stream that exists, or has existed: a response, or trailers. */
static void begin_other_head(weft__h2_session *s, int32_t id)
{
    weft__h2_stream *st = weft__h2_stream_find(s, id);
    bool is_lingering = st == NULL && weft__h2_linger_find(s, id) != NULL;
    s->head.is_ignored = st == NULL;
    if (st == NULL && !is_lingering) {
        uint32_t code = weft__h2_id_error(s, id, NGHTTP2_HEADERS);
        if (code != NGHTTP2_NO_ERROR)
            weft__h2_connection_fail(s, code);
        return;
    }
    if (st != NULL && st->is_remote_ended) {
        weft__h2_connection_fail(s, NGHTTP2_STREAM_CLOSED);
        return;
    }
    bool must_end = st == NULL || st->has_final_head;
    if (must_end && !s->head.is_end) {
        s->head.is_ignored = true;
        weft__h2_stream_fail(s, id, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (st != NULL) {
        st->seen = 0;
        st->has_status = st->is_head_too_large = false;
    }
}

/* Remove padding and priority from the payload of HEADERS. Returns the code of an error. */
static uint32_t trim_payload(weft__h2_frame *f)
{
    size_t padding = 0;
    if ((f->flags & NGHTTP2_FLAG_PADDED) != 0) {
        if (f->bytes == 0)
            return NGHTTP2_FRAME_SIZE_ERROR;
        padding = f->payload[0];
        f->payload++;
        f->bytes--;
    }
    if ((f->flags & NGHTTP2_FLAG_PRIORITY) != 0) {
        if (f->bytes < PRIORITY_BYTES)
            return NGHTTP2_FRAME_SIZE_ERROR;
        if (weft__h2_get_u31(f->payload) == f->id) /* RFC 7540, 5.3.1 */
            return NGHTTP2_PROTOCOL_ERROR;
        f->payload += PRIORITY_BYTES;
        f->bytes -= PRIORITY_BYTES;
    }
    if (padding > f->bytes)
        return NGHTTP2_PROTOCOL_ERROR;
    f->bytes -= (uint32_t)padding;
    return NGHTTP2_NO_ERROR;
}

void weft__h2_receive_headers(weft__h2_session *s, weft__h2_frame *f)
{
    uint32_t code = f->id % 2 == 0 ? NGHTTP2_PROTOCOL_ERROR : trim_payload(f);
    if (code != NGHTTP2_NO_ERROR) {
        weft__h2_connection_fail(s, code);
        return;
    }
    bool is_new = !s->is_client && f->id > s->last_id;
    s->head = (weft__h2_head_in){
        .id = f->id, .is_end = (f->flags & NGHTTP2_FLAG_END_STREAM) != 0, .is_first = is_new};
    if (is_new)
        open_stream(s, f->id);
    else
        begin_other_head(s, f->id);
    if (!s->is_terminated)
        take_block(s, f->payload, f->bytes, (f->flags & NGHTTP2_FLAG_END_HEADERS) != 0);
}

void weft__h2_receive_continuation(weft__h2_session *s, const weft__h2_frame *f)
{
    if (s->head.id == 0)
        weft__h2_connection_fail(s, NGHTTP2_PROTOCOL_ERROR);
    else
        take_block(s, f->payload, f->bytes, (f->flags & NGHTTP2_FLAG_END_HEADERS) != 0);
}
