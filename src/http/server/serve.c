/* The server: options, limits, admission of connections, drain. */
#include "http/proxy_protocol/proxy_protocol.h"
#include "http/rest/rest.h"
#include "http/text/date.h"
#include "http/text/field.h"
#include "http/text/status.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/sync.h>

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define LINE_BYTES_MAX ((size_t)8 << 10)
#define HEAD_BYTES_MAX ((size_t)32 << 10)
#define HEADERS_MAX 100
#define BODY_BYTES_MAX ((uint64_t)1 << 20)
#define REQUESTS_MAX 100000
#define CONNECTIONS_MAX 16384
#define CONNECTIONS_PER_PEER_MAX 4096
#define FIRST_BYTE_S 20.0
#define HEAD_S 20.0
#define IDLE_S 75.0
#define BODY_BYTES_PER_S_MIN 240.0
#define SLOW_S 20.0
#define DRAIN_S 10.0
#define BODIES_BYTES_MAX ((uint64_t)256 << 20)
#define HANDSHAKES_PER_PEER_S_MAX 200.0
#define UNSENT_BYTES_PER_PEER_MAX ((uint64_t)64 << 20)
#define STREAMS_MAX 100
#define RESETS_PER_S_MAX 100.0
#define CONTROL_FRAMES_PER_S_MAX 100.0
/*
 * TCP_NOTSENT_LOWAT: the number of bytes that the kernel may buffer beyond the bytes in flight. The
 * minimum rate measures writes. Bytes in the kernel's buffers therefore count as read by the peer.
 */
#define UNSENT_BYTES_MAX (256 << 10)
/* The largest number of connections that a server admits after it has stopped accepting. */
#define ACCEPTED_MAX 1024
/* The upper limit of head_bytes_max, because offsets into a head have 32 bits. */
#define HEAD_BYTES_LIMIT ((size_t)1 << 30)

#define DEFAULT_TO(field, value) \
    do {                         \
        if ((field) == 0)        \
            (field) = (value);   \
    } while (0)

static void limits_fill_in(weft_http_limits *l)
{
    DEFAULT_TO(l->line_bytes_max, LINE_BYTES_MAX);
    DEFAULT_TO(l->head_bytes_max, HEAD_BYTES_MAX);
    DEFAULT_TO(l->headers_max, HEADERS_MAX);
    DEFAULT_TO(l->body_bytes_max, BODY_BYTES_MAX);
    DEFAULT_TO(l->requests_max, REQUESTS_MAX);
    DEFAULT_TO(l->connections_max, CONNECTIONS_MAX);
    DEFAULT_TO(l->connections_per_peer_max, CONNECTIONS_PER_PEER_MAX);
    DEFAULT_TO(l->first_byte_s, FIRST_BYTE_S);
    DEFAULT_TO(l->head_s, HEAD_S);
    DEFAULT_TO(l->idle_s, IDLE_S);
    DEFAULT_TO(l->body_bytes_per_s_min, BODY_BYTES_PER_S_MIN);
    DEFAULT_TO(l->slow_s, SLOW_S);
    DEFAULT_TO(l->bodies_bytes_max, BODIES_BYTES_MAX);
    DEFAULT_TO(l->handshakes_per_peer_s_max, HANDSHAKES_PER_PEER_S_MAX);
    DEFAULT_TO(l->unsent_bytes_per_peer_max, UNSENT_BYTES_PER_PEER_MAX);
    DEFAULT_TO(l->streams_max, STREAMS_MAX);
    DEFAULT_TO(l->resets_per_s_max, RESETS_PER_S_MAX);
    DEFAULT_TO(l->control_frames_per_s_max, CONTROL_FRAMES_PER_S_MAX);
    if (l->head_bytes_max > HEAD_BYTES_LIMIT)
        l->head_bytes_max = HEAD_BYTES_LIMIT;
}

