/*
 * HTTP client: HTTP/1.1 and HTTP/2, plain or over TLS.
 *
 * The client reuses idle connections, follows redirects, uses the proxies that the environment
 * names, and decompresses gzip. Over TLS, the client and the server choose HTTP/2 by ALPN. The
 * requests to one origin then share one connection.
 *
 *     weft_fetch *f;
 *     char *text;
 *     int status = weft_fetch_get(NULL, "http://example.org/", &f);
 *     if (status == 200 && weft_fetch_read_all(f, &text) >= 0)
 *         fputs(text, stdout);
 *     weft_fetch_close(f);
 *
 * A fetch is one request and its response. One fiber at a time may use a fetch. A fetcher is a
 * client: it holds connections and options. All fibers of one thread may share a fetcher. For a
 * time limit, open a scope around the calls: WEFT_CANCEL_AFTER(5.0, rc) { ... }.
 *
 * The client follows redirects as RFC 9110, 15.4, describes:
 * - After 303, the client sends a GET, or a HEAD if the request was a HEAD.
 * - After 301 or 302, the client sends a GET if the request was a POST.
 * - Otherwise, the client repeats the request unchanged, with its body if the body is in memory.
 *
 * After a redirect to another origin, the client omits the caller's fields Authorization, Cookie,
 * Host and Proxy-Authorization. The client also omits the user of the first URL. The client does
 * not follow a redirect from https to http, or to a URL that is not a valid http or https URL. The
 * fetch then has the redirect as its response.
 *
 * The client joins folded header lines with spaces (RFC 9112, 5.2). The client accepts a repeated
 * Content-Length if all values are equal (RFC 9110, 8.6). Any other protocol violation in a
 * response is -EBADMSG.
 *
 * If a URL has a user, "http://user:password@host/", the client sends Basic credentials. The
 * variables http_proxy (lower case only), https_proxy, all_proxy and no_proxy select proxies, as in
 * other clients. The client speaks plain HTTP with a proxy. For an https URL, the client opens a
 * tunnel through the proxy (CONNECT).
 */
#ifndef WEFT_FETCH_H
#define WEFT_FETCH_H

#include <weft/base.h>
#include <weft/stream.h>
#include <weft/tls.h>

WEFT_BEGIN

/* A client: connections and options. */
typedef struct weft_fetcher weft_fetcher;

/* A request and its response. */
typedef struct weft_fetch weft_fetch;

/* A step of a fetch, for trace of weft_fetcher_options. */
typedef enum weft_fetch_event {
    WEFT_FETCH_CONNECTED, /* a new connection is open; text is the address of the server or proxy */
    WEFT_FETCH_REUSED,    /* the request uses an idle connection; text is its address */
    WEFT_FETCH_REQUEST,   /* the client sends a request; text is its head */
    WEFT_FETCH_RESPONSE,  /* the head of a response has arrived, also of a redirect; text is "" */
} weft_fetch_event;

/* Options of a client. All-zero is the default. weft copies all strings. */
typedef struct weft_fetcher_options {
    /* A client configuration, which must outlive the fetcher. NULL: trust the system's CAs. */
    weft_tls *tls;
    const char *user_agent;            /* NULL: "weft/VERSION"; "": none */
    size_t connections_per_origin_max; /* of HTTP/1, 0: 8; further requests wait */
    size_t idle_max;                   /* idle connections of all origins; 0: 64 */
    /* The next use of the client closes connections that were idle for longer. 0: 60. */
    double idle_s;
    int redirects_max; /* 0: 10; -1: follow no redirects */
    bool has_no_proxy; /* ignore the proxy variables of the environment */
    /* Connect to this Unix socket, whatever the host of the URL is, without a proxy. NULL: none. */
    const char *unix_socket;
    bool has_no_gzip;  /* do not request gzip, and do not decompress */
    bool has_no_http2; /* use only HTTP/1.1 */
    /* Use HTTP/2 for http URLs, without negotiation. The server must support it. No proxies. */
    bool has_prior_knowledge;
    size_t head_bytes_max; /* head of a response; 0: 64 KiB */
    size_t body_bytes_max; /* of weft_fetch_read_all, decompressed; 0: 64 MiB */
    /*
     * A callback for each step of each fetch, for logs and debugging. The callback may call
     * functions that return properties of the fetch. The callback must not switch. NULL: none.
     */
    void (*trace)(weft_fetch *fetch, weft_fetch_event event, const char *text, void *ctx);
    void *trace_ctx;
} weft_fetcher_options;

/**
 * Create a client. If options is NULL, the defaults apply.
 *
 * Returns the client. On failure, returns NULL and records for weft_error():
 * -EINVAL if idle_s is negative or NaN
 * -EINVAL if user_agent has an invalid character
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_fetcher *weft_fetcher_new(const weft_fetcher_options *options) WEFT_MUST_CHECK;

/**
 * Close the idle connections of a client and free the client.
 *
 * If fetcher is NULL, the call does nothing.
 *
 * Returns 0, or:
 * -EBUSY if a fetch is open
 */
