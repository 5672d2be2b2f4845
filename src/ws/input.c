/*
 * Receiving of frames: the checks of RFC 6455 that wslay leaves to the application, control frames,
 * and the join of fragments. Text is checked as it arrives, so that invalid text fails at once.
 */
#include "ws/ws.h"

#include <weft/error.h>

#include <errno.h>
#include <string.h>

/* A connection with payloads of this length gets a large input buffer. */
#define LARGE_BYTES ((size_t)768)
/* A payload with at least this rest is read directly into the message. */
#define DIRECT_BYTES ((size_t)8 << 10)
/* The most room for a direct read before its bytes have arrived. */
#define ROOM_BYTES_MAX ((size_t)256 << 10)
/* The room for a message before its first byte. */
#define MESSAGE_BYTES_FIRST ((size_t)128)
/* Compressed bytes are unmasked in pieces of this size. */
#define PIECE_BYTES ((size_t)2 << 10)
/*
 * The maximum number of frames of a message that add no bytes to it. Such frames are valid, but a
 * message could otherwise have any number of them.
 */
#define USELESS_FRAMES_MAX 65536

/* Record the close code of a violation. Returns error. */
static int violation(weft_ws *ws, int error, int code, const char *text)
{
    ws->failure_code = (uint16_t)code;
    return weft_fail(error, "weft_ws_recv: %s", text);
}

static int protocol_error(weft_ws *ws, const char *text)
{
    return violation(ws, -EBADMSG, WEFT_WS_PROTOCOL_ERROR, text);
}

/*
 * Headers.
 */

/* Check the opcode and the reserved bits (RFC 6455, 5.2; RFC 7692, 6). */
static int check_opcode(weft_ws *ws, const weft__ws_frame *f)
{
    const weft__ws_input *in = ws->live->input;
    bool is_first = f->opcode == WSLAY_TEXT_FRAME || f->opcode == WSLAY_BINARY_FRAME;
    bool is_control = f->opcode >= WSLAY_CONNECTION_CLOSE && f->opcode <= WSLAY_PONG;
    uint8_t allowed = is_first && ws->deflate != NULL ? WSLAY_RSV1_BIT : WSLAY_RSV_NONE;
    if ((f->rsv & ~allowed) != 0)
        return protocol_error(ws, "a reserved bit is set");
    if (!is_first && !is_control && f->opcode != WSLAY_CONTINUATION_FRAME)
        return protocol_error(ws, "the opcode is reserved");
    if (is_first && in->opcode != 0)
        return protocol_error(ws, "a message begins inside another message");
    if (f->opcode == WSLAY_CONTINUATION_FRAME && in->opcode == 0)
        return protocol_error(ws, "a fragment has no message");
    return 0;
}

static int check_size(weft_ws *ws, const weft__ws_frame *f)
{
    const weft__ws_input *in = ws->live->input;
    bool is_plain = f->opcode == WSLAY_CONTINUATION_FRAME ? !in->is_compressed : f->rsv == 0;
    size_t before = f->opcode == WSLAY_CONTINUATION_FRAME ? in->message.bytes : 0;
    if (f->bytes > ws->settings->frame_bytes_max)
        return violation(ws, -EMSGSIZE, WEFT_WS_TOO_BIG, "a frame is too long");
    if (is_plain && f->bytes > ws->settings->message_bytes_max - before)
        return violation(ws, -EMSGSIZE, WEFT_WS_TOO_BIG, "a message is too long");
    return 0;
}

/* A client masks each frame, a server none (RFC 6455, 5.1). */
static int check_frame(weft_ws *ws, const weft__ws_frame *f)
{
    if (f->is_masked == weft__ws_is_client(ws))
        return protocol_error(ws, f->is_masked ? "a frame is masked" : "a frame is not masked");
    int rc = check_opcode(ws, f);
    if (rc < 0 || f->opcode >= WSLAY_CONNECTION_CLOSE)
        return rc;
    return check_size(ws, f);
}

