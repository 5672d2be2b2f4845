/*
 * HTTP server: HTTP/1.1, HTTP/1.0 and HTTP/2, plain or over TLS.
 *
 * Each connection of HTTP/1 and each request of HTTP/2 has a fiber. The fiber calls the handler
 * when all headers of a request have arrived. A handler is ordinary sequential code: it reads the
 * body, blocks where necessary, writes the reply and returns. The same handlers serve all versions.
 *
 * The fiber of a connection ends when the connection is silent for a second. The next request then
 * has another fiber. A handler therefore must not expect fiber-local values of an earlier request.
 *
 *     static int hello(weft_http_request *r, void *ctx)
 *     {
 *         (void)ctx;
 *         return weft_http_reply_text(r, 200, "Hello, %s\n", weft_http_path(r) + 1);
 *     }
 *     int main(void)
 *     {
 *         weft_shutdown_on_signals(10.0);
 *         return weft_http_serve("127.0.0.1:8080", hello, NULL, NULL) != -ECANCELED;
 *     }
 *
 * When the handler returns, the server completes the reply. If the handler has begun a reply, the
 * server ends the reply. If the handler has begun no reply, the server replies 204. If a read of
 * the body has failed, the server replies with the status of that error instead of 204.
 *
 * The server skips an unread body of at most 64 KiB. If more of the body is unread, the server
 * closes the connection after the reply.
 *
 * If a handler returns an error before any part of its reply was sent, the server discards that
 * reply. The server then replies with a status:
 * - 400 for -EBADMSG and -EINVAL
 * - 403 for -EACCES and -EPERM
 * - 404 for -ENOENT
 * - 408 for -ETIMEDOUT from a read of the request's body
 * - 413 for -EMSGSIZE
 * - 500 for an error that is not in this list
 * - 503 for -EAGAIN, -EBUSY, -ECANCELED, -EMFILE, -ENFILE, -ENOBUFS and -ENOMEM
 * - 504 for any other -ETIMEDOUT
 * - no reply for -ECONNRESET from a read of the request's body
 *
 * If a part of the reply was already sent, the server resets the connection. A client therefore
 * cannot mistake a partial reply for a complete one.
 *
 * The server rejects ambiguous requests and requests that violate the protocol. The server replies
 * with the matching status and closes the connection, without calling the handler.
 *
 * Over TLS, clients choose HTTP/2 by ALPN, if alpn of weft_tls_options is weft_http_alpn(). Without
 * TLS, the server recognises HTTP/2 by the first bytes of a connection. In HTTP/2, the server
 * resets the stream of the request where this page says that it closes or resets the connection.
 *
 * Strings of a request are valid until the handler returns. The strings are NUL-terminated and
 * contain no other NUL. Call the functions of a request only in the fiber of its handler.
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <weft/base.h>
#include <weft/http_options.h>
#include <weft/stream.h>
#include <weft/tls.h>

WEFT_BEGIN

/**
 * Return the protocols that the server speaks.
 *
 * Use the string as alpn of weft_tls_options. Returns "h2,http/1.1", or "http/1.1" if the library
 * was built without HTTP/2.
 */
WEFT_API const char *weft_http_alpn(void);

/**
 * Listen on an address and serve HTTP until the call is cancelled.
 *
 * address is "127.0.0.1:8080", ":80", or a path with a slash for a Unix socket. If options is NULL,
 * the defaults apply.
 *
 * If the call is cancelled, the server closes the listener. The server also closes all connections
 * that wait for a request. Requests in progress have drain_s seconds to finish. The server then
 * cancels the remaining requests.
 *
 * Returns -ECANCELED after a cancellation, an error of weft_listen or weft_accept_loop, or:
 * -EINVAL if an option is invalid
 * -EINVAL if handler is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_serve(const char *address, weft_http_handler *handler, void *ctx,
                                     const weft_http_options *options);

/**
 * Like weft_http_serve, on a listening socket.
 *
 * By default, the socket remains open. Clients that connect during the drain then wait in the
 * backlog. If closes_listener is set, the server closes the socket before the drain, or if the call
 * fails earlier.
 */
