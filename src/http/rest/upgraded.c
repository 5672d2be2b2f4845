/*
 * Upgraded connections (rest.h). While a fiber runs, and over TLS always, u->stream is open. A
 * plain connection at rest has no stream. A fiber that writes to such a connection opens a stream,
 * and closes it afterwards.
 *
 * u->users counts the calls that use the stream. The memory of the stream and of u exists until the
 * last of them has left.
 */
#include "http/rest/rest.h"

#include <weft/io.h>
#include <weft/time.h>

#include <math.h>
#include <stdlib.h>

static int upgraded_resume(weft__conn *c, void *state, int reason);
static void upgraded_drop(void *state);

static const weft__rest_type upgraded_rest_type = {
    .resume = upgraded_resume, .drop = upgraded_drop, .keeps_stream = true};

/* The result of upgraded_wait: the connection rests. */
#define WAIT_RESTS 1

int weft__upgraded_adopt(weft__upgraded *u, const weft__upgraded_type *type, weft_http_request *r)
{
    weft__conn *c = r->conn;
    if (r->state != WEFT__REPLY_UPGRADED || r->version >= 20 || c->server->group == NULL)
        return -EOPNOTSUPP;
    weft_stream *stream = malloc(sizeof *stream);
    if (stream == NULL)
        return -ENOMEM;
    int rc = weft_stream_move(stream, &c->stream);
    if (rc < 0) {
        free(stream);
        return rc;
    }
    (void)weft_stream_configure(stream, NULL); /* the small buffer was on the stack of the fiber */
    *u = (weft__upgraded){.type = type, .conn = c, .stream = stream};
    c->upgraded = u;
    return 0;
}

/* Open the stream of a plain connection. Returns 0 or -ENOMEM. */
static int upgraded_open_stream(weft__upgraded *u, int fd)
{
    u->stream = malloc(sizeof *u->stream);
    if (u->stream == NULL)
        return -ENOMEM;
    (void)weft_stream_open(u->stream, fd);
    return 0;
}

/*
 * Close the stream of a plain connection, but not its descriptor, if no fiber uses the stream. The
 * stream must have no output: another fiber could enter while a flush switches.
 */
static void upgraded_close_stream(weft__upgraded *u)
{
    if (u->users > 0 || weft_stream_detach(u->stream) < 0)
        return;
    free(u->stream);
    u->stream = NULL;
}

weft_stream *weft__upgraded_enter(weft__upgraded *u)
{
    bool is_closed = u->conn == NULL && u->rest == NULL;
    if (is_closed || (u->stream == NULL && upgraded_open_stream(u, u->rest->fd) < 0))
        return NULL;
    u->users++;
    u->entries++;
    return u->stream;
}

/* Release the memory of a closed connection, unless a fiber is in a call. */
static void upgraded_release(weft__upgraded *u)
{
    if (u->users > 0)
        return;
    free(u->stream);
    u->stream = NULL;
    u->type->closed(u);
}

static bool is_plain_at_rest(const weft__upgraded *u)
{
    return u->rest != NULL && !u->rest->is_tls;
}

/*
 * Flush the stream of a plain connection at rest before its last user leaves. Repeat that if other
 * fibers have used the stream meanwhile. Returns 0 or an error, after which output remains.
 */
static int flush_before_close(weft__upgraded *u)
{
    int rc = 0;
    uint16_t entries;
    do {
        entries = u->entries;
        if (u->users == 1 && is_plain_at_rest(u))
            rc = weft_stream_flush(u->stream);
    } while (rc == 0 && entries != u->entries);
    return rc;
}

void weft__upgraded_leave(weft__upgraded *u)
{
    int rc = flush_before_close(u);
    u->users--;
    if (rc == 0 && is_plain_at_rest(u))
        upgraded_close_stream(u);
    else if (u->rest == NULL && u->conn == NULL)
        upgraded_release(u);
}

void weft__upgraded_wake(weft__upgraded *u, int reason)
{
    u->wake_reason = (int16_t)reason;
    if (u->rest != NULL)
        (void)weft_fd_watch_interrupt(&u->rest->watch, reason);
    else if (u->conn != NULL && u->conn->wait_scope != NULL)
        (void)weft_scope_cancel(u->conn->wait_scope);
}

void weft__upgraded_set_end(weft__upgraded *u, weft__upgraded_end end)
{
    u->conn->has_unread = end == WEFT__UPGRADED_LINGER;
    u->conn->is_aborted = end == WEFT__UPGRADED_RESET;
}

bool weft__upgraded_is_draining(const weft__upgraded *u)
{
    return u->conn->server->is_draining;
}

