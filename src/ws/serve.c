/*
 * Connections that call functions for their events. While such a connection is silent, it has no
 * fiber (http/rest/rest.h). run_events receives in a fiber that exists only while frames arrive.
 *
 * A connection of HTTP/2 or of weft_http_serve_conn cannot rest. It uses the fiber of its handler.
 */
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/fiber.h>

#include <errno.h>
#include <math.h>

static weft_ws *ws_of(weft__upgraded *u)
{
    return CONTAINER_OF(u, weft_ws, upgraded);
}

int weft__ws_served_enter(weft_ws *ws)
{
    int rc = weft__ws_live_open(ws);
    weft_stream *stream = rc == 0 ? weft__upgraded_enter(&ws->upgraded) : NULL;
    if (stream == NULL)
        return ws->failure < 0 ? ws->failure : -ENOMEM;
    ws->live->stream = stream;
    return 0;
}

/* Return whether a connection without users and output needs no state until its next event. */
static bool is_at_rest(const weft_ws *ws)
{
    const weft__ws_live *l = ws->live;
    return l->author == 0 && l->input == NULL && !l->wants_ping && l->send_failure == 0 &&
           !ws->is_close_sent && !ws->is_close_received && ws->failure == 0;
}

/*
 * A fiber that has sent to a connection at rest leaves no memory and no output behind. If its send
 * was cancelled, the fiber of the connection sends the rest. u may be closed here.
 */
void weft__ws_served_leave(weft_ws *ws)
{
    weft__upgraded *u = &ws->upgraded;
    if (ws->users == 0 && ws->live->server == 0) {
        weft__ws_release_memory(ws);
        if (ws->live->has_unflushed || ws->live->out.bytes > 0)
            weft__upgraded_wake(u, -EINTR);
        else if (is_at_rest(ws))
            weft__ws_live_close(ws);
    }
    weft__upgraded_leave(u);
}

void weft__ws_served_wake(weft_ws *ws)
{
    if (ws->live == NULL || ws->live->server == 0)
        weft__upgraded_wake(&ws->upgraded, -EINTR);
}

bool weft__ws_served_is_draining(const weft_ws *ws)
{
    return weft__upgraded_is_draining(&ws->upgraded);
}

void weft__ws_served_set_scope(weft_ws *ws, weft_scope *scope)
{
    weft__upgraded_set_wait_scope(&ws->upgraded, scope);
}

/* Call on_open, once. Returns 0 or its error. */
static int begin_events(weft_ws *ws)
{
    ws->has_begun = true;
    int rc = ws->events->on_open != NULL ? ws->events->on_open(ws, ws->ctx) : 0;
    ws->is_open = rc >= 0;
    return rc < 0 ? rc : 0;
}

/* Call on_close, once. */
static void end_events(weft_ws *ws)
{
    if (ws->is_open && ws->events->on_close != NULL)
        ws->events->on_close(ws, ws->ctx);
    ws->is_open = false;
}

/*
 * Receive messages and call on_message. Returns 0 after the close handshake, WEFT__WS_CAN_REST, or
 * an error, after which the connection must be closed.
 */
static int run_events(weft_ws *ws)
{
    weft_ws_message message;
    int rc = ws->has_begun ? 1 : begin_events(ws);
    while (rc >= 0) {
        ws->live->receiver = ws->live->receiver_before = weft_self();
        rc = weft__ws_recv_entered(ws, &message);
        ws->live->receiver = 0;
        if (rc <= 0)
            return rc;
        rc = ws->events->on_message(ws, &message, ws->ctx);
    }
    return rc;
}

/* Close a connection that has not failed, after an error of a function or a cancellation. */
static void close_events(weft_ws *ws, int error)
{
    weft_ws_message message;
    int code = error == -ECANCELED ? WEFT_WS_GOING_AWAY : WEFT_WS_INTERNAL;
    int rc = ws->failure;
    if (rc == 0 && error == -ECANCELED)
        WEFT_SHIELD(WEFT__WS_FREE_S)
            rc = weft__ws_send_close(ws, code, NULL, 0);
    else if (rc == 0)
        rc = weft__ws_send_close(ws, code, NULL, 0);
    ws->live->receiver = weft_self();
    for (rc = rc < 0 ? rc : 1; rc > 0;) /* discard messages until the peer closes */
        rc = weft__ws_recv_entered(ws, &message);
    ws->live->receiver = 0;
}