WEFT_SWITCHPOINT int weft_http_serve_fd(int listener, weft_http_handler *handler, void *ctx,
                                        const weft_http_options *options);

/**
 * Serve one connection in the calling fiber and close the connection.
 *
 * Use this call in a program with its own accept loop. The call does not limit the number of
 * connections. The call always closes fd. If options is NULL, the defaults apply.
 *
 * Returns 0, the error that ended the connection, or:
 * -EINVAL if an option is invalid
 * -EINVAL if handler is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_serve_conn(int fd, weft_http_handler *handler, void *ctx,
                                          const weft_http_options *options);

/* The request. If memory is exhausted, a string that needs memory is NULL or "". */

/**
 * Return the method, for example "GET".
 *
 * The server accepts any token of up to 32 characters. A handler should reply 405 or 501 to a
 * method that it does not implement. See http_route.h for a handler that selects by method.
 */
WEFT_API const char *weft_http_method(const weft_http_request *request);

/** Return the target as received, for example "/a%20b?c=d". */
WEFT_API const char *weft_http_target(const weft_http_request *request);

/**
 * Return the path, decoded once, without the query.
 *
 * The path starts with a slash. An OPTIONS request may have the path "*" instead. The server
 * resolves "." and ".." and merges repeated slashes. The server replies 501 to CONNECT, and 400 to
 * a path with one of these faults:
 * - a backslash, a control character, an encoded slash or a malformed escape
 * - ".." above the root
 */
WEFT_API const char *weft_http_path(const weft_http_request *request);

/** Return the query as received, without the question mark. Returns "" without a query. */
WEFT_API const char *weft_http_query(const weft_http_request *request);

/** Return the protocol version: 20 for HTTP/2, 11 for HTTP/1.1, 10 for HTTP/1.0. */
WEFT_API int weft_http_version(const weft_http_request *request);

/**
 * Return the requested host, in lower case, without the port. The source is a trusted header of a
 * trusted proxy, else the request. Returns "" if no valid host is present.
 */
WEFT_API const char *weft_http_host(weft_http_request *request);

/**
 * Return the scheme that the client uses: "http" or "https". The source is a trusted header of a
 * trusted proxy, else the connection.
 */
WEFT_API const char *weft_http_scheme(weft_http_request *request);

/**
 * Return the client's address without the port. The source is a trusted header of a trusted proxy,
 * else the connection. Returns "unix" for a peer on a Unix socket.
 */
WEFT_API const char *weft_http_peer(weft_http_request *request);

/**
 * Return the value of the first header with this name. The case of name does not matter. Returns
 * NULL if the request has no such header.
 */
WEFT_API const char *weft_http_header(const weft_http_request *request, const char *name);

/**
 * Get a header by its index, as received.
 *
 * Returns 0, or:
 * -ENOENT if index is not less than the number of headers
 */
WEFT_API int weft_http_header_at(const weft_http_request *request, size_t index, const char **name,
                                 const char **value);

/**
 * Return the first parameter of the query with this name, decoded. Returns NULL if the query has no
 * such parameter. On failure, returns NULL and records for weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API const char *weft_http_query_param(weft_http_request *request, const char *name);

/** Return the decoded value of a route's {name}, or NULL. See http_route.h. */
WEFT_API const char *weft_http_param(const weft_http_request *request, const char *name);

/**
 * Return the value of a cookie. Returns NULL if the client sent no such cookie. On failure, returns
 * NULL and records for weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API const char *weft_http_cookie(weft_http_request *request, const char *name);

/**
 * Allocate memory until the handler returns. On failure, returns NULL and records for weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API void *weft_http_alloc(weft_http_request *request, size_t bytes);

/** Return true if the server is draining. The server cancels handlers after drain_s. */
WEFT_API bool weft_http_is_draining(const weft_http_request *request);

/** Return the TLS stream, for weft_tls_describe. Returns NULL without TLS. */
WEFT_API weft_stream *weft_http_tls(weft_http_request *request);

/* The body of the request */

/** Return the announced length of the body. Returns 0 without a body, -1 for an unknown length. */
WEFT_API int64_t weft_http_length(const weft_http_request *request);

