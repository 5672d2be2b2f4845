/*
 * The interface between the server and a protocol. A codec reads requests from a connection and
 * writes replies. http/h1/ and http/h2/ are codecs. server/, reply/, files/ and reverse_proxy/ use
 * a connection only through the codec of a request.
 *
 * A codec fills in the first fields of a weft_http_request (server.h), calls the handler of the
 * server, and then weft__reply_finish. The functions below run in the fiber of the handler, except
 * where the comment names another fiber. Each function returns 0 or an error, unless its comment
 * says otherwise. A function that cannot send a part of a reply calls weft__reply_abort.
 */
#ifndef WEFT_HTTP_SERVER_CODEC_H
#define WEFT_HTTP_SERVER_CODEC_H

#include <weft/http.h>

#include <sys/uio.h>

/* The maximum number of spans of a body in one call of send_head or send_body. */
#define WEFT__REPLY_IOV_MAX 4

typedef struct weft__reply_field weft__reply_field;

typedef struct weft__codec {
    /*
     * Get the next piece of the request's body, without copying. Wait for the piece at the minimum
     * rate. Before a wait, call weft__body_send_continue. At the end of the body, set
     * is_body_complete and request_trailers. The upload fiber of the reverse proxy may call this
     * function. Returns 1, 0 at the end of the body, or an error.
     */
    int (*read)(weft_http_request *r, const char **piece, size_t *bytes);

    /*
     * Discard the received part of a body, without waiting, in order to detect malformed input
     * before the reply. NULL: the codec detects malformed input itself.
     */
    int (*discard_arrived)(weft_http_request *r);

    /*
     * Send an informational response (status 100 to 199). The response may stay in a buffer until
     * the next flush or read.
     */
    int (*send_interim)(weft_http_request *r, int status, const weft__reply_field *fields);

    /*
     * Send the head of the reply and up to WEFT__REPLY_IOV_MAX spans of the body. If is_last is
     * set, the reply is then complete.
     */
    int (*send_head)(weft_http_request *r, const struct iovec *body, int count, bool is_last);

    /* Send up to WEFT__REPLY_IOV_MAX spans of the body. */
    int (*send_body)(weft_http_request *r, const struct iovec *body, int count);

    /* Send the end of the body, and the trailers. */
    int (*send_end)(weft_http_request *r);

    /* Send all buffered bytes of the reply. */
    int (*flush)(weft_http_request *r);

    /*
     * Send a part of a file as a part of the body. The function sends the head if necessary. NULL:
     * not supported.
     *
     * Errors in addition to those of send_body:
     * -ENODATA if the file is too short
     * -EOPNOTSUPP if the codec cannot send files on this connection; nothing has changed
     */
    int (*send_file)(weft_http_request *r, int fd, off_t offset, uint64_t bytes);

    /*
     * Set the priority of the reply (RFC 9218). Returns 0, or -ENOMEM. NULL: the replies of a
     * connection have an order.
     */
    int (*set_priority)(weft_http_request *r, int urgency, bool is_incremental);

    /*
     * Accept the request for another protocol. Set status. *stream carries the bytes of that
     * protocol until the handler returns.
     */
    int (*upgrade)(weft_http_request *r, const char *protocol, weft_stream **stream);

    /*
     * Return the stream of the connection, for a handler that writes the whole reply. NULL: a
     * request does not have a connection of its own.
     */
    weft_stream *(*hijack)(weft_http_request *r);

    /* Flush the stream of an upgraded request, and end its output. Its input remains open. */
    int (*end_upgraded)(weft_http_request *r);

    /*
     * Wait until the client has abandoned a request whose body is complete. Another fiber than that
     * of the handler calls this function. Returns 0 if the client cannot abandon the request any
     * more without an error of a write, or:
     * -ECONNRESET if the client has abandoned the request
     */
    int (*await_abandoned)(weft_http_request *r);
} weft__codec;

#endif
