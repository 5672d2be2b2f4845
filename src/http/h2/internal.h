/* Functions that the files of an HTTP/2 session share. See http/h2/session.h. */
#ifndef WEFT_HTTP_H2_INTERNAL_H
#define WEFT_HTTP_H2_INTERNAL_H

#include "base/compiler.h"
#include "http/h2/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The length of the head of a frame. */
#define WEFT__H2_FRAME_HEAD_BYTES 9

/* A part of the input of a stream. The first chunk begins with the piece that a reader holds. */
struct weft__h2_chunk {
    weft__h2_chunk *next;
    size_t at;    /* offset of the first byte that is not released */
    size_t bytes; /* offset of the end */
    size_t capacity;
    char data[];
};

/* Return the error of a result of nghttp2. */
int weft__h2_error_of(ssize_t result);

/* session.c */

/*
 * Check a result of nghttp2. If memory is exhausted, fail the session: the peer would wait for a
 * frame that is lost.
 */
void weft__h2_session_check(weft__h2_session *s, int result);

/* End the wait of the reader, so that the reader looks at the session again. */
void weft__h2_session_nudge(weft__h2_session *s);

/* If the session has no further use, end the wait of the reader. */
void weft__h2_session_check_end(weft__h2_session *s);

/* memory.c */

/* Return the functions by which the nghttp2 session of s allocates. */
nghttp2_mem weft__h2_memory(weft__h2_session *s);

/* Free what remains after nghttp2_session_del. */
void weft__h2_memory_release(weft__h2_session *s);

/* receive.c */

/* Set the callbacks for input. */
void weft__h2_receive_set_callbacks(nghttp2_session_callbacks *callbacks, bool is_client);

/* output.c */

/*
 * Move frames of nghttp2 to the output buffer, and spin a writer if the buffer has bytes. Call the
 * function after each call that may have given frames to nghttp2. In a callback, the function does
 * nothing: the function that has called nghttp2 calls it afterwards.
 */
void weft__h2_output(weft__h2_session *s);

/* Like weft__h2_output, if no call may have given frames to nghttp2 since. */
void weft__h2_output_continue(weft__h2_session *s);

/* Write all output in the calling fiber. Only if no writer exists. */
void weft__h2_output_write(weft__h2_session *s);

/*
 * Write all output in the calling fiber, the reader. If the peer does not take the output in a
 * short time, let a writer continue.
 */
void weft__h2_output_write_briefly(weft__h2_session *s);

/* Return whether frames must wait in nghttp2. */
bool weft__h2_output_is_full(const weft__h2_session *s);

/* Provide space for further bytes in the output. Returns 0 or -ENOMEM. */
int weft__h2_output_reserve(weft__h2_session *s, size_t bytes);

/* stream.c */

/* Return the open stream with an id, or NULL. */
weft__h2_stream *weft__h2_stream_find(weft__h2_session *s, int32_t id);

/* Initialise a record for a stream of s. */
void weft__h2_stream_init(weft__h2_session *s, weft__h2_stream *st, int32_t id);

/*
 * The stream has ended for nghttp2, which does not use the record any more. Wake its fibers and
 * call on_close. error is the result of further calls, unless the stream has another error.
 */
void weft__h2_stream_detach(weft__h2_stream *st, int error);

/* Return 0 if the owner may send a head or a body, or the error. */
int weft__h2_stream_check_send(const weft__h2_stream *st);

/* check_frames.c */

/*
 * Check input of a server, and pass it to nghttp2, up to the end of the first head. Reduce *bytes
 * if the call takes less. After an error of the check, GOAWAY is in nghttp2. Returns the result of
 * nghttp2_session_mem_recv.
 */
ssize_t weft__h2_check_recv(weft__h2_session *s, const uint8_t *data, size_t *bytes);

/* Note that a stream has ended, or that RST_STREAM was sent for it. */
void weft__h2_check_add_closed(weft__h2_session *s, int32_t id);
void weft__h2_check_add_reset(weft__h2_session *s, int32_t id);

/* linger.c */

/*
 * Let a stream linger whose record the owner closes. Returns 0, or an error if the caller must
 * reset the stream.
 */
int weft__h2_linger_add(weft__h2_session *s, int32_t id);

/* Forget a stream that has ended. Returns whether it lingered. */
bool weft__h2_linger_remove(weft__h2_session *s, int32_t id);

/* Discard input of a stream without a record. Returns a result of nghttp2. */
int weft__h2_linger_discard(weft__h2_session *s, int32_t id, size_t bytes);

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

/* Set the callback for bodies. */
void weft__h2_body_out_set_callbacks(nghttp2_session_callbacks *callbacks);

/* The source of all bodies. */
extern const nghttp2_data_provider weft__h2_body_source;

/* Discard unsent output. */
void weft__h2_body_out_clear(weft__h2_stream *st);

/* Like weft__h2_stream_write_last, for a stream that weft__h2_stream_check_send has checked. */
ssize_t weft__h2_body_out_last(weft__h2_stream *st, const void *data, size_t bytes);

#endif
