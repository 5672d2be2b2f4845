/* A connection: it waits for a request, has it answered, and so on until one side has enough. */
#include "http/chars.h"
#include "http/server.h"

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/*
 * A connection that has waited for so long gives the depths of its stack back before it waits on: a
 * busy one should not pay for that each time, and many are idle for minutes.
 */
#define REST_AFTER_S 1.0

/*
 * What a connection reads into: with its other frames in the one page of its stack that every fiber
 * has. Longer requests get memory for as long as they take.
 */
#define READ_BYTES 1023

/* What is read at once of a body that is larger than that. */
#define BODY_READ_BYTES ((size_t)32 << 10)

/* Headers for which there is room at hand: more than most clients send. */
#define FIELDS_ROOM 24

/* What is read and thrown away so that a last reply is not lost, and how long that may take. */
#define LINGER_BYTES ((size_t)64 << 20)
#define LINGER_S 2.0

/* Outcomes of waiting for a request, beside errors. */
enum {
    OVER = 0,  /* the peer has hung up */
    READY = 1, /* there is input */
    SILENT = 2 /* the time was up, or the server drains */
};

/* How long a request may let us wait for its first byte. */
static double patience_s(const weft__conn *c)
{
    const weft_http_limits *l = &c->server->options.limits;
    return c->requests == 0 ? l->first_byte_s : l->idle_s;
}

/* Without it, it works as well. */
static void set_buffer(weft__conn *c, bool is_wide)
{
    const weft_stream_options narrow = {.read_bytes = READ_BYTES, .read_memory = c->memory};
    const weft_stream_options wide = {.read_bytes = BODY_READ_BYTES};
    if (is_wide && weft__bodies_take(c->server, BODY_READ_BYTES) < 0)
        return;
    bool was_wide = c->is_wide;
    if (weft_stream_configure(&c->stream, is_wide ? &wide : &narrow) == 0)
        c->is_wide = is_wide;
    if (!c->is_wide && (is_wide || was_wide)) /* not allocated, or given back */
        c->server->bodies_bytes -= BODY_READ_BYTES;
}

void weft__conn_widen(weft__conn *c)
{
    if (!c->is_wide)
        set_buffer(c, true);
}

/* What has come and was not taken, at least so many bytes of it: as weft_stream_peek. */
static ssize_t look(weft__conn *c, size_t min)
{
    const void *data;
    ssize_t n = weft_stream_peek(&c->stream, min, &data);
    c->input = data;
    c->input_bytes = n > 0 ? (size_t)n : 0;
    return n;
}

/* Wait for input for so long, without holding memory if it rests. */
static int wait_within(weft__conn *c, double timeout_s, bool is_resting)
{
    weft_scope scope;
    int rc = weft_scope_open(&scope, timeout_s);
    if (rc < 0)
        return rc;
    c->waiting = &scope;
    ssize_t n = is_resting ? weft_stream_wait(&c->stream) : 0;
    if (n == 0)
        n = look(c, 1);
    c->waiting = NULL;
    c->unflushed = 0;
    bool was_ended = weft_scope_is_cancelled(&scope);
    (void)weft_scope_close(&scope);
    if (n > 0)
        return READY;
    return n < 0 && was_ended ? SILENT : (int)n;
}

