/*
 * The turns of fibers that write. The frames of a message are contiguous, except for control
 * frames, which may go between them (RFC 6455, 5.4). A fiber has the turn while it writes a frame.
 * Between two parts of a message, only its author and urgent fibers get the turn.
 *
 * The turn passes directly to the fiber that has waited longest. writer is then
 * WEFT__WS_PASSED_TURN or WEFT__WS_PASSED_URGENT until that fiber runs.
 */
#include "ws/ws.h"

#include <weft/fiber.h>

/* Return the error of a call that sends, or 0. */
static int output_error(const weft_ws *ws, bool is_urgent)
{
    if (ws->failure < 0)
        return ws->failure;
    if (ws->live->send_failure < 0)
        return ws->live->send_failure;
    return !is_urgent && (ws->is_close_sent || ws->is_close_received) ? -EPIPE : 0;
}

static bool is_turn_free(const weft_ws *ws, bool is_urgent)
{
    return ws->live->writer == 0 && (is_urgent || ws->live->author == 0);
}

int weft__ws_turn_take(weft_ws *ws, bool is_urgent)
{
    int rc = output_error(ws, is_urgent);
    if (rc == 0 && !is_turn_free(ws, is_urgent)) {
        rc = weft_cond_wait(is_urgent ? &ws->live->urgent : &ws->live->turn, NULL);
        if (rc < 0)
            return rc;
        rc = output_error(ws, is_urgent);
        /* The turn was passed to this fiber, but the peer has closed or the output has failed. */
        if (rc < 0 &&
            ws->live->writer == (is_urgent ? WEFT__WS_PASSED_URGENT : WEFT__WS_PASSED_TURN))
            weft__ws_turn_release(ws);
    }
    if (rc == 0)
        ws->live->writer = weft_self();
    return rc;
}

void weft__ws_turn_release(weft_ws *ws)
{
    ws->live->writer = 0;
    if (weft_cond_signal(&ws->live->urgent) > 0)
        ws->live->writer = WEFT__WS_PASSED_URGENT;
    else if (ws->live->author == 0 && weft_cond_signal(&ws->live->turn) > 0)
        ws->live->writer = WEFT__WS_PASSED_TURN;
    else if (weft__ws_has_pending(ws)) /* a ping has arrived during the last flush */
        weft__ws_wake_receiver(ws);
}
