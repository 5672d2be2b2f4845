/*
 * The wait for input. A peer that is silent for ping_s seconds gets a ping, and then has pong_s
 * seconds to send anything. After a close frame was sent, the peer has close_s seconds to close. If
 * the server drains, the connection is closed. A connection that is silent for a second releases
 * memory.
 */
#include "http/rest/rest.h"
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

#include <errno.h>

/* A connection releases memory after this silent time, in seconds. */
#define RELEASE_AFTER_S 1.0
/*
 * A connection of weft_ws_serve waits for this part of weft__rest_after_s before it can rest. The
 * wait of rest.h follows, which costs an operation more per message.
 */
#define REST_PART 0.05

/* Results of a wait, in addition to the number of bytes and errors. A transport returns errnos. */
enum {
    WAIT_LATE = -10001,  /* the time is over */
    WAIT_WOKEN = -10002, /* another fiber or the drain has cancelled the wait */
};

/* The silence of the peer so far. */
typedef enum silence {
    SILENT_BRIEFLY, /* less than RELEASE_AFTER_S */
    SILENT_LONG,    /* less than ping_s */
    SILENT_PINGED,  /* a ping was sent */
} silence;

/* Read or wait. If is_idle is set, the stream has no buffer during the wait. */
static ssize_t input_wait(weft_ws *ws, const weft__ws_want *want, bool is_idle)
{
    const void *data;
    if (want->data != NULL)
        return weft_stream_read(ws->live->stream, want->data, want->bytes);
    int rc = is_idle ? weft_stream_wait(ws->live->stream) : 0;
    ssize_t n = rc < 0 ? rc : weft_stream_peek(ws->live->stream, want->bytes, &data);
    return n >= 0 && (size_t)n < want->bytes ? 0 : n;
}

/* Like input_wait, but within a time. Returns WAIT_* in addition to the results of input_wait. */
static ssize_t input_wait_within(weft_ws *ws, const weft__ws_want *want, double timeout_s,
                                 bool is_idle)
{
    weft_scope scope;
    weft__drain_wait drain;
    ssize_t n = weft_scope_open(&scope, timeout_s);
    if (n < 0)
        return n;
    ws->live->recv_scope = &scope;
    if (ws->live->request != NULL)
        weft__drain_wait_begin(&drain, ws->live->request, &scope);
    if (ws->is_served)
        weft__ws_served_set_scope(ws, &scope);
    n = input_wait(ws, want, is_idle);
    if (n > 0)
        ws->is_pinged = false;
    if (ws->is_served)
        weft__ws_served_set_scope(ws, NULL);
    if (ws->live->request != NULL)
        weft__drain_wait_end(&drain);
    ws->live->recv_scope = NULL;
    bool was_cancelled = weft_scope_is_cancelled(&scope);
    bool is_late = weft_scope_close(&scope) == -ETIMEDOUT;
    if (n != -ECANCELED || !was_cancelled)
        return n;
    return is_late ? WAIT_LATE : WAIT_WOKEN;
}

/* Return the time for the next wait. */
static double wait_s(const weft_ws *ws, silence s)
{
    if (ws->is_close_sent) {
        double left_s = ws->live->close_deadline_s - weft_now();
        return left_s > 0 ? left_s : 0;
    }
    double ping_s = ws->settings->ping_s,
           brief_s = ping_s < RELEASE_AFTER_S ? ping_s : RELEASE_AFTER_S;
    return s == SILENT_BRIEFLY ? brief_s
           : s == SILENT_LONG  ? ping_s - brief_s
                               : ws->settings->pong_s;
}

/* Return whether a connection of weft_ws_serve needs no fiber until the next frame. */
static bool can_rest(weft_ws *ws, const weft__ws_want *want)
{
    const weft__ws_input *in = ws->live->input;
    const void *data;
    return ws->is_served && !ws->is_close_sent && want->data == NULL &&
           (in == NULL || (!in->has_frame && in->opcode == 0)) &&
           weft_stream_peek(ws->live->stream, 0, &data) == 0;
}

