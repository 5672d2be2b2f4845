/*
 * Reverse proxy: a handler that forwards requests to another web server.
 *
 *     weft_http_proxy *app = weft_http_proxy_new("http://127.0.0.1:3000", NULL);
 *     weft_http_route(routes, NULL, "/{path...}", weft_http_serve_proxy, app);
 *
 * The proxy forwards bodies in parts, in both directions at once, at the speed of the slower side.
 * The memory for a body does not depend on its length. The proxy does not change a body or its
 * coding. The proxy does not change the target, except with the option prefix.
 *
 * The proxy removes fields that concern one connection, in both directions (RFC 9110, 7.6.1). These
 * fields are Connection, the fields that Connection names, Keep-Alive, Proxy-Connection,
 * Proxy-Authenticate, Proxy-Authorization, TE, Transfer-Encoding and Upgrade. The proxy sends its
 * own TE if the client accepts trailers, and its own Upgrade if upgrades allows the protocol. The
 * proxy frames each body anew, forwards trailers and adds Via. The proxy speaks HTTP/1.1 with the
 * upstream server, also for clients of HTTP/2. For a WebSocket over HTTP/2 (RFC 8441), the proxy
 * itself sends Sec-WebSocket-Key.
 *
 * On failure, the proxy replies to the client:
 * - 502 if the upstream server rejects the connection, cannot be reached, or violates the protocol
 * - 503 if descriptors or memory are exhausted
 * - 504 if the upstream server exceeds connect_s, first_byte_s or idle_s
 * - 508 if the request has already passed through this proxy
 * - the status for the error of weft_http_read if the request's body cannot be read
 *
 * If a response ends early or stalls, the proxy resets the client's connection. A client therefore
 * cannot mistake a partial response for a complete one.
 *
 * If a client ends its side of the connection before the end of the response, the proxy aborts the
 * request to the upstream server.
 */
#ifndef WEFT_HTTP_PROXY_H
#define WEFT_HTTP_PROXY_H

#include <weft/http.h>

WEFT_BEGIN

/* An upstream server and the connections to it. */
typedef struct weft_http_proxy weft_http_proxy;

/* Options of a proxy. All-zero is the default. weft copies all strings. */
typedef struct weft_http_proxy_options {
    /* A client configuration, which must outlive the proxy. NULL: trust the system's CAs. */
    weft_tls *tls;
    /*
     * The name of this proxy in Via, a token of at most 100 bytes. The proxy replies 508 to a
     * request with this name in Via. Proxies in a chain need different names. NULL: a random name.
     */
    const char *via;
    /*
     * Protocols that a client may switch to: "websocket, irc". "irc" allows any version, "irc/6.9"
     * only this version. The proxy removes Upgrade from a request that names another protocol. An
     * empty string allows no protocol. NULL allows all protocols except h2c, because the server
     * cannot check requests inside h2c.
     */
    const char *upgrades;
    /*
     * A prefix of the request's path, in the form of weft_http_path: "/api". The path of upstream
     * replaces the prefix: with "http://app:3000/v1", "/api/users?id=1" becomes "/v1/users?id=1".
     * If upstream has no path, not even a slash, the prefix remains. The proxy maps Location in
     * responses of upstream back. The proxy does not change Set-Cookie. NULL: upstream has no path.
     */
    const char *prefix;
    const char *unix_socket;  /* connect to this Unix socket; NULL: to the host of upstream */
    bool sends_upstream_host; /* send the host of upstream as Host, not the client's Host */
    /*
     * By default, the proxy sends the client's address, scheme and host in X-Forwarded-For,
     * X-Forwarded-Proto and X-Forwarded-Host. If has_no_x_forwarded is set, the proxy sends none of
     * these headers. If sends_forwarded is set, the proxy sends Forwarded (RFC 7239). The proxy
     * discards received headers of these names, unless the server trusts them (trusted_peers,
     * trusted_headers). The proxy appends its value to a trusted header.
     */
    bool has_no_x_forwarded;
    bool sends_forwarded;
    size_t connections_max;  /* of each thread, including upgraded connections; 0: 256 */
    size_t idle_max;         /* idle connections of each thread; 0: 64 */
    double keep_alive_s;     /* maximum idle time of a connection; 0: 15 */
    size_t head_bytes_max;   /* head of a response; 0: 64 KiB; 502 for a longer head */
    uint64_t body_bytes_max; /* body of a request; 0: the server's limit; UINT64_MAX: no limit */
    double connect_s;        /* maximum time to get a connection; 0: 10 */
    double first_byte_s;     /* maximum time from the request to the head of the response; 0: 60 */
    double idle_s;           /* maximum time between two parts of a body; 0: 60 */
    double upgraded_idle_s;  /* maximum idle time of an upgraded connection; 0: 300 */
    /*
     * A callback for failed requests. The proxy calls on_failure before it replies. error is a
     * negative errno. message describes the error. NULL: no callback.
     */
    void (*on_failure)(weft_http_request *request, int error, const char *message, void *ctx);
    void *on_failure_ctx;
} weft_http_proxy_options;

/**
 * Create a proxy for an upstream server.
 *
 * upstream is "http://app:3000" or "https://10.0.0.7", with a path only if the options have a
 * prefix. If options is NULL, the defaults apply. Any number of threads may serve the proxy. Each
 * thread has its own connections.
 *
 * Returns the proxy. On failure, returns NULL and records for weft_error():
 * -EAGAIN if the process has too many proxies (PTHREAD_KEYS_MAX)
 * -EINVAL if an option is invalid
 * -EINVAL if upstream has a path, and the options have no prefix
 * -EINVAL if upstream has a query, a fragment or a user
 * -EINVAL if upstream is not an http or https URL
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_http_proxy *
weft_http_proxy_new(const char *upstream, const weft_http_proxy_options *options) WEFT_MUST_CHECK;

/**
 * Close the idle connections of a proxy and free the proxy.
 *
 * Other threads that have served the proxy must have ended. If proxy is NULL, the call does
 * nothing.
 *
 * Returns 0, or:
 * -EBUSY if a request is in progress
 */
WEFT_SWITCHPOINT int weft_http_proxy_free(weft_http_proxy *proxy);

/**
 * Forward a request to the upstream server and the response to the client.
 *
 * This function is a handler. proxy must be a weft_http_proxy.
 *
 * The upstream server may close an idle connection while the proxy starts to use the connection.
 * The proxy then repeats the request on a new connection in two cases:
 * - The proxy has sent no byte of the request.
 * - The method is idempotent, and the proxy has sent no byte of the body.
 *
 * The proxy forwards "Expect: 100-continue". The proxy forwards interim responses (1xx) to HTTP/1.1
 * clients. The proxy decrements Max-Forwards in OPTIONS and TRACE requests. If Max-Forwards is 0,
 * the proxy itself replies 204 to OPTIONS and 405 to TRACE.
 *
 * After a 101 response, the proxy copies bytes in both directions until both sides have ended. A
 * side that has ended can still receive.
 *
 * Returns 0 or an error. For an error, the server sends a status or resets the connection.
 */
WEFT_SWITCHPOINT int weft_http_serve_proxy(weft_http_request *request, void *proxy);

WEFT_END

#endif