WEFT_SWITCHPOINT int weft_fetcher_free(weft_fetcher *fetcher);

/* A header field of a request. */
typedef struct weft_fetch_field {
    const char *name;
    const char *value;
} weft_fetch_field;

/* A request. The caller may free the request when the call returns. */
typedef struct weft_fetch_request {
    const char *method; /* NULL: POST with a body, else GET */
    const char *url;
    /*
     * Additional fields. User-Agent, Accept, Accept-Encoding and Host replace the client's fields.
     * See weft_fetch_send for forbidden fields. If the caller sets Accept-Encoding or Range, the
     * client does not decompress the body.
     */
    const weft_fetch_field *fields;
    size_t fields_count;
    const char *type; /* Content-Type of the body; NULL: none */
    const void *body; /* NULL: none; must be NULL for weft_fetch_open */
    size_t body_bytes;
} weft_fetch_request;

/**
 * Send a request and wait for the head of the response.
 *
 * The caller closes *fetch. If fetcher is NULL, the call uses the default client of the thread.
 *
 * A server may close an idle connection while the client starts to use the connection. The client
 * then repeats the request on a new connection in two cases:
 * - The method is idempotent (RFC 9110, 9.2.2).
 * - The client has sent no byte of the request.
 *
 * The client also repeats a request that a server of HTTP/2 has not processed (RFC 9113, 8.7).
 *
 * With the field "Expect: 100-continue", the client waits up to 1 s for the server before it sends
 * the body.
 *
 * request must not have the fields Content-Length, Keep-Alive, Proxy-Connection, TE, Trailer,
 * Transfer-Encoding and Upgrade. A Connection field must have the value "close".
 *
 * Returns the status of the response, for example 200. On failure, *fetch is NULL. Errors in
 * addition to those of weft_dial and weft_tls_connect:
 * -EACCES if a proxy requires authentication for the tunnel
 * -EBADF if weft_fetcher_free is freeing the fetcher
 * -EBADMSG if the response violates the protocol
 * -ECONNREFUSED if a proxy rejects the tunnel
 * -ECONNRESET if the server closes the connection before the end of the head
 * -EINVAL if the URL, the method, the type or a field is invalid
 * -EINVAL if the environment names a proxy that is not a URL
 * -ELOOP if the number of redirects exceeds redirects_max
 * -EMSGSIZE if the head of the response is longer than head_bytes_max
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if the scheme of the proxy is not http
 * -EPERM if request has one of the forbidden fields
 */
WEFT_SWITCHPOINT int weft_fetch_send(weft_fetcher *fetcher, const weft_fetch_request *request,
                                     weft_fetch **fetch);

/** Like weft_fetch_send, for a GET without additional fields. */
WEFT_SWITCHPOINT int weft_fetch_get(weft_fetcher *fetcher, const char *url, weft_fetch **fetch);

/** Like weft_fetch_send, for a POST without additional fields. */
WEFT_SWITCHPOINT int weft_fetch_post(weft_fetcher *fetcher, const char *url, const char *type,
                                     const void *body, size_t bytes, weft_fetch **fetch);

/**
 * Send the head of a request. The caller writes the body afterwards.
 *
 * body_length is the length of the body in bytes, or -1 if unknown. Write the body with
 * weft_fetch_write, then call weft_fetch_wait. For a request without a body, use weft_fetch_send:
 * only weft_fetch_send can repeat a request that was sent. The client does not follow a redirect
 * that would need the body again. The field "Expect: 100-continue" works as in weft_fetch_send.
 *
 * Returns 0. Errors in addition to those of weft_fetch_send:
 * -EINVAL if body_length is less than -1
 * -EINVAL if request has a body
 */
WEFT_SWITCHPOINT int weft_fetch_open(weft_fetcher *fetcher, const weft_fetch_request *request,
                                     int64_t body_length, weft_fetch **fetch);

/**
 * Write a part of the body of a request.
 *
 * After -EPIPE, call weft_fetch_wait to get the status of the response. An error that is not in the
 * list below makes the fetch fail. All further writes, reads and waits then return that error. A
 * cancellation also makes the fetch fail.
 *
 * Returns bytes, an error of the connection, or:
 * -EINVAL if weft_fetch_wait has already ended the body
 * -EMSGSIZE if the body would exceed the announced length
 * -EPIPE if the server has already closed the connection
 * -EPIPE if the server has already sent a response
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_write(weft_fetch *fetch, const void *data, size_t bytes);

/**
 * End the body of a request and wait for the head of the response.
 *
 * The caller closes the fetch even if this call fails. After -ENODATA, the caller can write the
 * missing bytes. If the call is cancelled while it waits for the first response, the caller can
 * call weft_fetch_wait again. If the call is cancelled while it follows a redirect, the fetch
 * fails.
 *
 * Returns the status of the response. Errors in addition to those of weft_fetch_send:
 * -ENODATA if the caller has written less than the announced length
 */
