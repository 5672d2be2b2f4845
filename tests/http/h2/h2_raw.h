/*
 * A raw client of HTTP/2 for tests of the server. The client sends any frame, also invalid ones. It
 * records each received frame as a line of text:
 *
 *     SETTINGS 0
 *     HEADERS 1 :status=200 content-length=6
 *     DATA 1 END 6 Hello.
 *     RST_STREAM 3 PROTOCOL_ERROR
 *     GOAWAY 0 last=3 NO_ERROR
 *
 * END stands for END_STREAM. Control characters of a body appear as dots.
 */
#ifndef TESTS_HTTP_H2_H2_RAW_H
#define TESTS_HTTP_H2_H2_RAW_H

#include "http/http_support.h"

#include <nghttp2/nghttp2.h>

#define H2_MAGIC "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define H2_END 1         /* END_STREAM, and ACK of SETTINGS and PING */
#define H2_END_HEADERS 4 /* also of CONTINUATION */
#define H2_WHOLE 5       /* both */
#define H2_PADDED 8
#define H2_PRIORITY 32

static nghttp2_hd_deflater *h2_deflater;
static nghttp2_hd_inflater *h2_inflater;
static uint8_t h2_input[1 << 20]; /* received bytes of an incomplete frame */
static size_t h2_input_bytes;
static char h2_log[256 << 10]; /* received frames */
static bool h2_is_acking;      /* acknowledge SETTINGS */

