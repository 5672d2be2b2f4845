/* Sending of messages: checks, compression, parts. */
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/fiber.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Texts up to this length are formatted on the stack. */
#define TEXT_BYTES 512

static int check_kind(weft_ws_kind kind)
{
    if (kind == WEFT_WS_TEXT || kind == WEFT_WS_BINARY)
        return 0;
    return weft_fail(-EINVAL, "weft_ws_send: kind is %d", (int)kind);
}

static int fail_text(void)
{
    return weft_fail(-EINVAL, "weft_ws_send: the text is not UTF-8");
}

/* Return whether to compress a message. A message of several parts may be long. */
static bool is_compressible(const weft_ws *ws, size_t bytes, bool is_whole)
{
    return ws->deflate != NULL && ws->deflate->params.send_bits > 8 &&
           (!is_whole || bytes >= ws->settings->deflate_bytes_min);
}

/* Compress data and write it as one frame. */
static int write_compressed(weft_ws *ws, uint8_t opcode, const void *data, size_t bytes,
                            bool is_last)
{
    int rc = weft__ws_write_rest(ws);
    if (rc == 0)
        rc = weft__buffer_reserve(&ws->live->out, WEFT__WS_HEADER_BYTES_MAX);
    if (rc < 0)
        return rc;
    ws->live->out.bytes = WEFT__WS_HEADER_BYTES_MAX;
    rc = weft__ws_deflate_part(ws->deflate, data, bytes, is_last, &ws->live->out);
    if (rc < 0) {
        ws->live->out.bytes = 0;
        return rc;
    }
    uint8_t rsv = opcode != WSLAY_CONTINUATION_FRAME ? WSLAY_RSV1_BIT : WSLAY_RSV_NONE;
    return weft__ws_write_out(ws, opcode, rsv, is_last);
}

static weft_value flusher_run(void *arg)
{
    weft_ws *ws = arg;
    ws->live->has_flusher = false;
    (void)weft__ws_flush_unless_busy(ws);
    weft__ws_leave(ws);
    return 0;
}

static void flusher_drop(void *arg)
{
    weft_ws *ws = arg;
    ws->live->has_flusher = false;
    weft__ws_leave(ws);
}

/*
 * Return whether to send the output later. If more input has arrived, the receiving fiber probably
 * sends more messages before it waits. Another fiber flushes if the receiving fiber waits for
 * something other than input.
 */
static bool flush_is_deferred(weft_ws *ws)
{
    const void *data;
    if (ws->live->receiver_before != weft_self() || ws->live->receiver != 0 ||
        weft_stream_peek(ws->live->stream, 0, &data) <= 0)
        return false;
    if (ws->live->has_flusher)
        return true;
    const weft_spin_options options = {.name = "ws flush", .drop = flusher_drop};
    if (weft__ws_enter(ws) < 0)
        return false;
    ws->live->has_flusher = weft_go_with(flusher_run, ws, &options) == 0;
    if (!ws->live->has_flusher)
        weft__ws_leave(ws);
    return ws->live->has_flusher;
}

/* Write a whole message or a part, then flush. The message is taken if the flush is cancelled. */
static int write_message(weft_ws *ws, uint8_t opcode, bool is_compressed, const void *data,
                         size_t bytes, bool is_last)
{
    int rc = is_compressed ? write_compressed(ws, opcode, data, bytes, is_last)
                           : weft__ws_write_frame(ws, opcode, WSLAY_RSV_NONE, is_last, data, bytes);
    if (rc < 0 || (ws->live->out.bytes == 0 && flush_is_deferred(ws)))
        return rc;
    rc = weft__ws_flush(ws);
    return rc == -ECANCELED ? 0 : rc;
}

static int send_whole(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes)
{
    if (ws->live->author != 0 && ws->live->author == weft_self())
        return weft_fail(-EBUSY, "weft_ws_send: the caller has begun a message with parts");
    int rc = weft__ws_turn_take(ws, false);
    if (rc < 0)
        return rc;
    rc = write_message(ws, (uint8_t)kind, is_compressible(ws, bytes, true), data, bytes, true);
    weft__ws_turn_release(ws);
    return rc;
}

int weft_ws_send(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes)
{
    int rc = check_kind(kind);
    if (rc < 0)
        return rc;
    if (kind == WEFT_WS_TEXT && !weft__utf8_is_text(data, bytes))
        return fail_text();
    rc = weft__ws_enter(ws);
    if (rc < 0)
        return rc;
    rc = send_whole(ws, kind, data, bytes);
    weft__ws_leave(ws);
    return rc;
}

int weft_ws_printf(weft_ws *ws, const char *format, ...)
{
    char small[TEXT_BYTES], *text = small;
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (bytes < 0)
        return weft_fail(-EINVAL, "weft_ws_printf: format is invalid");
    if ((size_t)bytes >= sizeof small) {
        text = malloc((size_t)bytes + 1);
        if (text == NULL)
            return -ENOMEM;
        va_start(args, format);
        bytes = vsnprintf(text, (size_t)bytes + 1, format, args);
        va_end(args);
    }
    int rc = weft_ws_send(ws, WEFT_WS_TEXT, text, (size_t)bytes);
    if (text != small)
        free(text);
    return rc;
}

/* Check a part against the parts before it. *utf8 is the state of a text after this part. */
static int check_part(const weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes,
                      bool is_last, weft__utf8 *utf8)
{
    bool is_first = ws->live->author != weft_self();
    if (!is_first && ws->live->send_opcode != (uint8_t)kind)
        return weft_fail(-EINVAL, "weft_ws_send_part: kind differs from that of the first part");
    *utf8 = is_first ? (weft__utf8){0} : ws->live->send_utf8;
    if (kind == WEFT_WS_TEXT &&
        (!weft__utf8_feed(utf8, data, bytes) || (is_last && utf8->left > 0)))
        return fail_text();
    return 0;
}

static int send_part(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes, bool is_last,
                     const weft__utf8 *utf8)
{
    bool is_first = ws->live->author != weft_self();
    int rc = weft__ws_turn_take(ws, !is_first);
    if (rc == 0 && (ws->is_close_sent || ws->is_close_received)) {
        weft__ws_turn_release(ws);
        rc = -EPIPE;
    }
    if (rc < 0)
        return rc;
    if (is_first)
        ws->live->is_send_compressed = is_compressible(ws, bytes, is_last);
    uint8_t opcode = is_first ? (uint8_t)kind : WSLAY_CONTINUATION_FRAME;
    rc = write_message(ws, opcode, ws->live->is_send_compressed, data, bytes, is_last);
    if (rc == 0) {
        ws->live->author = is_last ? 0 : weft_self();
        ws->live->send_opcode = (uint8_t)kind;
        ws->live->send_utf8 = *utf8;
    }
    weft__ws_turn_release(ws);
    return rc;
}

int weft_ws_send_part(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes, bool is_last)
{
    weft__utf8 utf8;
    int rc = check_kind(kind);
    if (rc == 0)
        rc = weft__ws_enter(ws);
    if (rc < 0)
        return rc;
    rc = check_part(ws, kind, data, bytes, is_last, &utf8);
    if (rc == 0)
        rc = send_part(ws, kind, data, bytes, is_last, &utf8);
    weft__ws_leave(ws);
    return rc;
}