/**
 * Set the limit on the body of this request.
 *
 * Returns 0, or:
 * -EALREADY if the handler has read only a part of the body
 */
WEFT_API int weft_http_limit_body(weft_http_request *request, uint64_t bytes_max);

/**
 * Read a part of the request's body.
 *
 * If the client waits for 100 (Continue), the first read sends that response. A cancelled call
 * loses no bytes. The next call continues. After any other error, all further reads return that
 * error.
 *
 * Returns the number of bytes, 0 at the end of the body, an error of the connection, or:
 * -EBADMSG if the body is malformed
 * -ECONNRESET if the client closes the connection, or resets the stream, before the end of the body
 * -EMSGSIZE if the body is longer than the limit
 * -EPIPE if the reply has begun and the client waits for 100 (Continue)
 * -EPIPE if the server has reset the stream, see bodies_bytes_max
 * -ETIMEDOUT if the body arrives too slowly
 */
WEFT_SWITCHPOINT ssize_t weft_http_read(weft_http_request *request, void *data,
                                        size_t bytes) WEFT_MUST_CHECK;

/**
 * Like weft_http_read, but without copying.
 *
 * *data points to the bytes. The bytes are valid until the next call that reads the body.
 */
WEFT_SWITCHPOINT ssize_t weft_http_read_piece(weft_http_request *request,
                                              const void **data) WEFT_MUST_CHECK;

/**
 * Read the remaining body into memory and append a NUL.
 *
 * *data is valid until the handler returns. A chunked body needs up to twice its length in memory.
 * A call that fails or is cancelled loses the bytes that it has read.
 *
 * Returns the length without the NUL. Errors in addition to those of weft_http_read:
 * -ENOBUFS if all bodies together exceed bodies_bytes_max
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT ssize_t weft_http_read_all(weft_http_request *request,
                                            char **data) WEFT_MUST_CHECK;

/**
 * Return a field of a form, decoded.
 *
 * The form is a body of type application/x-www-form-urlencoded. The first call reads the body.
 * Returns NULL if the form has no such field, or the body cannot be read.
 *
 * If error is not NULL, sets *error to 0, or to the error of the first call. The call also records
 * the error for weft_error(). Errors in addition to those of weft_http_read_all:
 * -EINVAL if the body contains a NUL
 * -EINVAL if the body has another type
 */
WEFT_SWITCHPOINT const char *weft_http_form(weft_http_request *request, const char *name,
                                            int *error);

/**
 * Return the value of a trailer field of the request. Returns NULL if the request has no such
 * field. Returns NULL before the handler has read the body to its end.
 */
WEFT_API const char *weft_http_trailer(const weft_http_request *request, const char *name);

/* The reply. A handler can begin only one reply. */

/**
 * Set a header of the reply. Replace a header of the same name.
 *
 * The server itself sets Connection, Content-Length, Date, Trailer and Transfer-Encoding. The
 * caller may set "Connection: close". A line break is an invalid character. A value from a client
 * therefore cannot inject headers or a second reply.
 *
 * Returns 0, or:
 * -EALREADY if the reply has begun
 * -EINVAL if name or value has an invalid character
 * -ENOMEM if memory is exhausted
 * -EPERM if the server itself sets the header
 */
WEFT_API int weft_http_set(weft_http_request *request, const char *name, const char *value);

/** Like weft_http_set, but without replacing a header of the same name. */
WEFT_API int weft_http_add(weft_http_request *request, const char *name, const char *value);

/* Attributes of a cookie. All-zero is a session cookie for the path and host of the request. */
typedef struct weft_http_cookie_options {
    const char *path;   /* NULL: no Path attribute */
    const char *domain; /* NULL: only the host of the request */
    double max_age_s;   /* 0: a session cookie; negative: delete the cookie */
    bool is_secure;
    bool is_http_only;
    const char *same_site; /* "Lax", "Strict" or "None"; NULL: no SameSite attribute */
} weft_http_cookie_options;

