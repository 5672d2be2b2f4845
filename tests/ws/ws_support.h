/*
 * Helpers for the tests of WebSocket: a raw client that writes frames byte by byte, over a socket
 * pair or a TCP connection. Frames are written in hexadecimal notation, as a peer sends them.
 */
#ifndef TESTS_WS_WS_SUPPORT_H
#define TESTS_WS_WS_SUPPORT_H

#include "http/http_support.h"

#include <math.h>

#define WS_REQUEST                                                                             \
    "GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

/* Opcodes, with the FIN bit. */
enum { CONT = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10, FIN = 0x80, RSV1 = 0x40 };

/* What the echo server does, and what happened to it. */
typedef struct echo_state {
    weft_ws_options options;
    int result; /* of weft_ws_accept, else the last result of weft_ws_recv or weft_ws_send */
    int code;   /* weft_ws_close_code at the end */
    char reason[128];
    char protocol[64];
    size_t messages;
    size_t bytes; /* of the last message */
} echo_state;

static echo_state echo_server;

static int echo(weft_http_request *r, void *ctx)
{
    echo_state *e = ctx;
    weft_ws *ws;
    weft_ws_message m;
    int rc = weft_ws_accept(r, &e->options, &ws);
    if (rc == 0)
        snprintf(e->protocol, sizeof e->protocol, "%s", weft_ws_protocol(ws));
    while (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0) {
        ck_assert_int_eq(m.data[m.bytes], '\0');
        e->messages++;
        e->bytes = m.bytes;
        rc = weft_ws_send(ws, m.kind, m.data, m.bytes);
    }
    e->result = rc;
    if (ws != NULL) {
        e->code = weft_ws_close_code(ws);
        snprintf(e->reason, sizeof e->reason, "%s", weft_ws_close_reason(ws));
    }
    weft_ws_free(ws);
    return rc;
}

/* A frame that the raw client has received. */
typedef struct raw_frame {
    unsigned first; /* FIN, reserved bits and opcode */
    bool is_masked;
    size_t bytes;
    unsigned char data[70000]; /* NUL-terminated */
} raw_frame;

static raw_frame got;