static int check_time_or_rate(const char *name, double value)
{
    if (value >= 0) /* false for NaN */
        return 0;
    return weft_fail(-EINVAL, "weft_http_serve: %s is %g", name, value);
}

static int options_check(const weft_http_options *o)
{
    const weft_http_limits *l = &o->limits;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"first_byte_s", l->first_byte_s},
                   {"head_s", l->head_s},
                   {"idle_s", l->idle_s},
                   {"slow_s", l->slow_s},
                   {"body_bytes_per_s_min", l->body_bytes_per_s_min},
                   {"drain_s", o->drain_s},
                   {"settle_s", o->settle_s},
                   {"handshakes_per_peer_s_max", l->handshakes_per_peer_s_max},
                   {"resets_per_s_max", l->resets_per_s_max},
                   {"control_frames_per_s_max", l->control_frames_per_s_max}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof numbers / sizeof *numbers; i++)
        rc = check_time_or_rate(numbers[i].name, numbers[i].value);
    if (rc == 0 && (o->gzip_level < 0 || o->gzip_level > 9))
        rc = weft_fail(-EINVAL, "weft_http_serve: gzip_level is %d, which is not in 0 to 9",
                       o->gzip_level);
    if (rc == 0 && o->server_name != NULL &&
        !weft__field_is_value(o->server_name, strlen(o->server_name)))
        rc = weft_fail(-EINVAL, "weft_http_serve: server_name has an invalid character");
    return rc;
}

int weft__server_open(weft__server *s, weft_http_handler *handler, void *ctx,
                      const weft_http_options *options)
{
    *s = (weft__server){.handler = handler, .ctx = ctx};
    if (options != NULL)
        s->options = *options;
    if (handler == NULL)
        return weft_fail(-EINVAL, "weft_http_serve: handler is NULL");
    int rc = options_check(&s->options);
    if (rc < 0)
        return rc;
    weft_http_limits *l = &s->options.limits;
    limits_fill_in(l);
#ifndef WEFT_HAS_HTTP2
    s->options.has_no_http2 = true;
#endif
    DEFAULT_TO(s->options.drain_s, DRAIN_S);
    s->message_limits =
        (weft__message_limits){l->line_bytes_max, l->head_bytes_max, l->headers_max};
    weft__list_init(&s->conns);
    weft__list_init(&s->drain_waits);
    weft__list_init(&s->resting);
    rc = weft__trusted_headers_parse(s->options.trusted_headers);
    if (rc < 0)
        return rc;
    s->trusted_headers = (unsigned)rc;
    s->counts = weft__counts_acquire();
    if (s->counts == NULL)
        return -ENOMEM;
    rc = weft__cidr_parse(&s->trusted, s->options.trusted_peers);
    return rc < 0 ? rc : weft__cidr_parse(&s->proxy_peers, s->options.proxy_protocol_peers);
}

void weft__server_close(weft__server *s)
{
    weft__cidr_close(&s->trusted);
    weft__cidr_close(&s->proxy_peers);
    weft__conn_limit_close(&s->conn_limit);
    weft__handshake_limit_close(&s->handshake_limit);
    weft__arena_block_cache_close(&s->block_cache);
    weft__counts_release(s->counts);
}

/* The argument of a connection's fiber. */
typedef struct conn_arg {
    weft__server *server;
    weft__peer peer;
    int fd;
} conn_arg;

void weft__server_leave(weft__server *s, const weft__peer *peer)
{
    weft__conn_limit_leave(&s->conn_limit, peer);
    WEFT__COUNT(s->counts, connections, (size_t)-1);
    if (--s->conns_count == 0 && (s->is_draining || s->is_settling))
        (void)weft_event_set(&s->drained);
}

/* Close a connection. Its fiber was cancelled before the fiber ran. */
static void conn_arg_drop(void *arg)
{
    const conn_arg *a = arg;
    weft_close(a->fd);
    weft__server_leave(a->server, &a->peer);
}

