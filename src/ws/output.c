/*
 * Writing of frames. A frame is sent as a whole, even if the call that writes it is cancelled: the
 * next call sends the rest. A write that makes no progress for send_s seconds ends the connection.
 */
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/fiber.h>

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

/* The output that the peer must accept in send_s seconds. */
#define PIECE_BYTES ((size_t)64 << 10)
/* The maximum length of a payload that goes directly to the buffer of the stream. */
#define SMALL_BYTES ((size_t)4 << 10)

/* Return the result of a write or flush, and record errors. */
static ssize_t output_result(weft_ws *ws, ssize_t n, bool was_cancelled, bool is_late)
{
    if (n == -ECANCELED && ws->failure < 0 && was_cancelled)
        return ws->failure; /* weft__ws_end has cancelled the scope */
    if (n == -ECANCELED && is_late) {
        ws->is_stalled = true;
        weft__ws_end(ws, -ETIMEDOUT);
        return weft_fail(-ETIMEDOUT, "weft_ws: the peer does not accept output");
    }
    if (n < 0 && n != -ECANCELED && n != -ENOMEM) {
        ws->live->send_failure = (int)n;
        (void)weft_cond_broadcast(&ws->live->turn);
        (void)weft_cond_broadcast(&ws->live->urgent);
    }
    return n;
}

/* Write or, if count is 0, flush, within send_s. Returns the number of bytes, or an error. */
static ssize_t write_within(weft_ws *ws, const struct iovec *iov, int count)
{
    weft_scope scope;
    ssize_t n = weft_scope_open(&scope, ws->settings->send_s);
    if (n < 0)
        return n;
    ws->live->send_scope = &scope;
    n = count > 0 ? weft_stream_writev(ws->live->stream, iov, count)
                  : weft_stream_flush(ws->live->stream);
    ws->live->send_scope = NULL;
    bool was_cancelled = weft_scope_is_cancelled(&scope);
    bool is_late = weft_scope_close(&scope) == -ETIMEDOUT;
    return n >= 0 ? n : output_result(ws, n, was_cancelled, is_late);
}

/*
 * Write two spans in pieces. *done is the number of written bytes, also after an error. Returns 0
 * or an error.
 */
static int write_spans(weft_ws *ws, const struct iovec spans[2], size_t *done)
{
    size_t head = spans[0].iov_len, total = head + spans[1].iov_len;
    for (*done = 0; *done < total;) {
        size_t left = total - *done < PIECE_BYTES ? total - *done : PIECE_BYTES;
        struct iovec iov[2];
        int count = 0;
        if (*done < head) {
            iov[count++] = (struct iovec){(char *)spans[0].iov_base + *done, head - *done};
            left -= head - *done;
        }
        size_t at = *done > head ? *done - head : 0;
        if (left > 0)
            iov[count++] = (struct iovec){(char *)spans[1].iov_base + at, left};
        ssize_t n = write_within(ws, iov, count);
        if (n < 0)
            return (int)n;
        *done += (size_t)n;
    }
    return 0;
}

int weft__ws_write_rest(weft_ws *ws)
{
    if (ws->live->out.bytes == 0)
        return 0;
    const struct iovec spans[2] = {
        {NULL, 0}, {ws->live->out.data + ws->live->out_at, ws->live->out.bytes - ws->live->out_at}};
    size_t done;
    int rc = write_spans(ws, spans, &done);
    ws->live->out_at += done;
    if (ws->live->out_at == ws->live->out.bytes)
        ws->live->out.bytes = ws->live->out_at = 0;
    return rc;
}

/* Keep the unsent bytes of spans in out, which is empty. */
static int keep_rest(weft_ws *ws, const struct iovec spans[2], size_t done)
{
    size_t head = spans[0].iov_len, total = head + spans[1].iov_len;
    int rc = weft__buffer_reserve(&ws->live->out, total - done);
    if (rc < 0) {
        weft__ws_end(ws, rc); /* the frame remains incomplete */
        return rc;
    }
    char *to = ws->live->out.data;
    if (done < head) {
        memcpy(to, (char *)spans[0].iov_base + done, head - done);
        to += head - done;
        done = head;
    }
    memcpy(to, (char *)spans[1].iov_base + (done - head), total - done);
    ws->live->out.bytes = (size_t)(to - ws->live->out.data) + total - done;
    return 0;
}

/* Set the mask of a frame, if the connection is that of a client. Returns 0 or an error. */
static int frame_set_mask(weft_ws *ws, weft__ws_frame *frame)
{
    weft__ws_masks *m = ws->live->masks;
    frame->is_masked = m != NULL;
    if (m == NULL)
        return 0;
    if (m->left == 0) {
        if (getrandom(m->keys, sizeof m->keys, 0) != (ssize_t)sizeof m->keys)
            return -EIO;
        m->left = sizeof m->keys / sizeof m->keys[0];
    }
    memcpy(frame->key, m->keys[--m->left], WEFT__WS_KEY_BYTES);
    return 0;
}

/* Copy a payload, and mask it if the frame has a mask. */
static void copy_payload(const weft__ws_frame *frame, char *to, const void *data, size_t bytes)
{
    if (frame->is_masked)
        weft__ws_mask(to, data, bytes, frame->key, 0);
    else if (bytes > 0)
        memcpy(to, data, bytes);
}

/* Write a short frame to the buffer of the stream. Returns false if the buffer has too little. */
static bool write_small(weft_ws *ws, const weft__ws_frame *frame, const uint8_t *header,
                        size_t header_bytes, const void *data)
{
    size_t bytes = (size_t)frame->bytes;
    char *to =
        bytes <= SMALL_BYTES ? weft_stream_reserve(ws->live->stream, header_bytes + bytes) : NULL;
    if (to == NULL)
        return false;
    memcpy(to, header, header_bytes);
    copy_payload(frame, to + header_bytes, data, bytes);
    weft_stream_commit(ws->live->stream, header_bytes + bytes);
    return true;
}