/* Bytes of output that the peer has not taken yet, as far as the kernel says. */
static int untaken(const weft__conn *c)
{
    int bytes;
    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

/*
 * Wait for long. A peer that has not taken its last reply yet is not idle but slow, and has to keep
 * to the rate for a body: what the kernel holds of it is not held for nothing.
 */
static int rest(weft__conn *c, double patience)
{
    const weft_http_limits *l = &c->server->options.limits;
    int before = untaken(c);
    while (before > 0 && patience > l->slow_s) {
        int rc = wait_within(c, l->slow_s, true);
        int now = untaken(c);
        if (rc != SILENT || c->server->is_draining)
            return rc;
        c->is_cut = now > 0 && before - now < l->slow_s * l->body_bytes_per_s_min;
        if (c->is_cut)
            return SILENT;
        before = now;
        patience -= l->slow_s;
    }
    return wait_within(c, patience, true);
}

static int wait_for_request(weft__conn *c)
{
    if (look(c, 0) > 0)
        return READY;
    if (c->is_wide)
        set_buffer(c, false);
    if (c->server->is_draining)
        return SILENT;
    double patience = patience_s(c);
    int rc = wait_within(c, patience < REST_AFTER_S ? patience : REST_AFTER_S, false);
    if (rc != SILENT || patience <= REST_AFTER_S || c->server->is_draining)
        return rc;
    weft_trim_stack();
    return rest(c, patience - REST_AFTER_S);
}

/* The rest of a head that did not come in one piece. */
static ssize_t read_head(weft__conn *c)
{
    weft_scope scope;
    ssize_t head = weft_scope_open(&scope, c->server->options.limits.head_s);
    while (head == 0) {
        size_t seen = c->input_bytes;
        ssize_t n = look(c, seen + 1);
        if (n >= 0 && (size_t)n <= seen)
            n = -ECONNRESET; /* it ends in the middle */
        head = n < 0 ? n : weft__message_head(&c->message, c->input, c->input_bytes);
    }
    if (weft_scope_close(&scope) == -ETIMEDOUT && head < 0 && head != -EBADMSG)
        return -ETIMEDOUT;
    return head;
}

/* The length of the head of the request that begins where input does, or an error. */
static ssize_t take_head(weft__conn *c)
{
    c->begun_s = c->server->options.log != NULL ? weft_now() : 0;
    weft__message_lend(&c->message, weft__arena_alloc(&c->arena, FIELDS_ROOM * sizeof(weft__field)),
                       FIELDS_ROOM);
    ssize_t head = weft__message_head(&c->message, c->input, c->input_bytes);
    return head == 0 ? read_head(c) : head;
}

/* Put the head where it stays, and make a request of it: 0, or the status to refuse it with. */
static int settle(weft__conn *c, weft_http_request *r, size_t head_bytes, const char **reason)
{
    r->head = weft__arena_copy(&c->arena, c->input, head_bytes);
    if (r->head == NULL) {
        *reason = "no memory";
        return 503;
    }
    (void)weft_stream_skip(&c->stream, head_bytes);
    weft__message_settle(&c->message, r->head);
    return weft__request_open(r, reason);
}

static __attribute__((noinline)) void handle(weft__conn *c, size_t head_bytes)
{
    weft_http_request r = {.conn = c};
    const char *reason = "";
    int status = settle(c, &r, head_bytes, &reason);
    c->requests++;
    if (status != 0) {
        if (r.head != NULL)
            weft__conn_refuse_settled(&r, status, reason);
        else
            weft__conn_refuse(c, status, reason, NULL);
        return;
    }
    if (!c->message.is_kept || c->requests >= c->server->options.limits.requests_max)
        c->is_to_close = true;
    int result = c->server->handler(&r, c->server->ctx);
    weft__reply_finish(&r, result);
    if (c->server->options.log != NULL)
        weft__conn_note(&r);
    weft__body_release(&r);
}

/* Refuse a request whose head could not be read. Other errors mean that the peer has gone. */
static COLD void refuse_head(weft__conn *c, ssize_t error)
{
    (void)look(c, 0); /* a look that failed has shown nothing */
    if (error == -EBADMSG)
        weft__conn_refuse(c, c->message.status, c->message.reason, NULL);
    else if (error == -ETIMEDOUT)
        weft__conn_refuse(c, 408, "headers that came too slowly", NULL);
    else if (error == -ENOMEM)
        weft__conn_refuse(c, 503, "no memory", NULL);
}

static int take_requests(weft__conn *c)
{
    while (!c->is_to_close) {
        int rc = wait_for_request(c);
        if (rc != READY) /* nobody has asked anything, so nothing is said */
            return rc == SILENT ? 0 : rc;
        ssize_t head = take_head(c);
        if (head < 0) {
            refuse_head(c, head);
            return (int)head;
        }
        handle(c, (size_t)head);
        weft__message_close(&c->message);
        weft__message_reset(&c->message);
        weft__arena_close(&c->arena);
    }
    return 0;
}

/* All that is to go out, and that it was all. */
static int end_output(weft__conn *c)
{
    if (c->is_tls)
        return weft_tls_shutdown(&c->stream);
    int rc = weft_stream_flush(&c->stream);
    return rc < 0 ? rc : weft_shutdown(c->fd, SHUT_WR);
}

/*
 * A connection that is closed with input unread is reset by the kernel, and the reply may be lost
 * with it: tell the peer that we are done, and hear it out for a moment (RFC 9112, 9.6).
 */
static COLD void linger(weft__conn *c)
{
    if (end_output(c) < 0)
        return;
    char waste[2048];
    size_t left = LINGER_BYTES;
    WEFT_MOVE_ON_AFTER(LINGER_S) {
        ssize_t n = 1;
        while (n > 0 && left > 0) {
            n = weft_stream_read(&c->stream, waste, sizeof waste < left ? sizeof waste : left);
            left -= n > 0 ? (size_t)n : 0;
        }
    }
}

/*
 * A reply that ends with the connection looks whole, unless that is reset: which is what dissolving
 * it does (connect(2), AF_UNSPEC). Nothing more goes out then, no goodbye of TLS either.
 */
static COLD void make_it_reset(const weft__conn *c)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    (void)connect(c->fd, &none, sizeof none); /* fails for a unix socket */
}