void weft__upgraded_set_wait_scope(weft__upgraded *u, weft_scope *scope)
{
    u->conn->wait_scope = scope;
}

static int take_wake_reason(weft__upgraded *u)
{
    int reason = u->wake_reason;
    u->wake_reason = 0;
    return reason;
}

/*
 * Wait for input in the fiber. Returns 0 after input, the end of the input or an error of the
 * transport, which run detects itself. Returns -ETIMEDOUT after timeout_s, or if the drain or
 * weft__upgraded_wake has cancelled the wait. Returns -ECANCELED if the fiber is cancelled.
 */
static int wait_in_fiber(weft__conn *c, weft__upgraded *u, double timeout_s)
{
    weft_scope scope;
    int rc = weft_scope_open(&scope, timeout_s);
    if (rc < 0)
        return rc;
    c->wait_scope = &scope;
    rc = weft_stream_wait(u->stream);
    c->wait_scope = NULL;
    bool was_cancelled = weft_scope_is_cancelled(&scope);
    (void)weft_scope_close(&scope);
    if (rc < 0 && was_cancelled)
        return -ETIMEDOUT;
    return rc == -ECANCELED ? rc : 0;
}

/* Put the connection to rest. Returns whether it rests. */
static bool upgraded_rest(weft__conn *c, weft__upgraded *u, double timeout_s)
{
    const void *ignored;
    if (weft_stream_peek(u->stream, 0, &ignored) > 0 ||
        weft__conn_rest(c, &upgraded_rest_type, u, timeout_s) < 0)
        return false;
    u->conn = NULL;
    u->rest = c->resting;
    if (!c->is_tls)
        upgraded_close_stream(u);
    return true;
}

/* Wait until run must be called again. Returns its reason, WAIT_RESTS, or -ECANCELED. */
static int upgraded_wait(weft__conn *c, weft__upgraded *u, double timeout_s)
{
    double until_s = isinf(timeout_s) ? INFINITY : weft_now() + timeout_s;
    for (;;) {
        double left_s = isinf(until_s) ? INFINITY : until_s - weft_now();
        if (c->server->is_draining)
            return -ESHUTDOWN;
        if (u->wake_reason != 0)
            return take_wake_reason(u);
        if (left_s <= 0) /* let other fibers run, even if run always returns 0 */
            return weft_sleep(0) < 0 ? -ECANCELED : -ETIMEDOUT;
        int rc = wait_in_fiber(c, u, fmin(left_s, weft__rest_after_s));
        if (rc != -ETIMEDOUT)
            return rc;
        left_s -= weft__rest_after_s;
        if (left_s > 0 && u->wake_reason == 0 && upgraded_rest(c, u, left_s))
            return WAIT_RESTS;
    }
}

/* Close the stream. If no other fiber uses the stream, let the caller close it. */
static void upgraded_close(weft__conn *c, weft__upgraded *u)
{
    if (weft_stream_move(&c->stream, u->stream) < 0)
        (void)weft_stream_close(u->stream);
    c->upgraded = NULL;
    u->conn = NULL;
    upgraded_release(u);
}

int weft__upgraded_run(weft__conn *c, int reason)
{
    weft__upgraded *u = c->upgraded;
    for (;;) {
        double wait_s = u->type->run(u, reason);
        bool is_last = reason == -ESHUTDOWN || reason == -ECANCELED || !(wait_s >= 0);
        reason = is_last ? 0 : upgraded_wait(c, u, wait_s);
        if (reason == WAIT_RESTS)
            return 0;
        if (is_last)
            break;
    }
    upgraded_close(c, u);
    return 0;
}

/* If memory is exhausted, close the connection. */
static int upgraded_resume(weft__conn *c, void *state, int reason)
{
    weft__upgraded *u = state;
    u->rest = NULL;
    u->conn = c;
    c->upgraded = u;
    if (u->wake_reason != 0)
        reason = take_wake_reason(u);
    if (u->stream != NULL || upgraded_open_stream(u, c->fd) == 0)
        return weft__upgraded_run(c, reason);
    u->conn = NULL;
    c->upgraded = NULL;
    (void)weft_stream_open(&c->stream, c->fd);
    upgraded_release(u);
    return -ENOMEM;
}

static void upgraded_drop(void *state)
{
    weft__upgraded *u = state;
    int fd = u->rest->fd;
    u->rest = NULL;
    u->users++; /* fibers that leave during the close do not release u */
    if (u->stream != NULL)
        (void)weft_stream_close(u->stream);
    else if (fd >= 0)
        weft_close(fd);
    u->users--;
    upgraded_release(u);
}
