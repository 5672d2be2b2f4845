/* The server: what it is asked to do, whom it lets in, and how it ends. */
#include "http/date.h"
#include "http/field.h"
#include "http/server.h"
#include "http/status.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/sync.h>

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
/*
 * What the kernel may hold of a connection's output beyond what is under way: all of a reply that
 * goes into its buffers looks as if it had been read.
 */
#define UNSENT_BYTES_MAX (256 << 10)
/* Offsets into a head are 32 bits wide; and who wants more does not want headers. */
#define HEAD_BYTES_LIMIT ((size_t)1 << 30)

#define DEFAULT_TO(field, value) \
    do {                         \
        if ((field) == 0)        \
            (field) = (value);   \
    } while (0)

static void fill_in(weft_http_limits *l)
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
    if (l->head_bytes_max > HEAD_BYTES_LIMIT)
        l->head_bytes_max = HEAD_BYTES_LIMIT;
}

static bool is_time(double s)
{
    return s >= 0; /* not NaN either */
}

static int check(const weft_http_options *o)
{
    const weft_http_limits *l = &o->limits;
    if (!is_time(l->first_byte_s) || !is_time(l->head_s) || !is_time(l->idle_s) ||
        !is_time(l->slow_s) || !is_time(l->body_bytes_per_s_min) || !is_time(o->drain_s) ||
        !is_time(l->handshakes_per_peer_s_max))
        return weft_fail(-EINVAL, "a server's time or rate that is negative or no number");
    if (o->gzip_level < 0 || o->gzip_level > 9)
        return weft_fail(-EINVAL, "a gzip level of %d", o->gzip_level);
    if (o->server_name != NULL && !weft__field_is_value(o->server_name, strlen(o->server_name)))
        return weft_fail(-EINVAL, "a server's name with characters that do not belong there");
    return 0;
}

int weft__server_open(weft__server *s, weft_http_handler *handler, void *ctx,
                      const weft_http_options *options)
{
    *s = (weft__server){.handler = handler, .ctx = ctx};
    if (options != NULL)
        s->options = *options;
    if (handler == NULL)
        return weft_fail(-EINVAL, "a server without a handler");
    int rc = check(&s->options);
    if (rc < 0)
        return rc;
    weft_http_limits *l = &s->options.limits;
    fill_in(l);
    DEFAULT_TO(s->options.drain_s, DRAIN_S);
    s->message_limits =
        (weft__message_limits){l->line_bytes_max, l->head_bytes_max, l->headers_max};
    weft__list_init(&s->conns);
    rc = weft__trust_parse(s->options.trusted_headers);
    if (rc < 0)
        return rc;
    s->trusted_headers = (unsigned)rc;
    return weft__cidr_parse(&s->trusted, s->options.trusted_peers);
}

void weft__server_close(weft__server *s)
{
    weft__cidr_close(&s->trusted);
    weft__peers_close(&s->peers);
    weft__rates_close(&s->rates);
    weft__arena_stock_close(&s->stock);
}

/* What a connection's fiber starts with. */
typedef struct visitor {
    weft__server *server;
    weft__peer peer;
    int fd;
} visitor;

static void leave(weft__server *s, const weft__peer *peer)
{
    weft__peers_leave(&s->peers, peer);
    if (--s->conns_count == 0 && s->is_draining)
        (void)weft_event_set(&s->left);
}

/* A connection whose fiber never ran. */
static void drop_visitor(void *arg)
{
    const visitor *v = arg;
    weft_close(v->fd);
    leave(v->server, &v->peer);
}

/* What becomes of one connection is nobody else's business: it never fails. */
static weft_value receive_visitor(void *arg)
{
    const visitor *v = arg;
    (void)weft__conn_run(v->server, v->fd, &v->peer);
    leave(v->server, &v->peer);
    return 0;
}

/*
 * Without waiting, and without a word under TLS, which would cost a handshake. What the peer has
 * said already is taken: if it were not, the kernel would reset the connection, reply and all.
 */
static void turn_away(const weft__server *s, int fd, int status)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %d %s\r\nDate: %.*s\r\nConnection: close\r\nContent-Length: 0\r\n"
                     "Retry-After: 1\r\n\r\n",
                     status, weft__status_text(status), WEFT__DATE_LENGTH, weft__date_now());
    if (s->options.tls == NULL) {
        (void)!send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)!recv(fd, text, sizeof text, MSG_DONTWAIT);
    }
    weft_close(fd);
}