static void begin_frame(weft_ws *ws, const weft__ws_frame *f)
{
    weft__ws_input *in = ws->live->input;
    if (f->bytes >= LARGE_BYTES && !ws->live->has_large_buffer)
        weft__ws_set_buffer(ws, true);
    in->frame = *f;
    in->left = f->bytes;
    in->has_frame = true;
    in->has_output = false;
    if (f->opcode >= WSLAY_CONNECTION_CLOSE) {
        in->control_bytes = 0;
    } else if (f->opcode != WSLAY_CONTINUATION_FRAME) {
        in->opcode = f->opcode;
        in->is_compressed = f->rsv != 0;
        in->has_compressed = false;
        in->message.bytes = 0;
        in->useless_frames = 0;
        in->utf8 = (weft__utf8){0};
    }
}

/* Wait for input. Returns 0, or an error, also at the end of the input. */
static int await_more(weft_ws *ws, size_t bytes)
{
    ssize_t n = weft__ws_await(ws, &(weft__ws_want){.bytes = bytes});
    if (n == 0)
        return weft_fail(-ECONNRESET, "weft_ws_recv: the peer has closed the connection without a "
                                      "close frame");
    return n < 0 ? (int)n : 0;
}

/* Read the header of the next frame, or wait for it. Returns 0 or an error. */
static int read_header(weft_ws *ws)
{
    const void *data;
    ssize_t n = weft_stream_peek(ws->live->stream, 0, &data);
    if (n < 0)
        return (int)n;
    size_t bytes = n < 2 ? 2 : weft__ws_header_bytes(data);
    if ((size_t)n < bytes)
        return await_more(ws, bytes);
    weft__ws_frame frame;
    int rc = weft__ws_frame_parse(&frame, data);
    if (rc == -EBADMSG)
        return protocol_error(ws, "the length of a frame is invalid");
    rc = rc < 0 ? rc : check_frame(ws, &frame);
    if (rc < 0)
        return rc;
    begin_frame(ws, &frame);
    return weft_stream_skip(ws->live->stream, bytes);
}

/*
 * Payloads.
 */

/* Check the last bytes of a text message. */
static int check_text(weft_ws *ws, size_t bytes_before)
{
    weft__ws_input *in = ws->live->input;
    size_t bytes = in->message.bytes - bytes_before;
    in->has_output |= bytes > 0;
    if (in->opcode != WSLAY_TEXT_FRAME ||
        weft__utf8_feed(&in->utf8, in->message.data + bytes_before, bytes))
        return 0;
    return violation(ws, -EBADMSG, WEFT_WS_BAD_DATA, "a text is not UTF-8");
}

/* Copy or unmask bytes of the frame's payload. */
static void unmask(const weft__ws_input *in, char *to, const char *data, size_t bytes)
{
    if (in->frame.is_masked)
        weft__ws_mask(to, data, bytes, in->frame.key, in->frame.bytes - in->left);
    else if (to != data)
        memcpy(to, data, bytes);
}

/* Make room for bytes of the message and a NUL. */
static int message_reserve(weft__ws_input *in, size_t bytes)
{
    size_t room = bytes + 1;
    if (in->message.capacity == 0 && room < MESSAGE_BYTES_FIRST)
        room = MESSAGE_BYTES_FIRST;
    return weft__buffer_reserve(&in->message, room);
}

static int take_plain(weft_ws *ws, const char *data, size_t bytes)
{
    weft__ws_input *in = ws->live->input;
    size_t before = in->message.bytes;
    int rc = message_reserve(in, bytes);
    if (rc < 0)
        return rc;
    unmask(in, in->message.data + before, data, bytes);
    in->message.bytes += bytes;
    in->left -= bytes;
    return check_text(ws, before);
}

