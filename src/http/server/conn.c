/* Connections. A connection opens its stream, handles requests and closes the stream. */
#include "http/reply/reply.h"
#include "http/server/unsent_limit.h"
#include "http/text/ctype.h"

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/*
 * A connection trims its stack after this idle time. An earlier trim would slow down busy
 * connections.
 */
#define TRIM_AFTER_S 1.0

/*
 * The size of the read buffer. The buffer and the connection's other frames fit in the first page
 * of the stack. Every fiber has that page. Longer requests get more memory while the server handles
 * them.
 */
#define READ_BYTES 1023

/* The size of the read buffer for a long body. */
#define BODY_READ_BYTES ((size_t)32 << 10)

/* The number of headers with space in the arena. Most clients send fewer headers. */
#define FIELDS_LENT 24

/* Limits of a lingering close: the number of discarded bytes, and the time. */
#define LINGER_BYTES ((size_t)64 << 20)
#define LINGER_S 2.0

/* Results of waiting for a request, in addition to errors. */
enum {
    WAIT_CLOSED = 0, /* the peer has closed the connection */
    WAIT_READY = 1,  /* input has arrived */
    WAIT_TIMEOUT = 2 /* the time has elapsed, or the server is draining */
};

/* Return the timeout for the first byte of the next request. */
static double request_timeout_s(const weft__conn *c)
{
    const weft_http_limits *l = &c->server->options.limits;
    return c->requests == 0 ? l->first_byte_s : l->idle_s;
}

/*
 * Set the size of the read buffer. Keep the current buffer if bodies_bytes_max is reached or memory
 * is exhausted.
 */
static void conn_set_buffer(weft__conn *c, bool is_large)
{
    const weft_stream_options small = {.read_bytes = READ_BYTES, .read_memory = c->memory};
    const weft_stream_options large = {.read_bytes = BODY_READ_BYTES};
    if (is_large && weft__bodies_reserve(c->server, BODY_READ_BYTES) < 0)
        return;
    bool was_large = c->has_large_buffer;
    if (weft_stream_configure(&c->stream, is_large ? &large : &small) == 0)
        c->has_large_buffer = is_large;
    if (!c->has_large_buffer && (is_large || was_large)) /* the reservation is unused */
        c->server->bodies_bytes -= BODY_READ_BYTES;
}

void weft__conn_enlarge_buffer(weft__conn *c)
{
    if (!c->has_large_buffer)
        conn_set_buffer(c, true);
}

/* Like weft_stream_peek, but store the result in c->input and c->input_bytes. */
static ssize_t conn_peek(weft__conn *c, size_t min)
{
    const void *data;
    ssize_t n = weft_stream_peek(&c->stream, min, &data);
    c->input = data;
    c->input_bytes = n > 0 ? (size_t)n : 0;
    return n;
}

/*
 * Wait for input. If is_trimmed is set, the stream has no read buffer during the wait. Returns
 * WAIT_* or an error.
 */
static int conn_wait_within(weft__conn *c, double timeout_s, bool is_trimmed)
{
    weft_scope scope;
    int rc = weft_scope_open(&scope, timeout_s);
    if (rc < 0)
        return rc;
    c->wait_scope = &scope;
    ssize_t n = is_trimmed ? weft_stream_wait(&c->stream) : 0;
    if (n == 0)
        n = conn_peek(c, 1);
    c->wait_scope = NULL;
    c->unflushed = 0;
    bool was_cancelled = weft_scope_is_cancelled(&scope);
    (void)weft_scope_close(&scope);
    if (n > 0)
        return WAIT_READY;
    return n < 0 && was_cancelled ? WAIT_TIMEOUT : (int)n;
}

/*
 * Wait for the next request of an idle connection. A reply that the peer has not acknowledged
 * occupies kernel memory. The minimum rate of a body therefore applies to the acknowledgements.
 */
static int conn_wait_idle(weft__conn *c, double timeout_s)
{
    const weft_http_limits *l = &c->server->options.limits;
    size_t before = weft__conn_unacked_bytes(c);
    while (before > 0 && timeout_s > l->slow_s) {
        int rc = conn_wait_within(c, l->slow_s, true);
        size_t now = weft__conn_unacked_bytes(c);
        if (rc != WAIT_TIMEOUT || c->server->is_draining)
            return rc;
        double acked = (double)before - (double)now;
        c->is_aborted = now > 0 && acked < l->slow_s * l->body_bytes_per_s_min;
        if (c->is_aborted)
            return WAIT_TIMEOUT;
        before = now;
        timeout_s -= l->slow_s;
    }
    return conn_wait_within(c, timeout_s, true);
}

static int conn_wait_for_request(weft__conn *c)
{
    if (conn_peek(c, 0) > 0)
        return WAIT_READY;
    if (c->has_large_buffer)
        conn_set_buffer(c, false);
    if (c->server->is_draining)
        return WAIT_TIMEOUT;
    double timeout_s = request_timeout_s(c);
    int rc = conn_wait_within(c, timeout_s < TRIM_AFTER_S ? timeout_s : TRIM_AFTER_S, false);
    if (rc != WAIT_TIMEOUT || timeout_s <= TRIM_AFTER_S || c->server->is_draining)
        return rc;
    weft_trim_stack();
    return conn_wait_idle(c, timeout_s - TRIM_AFTER_S);
}

