/*
 * Connections at rest (rest.h). The record of a connection is in the list `resting` of its server
 * from weft__conn_rest until its next fiber runs, or until its end.
 */
#include "http/rest/rest.h"
#include "http/server/unsent_limit.h"

#include <weft/io.h>
#include <weft/time.h>

#include <math.h>
#include <stdlib.h>

double weft__rest_after_s = WEFT__REST_AFTER_S;

void weft__resting_free(weft__resting *r)
{
    if (r == NULL)
        return;
    weft__list_remove(&r->link);
    free(r->stream);
    free(r);
}

/* Close a connection at rest without a fiber. Its watch must have ended. */
static void resting_drop(void *arg)
{
    weft__resting *r = arg;
    weft__server *s = r->server;
    weft__peer peer = r->peer;
    WEFT__COUNT(s->counts, connections_resting, (size_t)-1);
    int fd = r->stream == NULL && !r->type->keeps_stream ? r->fd : -1;
    if (r->stream != NULL)
        (void)weft_stream_close(r->stream);
    if (r->type->drop != NULL)
        r->type->drop(r->state);
    weft__resting_free(r);
    if (fd >= 0)
        weft_close(fd);
    weft__server_leave(s, &peer);
}

/* The fiber of a connection that has rested. Always return 0, as conn_main of serve.c does. */
static weft_value resting_main(void *arg)
{
    weft__resting *r = arg;
    weft__server *s = r->server;
    weft__peer peer = r->peer;
    int reason = weft_fd_watch_result(&r->watch);
    if (reason == -EBADF) { /* other code has closed the descriptor */
        r->fd = -1;
        resting_drop(r);
        return 0;
    }
    if (weft__conn_resume(r, reason) != WEFT__CONN_RESTS)
        weft__server_leave(s, &peer);
    return 0;
}

static int resting_watch(weft__resting *r, double timeout_s)
{
    const weft_spin_options spin = {
        .name = "http", .stack_bytes = r->server->options.stack_bytes, .drop = resting_drop};
    return weft_fd_watch_open(&r->watch, r->fd, timeout_s, r->server->group, resting_main, r,
                              &spin);
}

/*
 * Take the stream of a connection. A stream over TLS moves to the heap. A stream over a descriptor
 * is closed, because a new stream needs nothing from it. Returns 0, or an error without an effect.
 */
static int take_stream(weft__conn *c, weft__resting *r)
{
    if (!c->is_tls)
        return weft_stream_detach(&c->stream) >= 0 ? 0 : -EBUSY;
    if (r->stream == NULL)
        r->stream = malloc(sizeof *r->stream);
    return r->stream != NULL ? weft_stream_move(r->stream, &c->stream) : -ENOMEM;
}

/* Undo take_stream. */
static void return_stream(weft__conn *c, weft__resting *r)
{
    if (r->stream == NULL)
        (void)weft_stream_open(&c->stream, c->fd);
    else
        (void)weft_stream_move(&c->stream, r->stream);
    weft__conn_set_buffer(c, false);
}

static int check_rest(weft__conn *c)
{
    const void *ignored;
    if (c->server->group == NULL)
        return -EOPNOTSUPP;
    if (c->server->is_draining)
        return -ESHUTDOWN;
    if (weft__conn_unacked_bytes(c) > 0)
        return -EBUSY;
    return weft_stream_peek(&c->stream, 0, &ignored) > 0 ? -EBUSY : 0;
}

/* Return the record of a connection, or NULL if memory is exhausted. */
static weft__resting *resting_of(weft__conn *c)
{
    if (c->resting != NULL)
        return c->resting;
    weft__resting *r = malloc(sizeof *r);
    if (r == NULL)
        return NULL;
    *r = (weft__resting){.server = c->server, .peer = c->peer, .is_tls = c->is_tls, .fd = c->fd};
    weft__list_init(&r->link);
    return c->resting = r;
}

int weft__conn_rest(weft__conn *c, const weft__rest_type *type, void *state, double timeout_s)
{
    int rc = check_rest(c);
    if (rc < 0)
        return rc;
    weft__resting *r = resting_of(c);
    if (r == NULL)
        return -ENOMEM;
    r->type = type;
    r->state = state;
    r->until_s = isinf(timeout_s) ? timeout_s : weft_now() + timeout_s;
    bool has_stream = !type->keeps_stream;
    rc = has_stream ? take_stream(c, r) : 0;
    if (rc == 0 && (rc = resting_watch(r, timeout_s)) < 0 && has_stream)
        return_stream(c, r);
    if (rc < 0)
        return rc;
    weft__list_insert(&c->server->resting, &r->link);
    WEFT__COUNT(c->server->counts, connections_resting, 1);
    weft__unsent_limit_remove(c);
    c->rests = true;
    return 0;
}

/*
 * Call fn for each connection at rest. fn may remove the record, and may switch. Other fibers may
 * then remove records too.
 */
static void resting_each(weft__server *s, void (*fn)(weft__resting *r))
{
    weft__list left;
    weft__list_init(&left);
    weft__list_splice(&left, &s->resting);
    for (weft__list *node; (node = weft__list_pop(&left)) != NULL;) {
        weft__list_insert(&s->resting, node);
        fn(CONTAINER_OF(node, weft__resting, link));
    }
}

/* If weft has already created a fiber, that fiber or its drop ends the connection. */
static void resting_end(weft__resting *r)
{
    if (weft_fd_watch_close(&r->watch) == 0)
        resting_drop(r);
}

/* A plain connection of HTTP/1 has nothing to say. All others get a fiber. */
static void resting_shut_down(weft__resting *r)
{
    if (r->stream == NULL && r->type->drop == NULL)
        resting_end(r);
    else
        (void)weft_fd_watch_interrupt(&r->watch, -ESHUTDOWN);
}

void weft__rest_drain(weft__server *s)
{
    resting_each(s, resting_shut_down);
}

void weft__rest_end(weft__server *s)
{
    resting_each(s, resting_end);
}
