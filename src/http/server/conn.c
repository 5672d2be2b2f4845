/*
 * Connections. A connection opens its stream, lets a codec handle the requests and closes the
 * stream.
 */
#include "http/h1/conn.h"
#include "http/proxy_protocol/proxy_protocol.h"
#include "http/rest/rest.h"
#include "http/server/unsent_limit.h"
#include "http/text/ctype.h"

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#ifdef WEFT_HAS_HTTP2
#include "http/h2/server.h"
#endif

/*
 * The size of the read buffer. The buffer and the connection's other frames fit in the first page
 * of the stack. Every fiber has that page. Longer requests get more memory while the server handles
 * them.
 */
#define READ_BYTES 1023

/* The size of the read buffer for a long body. */
#define BODY_READ_BYTES ((size_t)32 << 10)

/* Limits of a lingering close: the number of discarded bytes, and the time. */
#define LINGER_BYTES ((size_t)64 << 20)
#define LINGER_S 2.0

void weft__conn_set_buffer(weft__conn *c, bool is_large)
{
    const weft_stream_options small = {
        .read_bytes = READ_BYTES, .read_memory = c->memory, .write_bytes = c->write_bytes};
    const weft_stream_options large = {.read_bytes = BODY_READ_BYTES,
                                       .write_bytes = c->write_bytes};
    if (is_large && weft__bodies_reserve(c->server, BODY_READ_BYTES) < 0)
        return;
    bool was_large = c->has_large_buffer;
    if (weft_stream_configure(&c->stream, is_large ? &large : &small) == 0)
        c->has_large_buffer = is_large;
    if (!c->has_large_buffer && (is_large || was_large)) /* the reservation is unused */
        c->server->bodies_bytes -= BODY_READ_BYTES;
}

static bool conn_has_input(weft__conn *c)
{
    const void *ignored;
    return weft_stream_peek(&c->stream, 0, &ignored) > 0;
}

/* Flush the buffered output, then send the end of the output. */
static int conn_end_output(weft__conn *c)
{
    if (c->is_tls)
        return weft_tls_shutdown(&c->stream);
    int rc = weft_stream_flush(&c->stream);
    return rc < 0 ? rc : weft_shutdown(c->fd, SHUT_WR);
}

/*
 * End the output, then discard input for a limited time (RFC 9112, 9.6). If a socket is closed with
 * unread input, the kernel resets the connection. The client may then lose the reply.
 */
static COLD void conn_lingering_close(weft__conn *c)
{
    if (conn_end_output(c) < 0)
        return;
    char discarded[2048];
    size_t left = LINGER_BYTES;
    WEFT_MOVE_ON_AFTER(LINGER_S) {
        ssize_t n = 1;
        while (n > 0 && left > 0) {
            n = weft_stream_read(&c->stream, discarded,
                                 sizeof discarded < left ? sizeof discarded : left);
            left -= n > 0 ? (size_t)n : 0;
        }
    }
}

/*
 * Reset the connection. Otherwise the client could mistake a partial reply for a complete one.
 * connect(2) with AF_UNSPEC resets the connection and sends no further bytes, not even a TLS
 * close_notify.
 */
static COLD void conn_reset(const weft__conn *c)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    (void)connect(c->fd, &none, sizeof none); /* fails on a Unix socket */
}

/*
 * Send the last bytes of a reply and the FIN in one packet. For a connection with one request, this
 * step reduces the cost of both sides by a tenth. A plain close would discard the unsent bytes if
 * unread input has arrived meanwhile. TLS connections omit this step, because the handshake
 * dominates their cost.
 */
static void conn_end_corked(weft__conn *c)
{
    static const int on = 1;
    if (c->has_unflushed && !c->is_tls && !c->peer.is_unix &&
        setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0)
        (void)conn_end_output(c);
}

static void conn_hang_up(weft__conn *c)
{
    if (c->is_aborted)
        conn_reset(c);
    WEFT_MOVE_ON_AFTER(c->server->options.limits.slow_s) {
        if (c->has_unread || (!c->is_aborted && conn_has_input(c)))
            conn_lingering_close(c);
        else if (!c->is_aborted)
            conn_end_corked(c);
        if (!c->is_aborted)
            weft__unsent_limit_await_acks(c);
        weft__unsent_limit_remove(c);
        (void)weft_stream_close(&c->stream);
    }
}

/*
 * Return 1 if the peer speaks TLS, 0 if the peer speaks plain HTTP, or an error. The first byte of
 * a TLS handshake is 22. The first byte of an HTTP method is a letter. Returns -ECONNRESET if the
 * peer has closed the connection.
 */
static int peer_speaks_tls(weft__conn *c)
{
    char first;
    ssize_t n = weft_recv(c->fd, &first, 1, MSG_PEEK);
    if (n <= 0)
        return n < 0 ? (int)n : -ECONNRESET;
    return !weft__ctype_is(first, WEFT__CTYPE_ALPHA);
}

/* Wait until the handshake limit allows another handshake of this peer. Returns 0 or an error. */
static int await_handshake_slot(weft__conn *c)
{
    const weft_http_limits *l = &c->server->options.limits;
    double wait_s = weft__handshake_limit_enter(&c->server->handshake_limit, &c->peer, weft_now(),
                                                l->handshakes_per_peer_s_max, l->head_s);
    if (wait_s < 0)
        return (int)wait_s;
    return wait_s > 0 ? weft_sleep(wait_s) : 0;
}