/* Read exactly bytes bytes of the connection. Return false at its end. */
static inline bool raw_read(void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = weft_read(client.fd, (char *)data + done, bytes - done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static inline bool raw_read_payload(size_t bytes)
{
    unsigned char key[4] = {0};
    ck_assert_uint_lt(bytes, sizeof got.data);
    if (got.is_masked && !raw_read(key, sizeof key))
        return false;
    if (!raw_read(got.data, bytes))
        return false;
    for (size_t i = 0; i < bytes; i++)
        got.data[i] ^= key[i % 4];
    got.data[bytes] = '\0';
    got.bytes = bytes;
    return true;
}

/* Receive a frame. Return false at the end of the connection. */
static inline bool raw_recv(void)
{
    unsigned char head[2], length[8];
    if (!raw_read(head, 2))
        return false;
    got.first = head[0];
    got.is_masked = head[1] >= 0x80;
    size_t bytes = head[1] & 0x7f, extra = bytes == 127 ? 8 : bytes == 126 ? 2 : 0;
    if (!raw_read(length, extra))
        return false;
    for (size_t i = 0; i < extra; i++)
        bytes = (i == 0 ? 0 : bytes << 8) | length[i];
    return raw_read_payload(bytes);
}

static inline void raw_write(const void *data, size_t bytes)
{
    client_send_bytes(&client, data, bytes);
}

/* Write a header with a mask of this length. Return the number of bytes. */
static inline size_t put_header(unsigned char *to, unsigned first, size_t bytes, bool is_masked)
{
    size_t n = 0;
    to[n++] = (unsigned char)first;
    unsigned mask = is_masked ? 0x80 : 0;
    if (bytes < 126) {
        to[n++] = (unsigned char)(bytes | mask);
    } else if (bytes < 65536) {
        to[n++] = (unsigned char)(126 | mask);
        to[n++] = (unsigned char)(bytes >> 8);
        to[n++] = (unsigned char)bytes;
    } else {
        to[n++] = (unsigned char)(127 | mask);
        for (int shift = 56; shift >= 0; shift -= 8)
            to[n++] = (unsigned char)((uint64_t)bytes >> shift);
    }
    if (is_masked) {
        memcpy(to + n, "\x12\x34\x56\x78", 4);
        n += 4;
    }
    return n;
}

/* Send a frame with a mask. */
static inline void raw_send(unsigned first, const void *data, size_t bytes)
{
    static const unsigned char key[4] = {0x12, 0x34, 0x56, 0x78};
    unsigned char *frame = malloc(14 + bytes);
    size_t n = put_header(frame, first, bytes, true);
    for (size_t i = 0; i < bytes; i++)
        frame[n + i] = ((const unsigned char *)data)[i] ^ key[i % 4];
    raw_write(frame, n + bytes);
    free(frame);
}

static inline void raw_send_text(const char *text)
{
    raw_send(FIN | TEXT, text, strlen(text));
}

/* Send a close frame. */
static inline void raw_send_close(unsigned code, const char *reason)
{
    char data[200] = {(char)(code >> 8), (char)code};
    strcpy(data + 2, reason);
    raw_send(FIN | CLOSE, data, 2 + strlen(reason));
}

/* Convert "81 05 48" to bytes. Return their number. */
static inline size_t bytes_of_hex(const char *hex, unsigned char *to)
{
    size_t n = 0;
    for (const char *p = hex; *p != '\0'; p++) {
        if (*p == ' ')
            continue;
        unsigned byte;
        ck_assert_int_eq(sscanf(p, "%2x", &byte), 1);
        to[n++] = (unsigned char)byte;
        p++;
    }
    return n;
}

static inline void raw_send_hex(const char *hex)
{
    unsigned char data[512];
    raw_write(data, bytes_of_hex(hex, data));
}

/* Receive a frame and assert its first byte and its payload. */
static inline void expect_frame(unsigned first, const void *data, size_t bytes)
{
    ck_assert_msg(raw_recv(), "the connection has ended");
    ck_assert_msg(got.first == first && got.bytes == bytes && memcmp(got.data, data, bytes) == 0,
                  "got %02x with %zu bytes: %.60s", got.first, got.bytes, (char *)got.data);
}

static inline void expect_text(const char *text)
{
    expect_frame(FIN | TEXT, text, strlen(text));
}

/* Receive a close frame with this code, 0 for none. */
static inline void expect_close(unsigned code)
{
    ck_assert_msg(raw_recv(), "the connection has ended");
    ck_assert_uint_eq(got.first, FIN | CLOSE);
    unsigned received = got.bytes >= 2 ? (unsigned)(got.data[0] << 8 | got.data[1]) : 0;
    ck_assert_uint_eq(received, code);
}

static inline void raw_expect_end(void)
{
    char byte;
    ck_assert_msg(!raw_read(&byte, 1), "the connection has not ended: %02x", (unsigned char)byte);
}

/* Read the response to the handshake, without the bytes after it. */
static inline const char *raw_read_head(void)
{
    client.received_bytes = 0;
    do {
        ck_assert(client.received_bytes < sizeof client.received - 1);
        if (!raw_read(client.received + client.received_bytes, 1))
            break;
        client.received[++client.received_bytes] = '\0';
    } while (strstr(client.received, "\r\n\r\n") == NULL);
    return client.received;
}

/* Open a connection to a handler, with additional fields. */
static inline void ws_open_with(weft_http_handler *handler, void *ctx, const char *fields)
{
    start_client(handler, ctx, NULL, format(WS_REQUEST "%s\r\n", fields));
    ck_assert_int_eq(status_of(raw_read_head()), 101);
}

/* Open a connection to the echo server, with options and fields. */
static inline void ws_open(weft_ws_options options, const char *fields)
{
    echo_server = (echo_state){.options = options};
    ws_open_with(echo, &echo_server, fields);
}

/* Close the raw connection and wait for the server. */
static inline void ws_end(void)
{
    if (client.fiber != 0)
        (void)client_close(&client);
}

/* Expect that the server closes with a code and ends the connection. result is the handler's. */
static inline void ws_expect_refusal(unsigned code, int result)
{
    expect_close(code);
    weft_shutdown(client.fd, SHUT_WR);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(echo_server.result, result);
}

static inline void ws_end_test(void)
{
    ws_end();
    assert_nothing_pending();
}

#endif
