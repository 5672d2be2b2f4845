/* Functions that the files of an HTTP/2 session share. See http/h2/session.h. */
#ifndef WEFT_HTTP_H2_INTERNAL_H
#define WEFT_HTTP_H2_INTERNAL_H

#include "base/compiler.h"
#include "http/h2/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A part of the input of a stream. The first chunk begins with the piece that a reader holds. */
struct weft__h2_chunk {
    weft__h2_chunk *next;
    size_t at;    /* offset of the first byte that is not released */
    size_t bytes; /* offset of the end */
    size_t capacity;
    char data[];
};

/*
 * Frames (RFC 9113, 4.1)
 */

/* A frame of the peer. */
typedef struct weft__h2_frame {
    uint32_t bytes; /* of the payload */
    uint8_t type;
    uint8_t flags;
    int32_t id; /* of the stream; 0: of the connection */
    const uint8_t *payload;
} weft__h2_frame;

#define WEFT__H2_FRAME_HEAD_BYTES 9
/* The maximum length of a payload, in both directions. The settings do not change it. */
#define WEFT__H2_PAYLOAD_BYTES_MAX 16384u
/* The maximum of a window, and of a stream id. */
#define WEFT__H2_WINDOW_MAX INT32_MAX
/* The initial window of a connection, and of a stream before the settings (RFC 9113, 6.9.2). */
#define WEFT__H2_WINDOW_INITIAL 65535

static inline uint32_t weft__h2_get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Return 31 bits. The highest bit is reserved. */
static inline int32_t weft__h2_get_u31(const uint8_t *bytes)
{
    return (int32_t)(weft__h2_get_u32(bytes) & 0x7fffffff);
}

static inline void weft__h2_put_u32(uint8_t *bytes, uint32_t number)
{
    bytes[0] = (uint8_t)(number >> 24);
    bytes[1] = (uint8_t)(number >> 16);
    bytes[2] = (uint8_t)(number >> 8);
    bytes[3] = (uint8_t)number;
}

/* Read the head of a frame. */
static inline weft__h2_frame weft__h2_get_frame(const uint8_t *bytes)
{
    return (weft__h2_frame){.bytes = weft__h2_get_u32(bytes) >> 8,
                            .type = bytes[3],
                            .flags = bytes[4],
                            .id = weft__h2_get_u31(bytes + 5),
                            .payload = bytes + WEFT__H2_FRAME_HEAD_BYTES};
}

/* Write the head of a frame. */
static inline void weft__h2_put_frame(uint8_t *bytes, size_t payload_bytes, int type, int flags,
                                      int32_t id)
{
    weft__h2_put_u32(bytes, (uint32_t)payload_bytes << 8 | (uint32_t)type);
    bytes[4] = (uint8_t)flags;
    weft__h2_put_u32(bytes + 5, (uint32_t)id);
}

/*
 * Functions
 */

/* session.c */

/*
 * End the connection because of an error of the peer: send GOAWAY with a code, and ignore further
 * input. The step of the reader then ends the session.
 */
void weft__h2_connection_fail(weft__h2_session *s, uint32_t code);

/* End the wait of the reader, so that the reader looks at the session again. */
void weft__h2_session_nudge(weft__h2_session *s);

/* If the session has no further use, end the wait of the reader. */
void weft__h2_session_check_end(weft__h2_session *s);

/* input.c */

/*
 * Handle input, up to the end of the first request. Returns the number of bytes used. The session
 * may have failed.
 */
size_t weft__h2_input(weft__h2_session *s, const void *data, size_t bytes);

/* head_in.c */

/* Handle a HEADERS or a CONTINUATION frame. */
void weft__h2_receive_headers(weft__h2_session *s, weft__h2_frame *f);
void weft__h2_receive_continuation(weft__h2_session *s, const weft__h2_frame *f);

/* message.c */

/*
 * Check a field of a head or of trailers. Returns 1, 0 to drop the field, or:
 * -EBADMSG if the message is malformed
 */
int weft__h2_message_field(weft__h2_stream *st, const nghttp2_nv *field, bool is_trailer);