/*
 * Perform the handshake. Returns 1, 0 if the peer speaks plain HTTP, or an error. After an error,
 * the call has closed the descriptor.
 */
static int conn_open_tls(weft__conn *c, weft_tls *tls)
{
    int rc = peer_speaks_tls(c), late = rc > 0 ? await_handshake_slot(c) : 0;
    rc = late < 0 ? late : rc;
    if (rc < 0)
        weft_close(c->fd);
    if (rc <= 0)
        return rc;
    rc = weft_tls_accept(&c->stream, c->fd, tls);
    if (rc < 0)
        WEFT__COUNT(c->server->counts, tls_failures, 1);
    else
        WEFT__COUNT(c->server->counts, tls_handshakes, 1);
    return rc < 0 ? rc : 1;
}

/*
 * Like conn_open_tls, but within head_s seconds. A handshake is not a request in progress. The
 * drain therefore cancels the handshake.
 */
static __attribute__((noinline)) int conn_handshake(weft__conn *c, weft_tls *tls)
{
    weft_scope scope;
    int rc = c->server->is_draining ? -ECANCELED
                                    : weft_scope_open(&scope, c->server->options.limits.head_s);
    if (rc < 0) {
        weft_close(c->fd);
        return rc;
    }
    c->wait_scope = &scope;
    rc = conn_open_tls(c, tls);
    c->wait_scope = NULL;
    int late = weft_scope_close(&scope);
    return rc < 0 && late < 0 ? late : rc;
}

/* Open the stream. Returns 1, 0 if the peer speaks plain HTTP on a TLS port, or an error. */
static int conn_open_stream(weft__conn *c)
{
    weft_tls *tls = c->server->options.tls;
    int rc = tls != NULL ? conn_handshake(c, tls) : 0;
    c->is_tls = rc > 0;
    if (rc == 0)
        rc = weft_stream_open(&c->stream, c->fd);
    return rc < 0 ? rc : c->is_tls || tls == NULL;
}

/* Return true if the client and the server have agreed on HTTP/2 in the TLS handshake. */
static bool conn_has_chosen_h2(weft__conn *c)
{
    weft_tls_info info;
    return c->is_tls && !c->server->options.has_no_http2 &&
           weft_tls_describe(&c->stream, &info) == 0 && strcmp(info.alpn, "h2") == 0;
}

/* Like weft__h2_server_run. Without nghttp2, reject the connection. */
static __attribute__((noinline)) int conn_serve_h2(weft__conn *c)
{
#ifdef WEFT_HAS_HTTP2
    return weft__h2_server_run(c);
#else
    c->has_unread = true;
    return -EPROTONOSUPPORT;
#endif
}

/*
 * Continue a connection whose first protocol is HTTP/1, with the result rc. Then close the
 * connection, unless it rests.
 */
static int conn_end(weft__conn *c, int rc)
{
    if (rc == WEFT__H1_IS_H2)
        rc = conn_serve_h2(c);
    if (c->upgraded != NULL && !c->rests)
        rc = weft__upgraded_run(c, 0);
    if (!c->rests)
        conn_hang_up(c);
    if (c->has_large_buffer)
        c->server->bodies_bytes -= BODY_READ_BYTES;
    weft__list_remove(&c->link);
    if (c->rests)
        return WEFT__CONN_RESTS;
    weft__resting_free(c->resting);
    return rc;
}

/*
 * Handle all requests of an open stream, then close the stream. is_valid_protocol is false if the
 * peer speaks plain HTTP on a TLS port.
 */
static int conn_serve(weft__conn *c, bool is_valid_protocol)
{
    weft__conn_set_buffer(c, false);
    int rc = conn_has_chosen_h2(c) ? WEFT__H1_IS_H2 : weft__h1_conn_run(c, is_valid_protocol);
    return conn_end(c, rc);
}

int weft__conn_run(weft__server *server, int fd, weft__peer *peer)
{
    char memory[READ_BYTES + 1];
    weft__conn c = {.server = server, .peer = *peer, .fd = fd, .memory = memory};
    weft__list_insert(&server->conns, &c.link);
    int rc = weft__proxy_header_accept(&c, peer);
    if (rc == 0)
        rc = conn_open_stream(&c);
    if (rc >= 0)
        return conn_serve(&c, rc > 0);
    weft__list_remove(&c.link);
    return rc;
}

int weft__conn_resume(weft__resting *r, int reason)
{
    char memory[READ_BYTES + 1];
    weft__conn c = {.server = r->server,
                    .peer = r->peer,
                    .fd = r->fd,
                    .memory = memory,
                    .is_tls = r->is_tls,
                    .resting = r,
                    .rest_until_s = r->until_s};
    weft__list_remove(&r->link);
    WEFT__COUNT(c.server->counts, connections_resting, (size_t)-1);
    weft__list_insert(&c.server->conns, &c.link);
    if (r->stream != NULL)
        (void)weft_stream_move(&c.stream, r->stream);
    else if (!r->type->keeps_stream)
        (void)weft_stream_open(&c.stream, c.fd);
    weft__conn_set_buffer(&c, false);
    return conn_end(&c, r->type->resume(&c, r->state, reason));
}