/* Always return 0, because the failure of one connection must not end the group. */
static weft_value conn_main(void *arg)
{
    conn_arg *a = arg;
    if (weft__conn_run(a->server, a->fd, &a->peer) != WEFT__CONN_RESTS)
        weft__server_leave(a->server, &a->peer);
    return 0;
}

/*
 * Reply with a status and close a connection, without waiting. With TLS, send no reply, because a
 * reply would require a handshake. Read the received input before the close. Otherwise the kernel
 * resets the connection, and the client may lose the reply.
 */
void weft__server_turn_away(const weft__server *s, int fd, int status)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %d %s\r\nDate: %.*s\r\nConnection: close\r\nContent-Length: 0\r\n"
                     "Retry-After: 1\r\n\r\n",
                     status, weft__status_text(status), WEFT__DATE_LENGTH, weft__date_now());
    WEFT__COUNT(s->counts, connections_refused, 1);
    if (s->options.tls == NULL) {
        (void)!send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)!recv(fd, text, sizeof text, MSG_DONTWAIT);
    }
    weft_close(fd);
}

static int conn_admit(int fd, void *ctx)
{
    weft__server *s = ctx;
    const weft_http_limits *l = &s->options.limits;
    conn_arg a = {.server = s, .fd = fd};
    weft__peer_of_fd(&a.peer, fd);
    if (s->conns_count >= l->connections_max) {
        weft__server_turn_away(s, fd, 503);
        return 0;
    }
    /* A sender of headers has as many connections as its clients together. */
    size_t max = weft__proxy_header_is_due(s, &a.peer) ? SIZE_MAX : l->connections_per_peer_max;
    int rc = weft__conn_limit_enter(&s->conn_limit, &a.peer, max);
    if (rc < 0) {
        weft__server_turn_away(s, fd, rc == -EBUSY ? 429 : 503);
        return 0;
    }
    s->conns_count++;
    WEFT__COUNT(s->counts, connections, 1);
    const weft_spin_options spin = {.name = "http",
                                    .stack_bytes = s->options.stack_bytes,
                                    .arg_bytes = sizeof a,
                                    .drop = conn_arg_drop};
    if (weft_group_spin_with(s->group, conn_main, &a, &spin) == 0) {
        weft__server_leave(s, &a.peer);
        weft__server_turn_away(s, fd, 503);
        return 0;
    }
    WEFT__COUNT(s->counts, connections_accepted, 1);
    return 0;
}

/*
 * Accept without waiting. Returns the descriptor, or a negative number if there is no connection,
 * or if accept(2) might wait.
 */