/* Check a head or trailers after the last field. Returns false if the message is malformed. */
bool weft__h2_message_end(weft__h2_stream *st, bool is_trailer, bool is_end);

/* data_in.c */

/* Begin a DATA frame. padding is the length of the padding, with the byte that has the length. */
void weft__h2_receive_data(weft__h2_session *s, const weft__h2_frame *f, uint32_t padding);

/* Handle bytes of a DATA frame. Returns the number of bytes used. */
size_t weft__h2_receive_data_bytes(weft__h2_session *s, const uint8_t *data, size_t bytes);

/* Open a window again for bytes that were read. A window of window_bytes opens in steps. */
void weft__h2_inflow_consume(weft__h2_session *s, int32_t id, weft__h2_inflow *flow,
                             uint32_t window_bytes, size_t bytes);
void weft__h2_consume_connection(weft__h2_session *s, size_t bytes);
void weft__h2_consume_stream(weft__h2_stream *st, size_t bytes);

/* control_in.c */

/* Handle a frame that is not HEADERS, CONTINUATION, DATA or SETTINGS. */
void weft__h2_receive_control(weft__h2_session *s, const weft__h2_frame *f);

/* Return whether a reply may be added to the output. Otherwise, end the connection. */
bool weft__h2_may_acknowledge(weft__h2_session *s);

/* settings.c */

/* Set the windows and the settings of the peer to their initial values. */
void weft__h2_settings_init(weft__h2_session *s);

/* Send the settings, and the preface of a client. */
void weft__h2_settings_send(weft__h2_session *s);

/* Handle a SETTINGS frame. */
void weft__h2_receive_settings(weft__h2_session *s, const weft__h2_frame *f);

/* frame_out.c. If memory is exhausted, these functions fail the session. */

/*
 * Add a frame to the output. Returns the place for its payload, or NULL if the output is closed or
 * the session has failed.
 */
uint8_t *weft__h2_frame_add(weft__h2_session *s, size_t bytes, int type, int flags, int32_t id);

/*
 * Send a head or trailers. Returns 0, or:
 * -EMSGSIZE if the head is longer than 1 MiB
 * -ENOMEM if memory is exhausted; the session has failed
 */
int weft__h2_frame_head(weft__h2_session *s, int32_t id, const nghttp2_nv *fields, size_t count,
                        bool is_end);

void weft__h2_frame_reset(weft__h2_session *s, int32_t id, uint32_t code);
void weft__h2_frame_window_update(weft__h2_session *s, int32_t id, uint32_t bytes);
void weft__h2_frame_goaway(weft__h2_session *s, int32_t last_id, uint32_t code);
void weft__h2_frame_ping(weft__h2_session *s, const uint8_t data[8], bool is_ack);

/* schedule.c */

/* Note whether a stream can send, after its body, its window or its state has changed. */
void weft__h2_schedule_update(weft__h2_stream *st);

/* Forget that a stream can send. */
void weft__h2_schedule_remove(weft__h2_stream *st);

/* Return whether a stream can send. */
bool weft__h2_schedule_has_next(const weft__h2_session *s);

/* Write DATA frames to the output, until it is full or no stream can send. */
void weft__h2_schedule_send(weft__h2_session *s);

/* Apply the Priority field of a request, or a PRIORITY_UPDATE frame. */
void weft__h2_priority_field(weft__h2_stream *st, const char *value, size_t bytes);
void weft__h2_priority_update(weft__h2_session *s, int32_t id, const char *value, size_t bytes);

/* Apply the PRIORITY_UPDATE frame that came before the stream. */
void weft__h2_priority_apply_early(weft__h2_stream *st);

/* output.c */

/*
 * Move DATA frames to the output buffer, and spin a writer if the buffer has bytes. Call the
 * function after each call that may have caused output. While the session handles input, the
 * function does nothing: it is called afterwards.
 */
void weft__h2_output(weft__h2_session *s);

/* Write all output in the calling fiber. Only if no writer exists. */
void weft__h2_output_write(weft__h2_session *s);

/*
 * Write all output in the calling fiber, the reader. If the peer does not take the output in a
 * short time, let a writer continue.
 */