WEFT_SWITCHPOINT int weft_fetch_wait(weft_fetch *fetch);

/**
 * Ask the server to switch to another protocol.
 *
 * protocol is the value of the Upgrade field (RFC 9110, 7.8), for example "websocket". The client
 * sends the request on a new connection. If the environment names a proxy, the client opens a
 * tunnel through the proxy, also for an http URL. The client does not follow redirects.
 *
 * If the server switches, the call returns 101. *stream is then the connection, with the input
 * after the response. *stream is valid until weft_fetch_close, which closes the connection without
 * a flush. The connection does not count as one of connections_per_origin_max.
 *
 * If the client has a connection of HTTP/2 to the server, and the server allows extended CONNECT
 * (RFC 8441), the client uses a stream of that connection. With has_prior_knowledge, the client
 * opens such a connection. The call then returns a status from 200 to 299, and *stream is the
 * stream. The client omits a Sec-WebSocket-Key field.
 *
 * Returns 101, or the status of the response. If the server refuses, *stream is NULL, and the
 * caller can read the body. On failure, *fetch is NULL. Errors in addition to those of
 * weft_fetch_send:
 * -EBADMSG if the response switches to a protocol that is not protocol
 * -EINVAL if protocol is not a valid field value
 * -EINVAL if request has a body
 * -EPERM if request has a Connection field
 */
WEFT_SWITCHPOINT int weft_fetch_upgrade(weft_fetcher *fetcher, const weft_fetch_request *request,
                                        const char *protocol, weft_fetch **fetch,
                                        weft_stream **stream);

/** Return the status of the response. Returns 0 before the response and after a failure. */
WEFT_API int weft_fetch_status(const weft_fetch *fetch);

/**
 * Return the version of HTTP that the server has used: 10, 11 or 20.
 *
 * Returns 0 before the response and after a failure.
 */
WEFT_API int weft_fetch_version(const weft_fetch *fetch);

/**
 * Return the TLS stream, for weft_tls_describe. Returns NULL without TLS. Returns NULL if the fetch
 * has no connection: before the request is sent, and after the end of the response.
 */
WEFT_API weft_stream *weft_fetch_tls(weft_fetch *fetch);

/**
 * Return the value of the first header field with this name.
 *
 * The case of name does not matter. The string is valid until the fetch is closed. Returns NULL if
 * the response has no such field.
 */
WEFT_API const char *weft_fetch_header(const weft_fetch *fetch, const char *name);

/**
 * Get a header field of the response by its index.
 *
 * Returns 0, or:
 * -ENOENT if index is not less than the number of fields
 */
WEFT_API int weft_fetch_header_at(const weft_fetch *fetch, size_t index, const char **name,
                                  const char **value);

/**
 * Return the value of a trailer field of the response.
 *
 * Returns NULL if the response has no such field. Returns NULL before the caller has read the body
 * to its end.
 */
WEFT_API const char *weft_fetch_trailer(const weft_fetch *fetch, const char *name);

/** Return the URL of the response, after redirects. The URL has no user. */
WEFT_API const char *weft_fetch_url(const weft_fetch *fetch);

/**
 * Return the announced length of the body, or -1.
 *
 * For a HEAD request, returns the length of the body that a GET would return. Returns -1 if the
 * server announced no length, if the client decompresses the body, or without a response.
 */
WEFT_API int64_t weft_fetch_length(const weft_fetch *fetch);

/**
 * Read a part of the body, decompressed.
 *
 * A cancelled call loses no bytes. The next call continues. Any other error except -EINVAL makes
 * the fetch fail. All further reads then return that error.
 *
 * Returns the number of bytes, 0 at the end of the body, an error of the connection, or:
 * -EBADMSG if the body is malformed
 * -ECONNRESET if the server closes the connection before the end of the body
 * -EINVAL if weft_fetch_wait has not returned a status yet
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_read(weft_fetch *fetch, void *data,
                                         size_t bytes) WEFT_MUST_CHECK;

/**
 * Like weft_fetch_read, but without copying.
 *
 * *data points to the bytes. The bytes are valid until the next read or the close of the fetch.
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_read_piece(weft_fetch *fetch,
                                               const void **data) WEFT_MUST_CHECK;

/**
 * Read the remaining body into memory and append a NUL.
 *
 * *data is valid until the fetch is closed. If the call is cancelled, the next call continues.
 *
 * Returns the length without the NUL. Errors in addition to those of weft_fetch_read:
 * -EMSGSIZE if the body is longer than body_bytes_max
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_read_all(weft_fetch *fetch, char **data);

/**
 * Close a fetch. If fetch is NULL, the call does nothing.
 *
 * The client keeps the connection for the next request if the caller has read the response to its
 * end. If at most 64 KiB remain, the call waits up to 50 ms for these bytes and discards them. The
 * client also keeps the connection if all these bytes arrive. Otherwise the call closes it.
 */
WEFT_SWITCHPOINT void weft_fetch_close(weft_fetch *fetch);

WEFT_END

#endif