/* Decompress a piece. If is_last is set, the message ends after the piece. */
static int take_inflated(weft_ws *ws, const char *piece, size_t bytes, bool is_last)
{
    weft__buffer *message = &ws->live->input->message;
    size_t before = message->bytes;
    int rc = weft__ws_inflate_part(ws->deflate, piece, bytes, is_last, message,
                                   ws->settings->message_bytes_max);
    if (rc == -EBADMSG)
        return violation(ws, rc, WEFT_WS_BAD_DATA, "a compressed message is malformed");
    if (rc == -EMSGSIZE)
        return violation(ws, rc, WEFT_WS_TOO_BIG, "a decompressed message is too long");
    return rc < 0 ? rc : check_text(ws, before);
}

static int take_compressed(weft_ws *ws, const char *data, size_t bytes)
{
    weft__ws_input *in = ws->live->input;
    char piece[PIECE_BYTES];
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0;) {
        size_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        unmask(in, piece, data + at, n);
        at += n;
        in->left -= n;
        in->has_compressed = true;
        rc = take_inflated(ws, piece, n, false);
    }
    return rc;
}

static int take_control(weft_ws *ws, const char *data, size_t bytes)
{
    weft__ws_input *in = ws->live->input;
    unmask(in, (char *)in->control + in->control_bytes, data, bytes);
    in->control_bytes = (uint8_t)(in->control_bytes + bytes);
    in->left -= bytes;
    return 0;
}

static int take_payload(weft_ws *ws, const char *data, size_t bytes)
{
    if (ws->live->input->frame.opcode >= WSLAY_CONNECTION_CLOSE)
        return take_control(ws, data, bytes);
    return ws->live->input->is_compressed ? take_compressed(ws, data, bytes)
                                          : take_plain(ws, data, bytes);
}

/* Read a part of a long payload directly into the message. */
static int read_direct(weft_ws *ws)
{
    weft__ws_input *in = ws->live->input;
    size_t before = in->message.bytes;
    int rc = message_reserve(in, in->left < ROOM_BYTES_MAX ? (size_t)in->left : ROOM_BYTES_MAX);
    if (rc < 0)
        return rc;
    size_t room = in->message.capacity - before - 1;
    char *to = in->message.data + before;
    weft__ws_want want = {.bytes = room < in->left ? room : (size_t)in->left, .data = to};
    ssize_t n = weft__ws_await(ws, &want);
    if (n <= 0)
        return n < 0 ? (int)n : -ECONNRESET;
    unmask(in, to, to, (size_t)n);
    in->message.bytes += (size_t)n;
    in->left -= (uint64_t)n;
    return check_text(ws, before);
}

/* Take the bytes of the payload that have arrived, or wait for more. Returns 0 or an error. */
static int read_payload(weft_ws *ws)
{
    const weft__ws_input *in = ws->live->input;
    const void *data;
    ssize_t held = weft_stream_peek(ws->live->stream, 0, &data);
    if (held < 0)
        return (int)held;
    if (held == 0 && in->left >= DIRECT_BYTES && !in->is_compressed)
        return read_direct(ws);
    if (held == 0)
        return await_more(ws, 1);
    size_t bytes = (uint64_t)held < in->left ? (size_t)held : (size_t)in->left;
    int rc = take_payload(ws, data, bytes);
    return rc < 0 ? rc : weft_stream_skip(ws->live->stream, bytes);
}

/*
 * Ends of frames.
 */

/* Check the payload of a close frame (RFC 6455, 5.5.1 and 7.4). */
static int check_close(weft_ws *ws)
{
    const weft__ws_input *in = ws->live->input;
    if (in->control_bytes == 0)
        return WEFT_WS_NO_CODE;
    int code = in->control[0] << 8 | in->control[1];
    if (in->control_bytes == 1 || !weft__ws_code_is_valid(code))
        return protocol_error(ws, "the code of a close frame is invalid");
    if (!weft__utf8_is_text(in->control + 2, in->control_bytes - 2u))
        return violation(ws, -EBADMSG, WEFT_WS_BAD_DATA,
                         "the reason of a close frame is not UTF-8");
    return code;
}

