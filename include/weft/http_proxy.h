/*
 * A reverse proxy: a handler that passes requests on to another web server, and its answers back.
 *
 *     weft_http_proxy *app = weft_http_proxy_new("http://127.0.0.1:3000", NULL);
 *     weft_http_route(routes, NULL, "/{path...}", weft_http_serve_proxy, app);
 *
 * Bodies pass piece by piece in both directions at once, at the speed of the slower side: memory
 * does not grow with them. Nothing is changed in a body, its coding or the target.
 *
 * Fields that concern one connection are left out in both directions (RFC 9110, 7.6.1): Connection
 * and all that it names, Keep-Alive, Proxy-Connection, Proxy-Authenticate, Proxy-Authorization, TE,
 * Transfer-Encoding and Upgrade. Length and chunks are made anew; trailers pass. Via is added in
 * both directions.
 *
 * The client is told:
 * - 502 if the upstream server refuses, cannot be reached, or breaks the protocol
 * - 504 if the upstream server is late: connect_s, first_byte_s, idle_s
 * - 503 if descriptors or memory are short
 * - 508 if the request has come through this proxy before
 * - what weft_http_read says if the request's own body is at fault
 *
 * An answer that ends too early, or too late, cuts the client's connection: no client takes half an
 * answer for a whole one.
 *
 * A client that ends its side of the connection before it has its answer is taken for gone: the
 * request to the upstream server is aborted.
 */
#ifndef WEFT_HTTP_PROXY_H
#define WEFT_HTTP_PROXY_H

#include <weft/http.h>

WEFT_BEGIN

/* An upstream server, and the connections to it. */
typedef struct weft_http_proxy weft_http_proxy;

/* How requests are passed on; all-zero is the default. Strings are copied. */
typedef struct weft_http_proxy_options {
    weft_tls *tls; /* a client's side, for https, not to be freed before; NULL: the system's */
    /*
     * The name of this proxy in Via, a token. A request that has it there already is answered with
     * 508: proxies in a chain need different names. NULL: one of its own, by chance.
     */
    const char *via;
    /*
     * Protocols that a client may change to: "websocket, irc"; "" for none. The request is passed
     * on without its Upgrade otherwise. NULL: all except h2c, with which a client could send
     * requests that this server does not see.
     */
    const char *upgrades;
    bool sends_upstream_host; /* Host is the upstream server's, not what the client asked for */
    /*
     * X-Forwarded-For, -Proto and -Host tell the upstream server who asks, how and for which host,
     * unless has_no_x_forwarded. Forwarded (RFC 7239) does if sends_forwarded. They continue what
     * came in a header that the server believes (trusted_peers, trusted_headers), and replace it
     * otherwise.
     */
    bool has_no_x_forwarded;
    bool sends_forwarded;
    size_t connections_max;  /* of each thread, those that changed the protocol too: 0: 256 */
    size_t idle_max;         /* connections that each thread keeps: 0: 64 */
    double keep_alive_s;     /* for so long: 0: 15 */
    size_t head_bytes_max;   /* of an answer: 0: 64 KiB; 502 */
    uint64_t body_bytes_max; /* of a request: 0: the server's limit; UINT64_MAX: none */
    double connect_s;        /* to wait for a connection: 0: 10 */
    double first_byte_s;     /* from the last byte of a request to the answer's head: 0: 60 */
    double idle_s;           /* between two pieces of a body, either way: 0: 60 */
    double upgraded_idle_s;  /* without a byte either way once the protocol has changed: 0: 300 */
    /*
     * Called when a request fails, by the upstream server's fault or because its client has gone;
     * before the reply. Error is what failed, words say what. NULL: nobody is told.
     */
    void (*on_failure)(weft_http_request *request, int error, const char *words, void *ctx);
    void *on_failure_ctx;
} weft_http_proxy_options;

/**
 * Make a proxy for an upstream server, "http://app:3000" or "https://10.0.0.7". Any number of
 * threads may serve it; each has its own connections. NULL if it fails; weft_error() says why:
 * -EINVAL if upstream is not such a URL, or has a path, a query or a user
 * -EINVAL if an option is not valid
 * -EAGAIN if there are too many proxies (PTHREAD_KEYS_MAX)
 * -ENOMEM.
 */
WEFT_API weft_http_proxy *weft_http_proxy_new(const char *upstream,
                                              const weft_http_proxy_options *options);

/**
 * Close the connections that are kept, and free it; NULL is nothing. Other threads that have served
 * it must have ended. Returns 0.
 * -EBUSY while a request is being passed on.
 */
WEFT_SWITCHPOINT int weft_http_proxy_free(weft_http_proxy *proxy);

/**
 * The handler that passes a request on; ctx is the weft_http_proxy.
 *
 * A connection that was kept and turns out to be closed is replaced by a new one, and the request
 * sent again: only if its method is idempotent or nothing of it was sent, and nothing of its body
 * was read.
 *
 * Expect: 100-continue is passed on, and so are interim answers (1xx), to clients of HTTP/1.1.
 * Max-Forwards counts down for OPTIONS and TRACE; at 0 the proxy answers itself, 204 or 405.
 *
 * After an answer of 101 bytes pass both ways until both sides have ended; one that has ended can
 * still receive.
 */
WEFT_SWITCHPOINT int weft_http_serve_proxy(weft_http_request *request, void *proxy);

WEFT_END

#endif