static int admit(int fd, void *ctx)
{
    weft__server *s = ctx;
    const weft_http_limits *l = &s->options.limits;
    visitor v = {.server = s, .fd = fd};
    weft__peer_of_fd(&v.peer, fd);
    if (s->conns_count >= l->connections_max) {
        turn_away(s, fd, 503);
        return 0;
    }
    int rc = weft__peers_enter(&s->peers, &v.peer, l->connections_per_peer_max);
    if (rc < 0) {
        turn_away(s, fd, rc == -EBUSY ? 429 : 503);
        return 0;
    }
    s->conns_count++;
    const weft_spin_options spin = {.name = "http",
                                    .stack_bytes = s->options.stack_bytes,
                                    .arg_bytes = sizeof v,
                                    .drop = drop_visitor};
    if (weft_group_spin_with(s->group, receive_visitor, &v, &spin) == 0) {
        leave(s, &v.peer);
        turn_away(s, fd, 503);
    }
    return 0;
}

/* Idle connections go now, the others when they have replied: they look at is_draining. */
static void drain(weft__server *s)
{
    s->is_draining = true;
    WEFT_SHIELD(s->options.drain_s) {
        WEFT__LIST_FOR(node, &s->conns) {
            const weft__conn *c = CONTAINER_OF(node, weft__conn, link);
            if (c->waiting != NULL)
                (void)weft_scope_cancel(c->waiting);
        }
        while (s->conns_count > 0 && weft_event_wait(&s->left) == 0)
            ;
    }
}

/* An own listener is closed before it drains: who calls then is to try elsewhere at once. */
static int serve(weft__server *s, int listener, bool is_own)
{
    int rc = 0, closed = 0;
    WEFT_GROUP(group, closed) {
        s->group = &group;
        rc = weft_accept_loop(listener, admit, s);
        if (is_own)
            weft_close(listener);
        drain(s);
        weft_group_cancel(&group);
    }
    return rc;
}

/* For a connection, or a listener and all that it accepts. All of it fails for unix. */
static void tune(int fd, const weft__server *s)
{
    int on = 1, unsent = UNSENT_BYTES_MAX;
    double slow_ms = s->options.limits.slow_s * 1000;
    unsigned stalled_ms = slow_ms < INT_MAX ? (unsigned)slow_ms : 0; /* 0: the kernel's own */
    /* Replies are written whole: none is to wait for the peer to acknowledge the one before. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    /* Who takes nothing any more is dropped, also when all is written and the socket closed. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stalled_ms, sizeof stalled_ms);
}

static int serve_at(int listener, bool is_own, weft_http_handler *handler, void *ctx,
                    const weft_http_options *options)
{
    weft__server s;
    int rc = weft__server_open(&s, handler, ctx, options);
    if (rc == 0) {
        tune(listener, &s);
        rc = serve(&s, listener, is_own);
    } else if (is_own) {
        weft_close(listener);
    }
    weft__server_close(&s);
    return rc;
}

int weft_http_serve_fd(int listener, weft_http_handler *handler, void *ctx,
                       const weft_http_options *options)
{
    return serve_at(listener, options != NULL && options->closes_listener, handler, ctx, options);
}

int weft_http_serve(const char *address, weft_http_handler *handler, void *ctx,
                    const weft_http_options *options)
{
    int listener = weft_listen(strchr(address, '/') != NULL ? "unix" : "tcp", address);
    if (listener < 0)
        return weft_fail(listener, "cannot listen at %s", address);
    return serve_at(listener, true, handler, ctx, options);
}

int weft_http_serve_conn(int fd, weft_http_handler *handler, void *ctx,
                         const weft_http_options *options)
{
    weft__server s;
    weft__peer peer;
    int rc = weft__server_open(&s, handler, ctx, options);
    if (rc == 0) {
        tune(fd, &s);
        weft__peer_of_fd(&peer, fd);
        rc = weft__conn_run(&s, fd, &peer);
    } else {
        weft_close(fd);
    }
    weft__server_close(&s);
    return rc;
}
