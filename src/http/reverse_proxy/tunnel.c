/*
 * After a 101 response, copy bytes in both directions until both sides have ended. The fiber of the
 * handler writes to the client. A second fiber writes to the upstream server. If one side ends, the
 * tunnel half-closes the other side. The other side can still send.
 */
#include "http/reverse_proxy/reverse_proxy.h"

#include <weft/net.h>
#include <weft/time.h>

#include <sys/socket.h>

/* One of the two connections. One fiber reads from the connection, the other fiber writes to it. */
typedef struct tunnel_side {
    weft_stream *stream;
    bool is_client;
} tunnel_side;

typedef struct tunnel {
    weft__exchange *p;
    tunnel_side client;
    tunnel_side upstream;
    weft_scope scope; /* open in the fiber of the handler */
    double moved_s;   /* time of the last byte in any direction */
    int failure;      /* the error of the second fiber; 0: none */
} tunnel;

/*
 * Wait for input. Like weft_stream_peek, but return -ETIMEDOUT if both directions are idle for
 * upgraded_idle_s.
 */
static ssize_t tunnel_await_input(tunnel *t, const tunnel_side *from, const void **data)
{
    double limit_s = t->p->proxy->options.upgraded_idle_s;
    for (;;) {
        weft_scope scope;
        double left_s = limit_s - (weft_now() - t->moved_s);
        ssize_t n = left_s > 0 ? weft_scope_open(&scope, left_s) : -ETIMEDOUT;
        if (n < 0)
            return n;
        n = weft_stream_peek(from->stream, 1, data);
        if (weft_scope_close(&scope) == 0 || n >= 0)
            return n;
    }
}

/* Flush and half-close a side. */
static int tunnel_side_end(const tunnel *t, const tunnel_side *to)
{
    const weft__fetch_conn *u = t->p->f->conn;
    if (to->is_client)
        return t->p->r->codec->end_upgraded(t->p->r);
    if (u->is_tls)
        return weft_tls_shutdown(to->stream);
    int rc = weft_stream_flush(to->stream);
    return rc < 0 ? rc : weft_shutdown(u->fd, SHUT_WR);
}

/* Copy one direction until the sender ends. Then half-close the receiver. */
static int copy_direction(tunnel *t, const tunnel_side *from, const tunnel_side *to)
{
    const void *data;
    ssize_t n;
    while ((n = tunnel_await_input(t, from, &data)) > 0) {
        struct iovec piece = {(void *)(uintptr_t)data, (size_t)n};
        t->moved_s = weft_now();
        int rc =
            weft__reverse_proxy_write(to->stream, &piece, 1, t->p->proxy->options.upgraded_idle_s);
        if (rc < 0)
            return rc;
        t->moved_s = weft_now();
        (void)weft_stream_skip(from->stream, (size_t)n);
    }
    return n < 0 ? (int)n : tunnel_side_end(t, to);
}

static weft_value copy_to_upstream(void *arg)
{
    tunnel *t = arg;
    int rc = copy_direction(t, &t->client, &t->upstream);
    if (rc < 0 && rc != -ECANCELED) {
        t->failure = rc;
        weft_scope_cancel(&t->scope);
    }
    return 0;
}

/* Copy both directions. A failure in one direction stops the other direction. */
static int copy_directions(tunnel *t)
{
    weft_fiber second = weft_spin(copy_to_upstream, t);
    if (second == 0)
        return -ENOMEM;
    int rc = copy_direction(t, &t->upstream, &t->client);
    if (rc == 0)
        rc = (int)weft_await(second);
    if (rc < 0) {
        weft_cancel(second);
        WEFT_SHIELD(INFINITY)
            (void)weft_await(second);
    }
    return t->failure < 0 ? t->failure : rc;
}

static int run_tunnel(weft__exchange *p, weft_stream *client)
{
    tunnel t = {.p = p,
                .client = {client, true},
                .upstream = {&p->f->conn->stream, false},
                .moved_s = weft_now()};
    int rc = weft_scope_open(&t.scope, INFINITY);
    if (rc < 0)
        return rc;
    rc = copy_directions(&t);
    (void)weft_scope_close(&t.scope);
    return rc;
}

int weft__tunnel_run(weft__exchange *p)
{
    const char *protocol = weft_fetch_header(p->f, "Upgrade");
    weft_stream *client;
    if (!p->is_upgrade || !p->f->response.is_upgrade || protocol == NULL ||
        !weft__exchange_is_sent(p) || !weft__reverse_proxy_accepts_key(p))
        return weft__exchange_fail(p, -EBADMSG,
                                   "the upstream server sent an unexpected 101 response");
    weft__upload_stop(p);
    int rc = weft__reverse_proxy_reply_fields(p);
    if (rc == 0)
        rc = weft_http_upgrade(p->r, protocol, &client);
    if (rc == -EINVAL)
        rc = -EBADMSG;
    if (rc < 0)
        return weft__exchange_fail(p, rc, "cannot forward the 101 response of the upstream server");
    rc = run_tunnel(p, client);
    if (rc == -ETIMEDOUT)
        return weft__exchange_fail(p, rc, "the upgraded connection was idle for too long");
    return rc < 0 ? weft__exchange_fail(p, rc, "the upgraded connection failed") : 0;
}
