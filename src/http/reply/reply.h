/*
 * The reply to a request: head, fields, body.
 *
 *     reply.c   the head, the end, replies to errors of handlers
 *     fields.c  headers and trailers
 *     body.c    writes, chunks, files
 *     encode.c  compression of a reply (gzip.h)
 *     send.c    replies in one call
 *
 * The state of a reply is a part of weft_http_request (http/server/server.h).
 */
#ifndef WEFT_HTTP_REPLY_REPLY_H
#define WEFT_HTTP_REPLY_REPLY_H

#include "http/server/server.h"

#include <sys/uio.h>

/* The maximum number of body spans that weft__reply_send_head sends with the head. */
#define WEFT__REPLY_IOV_MAX 4

/* reply.c */

/*
 * Complete the reply after the handler has returned result. If the handler failed before any part
 * was sent, send a status. Skip the rest of the request's body.
 */
void weft__reply_finish(weft_http_request *r, int result);

/*
 * Send a reply with "Connection: close" before any handler runs. text is the body. If text is NULL,
 * the body is the status and its name. Returns the length of the body in bytes.
 */
uint64_t weft__reply_reject(weft__conn *c, int status, const char *text);

/*
 * Discard a reply. No part of the reply may have been sent. The caller may then begin another
 * reply.
 */
void weft__reply_reset(weft_http_request *r);

/* Mark the reply as incomplete and the connection as unusable. Returns rc. */
int weft__reply_abort(weft_http_request *r, int rc);

/* Send the head and up to WEFT__REPLY_IOV_MAX spans of the body. Returns 0 or an error. */
int weft__reply_send_head(weft_http_request *r, const struct iovec *body, int count);

/* fields.c */

/* Return the value of a header that the handler has set, or NULL. */
const char *weft__reply_field_of(const weft_http_request *r, const char *name);

/*
 * Add a header or trailer of an upstream server without checks. name may be a header that the
 * server itself sets. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__reply_add_proxied_field(weft_http_request *r, const char *name, const char *value);
int weft__reply_add_proxied_trailer(weft_http_request *r, const char *name, const char *value);

/* Remove all headers with this name. */
void weft__reply_drop_field(weft_http_request *r, const char *name);

/*
 * Add "Vary: Accept-Encoding", unless a Vary header already covers Accept-Encoding. Returns 0 or an
 * error.
 */
int weft__reply_add_vary(weft_http_request *r);

/* body.c */

/* Remove the first bytes of the spans. */
void weft__iov_advance(struct iovec *iov, int count, size_t bytes);

/*
 * Write spans to the stream, at the minimum rate or faster. After an error, the call aborts the
 * reply. Returns 0 or an error.
 */
int weft__reply_writev(weft_http_request *r, const struct iovec *iov, int count);

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