static int accept_now(int listener)
{
    int flags = fcntl(listener, F_GETFL);
    return flags >= 0 && flags & O_NONBLOCK ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

/*
 * Admit the connections that the kernel has accepted in advance: no other process can get them.
 * Then admit those in the backlog. The kernel wakes only one process for a connection, and may have
 * woken this one just before the end of the accept loop. The numbers are bounded, because further
 * clients may connect.
 */
static void admit_accepted(weft__server *s, int listener)
{
    int fd = 0;
    WEFT_SHIELD(s->options.settle_s) {
        WEFT_MOVE_ON_AFTER(0) {
            for (int i = 0; i < ACCEPTED_MAX && fd >= 0; i++)
                if ((fd = weft_accept(listener, NULL, NULL)) >= 0)
                    (void)conn_admit(fd, s);
        }
    }
    for (int i = 0; i < ACCEPTED_MAX && (fd = accept_now(listener)) >= 0; i++)
        (void)conn_admit(fd, s);
}

/* Let connections send their next request, within settle_s, and end after the reply. */
static void server_settle(weft__server *s, int listener)
{
    admit_accepted(s, listener);
    s->is_settling = true;
    WEFT_SHIELD(s->options.settle_s) {
        while (s->conns_count > 0 && weft_event_wait(&s->drained) == 0)
            ;
    }
}

/*
 * Wait at most drain_s seconds until all connections have ended. Cancel the waits of idle
 * connections. Other connections check is_draining and end after their replies.
 */
static void server_drain(weft__server *s)
{
    s->is_draining = true;
    WEFT_SHIELD(s->options.drain_s) {
        WEFT__LIST_FOR(node, &s->conns) {
            const weft__conn *c = CONTAINER_OF(node, weft__conn, link);
            if (c->wait_scope != NULL)
                (void)weft_scope_cancel(c->wait_scope);
        }
        WEFT__LIST_FOR(node, &s->drain_waits)
            (void)weft_scope_cancel(CONTAINER_OF(node, weft__drain_wait, link)->scope);
        weft__rest_drain(s);
        while (s->conns_count > 0 && weft_event_wait(&s->drained) == 0)
            ;
    }
}

/*
 * Run the accept loop, then drain. Close an owned listener before the drain, so that clients can
 * try another server at once.
 */
static int server_run(weft__server *s, int listener, bool owns_listener)
{
    int rc = 0, closed = 0;
    WEFT_GROUP(group, closed) {
        s->group = &group;
        rc = weft_accept_loop(listener, conn_admit, s);
        if (s->options.settle_s > 0)
            server_settle(s, listener);
        if (owns_listener)
            weft_close(listener);
        server_drain(s);
        weft_group_cancel(&group);
        weft__rest_end(s);
    }
    return rc;
}

/*
 * Set TCP options of a connection or a listener. Accepted sockets inherit the options of the
 * listener. The calls fail for Unix sockets.
 */
static void set_socket_options(int fd, const weft__server *s)
{
    int on = 1, unsent = UNSENT_BYTES_MAX;
    double slow_ms = s->options.limits.slow_s * 1000;
    unsigned stalled_ms = slow_ms < INT_MAX ? (unsigned)slow_ms : 0; /* 0: the kernel's default */
    /*
     * A reply is written as a whole. The write must not wait for the acknowledgement of earlier
     * replies.
     */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    /* Drop peers that stop acknowledging data, even after close. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stalled_ms, sizeof stalled_ms);
}

static int serve_on_listener(int listener, bool owns_listener, weft_http_handler *handler,
                             void *ctx, const weft_http_options *options)
{
    weft__server s;
    int rc = weft__server_open(&s, handler, ctx, options);
    if (rc == 0) {
        set_socket_options(listener, &s);
        rc = server_run(&s, listener, owns_listener);
    } else if (owns_listener) {
        weft_close(listener);
    }
    weft__server_close(&s);
    return rc;
}

const char *weft_http_alpn(void)
{
#ifdef WEFT_HAS_HTTP2
    return "h2,http/1.1";
#else
    return "http/1.1";
#endif
}

int weft_http_serve_fd(int listener, weft_http_handler *handler, void *ctx,
                       const weft_http_options *options)
{
    return serve_on_listener(listener, options != NULL && options->closes_listener, handler, ctx,
                             options);
}

int weft_http_serve(const char *address, weft_http_handler *handler, void *ctx,
                    const weft_http_options *options)
{
    int listener = weft_listen(strchr(address, '/') != NULL ? "unix" : "tcp", address);
    if (listener < 0)
        return weft_fail(listener, "weft_http_serve: cannot listen on %s", address);
    return serve_on_listener(listener, true, handler, ctx, options);
}

int weft_http_serve_conn(int fd, weft_http_handler *handler, void *ctx,
                         const weft_http_options *options)
{
    weft__server s;
    weft__peer peer;
    int rc = weft__server_open(&s, handler, ctx, options);
    if (rc == 0) {
        set_socket_options(fd, &s);
        weft__peer_of_fd(&peer, fd);
        WEFT__COUNT(s.counts, connections_accepted, 1);
        WEFT__COUNT(s.counts, connections, 1);
        rc = weft__conn_run(&s, fd, &peer);
        WEFT__COUNT(s.counts, connections, (size_t)-1);
    } else {
        weft_close(fd);
    }
    weft__server_close(&s);
    return rc;
}
