/* One end of an HTTP/2 connection. The test itself is the peer, and writes frames as bytes. */
#ifndef TESTS_HTTP_H2_H2_RAW_PEER_H
#define TESTS_HTTP_H2_H2_RAW_PEER_H

#include "http/h2/h2_support.h"

#define BYTES(literal) literal, sizeof(literal) - 1
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define SETTINGS_ACK "\0\0\0\4\1\0\0\0\0"

/* Open one end. Returns the descriptor of the raw peer. */
static inline int open_raw(h2_end *e, h2_handler *handler)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    e->handler = handler;
    ck_assert_int_eq(h2_end_open(e, fd[0]), 0);
    return fd[1];
}

static inline void raw_send(int fd, const void *data, size_t bytes)
{
    ck_assert_int_eq(weft_write_all(fd, data, bytes), (ssize_t)bytes);
}

/* Send a frame. payload is a string literal. */
#define raw_frame(fd, type, flags, id, payload)                               \
    do {                                                                      \
        const uint8_t raw_head[] = {0, 0, sizeof payload - 1, type,    flags, \
                                    0, 0, (id) >> 8,          (id)&255};      \
        raw_send(fd, raw_head, sizeof raw_head);                              \
        raw_send(fd, payload, sizeof payload - 1);                            \
    } while (0)

/* Read the frames of the session until it closes. Returns the code of its GOAWAY, or -1. */
static inline long raw_goaway_code(int fd)
{
    static uint8_t data[1 << 16];
    size_t bytes = 0;
    ssize_t n;
    while ((n = weft_read(fd, data + bytes, sizeof data - bytes)) > 0)
        bytes += (size_t)n;
    long code = -1;
    size_t at = bytes > 0 && data[0] == 'P' ? sizeof PREFACE - 1 : 0; /* of a client */
    while (at + 9 <= bytes) {
        size_t length = (size_t)data[at] << 16 | (size_t)data[at + 1] << 8 | data[at + 2];
        if (data[at + 3] == NGHTTP2_GOAWAY)
            code = data[at + 16];
        at += 9 + length;
    }
    return code;
}

/* A compressed head: POST, http, "/", and the authority "a". */
#define POST_BLOCK "\203\206\204\1\1a"

#endif