/* Handle the end of a wait without input. Returns 0, or an error that ends the connection. */
static int note_silence(weft_ws *ws, silence *s)
{
    if (ws->is_close_sent)
        return weft_fail(-ETIMEDOUT, "weft_ws: the peer has not closed in time");
    ws->is_stalled = *s == SILENT_PINGED;
    if (ws->is_stalled)
        return weft_fail(-ETIMEDOUT, "weft_ws: the peer has not answered a ping");
    if (*s == SILENT_BRIEFLY && ws->settings->ping_s > RELEASE_AFTER_S) {
        *s = SILENT_LONG;
        weft__ws_release_memory(ws);
        weft_trim_stack();
        return 0;
    }
    *s = SILENT_PINGED;
    ws->live->wants_ping = true;
    return 0;
}

static bool is_draining(const weft_ws *ws)
{
    if (ws->is_served)
        return weft__ws_served_is_draining(ws);
    return ws->live->request != NULL && weft_http_is_draining(ws->live->request);
}

/* Do what must happen before a wait. Returns 0 or an error. */
static int prepare_wait(weft_ws *ws)
{
    if (ws->failure < 0)
        return ws->failure;
    if (!ws->is_close_sent && is_draining(ws)) {
        int rc = weft__ws_send_close(ws, WEFT_WS_GOING_AWAY, NULL, 0);
        if (rc < 0)
            return rc;
    }
    int rc = weft__ws_flush_unless_busy(ws);
    /* The peer may have closed only its input. A close frame may still arrive. */
    return ws->live->send_failure < 0 && rc != -ECANCELED && ws->failure == 0 ? 0 : rc;
}

ssize_t weft__ws_await(weft_ws *ws, const weft__ws_want *want)
{
    silence s = SILENT_BRIEFLY;
    for (;;) {
        int rc = prepare_wait(ws);
        if (rc < 0)
            return rc;
        bool is_idle = s != SILENT_BRIEFLY, may_rest = can_rest(ws, want);
        double timeout_s = may_rest ? REST_PART * weft__rest_after_s : wait_s(ws, s);
        ssize_t n = input_wait_within(ws, want, timeout_s, is_idle);
        if (n == WAIT_LATE && may_rest)
            return WEFT__WS_CAN_REST;
        if (n == WAIT_LATE)
            rc = note_silence(ws, &s);
        else if (n != WAIT_WOKEN)
            return n;
        if (rc < 0)
            return rc;
    }
}

int weft__ws_recv_entered(weft_ws *ws, weft_ws_message *message)
{
    int rc = ws->failure < 0 ? ws->failure : weft__ws_receive(ws, message);
    if (rc == 0 && !ws->is_close_sent)
        rc = weft__ws_send_close(ws, ws->close_code == WEFT_WS_NO_CODE ? 0 : ws->close_code, NULL,
                                 0);
    /* The peer need not wait for the answer to its close frame. */
    if (rc < 0 && rc != -ECANCELED && ws->is_close_received && ws->failure == 0)
        rc = 0;
    return rc < 0 && rc != -ECANCELED && rc != WEFT__WS_CAN_REST ? weft__ws_fail(ws, rc) : rc;
}

/* Wait while a fiber in weft_ws_close discards messages. Returns 0 or an error. */
static int await_discarding(weft_ws *ws)
{
    int rc = 0;
    while (rc == 0 && ws->live->receiver != 0 && ws->live->is_discarding)
        rc = weft_cond_wait(&ws->live->changed, NULL);
    return rc;
}

static int recv_in_turn(weft_ws *ws, weft_ws_message *message)
{
    int rc = await_discarding(ws);
    if (rc < 0)
        return rc;
    if (ws->live->receiver != 0)
        return weft_fail(-EBUSY, "weft_ws_recv: another fiber is receiving");
    ws->live->receiver = ws->live->receiver_before = weft_self();
    if (ws->live->input != NULL)
        weft__buffer_free(&ws->live->input->delivered);
    rc = weft__ws_recv_entered(ws, message);
    ws->live->receiver = 0;
    return rc;
}

int weft_ws_recv(weft_ws *ws, weft_ws_message *message)
{
    int rc = weft__ws_enter(ws);
    if (rc < 0)
        return rc;
    rc = recv_in_turn(ws, message);
    weft__ws_leave(ws);
    return rc;
}