/* Write a frame of a server without copying it. */
static int write_direct(weft_ws *ws, const struct iovec spans[2])
{
    size_t done;
    int rc = write_spans(ws, spans, &done);
    return rc == -ECANCELED && done > 0 ? keep_rest(ws, spans, done) : rc;
}

/* Write a frame of a client, which needs a masked copy. */
static int write_masked(weft_ws *ws, const weft__ws_frame *frame, const struct iovec spans[2])
{
    size_t head = spans[0].iov_len, bytes = spans[1].iov_len;
    int rc = weft__buffer_reserve(&ws->live->out, head + bytes);
    if (rc < 0)
        return rc;
    memcpy(ws->live->out.data, spans[0].iov_base, head);
    copy_payload(frame, ws->live->out.data + head, spans[1].iov_base, bytes);
    ws->live->out.bytes = head + bytes;
    rc = weft__ws_write_rest(ws);
    return rc == -ECANCELED ? 0 : rc;
}

int weft__ws_write_frame(weft_ws *ws, uint8_t opcode, uint8_t rsv, bool is_final, const void *data,
                         size_t bytes)
{
    weft__ws_frame frame = {.bytes = bytes, .opcode = opcode, .rsv = rsv, .is_final = is_final};
    uint8_t header[WEFT__WS_HEADER_BYTES_MAX];
    int rc = weft__ws_write_rest(ws);
    if (rc == 0)
        rc = frame_set_mask(ws, &frame);
    ssize_t header_bytes = rc < 0 ? rc : weft__ws_frame_format(&frame, header);
    if (header_bytes < 0)
        return (int)header_bytes;
    ws->live->has_unflushed = true;
    if (write_small(ws, &frame, header, (size_t)header_bytes, data))
        return 0;
    const struct iovec spans[2] = {{header, (size_t)header_bytes},
                                   {(void *)(uintptr_t)data, bytes}};
    return frame.is_masked ? write_masked(ws, &frame, spans) : write_direct(ws, spans);
}

int weft__ws_write_out(weft_ws *ws, uint8_t opcode, uint8_t rsv, bool is_final)
{
    size_t bytes = ws->live->out.bytes - WEFT__WS_HEADER_BYTES_MAX;
    char *payload = ws->live->out.data + WEFT__WS_HEADER_BYTES_MAX;
    weft__ws_frame frame = {.bytes = bytes, .opcode = opcode, .rsv = rsv, .is_final = is_final};
    uint8_t header[WEFT__WS_HEADER_BYTES_MAX];
    int rc = frame_set_mask(ws, &frame);
    ssize_t header_bytes = rc < 0 ? rc : weft__ws_frame_format(&frame, header);
    if (header_bytes < 0) {
        /* The compressor has taken the message, but the peer will not get it. */
        weft__ws_end(ws, (int)header_bytes);
        return (int)header_bytes;
    }
    copy_payload(&frame, payload, payload, frame.is_masked ? bytes : 0);
    ws->live->out_at = WEFT__WS_HEADER_BYTES_MAX - (size_t)header_bytes;
    memcpy(ws->live->out.data + ws->live->out_at, header, (size_t)header_bytes);
    ws->live->has_unflushed = true;
    rc = weft__ws_write_rest(ws);
    return rc == -ECANCELED ? 0 : rc;
}

/* Write a control frame to the buffer of the stream. Returns false if it must wait. */
static bool write_control_now(weft_ws *ws, uint8_t opcode, const void *data, size_t bytes)
{
    weft__ws_frame frame = {.bytes = bytes, .opcode = opcode, .is_final = true};
    uint8_t header[WEFT__WS_HEADER_BYTES_MAX];
    if (ws->live->out.bytes > 0 || frame_set_mask(ws, &frame) < 0)
        return false;
    ssize_t header_bytes = weft__ws_frame_format(&frame, header);
    if (header_bytes < 0 || !write_small(ws, &frame, header, (size_t)header_bytes, data))
        return false;
    ws->live->has_unflushed = true;
    return true;
}

void weft__ws_write_pending(weft_ws *ws)
{
    weft__ws_input *in = ws->live->input;
    if (ws->is_close_sent || ws->live->send_failure < 0 ||
        (ws->live->writer != 0 && ws->live->writer != weft_self()))
        return;
    if (in != NULL && in->pong.is_set &&
        write_control_now(ws, WSLAY_PONG, in->pong.data, in->pong.bytes))
        in->pong.is_set = false;
    if (ws->live->wants_ping && write_control_now(ws, WSLAY_PING, NULL, 0))
        ws->live->wants_ping = false;
}

int weft__ws_flush(weft_ws *ws)
{
    int rc = weft__ws_write_rest(ws);
    if (rc < 0)
        return rc;
    weft__ws_write_pending(ws);
    ws->live->has_unflushed = false;
    rc = (int)write_within(ws, NULL, 0);
    if (rc < 0)
        ws->live->has_unflushed = true;
    return rc;
}

int weft__ws_flush_unless_busy(weft_ws *ws)
{
    if ((!ws->live->has_unflushed && !weft__ws_has_pending(ws)) || ws->live->writer != 0 ||
        ws->live->send_failure < 0)
        return 0;
    int rc = weft__ws_turn_take(ws, true);
    if (rc < 0)
        return rc;
    rc = weft__ws_flush(ws);
    weft__ws_turn_release(ws);
    return rc;
}