void weft__h2_output_write_briefly(weft__h2_session *s);

/* Return whether bodies must wait in their streams. */
bool weft__h2_output_is_full(const weft__h2_session *s);

/* Provide space for further bytes in the output. Returns 0 or -ENOMEM. */
int weft__h2_output_reserve(weft__h2_session *s, size_t bytes);

/* stream.c */

/* Initialise a record for a stream of s. */
void weft__h2_stream_init(weft__h2_session *s, weft__h2_stream *st, int32_t id);

/*
 * The stream has ended, and the session does not use the record any more. Wake its fibers and call
 * on_close. error is the result of further calls, unless the stream has another error.
 */
void weft__h2_stream_detach(weft__h2_stream *st, int error);

/* The stream has ended with a code. NGHTTP2_NO_ERROR: both ends have sent their end. */
void weft__h2_stream_ended(weft__h2_stream *st, uint32_t code);

/* Reset a stream because of an error of the peer. The stream may linger. */
void weft__h2_stream_fail(weft__h2_session *s, int32_t id, uint32_t code);

/* Return 0 if the owner may send a head or a body, or the error. */
int weft__h2_stream_check_send(const weft__h2_stream *st);

weft__h2_stream *weft__h2_stream_find_slow(weft__h2_session *s, int32_t id);

/* Return the open stream with an id, or NULL. */
static inline weft__h2_stream *weft__h2_stream_find(weft__h2_session *s, int32_t id)
{
    return s->last != NULL && s->last->id == id ? s->last : weft__h2_stream_find_slow(s, id);
}

/* Add a stream to the streams of its session, or remove it. */
void weft__h2_stream_link(weft__h2_stream *st);
void weft__h2_stream_unlink(weft__h2_stream *st);

/* Remember an id. */
void weft__h2_ids_add(weft__h2_ids *list, int32_t id);

/* Return whether neither end has used the stream. */
bool weft__h2_id_is_idle(const weft__h2_session *s, int32_t id);

/*
 * Return the code of the error if the peer sends DATA or HEADERS on a stream that is neither open
 * nor new. Returns NGHTTP2_NO_ERROR to ignore the frame.
 */
uint32_t weft__h2_id_error(const weft__h2_session *s, int32_t id, int type);

/* linger.c */

/*
 * Let a stream linger whose record the owner closes. Returns 0, or an error if the caller must
 * reset the stream.
 */
int weft__h2_linger_add(weft__h2_session *s, const weft__h2_stream *st);

/* Return the number of streams that linger. */
size_t weft__h2_linger_count(const weft__h2_session *s);

/* Return the windows of a stream that lingers, or NULL. */
weft__h2_inflow *weft__h2_linger_find(weft__h2_session *s, int32_t id);
int64_t *weft__h2_linger_send_window(weft__h2_session *s, int32_t id);

/* Add bytes to the windows of all streams that linger. */
void weft__h2_linger_grow_windows(weft__h2_session *s, int64_t bytes);

/* Forget a stream that has ended. Returns whether it lingered. */
bool weft__h2_linger_remove(weft__h2_session *s, int32_t id);

/* Discard input of a stream without a record, which may linger. */
void weft__h2_linger_discard(weft__h2_session *s, int32_t id, size_t bytes);

/* Free the memory if no stream lingers. */
void weft__h2_linger_trim(weft__h2_session *s);

/* body_in.c */

/* Buffer bytes of the body. Returns 0 or -ENOMEM. */
int weft__h2_body_in_add(weft__h2_stream *st, const void *data, size_t bytes);

/* Discard unread input. The piece that the reader holds remains valid until its next read. */
void weft__h2_body_in_discard(weft__h2_stream *st);

/* Discard all input. No fiber reads the stream any more. */
void weft__h2_body_in_clear(weft__h2_stream *st);

/* body_out.c */

/* Discard unsent output. */
void weft__h2_body_out_clear(weft__h2_stream *st);

/* Like weft__h2_stream_write_last, for a stream that weft__h2_stream_check_send has checked. */
ssize_t weft__h2_body_out_last(weft__h2_stream *st, const void *data, size_t bytes);

#endif