/* Send a ping, or end the connection if the last ping has no answer. */
static double handle_silence(weft_ws *ws)
{
    if (ws->is_pinged) {
        ws->is_stalled = true;
        (void)weft__ws_fail(ws, -ETIMEDOUT);
        return -1;
    }
    ws->is_pinged = ws->live->wants_ping = true;
    (void)weft__ws_flush_unless_busy(ws);
    return ws->failure < 0 ? -1 : ws->settings->pong_s;
}

/* Handle an event. Returns the time for which the connection can rest, or -1 at its end. */
static double handle_event(weft_ws *ws, int reason)
{
    if (reason == -ETIMEDOUT)
        return handle_silence(ws);
    if (reason == 0)
        ws->is_pinged = false;
    int rc = reason == -ECANCELED ? reason : run_events(ws);
    if (rc == WEFT__WS_CAN_REST)
        return ws->is_pinged ? ws->settings->pong_s : ws->settings->ping_s;
    if (rc < 0)
        close_events(ws, rc);
    return -1;
}

/* End a connection. The caller is in a call, and waits until other fibers have left theirs. */
static void end_served(weft_ws *ws)
{
    bool is_clean = ws->failure == 0 && ws->is_close_sent && ws->is_close_received;
    end_events(ws);
    weft__ws_end(ws, -EBADF);
    WEFT_SHIELD(INFINITY)
        while (ws->users > 1 && weft_cond_wait(&ws->live->changed, NULL) == 0)
            ;
    weft__upgraded_set_end(&ws->upgraded, ws->is_stalled ? WEFT__UPGRADED_RESET
                                          : is_clean     ? WEFT__UPGRADED_CLOSE
                                                         : WEFT__UPGRADED_LINGER);
}

static double served_run(weft__upgraded *u, int reason)
{
    weft_ws *ws = ws_of(u);
    if (weft__ws_enter(ws) < 0)
        return -1;
    ws->live->server = weft_self();
    weft__ws_set_buffer(ws, false);
    double wait_s = ws->failure < 0 ? -1 : handle_event(ws, reason);
    if (wait_s < 0)
        end_served(ws);
    ws->live->server = 0;
    weft__ws_leave(ws);
    return wait_s;
}

/* The connection may have ended without a fiber. Sends in on_close then fail. */
static void served_closed(weft__upgraded *u)
{
    weft_ws *ws = ws_of(u);
    if (ws->failure == 0)
        ws->failure = -ECONNRESET;
    end_events(ws);
    weft__ws_delete(ws);
}

static const weft__upgraded_type served_type = {.run = served_run, .closed = served_closed};

/* Serve a connection in the fiber of its handler. */
static int serve_in_fiber(weft_ws *ws)
{
    ws->live->server = weft_self();
    int rc = run_events(ws);
    ws->live->server = 0;
    if (rc < 0 && ws->failure == 0)
        (void)weft_ws_close(ws, rc == -ECANCELED ? WEFT_WS_GOING_AWAY : WEFT_WS_INTERNAL, NULL);
    end_events(ws);
    weft_ws_free(ws);
    return rc;
}

int weft_ws_serve(weft_http_request *request, const weft_ws_options *options,
                  const weft_ws_events *events, void *ctx)
{
    if (events == NULL || events->on_message == NULL)
        return weft_fail(-EINVAL, "weft_ws_serve: events or on_message is NULL");
    weft_ws *ws;
    int rc = weft_ws_accept(request, options, &ws);
    if (rc < 0)
        return rc;
    ws->events = events;
    ws->ctx = ctx;
    if (weft__upgraded_adopt(&ws->upgraded, &served_type, request) < 0)
        return serve_in_fiber(ws);
    ws->is_served = true;
    ws->live->request = NULL;
    return 0;
}