/*
 * The last of a reply and the end of the connection in one packet: a tenth of what a connection for
 * one request costs both sides. Not by closing it: should input have come by now that nobody reads,
 * that would throw away what has not gone out. With TLS a handshake costs so much that it is not
 * worth it.
 */
static void end_in_one(weft__conn *c)
{
    static const int on = 1;
    if (c->unflushed > 0 && !c->is_tls && !c->peer.is_unix &&
        setsockopt(c->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0)
        (void)end_output(c);
}

static void hang_up(weft__conn *c)
{
    if (c->is_cut)
        make_it_reset(c);
    WEFT_MOVE_ON_AFTER(c->server->options.limits.slow_s) {
        if (c->has_unread || (!c->is_cut && look(c, 0) > 0))
            linger(c);
        else if (!c->is_cut)
            end_in_one(c);
        if (!c->is_cut)
            weft__unsent_settle(c);
        weft__unsent_forget(c);
        (void)weft_stream_close(&c->stream);
    }
}

/*
 * Does the peer speak TLS? A record of a handshake begins with 22, a method of HTTP with a letter.
 * Returns 1, 0 if it does not, or an error, also if the peer has hung up.
 */
static int speaks_tls(weft__conn *c)
{
    char first;
    ssize_t n = weft_recv(c->fd, &first, 1, MSG_PEEK);
    if (n <= 0)
        return n < 0 ? (int)n : -ECONNRESET;
    return !weft__char_is(first, WEFT__CHAR_ALPHA);
}

/* Wait until this peer may begin another handshake: 0, or an error. */
static int await_turn(weft__conn *c)
{
    const weft_http_limits *l = &c->server->options.limits;
    double wait_s = weft__rates_enter(&c->server->rates, &c->peer, weft_now(),
                                      l->handshakes_per_peer_s_max, l->head_s);
    if (wait_s < 0)
        return (int)wait_s;
    return wait_s > 0 ? weft_sleep(wait_s) : 0;
}

/* Make the handshake: 1; 0 for a peer that speaks plain HTTP. */
static int open_tls(weft__conn *c, weft_tls *tls)
{
    int rc = speaks_tls(c), late = rc > 0 ? await_turn(c) : 0;
    rc = late < 0 ? late : rc;
    if (rc < 0)
        weft_close(c->fd);
    if (rc <= 0)
        return rc;
    rc = weft_tls_accept(&c->stream, c->fd, tls);
    return rc < 0 ? rc : 1;
}

/*
 * As open_tls, within head_s. There is no request before the handshake: a server that drains does
 * not wait for it.
 */
static __attribute__((noinline)) int shake_hands(weft__conn *c, weft_tls *tls)
{
    weft_scope scope;
    int rc = c->server->is_draining ? -ECANCELED
                                    : weft_scope_open(&scope, c->server->options.limits.head_s);
    if (rc < 0) {
        weft_close(c->fd);
        return rc;
    }
    c->waiting = &scope;
    rc = open_tls(c, tls);
    c->waiting = NULL;
    int late = weft_scope_close(&scope);
    return rc < 0 && late < 0 ? late : rc;
}

/* Open the stream: 1, 0 if the peer speaks plain HTTP where TLS is spoken, or an error. */
static int open_stream(weft__conn *c)
{
    weft_tls *tls = c->server->options.tls;
    int rc = tls != NULL ? shake_hands(c, tls) : 0;
    c->is_tls = rc > 0;
    if (rc == 0)
        rc = weft_stream_open(&c->stream, c->fd);
    return rc < 0 ? rc : c->is_tls || tls == NULL;
}

/* Answer plain HTTP on a TLS port with an explanation: a browser would only say "failed". */
static COLD void explain_tls(weft__conn *c)
{
    c->begun_s = c->server->options.log != NULL ? weft_now() : 0;
    if (look(c, 1) > 0)
        weft__conn_refuse(c, 400, "plain HTTP on a port for TLS",
                          "400 Bad Request\n\nThis port speaks HTTPS, and the request came without "
                          "TLS. Use https:// instead of http://.\n");
}

/* From the first request to the end. */
static int serve(weft__conn *c, bool is_understood)
{
    int rc = -EPROTO;
    set_buffer(c, false);
    weft__message_open(&c->message, WEFT__REQUEST, &c->server->message_limits);
    if (is_understood)
        rc = take_requests(c);
    else
        explain_tls(c);
    hang_up(c);
    if (c->is_wide)
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
                    .arena = {.stock = &server->stock}};
    weft__list_insert(&server->conns, &c.link);
    int rc = open_stream(&c);
    if (rc >= 0)
        rc = serve(&c, rc > 0);
    weft__list_remove(&c.link);
    return rc;
}