/**
 * Set a cookie. If options is NULL, the defaults apply.
 *
 * Returns 0, or:
 * -EALREADY if the reply has begun
 * -EINVAL if name, value or an option is invalid
 * -EINVAL if same_site is "None" without is_secure
 * -EINVAL if name starts with "__Host-" or "__Secure-", and options lacks a required attribute
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_http_set_cookie(weft_http_request *request, const char *name, const char *value,
                                  const weft_http_cookie_options *options);

/**
 * Send a complete reply.
 *
 * type replaces an earlier Content-Type. If type is NULL, the earlier Content-Type remains. After
 * -EALREADY, -EBADMSG and -EINVAL, the call has sent nothing.
 *
 * Returns 0. Errors in addition to those of weft_http_write:
 * -EALREADY if the reply has begun
 * -EBADMSG if the received part of a chunked request body is malformed
 * -EINVAL if status is not in 200 to 999
 * -EINVAL if type has an invalid character
 */
WEFT_SWITCHPOINT int weft_http_reply(weft_http_request *request, int status, const char *type,
                                     const void *body, size_t bytes);

/** Like weft_http_reply, but with text from a printf(3) format. The type is text/plain in UTF-8. */
WEFT_SWITCHPOINT int weft_http_reply_text(weft_http_request *request, int status,
                                          const char *format, ...) WEFT_PRINTF(3, 4);

/**
 * Like weft_http_reply, but with a text that names the status. If the status is 400 or more, the
 * option error_page replaces the text.
 */
WEFT_SWITCHPOINT int weft_http_reply_status(weft_http_request *request, int status);

/**
 * Redirect the client to another location.
 *
 * Returns 0. Errors in addition to those of weft_http_reply:
 * -EINVAL if status is not 301, 302, 303, 307 or 308
 * -EINVAL if location has an invalid character
 */
WEFT_SWITCHPOINT int weft_http_redirect(weft_http_request *request, int status,
                                        const char *location);

/**
 * Send an informational response with the headers that are set so far.
 *
 * An example is 103 (Early Hints) with Link headers. The headers also belong to the reply that
 * follows. Clients of HTTP/1.0 do not understand informational responses. For them, the call does
 * nothing.
 *
 * Returns 0. Errors in addition to those of weft_http_flush:
 * -EALREADY if the reply has begun
 * -EINVAL if status is not in 100 to 199, or is 101
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_inform(weft_http_request *request, int status);

/**
 * Set the priority of the reply (RFC 9218).
 *
 * The priority orders the replies of one connection. urgency is 0 (first) to 7 (last). The default
 * is 3. If is_incremental is set, the bytes of this reply and of other incremental replies with the
 * same urgency alternate. In HTTP/2, the client sets the priority with a Priority header or with a
 * frame. This call replaces both. In HTTP/1, the call does nothing, because replies have the order
 * of the requests.
 *
 * Returns 0, or:
 * -EINVAL if urgency is not in 0 to 7
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_http_set_priority(weft_http_request *request, int urgency, bool is_incremental);

/**
 * Begin a reply. The caller writes the body afterwards.
 *
 * length is the length of the body in bytes, or -1 if unknown. In HTTP/1.1, a body of unknown
 * length is chunked. In HTTP/1.0, the end of the connection marks the end of such a body.
 *
 * Returns 0, or:
 * -EALREADY if the reply has begun
 * -EINVAL if length is less than -1
 * -EINVAL if status is not in 200 to 999
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_begin(weft_http_request *request, int status, int64_t length);

/**
 * Write a part of the reply's body.
 *
 * If the reply has not begun, the call begins a reply with status 200 and unknown length. The
 * server may buffer the bytes until weft_http_flush. The server discards the body of a reply to
 * HEAD.
 *
 * Returns bytes, an error of the connection, or:
 * -EALREADY if the connection has switched to another protocol
 * -EALREADY if the reply has ended
 * -EMSGSIZE if the body would exceed the announced length
 * -ENOMEM if memory is exhausted
 * -EPIPE if an earlier write has failed
 * -EPIPE if the client has closed the connection
 * -ETIMEDOUT if the client reads too slowly
 */