static int end_close(weft_ws *ws)
{
    const weft__ws_input *in = ws->live->input;
    int code = check_close(ws);
    if (code < 0)
        return code;
    if (in->control_bytes > 2) {
        ws->live->close_reason = strndup((const char *)in->control + 2, in->control_bytes - 2u);
        if (ws->live->close_reason == NULL)
            return -ENOMEM;
    }
    ws->close_code = (uint16_t)code;
    ws->is_close_received = true;
    (void)weft_cond_broadcast(&ws->live->turn);
    (void)weft_cond_broadcast(&ws->live->changed);
    return 0;
}

/*
 * Answer a ping. An answer that cannot be written yet replaces an earlier one (RFC 6455, 5.5.3), so
 * that a flood of pings needs no memory.
 */
static void end_ping(weft_ws *ws)
{
    weft__ws_input *in = ws->live->input;
    in->pong.bytes = in->control_bytes;
    memcpy(in->pong.data, in->control, in->control_bytes);
    in->pong.is_set = !ws->is_close_sent;
    weft__ws_write_pending(ws);
}

static int end_message(weft_ws *ws, weft_ws_message *message)
{
    weft__ws_input *in = ws->live->input;
    int rc = in->has_compressed ? take_inflated(ws, "", 0, true) : 0;
    if (rc == 0 && in->opcode == WSLAY_TEXT_FRAME && in->utf8.left > 0)
        rc = violation(ws, -EBADMSG, WEFT_WS_BAD_DATA, "a text ends inside a character");
    if (rc == 0)
        rc = message_reserve(in, 0);
    if (rc < 0)
        return rc;
    in->message.data[in->message.bytes] = '\0';
    *message = (weft_ws_message){
        .kind = (weft_ws_kind)in->opcode, .data = in->message.data, .bytes = in->message.bytes};
    in->opcode = 0;
    return 1;
}

/* Handle the end of a frame. Returns 1 if a message is complete, 0 or an error. */
static int end_frame(weft_ws *ws, weft_ws_message *message)
{
    weft__ws_input *in = ws->live->input;
    in->has_frame = false;
    if (in->frame.opcode == WSLAY_CONNECTION_CLOSE)
        return end_close(ws);
    if (in->frame.opcode == WSLAY_PING)
        end_ping(ws);
    if (in->frame.opcode >= WSLAY_CONNECTION_CLOSE)
        return 0;
    if (in->frame.is_final)
        return end_message(ws, message);
    if (!in->has_output && ++in->useless_frames > USELESS_FRAMES_MAX)
        return violation(ws, -EMSGSIZE, WEFT_WS_POLICY, "too many frames of a message are empty");
    return 0;
}

static int input_open(weft_ws *ws)
{
    ws->live->input = calloc(1, sizeof *ws->live->input);
    return ws->live->input != NULL ? 0 : -ENOMEM;
}

int weft__ws_receive(weft_ws *ws, weft_ws_message *message)
{
    int rc = 0;
    while (rc == 0 && !ws->is_close_received) {
        if (ws->live->input == NULL) /* the wait for a header may release the input */
            rc = input_open(ws);
        else if (!ws->live->input->has_frame)
            rc = read_header(ws);
        else if (ws->live->input->left > 0)
            rc = read_payload(ws);
        else
            rc = end_frame(ws, message);
    }
    return rc;
}

void weft__ws_input_release(weft_ws *ws)
{
    weft__ws_input *in = ws->live->input;
    if (in == NULL || in->has_frame || in->opcode != 0 || in->delivered.data != NULL ||
        weft__ws_has_pending(ws))
        return;
    weft__buffer_free(&in->message);
    free(in);
    ws->live->input = NULL;
}
