/*
 * A reverse proxy: a handler that passes requests on to another web server, and its answers back.
 *
 *     weft_http_proxy *app = weft_http_proxy_new("http://127.0.0.1:3000", NULL);
 *     weft_http_route(routes, NULL, "/{path...}", weft_http_serve_proxy, app);
 *
 * Bodies pass piece by piece in both directions at once, at the speed of the slower side: memory
 * does not grow with them. The proxy does not change a body, its coding or the target.
 *
 * The proxy removes fields that concern one connection, in both directions (RFC 9110, 7.6.1):
 * Connection and the fields that it names, Keep-Alive, Proxy-Connection, Proxy-Authenticate,
 * Proxy-Authorization, TE, Transfer-Encoding and Upgrade. It frames each body anew, passes trailers
 * on, and adds Via.
 *
 * The client gets:
 * - 502 if the upstream server refuses, cannot be reached, or breaks the protocol
 * - 503 if there are not enough descriptors or memory
 * - 504 if the upstream server is late: connect_s, first_byte_s, idle_s
 * - 508 if the request has come through this proxy before
 * - the status for the error of weft_http_read if the request's own body is at fault
 *
 * If an answer breaks off or stalls, the proxy cuts the client's connection: a part of an answer
 * never looks complete.
 *
 * If a client ends its side of the connection before it has its answer, the proxy takes it for gone
 * and aborts the request to the upstream server.
 */
#ifndef WEFT_HTTP_PROXY_H
#define WEFT_HTTP_PROXY_H

#include <weft/http.h>

WEFT_BEGIN

/* An upstream server, and the connections to it. */
typedef struct weft_http_proxy weft_http_proxy;

/* How requests are passed on; all-zero is the default. Strings are copied. */
typedef struct weft_http_proxy_options {
    weft_tls *tls; /* a client's, for https; must outlive the proxy; NULL: the system's trust */
    /*
     * The name of this proxy in Via, a token. A request whose Via has this name already gets 508:
     * proxies in a chain need different names. NULL: a random name.
     */
    const char *via;
    /*
     * Protocols that a client may change to: "websocket, irc", in any version unless that is named
     * ("irc/6.9"); "" for none. Upgrade is removed from requests for other protocols. NULL: all
     * except h2c, with which a client could send requests that this server does not see.
     */
    const char *upgrades;
    bool sends_upstream_host; /* Host is the upstream server's, not what the client asked for */
    /*
     * X-Forwarded-For, -Proto and -Host tell the upstream server the client's address, scheme and
     * host, unless has_no_x_forwarded is set. Forwarded (RFC 7239) does so if sends_forwarded is
     * set. A header that the server believes (trusted_peers, trusted_headers) is continued, any
     * other one is replaced.
     */
    bool has_no_x_forwarded;
    bool sends_forwarded;
    size_t connections_max;  /* of each thread, with those that changed the protocol: 0: 256 */
    size_t idle_max;         /* idle connections that each thread keeps: 0: 64 */
    double keep_alive_s;     /* how long an idle connection is kept: 0: 15 */
    size_t head_bytes_max;   /* of an answer, else 502: 0: 64 KiB */
    uint64_t body_bytes_max; /* of a request: 0: the server's limit; UINT64_MAX: none */
    double connect_s;        /* to wait for a connection: 0: 10 */
    double first_byte_s;     /* from the last byte of a request to the answer's head: 0: 60 */
    double idle_s;           /* between two pieces of a body, either way: 0: 60 */
    double upgraded_idle_s;  /* without a byte either way once the protocol has changed: 0: 300 */
    /*
     * Called before the reply if a request fails, because of the upstream server or because the
     * client has gone. error is a negative errno, words describe it. NULL: failures are not
     * reported.
     */
    void (*on_failure)(weft_http_request *request, int error, const char *words, void *ctx);
    void *on_failure_ctx;
} weft_http_proxy_options;

/**
 * Create a proxy for an upstream server, "http://app:3000" or "https://10.0.0.7". Any number of
 * threads may serve it; each has its own connections. Returns NULL if that fails; weft_error() says
 * why:
 * -EINVAL if upstream is not such a URL, or has a path, a query or a user
 * -EINVAL if an option is not valid
 * -EAGAIN if there are too many proxies (PTHREAD_KEYS_MAX)
 * -ENOMEM if there is no memory
 */
WEFT_API weft_http_proxy *
weft_http_proxy_new(const char *upstream, const weft_http_proxy_options *options) WEFT_MUST_CHECK;

/**
 * Close the idle connections of a proxy and free it; NULL is ignored. Other threads that have
 * served it must have ended. Returns 0.
 * -EBUSY if a request is being passed on; nothing has changed then
 */
WEFT_SWITCHPOINT int weft_http_proxy_free(weft_http_proxy *proxy);

/**
 * Pass a request on to the upstream server, and its answer back. A handler; proxy is a
 * weft_http_proxy.
 *
 * If an idle connection turns out to be closed, the proxy opens another one and sends the request
 * again. It does so only if nothing of the request's body was read, and either the method is
 * idempotent or nothing of the request was sent.
 *
 * The proxy passes on Expect: 100-continue, and interim answers (1xx) to clients of HTTP/1.1. It
 * counts Max-Forwards down for OPTIONS and TRACE; at 0 it answers itself, with 204 or 405.
 *
 * After an answer of 101 the proxy passes bytes both ways until both sides have ended. A side that
 * has ended can still receive.
 *
 * Returns 0, or the error for which the server makes a reply or cuts the connection.
 */
WEFT_SWITCHPOINT int weft_http_serve_proxy(weft_http_request *request, void *proxy);

WEFT_END

#endif
