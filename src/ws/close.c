/*
 * The end of a connection: the close handshake (RFC 6455, 7), failures, and the release of a
 * connection. The server closes the TCP connection first (RFC 6455, 7.1.1).
 */
#include "http/reply/reply.h"
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

#include <errno.h>
#include <math.h>
#include <string.h>

/* The most bytes that a client discards while it waits for the end of the connection. */
#define DISCARD_BYTES_MAX ((size_t)1 << 20)

bool weft__ws_code_is_valid(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

/* Write a close frame. The caller has the turn. */
static int write_close(weft_ws *ws, int code, const char *reason, size_t reason_bytes)
{
    char data[WEFT__WS_CONTROL_BYTES_MAX] = {(char)(code >> 8), (char)code};
    if (reason_bytes > 0)
        memcpy(data + 2, reason, reason_bytes);
    weft__ws_write_pending(ws); /* answer pings before the close */
    int rc = weft__ws_write_frame(ws, WSLAY_CONNECTION_CLOSE, WSLAY_RSV_NONE, true, data,
                                  code != 0 ? 2 + reason_bytes : 0);
    if (rc < 0)
        return rc;
    ws->is_close_sent = true;
    ws->live->close_deadline_s = weft_now() + ws->settings->close_s;
    weft__ws_wake_receiver(ws); /* the time of its wait changes */
    if (ws->is_served)
        weft__ws_served_wake(ws);
    (void)weft_cond_broadcast(&ws->live->turn);
    rc = weft__ws_flush(ws);
    return rc == -ECANCELED ? 0 : rc;
}

int weft__ws_send_close(weft_ws *ws, int code, const char *reason, size_t reason_bytes)
{
    int rc = weft__ws_turn_take(ws, true);
    if (rc < 0)
        return rc;
    if (!ws->is_close_sent)
        rc = write_close(ws, code, reason, reason_bytes);
    weft__ws_turn_release(ws);
    return rc;
}

int weft__ws_fail(weft_ws *ws, int error)
{
    int code = error == -ENOMEM ? WEFT_WS_INTERNAL : ws->failure_code;
    if (code != 0 && ws->failure == 0 && !ws->is_close_sent)
        WEFT_MOVE_ON_AFTER(ws->settings->close_s)
            (void)weft__ws_send_close(ws, code, NULL, 0);
    weft__ws_end(ws, error);
    return ws->failure;
}

static int check_close_args(int code, const char *reason, size_t reason_bytes)
{
    if (code != 0 && !weft__ws_code_is_valid(code))
        return weft_fail(-EINVAL, "weft_ws_close: code is %d", code);
    if (reason_bytes > 0 && code == 0)
        return weft_fail(-EINVAL, "weft_ws_close: a reason needs a code");
    if (reason_bytes > WEFT__WS_REASON_BYTES_MAX || !weft__utf8_is_text(reason, reason_bytes))
        return weft_fail(-EINVAL, "weft_ws_close: reason is too long, or not UTF-8");
    return 0;
}

/* Receive and discard messages until the peer closes. Returns 0 or an error. */
static int discard_messages(weft_ws *ws)
{
    weft_ws_message message;
    int rc = 1;
    weft__ws_input *in = ws->live->input;
    if (in != NULL && in->opcode == 0 && in->delivered.data == NULL) {
        in->delivered = in->message; /* its receiver may still use the message */
        in->message = (weft__buffer){0};
    }
    ws->live->receiver = weft_self();
    ws->live->is_discarding = true;
    while (rc > 0)
        rc = weft__ws_recv_entered(ws, &message);
    ws->live->is_discarding = false;
    ws->live->receiver = 0;
    (void)weft_cond_broadcast(&ws->live->changed);
    return rc;
}

/* Wait until the peer has closed. */
static int await_close(weft_ws *ws)
{
    int rc = 0;
    while (rc == 0 && !ws->is_close_received) {
        if (ws->failure < 0)
            return ws->failure;
        if (ws->live->server == weft_self())
            return 0; /* weft_ws_serve waits */
        bool is_received = ws->live->receiver != 0 || ws->is_served || ws->live->server != 0;
        rc = is_received ? weft_cond_wait(&ws->live->changed, NULL) : discard_messages(ws);
    }
    return rc;
}

static int close_entered(weft_ws *ws, int code, const char *reason, size_t reason_bytes)
{
    int rc = ws->failure;
    if (rc == 0 && !ws->is_close_sent)
        rc = weft__ws_send_close(ws, code, reason, reason_bytes);
    return rc < 0 ? rc : await_close(ws);
}

int weft_ws_close(weft_ws *ws, int code, const char *reason)
{
    size_t reason_bytes = reason != NULL ? strlen(reason) : 0;
    int rc = check_close_args(code, reason, reason_bytes);
    if (rc < 0)
        return rc;
    rc = weft__ws_enter(ws);
    if (rc < 0)
        return rc;
    rc = close_entered(ws, code, reason, reason_bytes);
    weft__ws_leave(ws);
    return rc;
}

/*
 * Free.
 */

/* Close an open connection, also in a cancelled fiber. */
static void close_at_last(weft_ws *ws)
{
    if (ws->failure < 0 || (ws->is_close_sent && ws->is_close_received))
        return;
    int rc = weft_ws_close(ws, WEFT_WS_GOING_AWAY, NULL);
    if (rc == -ECANCELED && !ws->is_close_sent)
        WEFT_SHIELD(WEFT__WS_FREE_S)
            (void)weft__ws_send_close(ws, WEFT_WS_GOING_AWAY, NULL, 0);
    if (rc == -ECANCELED && ws->live->has_unflushed)
        WEFT_SHIELD(WEFT__WS_FREE_S)
            (void)weft__ws_flush_unless_busy(ws);
}

/* Wait until no fiber is in a call with ws. */
static void await_users(weft_ws *ws)
{
    WEFT_SHIELD(INFINITY)
        while (ws->users > 0 && weft_cond_wait(&ws->live->changed, NULL) == 0)
            ;
}

/*
 * Wait until the server has closed the TCP connection or has ended the stream, also after a failure
 * (RFC 6455, 7.1.1). A client that closes first may reset the connection. The server may then
 * discard the close frame and its code.
 */
static void await_server_close(weft_ws *ws)
{
    size_t discarded = 0;
    ssize_t n = 1;
    double left_s = ws->live->close_deadline_s - weft_now();
    WEFT_MOVE_ON_AFTER(left_s > 0 ? left_s : 0)
        while (n > 0 && discarded < DISCARD_BYTES_MAX) {
            char data[1024];
            n = weft_stream_read(ws->live->stream, data, sizeof data);
            discarded += n > 0 ? (size_t)n : 0;
        }
}

void weft_ws_free(weft_ws *ws)
{
    if (ws == NULL)
        return;
    close_at_last(ws);
    bool is_clean = ws->failure == 0 && ws->is_close_sent && ws->is_close_received;
    weft__ws_end(ws, -EBADF);
    await_users(ws);
    if (ws->live->request != NULL && ws->is_stalled)
        (void)weft__reply_abort(ws->live->request, -ETIMEDOUT);
    else if (ws->live->request != NULL && !is_clean)
        weft__upgraded_abandon_input(ws->live->request);
    if (ws->live->fetch != NULL && ws->is_close_sent)
        await_server_close(ws);
    weft_fetch_close(ws->live->fetch);
    weft__ws_delete(ws);
}