/* Read the rest of an incomplete head. Returns the length of the head, or an error. */
static ssize_t conn_read_head(weft__conn *c)
{
    weft_scope scope;
    ssize_t head = weft_scope_open(&scope, c->server->options.limits.head_s);
    while (head == 0) {
        size_t seen = c->input_bytes;
        ssize_t n = conn_peek(c, seen + 1);
        if (n >= 0 && (size_t)n <= seen)
            n = -ECONNRESET; /* the input ends within the head */
        head = n < 0 ? n : weft__message_head(&c->message, c->input, c->input_bytes);
    }
    if (weft_scope_close(&scope) == -ETIMEDOUT && head < 0 && head != -EBADMSG)
        return -ETIMEDOUT;
    return head;
}

/* Parse the head of the next request. Returns the length of the head, or an error. */
static ssize_t conn_parse_head(weft__conn *c)
{
    c->begun_s = c->server->options.log != NULL ? weft_now() : 0;
    weft__message_lend(&c->message, weft__arena_alloc(&c->arena, FIELDS_LENT * sizeof(weft__field)),
                       FIELDS_LENT);
    ssize_t head = weft__message_head(&c->message, c->input, c->input_bytes);
    return head == 0 ? conn_read_head(c) : head;
}

/* Copy the head to the arena and open the request. Returns 0, or the status of a rejection. */
static int conn_open_request(weft__conn *c, weft_http_request *r, size_t head_bytes,
                             const char **reason)
{
    r->head = weft__arena_copy(&c->arena, c->input, head_bytes);
    if (r->head == NULL) {
        *reason = "memory is exhausted";
        return 503;
    }
    (void)weft_stream_skip(&c->stream, head_bytes);
    weft__message_nul_terminate(&c->message, r->head);
    return weft__request_open(r, reason);
}

/* noinline: the frame of an idle connection must not contain the request. */
static __attribute__((noinline)) void conn_handle_request(weft__conn *c, size_t head_bytes)
{
    weft_http_request r = {.conn = c};
    const char *reason = "";
    int status = conn_open_request(c, &r, head_bytes, &reason);
    c->requests++;
    if (status != 0) {
        if (r.head != NULL)
            weft__conn_reject_request(&r, status, reason);
        else
            weft__conn_reject(c, status, reason, NULL);
        return;
    }
    if (!c->message.is_keep_alive || c->requests >= c->server->options.limits.requests_max)
        c->must_close = true;
    int result = c->server->handler(&r, c->server->ctx);
    weft__reply_finish(&r, result);
    if (c->server->options.log != NULL)
        weft__conn_log_request(&r);
    weft__bodies_release(&r);
}

/*
 * Reject a request after -EBADMSG, -ENOMEM or -ETIMEDOUT. After any other error, the connection is
 * lost.
 */
static COLD void conn_reject_head(weft__conn *c, ssize_t error)
{
    (void)conn_peek(c, 0); /* the failed peek has cleared c->input */
    if (error == -EBADMSG)
        weft__conn_reject(c, c->message.status, c->message.reason, NULL);
    else if (error == -ETIMEDOUT)
        weft__conn_reject(c, 408, "headers arrived too slowly", NULL);
    else if (error == -ENOMEM)
        weft__conn_reject(c, 503, "memory is exhausted", NULL);
}

static int conn_handle_requests(weft__conn *c)
{
    while (!c->must_close) {
        int rc = conn_wait_for_request(c);
        if (rc != WAIT_READY) /* without a request, send no reply */
            return rc == WAIT_TIMEOUT ? 0 : rc;
        ssize_t head = conn_parse_head(c);
        if (head < 0) {
            conn_reject_head(c, head);
            return (int)head;
        }
        conn_handle_request(c, (size_t)head);
        weft__message_close(&c->message);
        weft__message_reset(&c->message);
        weft__arena_close(&c->arena);
    }
    return 0;
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
    if (c->unflushed > 0 && !c->is_tls && !c->peer.is_unix &&
        setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0)
        (void)conn_end_output(c);
}

static void conn_hang_up(weft__conn *c)
{
    if (c->is_aborted)
        conn_reset(c);
    WEFT_MOVE_ON_AFTER(c->server->options.limits.slow_s) {
        if (c->has_unread || (!c->is_aborted && conn_peek(c, 0) > 0))
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

/* Reply to plain HTTP on a TLS port. Without a reply, browsers do not show the cause. */
static COLD void reject_plain_http(weft__conn *c)
{
    c->begun_s = c->server->options.log != NULL ? weft_now() : 0;
    if (conn_peek(c, 1) > 0)
        weft__conn_reject(
            c, 400, "plain HTTP on a TLS port",
            "400 Bad Request\n\nThis port requires HTTPS, but the request did not use "
            "TLS. Use https:// instead of http://.\n");
}

/*
 * Handle all requests of an open stream, then close the stream. is_valid_protocol is false if the
 * peer speaks plain HTTP on a TLS port.
 */
static int conn_serve(weft__conn *c, bool is_valid_protocol)
{
    int rc = -EPROTO;
    conn_set_buffer(c, false);
    weft__message_open(&c->message, WEFT__REQUEST, &c->server->message_limits);
    if (is_valid_protocol)
        rc = conn_handle_requests(c);
    else
        reject_plain_http(c);
    conn_hang_up(c);
    if (c->has_large_buffer)
        c->server->bodies_bytes -= BODY_READ_BYTES;
    weft__message_close(&c->message);
    weft__arena_close(&c->arena);
    return rc;
}

int weft__conn_run(weft__server *server, int fd, const weft__peer *peer)
{
    char memory[READ_BYTES + 1];
    weft__conn c = {.server = server,
                    .peer = *peer,
                    .fd = fd,
                    .memory = memory,
                    .arena = {.block_cache = &server->block_cache}};
    weft__list_insert(&server->conns, &c.link);
    int rc = conn_open_stream(&c);
    if (rc >= 0)
        rc = conn_serve(&c, rc > 0);
    weft__list_remove(&c.link);
    return rc;
}
