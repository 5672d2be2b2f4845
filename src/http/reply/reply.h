/*
 * The reply to a request: head, fields, body.
 *
 *     reply.c   the head, the end, replies to errors of handlers
 *     fields.c  headers and trailers
 *     body.c    writes, buffered bytes, files
 *     encode.c  compression of a reply (gzip.h)
 *     send.c    replies in one call
 *     events.c  server-sent events
 *
 * The state of a reply is a part of weft_http_request (http/server/server.h).
 */
#ifndef WEFT_HTTP_REPLY_REPLY_H
#define WEFT_HTTP_REPLY_REPLY_H

#include "http/server/server.h"

/* reply.c */

/*
 * Complete the reply after the handler has returned result. If the handler failed before any part
 * was sent, send a status.
 */
void weft__reply_finish(weft_http_request *r, int result);

/*
 * Reject a request before any handler runs. The codec must have set the fields of the request up to
 * arena, and method. text is the body. If text is NULL, the body is the status and its name.
 * Returns the length of the body in bytes.
 */
uint64_t weft__reply_reject(const weft_http_request *rejected, int status, const char *text);

/*
 * Discard a reply. No part of the reply may have been sent. The caller may then begin another
 * reply.
 */
void weft__reply_reset(weft_http_request *r);

/* Mark the reply as incomplete. The codec then resets the connection or stream. Returns rc. */
int weft__reply_abort(weft_http_request *r, int rc);

/* Send the head and a part of the body. See send_head in codec.h. */
static inline int weft__reply_send_head(weft_http_request *r, const struct iovec *body, int count,
                                        bool is_last)
{
    r->state = WEFT__REPLY_BODY;
    return r->codec->send_head(r, body, count, is_last || r->is_bodiless);
}

/* fields.c */

/* Return the value of a header that the handler has set, or NULL. */
const char *weft__reply_field_of(const weft_http_request *r, const char *name);

/*
 * Add a header or trailer of an upstream server to a list, without checks. list is fields or
 * trailers of a request, or a list of the caller. name may be a header that the server itself sets.
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__reply_add_unchecked(weft_http_request *r, weft__reply_field **list, const char *name,
                              const char *value);

/* Remove all headers with this name. */
void weft__reply_drop_field(weft_http_request *r, const char *name);

/*
 * Add "Vary: Accept-Encoding", unless a Vary header already covers Accept-Encoding. Returns 0 or an
 * error.
 */
int weft__reply_add_vary(weft_http_request *r);

/* body.c */

/* Send the head if it is not sent yet, and the held bytes. Returns 0 or an error. */
int weft__reply_flush_held(weft_http_request *r);

/* Send or hold bytes of the encoded body. Returns 0 or an error. */
int weft__reply_write_encoded(weft_http_request *r, const void *data, size_t bytes);

/* encode.c */

/*
 * Choose the encoding of a new reply, and set the headers of the encoding. Returns 0 or an error.
 */
int weft__reply_encode(weft_http_request *r);

/* Encode bytes of the body and pass the output to weft__reply_write_encoded. */
int weft__reply_encode_write(weft_http_request *r, const void *data, size_t bytes);

/* Pass on all encoded bytes. The client can then decode the written part of the body. */
int weft__reply_encode_flush(weft_http_request *r);

/* End the encoded body. */
int weft__reply_encode_end(weft_http_request *r);

/* Free the encoder. */
void weft__reply_encode_drop(weft_http_request *r);

#endif
