/*
 * After an answer of 101, pass bytes both ways until both sides have ended. The handler's fiber
 * writes to the client, a second fiber to the upstream server. If one side ends, the other side is
 * half-closed, and can still send.
 */
#include "http/reverse.h"

#include <weft/net.h>
#include <weft/time.h>

#include <sys/socket.h>

/* A side: a connection that is read by one fiber and written by the other. */
typedef struct side {
    weft_stream *stream;
    int fd;
    bool is_tls;
} side;

typedef struct tunnel {
    weft__pass *p;
    side client;
    side upstream;
    weft_scope scope; /* of the handler's fiber */
    double moved_s;   /* when a byte passed last, either way */
    int failure;      /* of the second fiber; 0: none */
} tunnel;

/* Wait for input: as weft_stream_peek. -ETIMEDOUT if nothing has passed either way for too long. */
static ssize_t await_input(tunnel *t, const side *from, const void **data)
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

/* Say that nothing more comes. */
static int end_side(const side *to)
{
    if (to->is_tls)
        return weft_tls_shutdown(to->stream);
    int rc = weft_stream_flush(to->stream);
    return rc < 0 ? rc : weft_shutdown(to->fd, SHUT_WR);
}

/* One direction up to its end. */
static int copy_one_way(tunnel *t, const side *from, const side *to)
{
    const void *data;
    ssize_t n;
    while ((n = await_input(t, from, &data)) > 0) {
        struct iovec piece = {(void *)(uintptr_t)data, (size_t)n};
        t->moved_s = weft_now();
        int rc = weft__reverse_write(to->stream, &piece, 1, t->p->proxy->options.upgraded_idle_s);
        if (rc < 0)
            return rc;
        t->moved_s = weft_now();
        (void)weft_stream_skip(from->stream, (size_t)n);
    }
    return n < 0 ? (int)n : end_side(to);
}

static weft_value copy_to_upstream(void *arg)
{
    tunnel *t = arg;
    int rc = copy_one_way(t, &t->client, &t->upstream);
    if (rc < 0 && rc != -ECANCELED) {
        t->failure = rc;
        weft_scope_cancel(&t->scope);
    }
    return 0;
}

/* Copy both ways. A failure of one direction ends the other. */
static int copy_both(tunnel *t)
{
    weft_fiber second = weft_spin(copy_to_upstream, t);
    if (second == 0)
        return -ENOMEM;
    int rc = copy_one_way(t, &t->upstream, &t->client);
    if (rc == 0)
        rc = (int)weft_await(second);
    if (rc < 0) {
        weft_cancel(second);
        WEFT_SHIELD(INFINITY)
            (void)weft_await(second);
    }
    return t->failure < 0 ? t->failure : rc;
}

static int run_tunnel(weft__pass *p, weft_stream *client)
{
    weft__conn *c = p->r->conn;
    weft__fetch_conn *u = p->f->conn;
    tunnel t = {.p = p,
                .client = {client, c->fd, c->is_tls},
                .upstream = {&u->stream, u->fd, u->is_tls},
                .moved_s = weft_now()};
    int rc = weft_scope_open(&t.scope, INFINITY);
    if (rc < 0)
        return rc;
    rc = copy_both(&t);
    (void)weft_scope_close(&t.scope);
    return rc;
}

int weft__tunnel_run(weft__pass *p)
{
    const char *protocol = weft_fetch_header(p->f, "Upgrade");
    weft_stream *client;
    if (!p->is_upgrade || !p->f->answer.is_upgrade || protocol == NULL || !weft__pass_is_sent(p))
        return weft__pass_fail(p, -EBADMSG, "the upstream server changes the protocol unasked");
    weft__upload_stop(p);
    int rc = weft__reverse_fields(p);
    if (rc == 0)
        rc = weft_http_upgrade(p->r, protocol, &client);
    if (rc == -EINVAL)
        rc = -EBADMSG;
    if (rc < 0)
        return weft__pass_fail(p, rc, "the upstream server changes to a protocol of its own");
    rc = run_tunnel(p, client);
    if (rc == -ETIMEDOUT)
        return weft__pass_fail(p, rc, "nothing has passed either way for too long");
    return rc < 0 ? weft__pass_fail(p, rc, "a side has broken off") : 0;
}