WEFT_SWITCHPOINT ssize_t weft_http_write(weft_http_request *request, const void *data,
                                         size_t bytes);

/** Like weft_http_write, but with text from a printf(3) format. */
WEFT_SWITCHPOINT ssize_t weft_http_printf(weft_http_request *request, const char *format, ...)
    WEFT_PRINTF(2, 3);

/**
 * Send the buffered bytes of the reply.
 *
 * Returns 0. Errors in addition to those of weft_http_write:
 * -EINVAL if the reply has not begun
 */
WEFT_SWITCHPOINT int weft_http_flush(weft_http_request *request);

/**
 * Write bytes of a file, from an offset, to the reply's body.
 *
 * The call uses sendfile(2) if the length of the reply is known, the connection is plain, and bytes
 * is over 16 KiB. Otherwise the call copies the bytes. After -ENODATA, the server resets the
 * connection.
 *
 * Returns bytes. Errors in addition to those of weft_http_write and weft_pread:
 * -ENODATA if the file ends before offset + bytes
 */
WEFT_SWITCHPOINT int64_t weft_http_send_file(weft_http_request *request, int fd, off_t offset,
                                             uint64_t bytes);

/**
 * Set a trailer field of the reply. Replace a trailer field of the same name.
 *
 * In HTTP/1.1, the server sends trailer fields only after a chunked body. In HTTP/2, the server
 * sends them after a body that weft_http_begin or weft_http_write has begun.
 *
 * Returns 0, or:
 * -EALREADY if the reply has ended
 * -EINVAL if name or value has an invalid character
 * -ENOMEM if memory is exhausted
 * -EPERM if the server itself sets a header of this name
 */
WEFT_API int weft_http_set_trailer(weft_http_request *request, const char *name, const char *value);

/**
 * End the reply. Further writes fail.
 *
 * After any error except -EALREADY and -EINVAL, the server resets the connection.
 *
 * Returns 0. Errors in addition to those of weft_http_write:
 * -EINVAL if the reply has not begun
 * -ENODATA if the caller has written less than the announced length
 */
WEFT_SWITCHPOINT int weft_http_end(weft_http_request *request);

/**
 * Begin a stream of server-sent events.
 *
 * Returns 0. The errors are those of weft_http_set, weft_http_begin and weft_http_flush.
 */
WEFT_SWITCHPOINT int weft_http_events(weft_http_request *request);

/**
 * Send a server-sent event without buffering.
 *
 * event and id may be NULL. data may have several lines. The call fails after the client has closed
 * the connection.
 *
 * Returns 0. Errors in addition to those of weft_http_write:
 * -EINVAL if event or id contains a line break
 * -ESHUTDOWN if the server is draining
 */
WEFT_SWITCHPOINT int weft_http_event(weft_http_request *request, const char *event, const char *id,
                                     const char *data);

/**
 * Switch the connection to another protocol.
 *
 * The call replies 101 with protocol as the Upgrade header. In HTTP/2, a client requests a protocol
 * with an extended CONNECT (RFC 8441), which handlers see as a GET with an Upgrade header. The call
 * then replies 200, and *stream is the stream of the request. *stream is valid until the handler
 * returns. The stream includes input that has already arrived.
 *
 * Returns 0, an error of the connection, or:
 * -EALREADY if the reply has begun
 * -EINVAL if the client does not request protocol
 * -EINVAL if the request has an unread body
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_upgrade(weft_http_request *request, const char *protocol,
                                       weft_stream **stream);

/**
 * Take over the connection of a request of HTTP/1. The server sends nothing itself.
 *
 * The caller writes the reply to *stream, head and body. *stream is valid until the handler
 * returns, and the server then closes the connection. The stream includes input that has already
 * arrived, for example a body that the handler has not read.
 *
 * Returns 0, or:
 * -EALREADY if the reply has begun
 * -EALREADY if the handler has read a part of the body
 * -ENOTSUP if the request does not have a connection of its own, as in HTTP/2
 */
WEFT_API int weft_http_hijack(weft_http_request *request, weft_stream **stream) WEFT_MUST_CHECK;

WEFT_END

#endif
