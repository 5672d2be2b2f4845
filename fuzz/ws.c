/*
 * Fuzz the receiving side of WebSocket. The bits of the first byte select the connection:
 *
 * 1  a client, whose peer does not mask
 * 2  compression
 * 4  compression without context takeover
 * 8  the input arrives byte by byte
 *
 * The rest of the input are the frames of the peer. Each message is sent back. The output must be
 * valid frames, which end with the close frame of the result.
 */
#include "ws/ws.h"
#include "require.h"

#include <weft/fiber.h>

#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MESSAGE_BYTES_MAX 20000

/* The peer: bytes to read, and bytes written. */
typedef struct memory_peer {
    const uint8_t *in;
    size_t in_bytes;
    size_t piece_bytes; /* at most, per read */
    weft__buffer out;
} memory_peer;

static ssize_t peer_read(void *ctx, void *data, size_t bytes)
{
    memory_peer *p = ctx;
    size_t n = p->in_bytes < p->piece_bytes ? p->in_bytes : p->piece_bytes;
    n = n < bytes ? n : bytes;
    memcpy(data, p->in, n);
    p->in += n;
    p->in_bytes -= n;
    return (ssize_t)n;
}

static ssize_t peer_writev(void *ctx, const struct iovec *pieces, int count)
{
    memory_peer *p = ctx;
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        REQUIRE(weft__buffer_reserve(&p->out, pieces[i].iov_len) == 0);
        memcpy(p->out.data + p->out.bytes, pieces[i].iov_base, pieces[i].iov_len);
        p->out.bytes += pieces[i].iov_len;
        sum += pieces[i].iov_len;
    }
    return (ssize_t)sum;
}

static int peer_close(void *ctx)
{
    (void)ctx;
    return 0;
}

static const weft_stream_type peer_type = {
    .read = peer_read, .writev = peer_writev, .close = peer_close};

/* Receive and send back all messages. Returns the last result. */
static int echo_all(weft_ws *ws)
{
    weft_ws_message m;
    int rc;
    while ((rc = weft_ws_recv(ws, &m)) > 0) {
        REQUIRE(m.bytes <= MESSAGE_BYTES_MAX && m.data[m.bytes] == '\0');
        REQUIRE(m.kind == WEFT_WS_BINARY || m.kind == WEFT_WS_TEXT);
        rc = weft_ws_send(ws, m.kind, m.data, m.bytes); /* fails for invalid text */
        REQUIRE(rc == 0 || rc == -EPIPE);
    }
    REQUIRE(weft_ws_recv(ws, &m) == rc);
    return rc;
}

/* Check the frames of the output. Returns the code of a close frame, 0 for none, -1 without one. */
static int check_output(const memory_peer *p, bool is_client)
{
    int code = -1;
    for (size_t at = 0; at < p->out.bytes;) {
        const uint8_t *header = (const uint8_t *)p->out.data + at;
        weft__ws_frame f;
        REQUIRE(code == -1 && p->out.bytes - at >= 2);
        size_t header_bytes = weft__ws_header_bytes(header);
        REQUIRE(p->out.bytes - at >= header_bytes && weft__ws_frame_parse(&f, header) == 0);
        REQUIRE(f.is_masked == is_client && f.is_final && f.bytes <= p->out.bytes - at);
        at += header_bytes;
        REQUIRE(f.bytes <= p->out.bytes - at);
        uint8_t payload[2] = {0};
        if (f.opcode == WSLAY_CONNECTION_CLOSE && f.bytes >= 2) {
            memcpy(payload, header + header_bytes, 2);
            if (f.is_masked)
                weft__ws_mask(payload, payload, 2, f.key, 0);
        }
        if (f.opcode == WSLAY_CONNECTION_CLOSE)
            code = payload[0] << 8 | payload[1];
        at += f.bytes;
    }
    return code;
}

static void check_result(int rc, int code, const weft_ws *ws)
{
    switch (rc) {
    case 0:
        REQUIRE(code == 0 ? weft_ws_close_code(ws) == WEFT_WS_NO_CODE
                          : code == weft_ws_close_code(ws));
        break;
    case -EBADMSG:
        REQUIRE(code == WEFT_WS_PROTOCOL_ERROR || code == WEFT_WS_BAD_DATA);
        break;
    case -EMSGSIZE:
        REQUIRE(code == WEFT_WS_TOO_BIG || code == WEFT_WS_POLICY);
        break;
    default:
        REQUIRE(rc == -ECONNRESET && code == -1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    bool is_client = data[0] & 1, has_deflate = data[0] & 2, resets = data[0] & 4;
    memory_peer peer = {data + 1, bytes - 1, data[0] & 8 ? 1 : 4096, {0}};
    const weft_ws_options options = {.frame_bytes_max = 10000,
                                     .message_bytes_max = MESSAGE_BYTES_MAX};
    const weft__ws_deflate_params params = {
        .send_bits = 9, .recv_bits = 15, .resets_send = resets, .resets_recv = resets};
    weft_stream stream;
    REQUIRE(weft_stream_open_with(&stream, &peer_type, &peer) == 0);
    weft_ws *ws = weft__ws_new(&options, has_deflate ? &params : NULL, (weft__span){0}, is_client);
    REQUIRE(ws != NULL);
    ws->live->stream = &stream;
    int rc = echo_all(ws);
    REQUIRE(weft_stream_flush(&stream) == 0);
    check_result(rc, check_output(&peer, is_client), ws);
    weft_ws_free(ws);
    (void)weft_stream_close(&stream);
    weft__buffer_free(&peer.out);
    return 0;
}