static inline void h2_put(uint8_t *to, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static inline uint32_t h2_get(const uint8_t *from, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

/* Send a frame whose length field may differ from its payload. */
static inline void h2_send_as(uint32_t length, int type, int flags, uint32_t id,
                              const void *payload, size_t bytes)
{
    static uint8_t frame[9 + (1 << 17)];
    ck_assert_uint_le(bytes, sizeof frame - 9);
    h2_put(frame, length, 3);
    frame[3] = (uint8_t)type;
    frame[4] = (uint8_t)flags;
    h2_put(frame + 5, id, 4);
    if (bytes > 0)
        memcpy(frame + 9, payload, bytes);
    (void)weft_write_all(client.fd, frame, 9 + bytes); /* the server may have closed */
}

static inline void h2_send(int type, int flags, uint32_t id, const void *payload, size_t bytes)
{
    h2_send_as((uint32_t)bytes, type, flags, id, payload, bytes);
}

/* Send a frame whose payload is a number of 32 bits: WINDOW_UPDATE, RST_STREAM. */
static inline void h2_send_number(int type, uint32_t id, uint32_t number)
{
    uint8_t payload[4];
    h2_put(payload, number, 4);
    h2_send(type, 0, id, payload, 4);
}

static inline void h2_send_setting(uint32_t id, uint32_t value)
{
    uint8_t payload[6];
    h2_put(payload, id, 2);
    h2_put(payload + 2, value, 4);
    h2_send(NGHTTP2_SETTINGS, 0, 0, payload, 6);
}

static inline void h2_send_data(uint32_t id, int flags, const char *text)
{
    h2_send(NGHTTP2_DATA, flags, id, text, strlen(text));
}

/* Compress a head "name: value\n...". Return the length of the block. */
static inline size_t h2_block(uint8_t *block, size_t capacity, const char *head)
{
    static char text[1 << 17];
    static nghttp2_nv fields[4096];
    size_t count = 0;
    snprintf(text, sizeof text, "%s", head);
    for (char *line = text; *line != '\0' && count < 4096;) {
        char *value = strchr(line + 1, ':'), *end = strchr(line, '\n');
        ck_assert(value != NULL && end != NULL);
        *value = *end = '\0';
        value += value[1] == ' ' ? 2 : 1;
        fields[count++] = (nghttp2_nv){(uint8_t *)line, (uint8_t *)value, strlen(line),
                                       strlen(value), NGHTTP2_NV_FLAG_NONE};
        line = end + 1;
    }
    ssize_t n = nghttp2_hd_deflate_hd(h2_deflater, block, capacity, fields, count);
    ck_assert_int_ge(n, 0);
    return (size_t)n;
}

#define H2_HEAD(method, path) ":method: " method "\n:scheme: http\n:path: " path "\n:authority: a\n"
#define H2_GET H2_HEAD("GET", "/")
#define H2_POST H2_HEAD("POST", "/")

/* Send HEADERS with a head "name: value\n...". */
static inline void h2_send_head(uint32_t id, int flags, const char *head)
{
    static uint8_t block[1 << 17];
    h2_send(NGHTTP2_HEADERS, flags, id, block, h2_block(block, sizeof block, head));
}

/* Begin to use the connection of the client. */
static inline void h2_begin(void)
{
    ck_assert_ptr_null(h2_deflater);
    ck_assert_int_eq(nghttp2_hd_deflate_new(&h2_deflater, 4096), 0);
    ck_assert_int_eq(nghttp2_hd_inflate_new(&h2_inflater), 0);
    h2_input_bytes = 0;
    h2_log[0] = '\0';
    h2_is_acking = true;
}

/* Open a connection, without the preface. */
static inline void h2_open_bare(weft_http_handler *handler, void *ctx,
                                const weft_http_options *options)
{
    client_open(&client, handler, ctx, options);
    h2_begin();
}

/* Open a connection and send the preface. */
static inline void h2_open(weft_http_handler *handler, void *ctx, const weft_http_options *options)
{
    h2_open_bare(handler, ctx, options);
    client_send(&client, H2_MAGIC);
    h2_send(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static inline void h2_log_add(const char *format, ...)
{
    size_t at = strlen(h2_log);
    va_list args;
    va_start(args, format);
    vsnprintf(h2_log + at, sizeof h2_log - at, format, args);
    va_end(args);
}

static inline void h2_log_head(const uint8_t *block, size_t bytes)
{
    for (;;) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(h2_inflater, &field, &flags, block, bytes, 1);
        ck_assert_int_ge(n, 0);
        block += n;
        bytes -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0)
            h2_log_add(" %s=%s", field.name, field.value);
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0)
            break;
    }
    ck_assert_int_eq(nghttp2_hd_inflate_end_headers(h2_inflater), 0);
}

static inline void h2_log_text(const uint8_t *data, size_t bytes)
{
    h2_log_add(" %zu ", bytes);
    for (size_t i = 0; i < bytes && i < 200; i++)
        h2_log_add("%c", data[i] < ' ' ? '.' : data[i]);
}

static const char *const h2_type_names[] = {"DATA",       "HEADERS",  "PRIORITY",
                                            "RST_STREAM", "SETTINGS", "PUSH",
                                            "PING",       "GOAWAY",   "WINDOW_UPDATE"};

/* Record a frame. */
static inline void h2_log_frame(int type, int flags, uint32_t id, const uint8_t *data, size_t bytes)
{
    ck_assert_msg(type < 9, "frame type %d", type);
    h2_log_add("%s %u", h2_type_names[type], id);
    if ((flags & H2_END) != 0)
        h2_log_add(type == NGHTTP2_SETTINGS || type == NGHTTP2_PING ? " ACK" : " END");
    if (type == NGHTTP2_DATA)
        h2_log_text(data, bytes);
    else if (type == NGHTTP2_HEADERS)
        h2_log_head(data, bytes);
    else if (type == NGHTTP2_RST_STREAM)
        h2_log_add(" %s", nghttp2_http2_strerror(h2_get(data, 4)));
    else if (type == NGHTTP2_GOAWAY)
        h2_log_add(" last=%u %s", h2_get(data, 4), nghttp2_http2_strerror(h2_get(data + 4, 4)));
    else if (type == NGHTTP2_WINDOW_UPDATE)
        h2_log_add(" %u", h2_get(data, 4));
    for (size_t i = 0; type == NGHTTP2_SETTINGS && i + 6 <= bytes; i += 6)
        h2_log_add(" %u=%u", h2_get(data + i, 2), h2_get(data + i + 2, 4));
    h2_log_add("\n");
    if (type == NGHTTP2_SETTINGS && (flags & H2_END) == 0 && h2_is_acking)
        h2_send(NGHTTP2_SETTINGS, H2_END, 0, NULL, 0);
}

/* Read once, and record complete frames. Return false at the end of the connection. */
static inline bool h2_receive(void)
{
    ssize_t n = weft_read(client.fd, h2_input + h2_input_bytes, sizeof h2_input - h2_input_bytes);
    if (n <= 0)
        return false;
    h2_input_bytes += (size_t)n;
    size_t at = 0;
    while (h2_input_bytes - at >= 9) {
        const uint8_t *frame = h2_input + at;
        size_t bytes = h2_get(frame, 3);
        if (h2_input_bytes - at < 9 + bytes)
            break;
        h2_log_frame(frame[3], frame[4], h2_get(frame + 5, 4), frame + 9, bytes);
        at += 9 + bytes;
    }
    memmove(h2_input, h2_input + at, h2_input_bytes - at);
    h2_input_bytes -= at;
    return true;
}

/* Read until the record contains a text. */
static inline void h2_expect(const char *text)
{
    while (strstr(h2_log, text) == NULL)
        ck_assert_msg(h2_receive(), "expected \"%s\", received:\n%s", text, h2_log);
}

/* Read until the record contains one of two texts. */
static inline void h2_expect_either(const char *text, const char *other)
{
    while (strstr(h2_log, text) == NULL && strstr(h2_log, other) == NULL)
        ck_assert_msg(h2_receive(), "expected \"%s\" or \"%s\", received:\n%s", text, other,
                      h2_log);
}

/* Read until the server closes the connection. Return the record. */
static inline const char *h2_receive_all(void)
{
    while (h2_receive())
        ;
    return h2_log;
}

/* Send a PING and wait for its reply: the server has handled all frames before. */
static inline void h2_sync(void)
{
    static char expected[32] = "PING 0 ACK\n";
    size_t before = count_in(h2_log, expected);
    h2_send(NGHTTP2_PING, 0, 0, "12345678", 8);
    while (count_in(h2_log, expected) == before)
        ck_assert_msg(h2_receive(), "no reply to PING, received:\n%s", h2_log);
}

/* Undo h2_begin. */
static inline void h2_finish(void)
{
    nghttp2_hd_deflate_del(h2_deflater);
    nghttp2_hd_inflate_del(h2_inflater);
    h2_deflater = NULL;
    h2_inflater = NULL;
}

/* Close the connection, whatever its result. */
static inline void h2_close(void)
{
    if (h2_deflater == NULL)
        return;
    (void)client_close(&client);
    h2_finish();
}

/* The end of each test. */
static inline void h2_end_test(void)
{
    h2_close();
    assert_nothing_pending();
}

#endif
