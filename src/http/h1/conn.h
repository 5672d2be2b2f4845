/*
 * The codec of HTTP/1 for servers.
 *
 *     conn.c          a connection and its requests
 *     request_body.c  the request's body
 *     reply_head.c    the head of a reply, informational responses, upgrades
 *     write.c         writes at the minimum rate, chunks, files
 *     reject.c        rejection of requests without a complete head
 *
 * See message.h for the parser. The state of a connection is on the stack of its fiber. Its arena
 * holds the memory of the current request.
 */
#ifndef WEFT_HTTP_H1_CONN_H
#define WEFT_HTTP_H1_CONN_H

#include "http/h1/message.h"
#include "http/server/server.h"

/* A connection of HTTP/1. The codec_ctx of its requests. */
typedef struct weft__h1_conn {
    weft__conn *conn;
    weft__message message;
    weft__arena arena;
    const char *input; /* unread input, as of the last peek */
    size_t input_bytes;
    size_t requests;   /* number of requests so far */
    size_t unflushed;  /* upper bound of bytes in the output buffer, up to WEFT__OUT_BYTES */
    double begun_s;    /* when the first byte of the request arrived; 0: not measured */
    double head_end_s; /* when the first head must be complete; 0: nothing has waited for it yet */
    bool must_close;   /* close the connection after this reply */
    bool is_chunked;   /* the body of the current reply */
} weft__h1_conn;

static inline weft__h1_conn *weft__h1_conn_of(const weft_http_request *r)
{
    return r->codec_ctx;
}

/* Return true if the request prevents a further request on its connection. */
static inline bool weft__h1_is_last(const weft_http_request *r)
{
    return r->must_close || r->is_body_abandoned || r->body_error < 0;
}

/* conn.c */

/* A result of weft__h1_conn_run: the client speaks HTTP/2. The stream holds the input. */
#define WEFT__H1_IS_H2 1

/*
 * Handle all requests of a connection. The caller must then close the connection. If
 * is_valid_protocol is not set, the peer speaks plain HTTP on a TLS port. The call then rejects the
 * first request. Returns 0, WEFT__H1_IS_H2, or the error that ended the connection.
 */
int weft__h1_conn_run(weft__conn *c, bool is_valid_protocol);

/* The codec of all requests of HTTP/1. */
extern const weft__codec weft__h1_codec;

/* reject.c */

/*
 * Reject a request without a complete head: send a reply with this status, and log the request. The
 * caller must then close the connection. reason is for the log. text is the body of the reply. If
 * text is NULL, the body is the status and its name.
 */
void weft__h1_reject(weft__h1_conn *h, int status, const char *reason, const char *text);

/* Like weft__h1_reject with the status 400, but do not send a reply. */
void weft__h1_drop(weft__h1_conn *h, const char *reason);

/* Functions of the codec. See http/server/codec.h. */

int weft__h1_read(weft_http_request *r, const char **piece, size_t *bytes);
int weft__h1_discard_arrived(weft_http_request *r);
int weft__h1_await_abandoned(weft_http_request *r);

int weft__h1_send_interim(weft_http_request *r, int status, const weft__reply_field *fields);
int weft__h1_send_head(weft_http_request *r, const struct iovec *body, int count, bool is_last);
int weft__h1_send_end(weft_http_request *r);
int weft__h1_upgrade(weft_http_request *r, const char *protocol, weft_stream **stream);

int weft__h1_send_body(weft_http_request *r, const struct iovec *body, int count);
int weft__h1_flush(weft_http_request *r);
int weft__h1_send_file(weft_http_request *r, int fd, off_t offset, uint64_t bytes);
int weft__h1_end_upgraded(weft_http_request *r);

/* write.c */

/* The maximum number of spans that weft__h1_writev writes: a head, or the lines around a chunk. */
#define WEFT__H1_IOV_MAX (WEFT__REPLY_IOV_MAX + 3)

/*
 * Write up to WEFT__H1_IOV_MAX spans to the stream, at the minimum rate or faster. After an error,
 * the call aborts the reply. Returns 0 or an error.
 */
int weft__h1_writev(weft_http_request *r, const struct iovec *iov, int count);

/* The size of the line before a chunk. */
#define WEFT__H1_SIZE_BYTES (2 * sizeof(size_t) + sizeof "\r\n")

/*
 * Add the spans of a body to iov, and the lines around the chunk. size is memory for a line.
 * Returns the number of spans, at most WEFT__REPLY_IOV_MAX + 2.
 */
int weft__h1_add_chunk(struct iovec *iov, char size[WEFT__H1_SIZE_BYTES], const struct iovec *body,
                       int count);

/* Like weft__h1_add_chunk, but without lines unless the reply is chunked. */
static inline int weft__h1_add_body(const weft__h1_conn *h, struct iovec *iov,
                                    char size[WEFT__H1_SIZE_BYTES], const struct iovec *body,
                                    int count)
{
    if (h->is_chunked && count > 0)
        return weft__h1_add_chunk(iov, size, body, count);
    for (int i = 0; i < count; i++)
        iov[i] = body[i];
    return count;
}

#endif
