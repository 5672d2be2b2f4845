/*
 * Responses that a client of HTTP/2 must not accept (RFC 9113, 8). The test is the server, and
 * writes heads as HPACK literals: "\0" name "\1" value. \210 is ":status: 200".
 */
#include "http/h2/h2_raw_peer.h"

FIXTURE(h2_set_up, NULL)

#define END NGHTTP2_FLAG_END_STREAM
#define END_HEADERS NGHTTP2_FLAG_END_HEADERS
#define OK "\210"

/* A frame of stream 1. bytes is 0: no frame. */
typedef struct frame {
    int type;
    int flags;
    const char *payload;
    size_t bytes;
} frame;

typedef struct malformed {
    const char *what;
    frame frames[3];
} malformed;

#define HEAD(flags, block)                                   \
    {                                                        \
        NGHTTP2_HEADERS, END_HEADERS | (flags), BYTES(block) \
    }
#define DATA(flags, text)                  \
    {                                      \
        NGHTTP2_DATA, (flags), BYTES(text) \
    }

static const malformed responses[] = {
    {"8.1: an interim response ends the stream", {HEAD(END, "\10\003103")}},
    {"8.1: trailers do not end the stream", {HEAD(0, OK), DATA(0, "x"), HEAD(0, "\0\1a\1b")}},
    {"8.1.1: a body shorter than its length", {HEAD(0, OK "\17\15\0012"), DATA(END, "x")}},
    {"8.1.1: a body longer than its length", {HEAD(0, OK "\17\15\0011"), DATA(END, "xx")}},
    {"8.1.1: no body of a known length", {HEAD(END, OK "\17\15\0011")}},
    {"8.1.1: two lengths", {HEAD(0, OK "\17\15\0011\17\15\0012")}},
    {"8.1.1: a length that is not a number", {HEAD(0, OK "\17\15\001x")}},
    {"8.2.1: a name with a capital letter", {HEAD(END, OK "\0\1A\1b")}},
    {"8.2.1: a name with a space", {HEAD(END, OK "\0\3a b\1c")}},
    {"8.2.1: a name with a colon", {HEAD(END, OK "\0\3a:b\1c")}},
    {"8.2.1: a name with a byte above 127", {HEAD(END, OK "\0\2\303\244\1c")}},
    {"8.2.1: an empty name", {HEAD(END, OK "\0\0\1c")}},
    {"8.2.1: a value with a NUL", {HEAD(END, OK "\0\1a\3b\0c")}},
    {"8.2.1: a value with CR", {HEAD(END, OK "\0\1a\3b\rc")}},
    {"8.2.1: a value with LF", {HEAD(END, OK "\0\1a\3b\nc")}},
    {"8.2.1: a value that starts with a space", {HEAD(END, OK "\0\1a\2 b")}},
    {"8.2.1: a value that ends with a tab", {HEAD(END, OK "\0\1a\2b\t")}},
    {"8.2.2: Connection", {HEAD(END, OK "\0\12connection\5close")}},
    {"8.2.2: Keep-Alive", {HEAD(END, OK "\0\12keep-alive\1x")}},
    {"8.2.2: Proxy-Connection", {HEAD(END, OK "\0\20proxy-connection\1x")}},
    {"8.2.2: Transfer-Encoding", {HEAD(END, OK "\0\21transfer-encoding\7chunked")}},
    {"8.2.2: Upgrade", {HEAD(END, OK "\0\7upgrade\1x")}},
    {"8.3: a pseudo field after a field", {HEAD(END, "\0\1a\1b" OK)}},
    {"8.3: an unknown pseudo field", {HEAD(END, OK "\0\2:x\1b")}},
    {"8.3: a pseudo field of requests", {HEAD(END, OK "\204")}},
    {"8.3: a pseudo field twice", {HEAD(END, OK OK)}},
    {"8.3: a pseudo field in trailers", {HEAD(0, OK), HEAD(END, OK)}},
    {"8.3.2: no status", {HEAD(END, "\0\1a\1b")}},
    {"8.3.2: a status below 100", {HEAD(END, "\10\003025")}},
    {"8.3.2: a status of two digits", {HEAD(END, "\10\00220")}},
    {"8.3.2: a status that is not a number", {HEAD(END, "\10\00320x")}},
    {"8.6: 101", {HEAD(0, "\10\003101")}},
};

static void raw_frames(int fd, int id, const frame *frames, size_t count)
{
    for (size_t i = 0; i < count && frames[i].bytes > 0; i++) {
        const uint8_t head[] = {0,
                                0,
                                (uint8_t)frames[i].bytes,
                                (uint8_t)frames[i].type,
                                (uint8_t)frames[i].flags,
                                0,
                                0,
                                0,
                                (uint8_t)id};
        raw_send(fd, head, sizeof head);
        raw_send(fd, frames[i].payload, frames[i].bytes);
    }
}

TEST_ROWS(a_malformed_response_fails_its_stream_only, responses)
{
    const malformed *m = &responses[_i];
    h2_exchange x, other;
    int fd = open_raw(&client, NULL);
    get(&x);
    get(&other);
    raw_send(fd, BYTES(SETTINGS));
    raw_frames(fd, 1, m->frames, COUNT_OF(m->frames));
    ssize_t n;
    char byte;
    while ((n = weft__h2_stream_read(&x.st, &byte, 1)) > 0)
        ;
    ck_assert_msg(n == -EBADMSG, "%s: %zd", m->what, n);
    ck_assert_msg(x.st.code == NGHTTP2_PROTOCOL_ERROR, "%s: %u", m->what, x.st.code);
    raw_frames(fd, 3, &(frame)HEAD(END, OK), 1);
    expect_text(&other, "");
    release(&x);
    release(&other);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
}

/* Frames of a server that end the connection of a client. */
static const struct bad_server {
    const char *what;
    const char *bytes;
    size_t count;
    long code;
} bad_servers[] = {
    {"3.4: no settings first", BYTES("\0\0\10\6\0\0\0\0\0abcdefgh"), NGHTTP2_PROTOCOL_ERROR},
    {"6.5.2, 8.4: ENABLE_PUSH of a server", BYTES("\0\0\6\4\0\0\0\0\0\0\2\0\0\0\1"),
     NGHTTP2_PROTOCOL_ERROR},
    {"6.6, 8.4: PUSH_PROMISE", BYTES(SETTINGS SETTINGS_ACK "\0\0\5\5\4\0\0\0\1\0\0\0\2\202"),
     NGHTTP2_PROTOCOL_ERROR},
    {"5.1.1: a stream of the server", BYTES(SETTINGS "\0\0\1\1\5\0\0\0\2\210"),
     NGHTTP2_PROTOCOL_ERROR},
    {"5.1: a stream that is not open", BYTES(SETTINGS "\0\0\1\1\5\0\0\0\7\210"),
     NGHTTP2_PROTOCOL_ERROR},
    {"8.1: a body without a head", BYTES(SETTINGS "\0\0\1\0\1\0\0\0\1x"), NGHTTP2_PROTOCOL_ERROR},
    {"6.10: a frame inside a head", BYTES(SETTINGS "\0\0\1\1\0\0\0\0\1\210" SETTINGS),
     NGHTTP2_PROTOCOL_ERROR},
    {"RFC 9218, 7.1: PRIORITY_UPDATE", BYTES(SETTINGS "\0\0\7\20\0\0\0\0\0\0\0\0\1u=1"),
     NGHTTP2_PROTOCOL_ERROR},
    {"RFC 8441, 3: ENABLE_CONNECT_PROTOCOL of 2", BYTES("\0\0\6\4\0\0\0\0\0\0\10\0\0\0\2"),
     NGHTTP2_PROTOCOL_ERROR},
    {"RFC 8441, 3: ENABLE_CONNECT_PROTOCOL withdrawn",
     BYTES("\0\0\6\4\0\0\0\0\0\0\10\0\0\0\1"
           "\0\0\6\4\0\0\0\0\0\0\10\0\0\0\0"),
     NGHTTP2_PROTOCOL_ERROR},
};

TEST_ROWS(a_server_that_violates_the_protocol_ends_the_connection, bad_servers)
{
    const struct bad_server *b = &bad_servers[_i];
    h2_exchange x;
    int fd = open_raw(&client, NULL);
    get(&x);
    raw_send(fd, b->bytes, b->count);
    ck_assert_int_eq(h2_read_all(&x, NULL), -EBADMSG);
    release(&x);
    ck_assert_msg(raw_goaway_code(fd) == b->code, "%s", b->what);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
}

TEST(interim_responses_before_the_response_are_accepted)
{
    static const frame frames[] = {HEAD(0, "\10\003103"), HEAD(0, "\10\003199"), HEAD(END, OK)};
    h2_exchange x;
    int fd = open_raw(&client, NULL);
    get(&x);
    raw_send(fd, BYTES(SETTINGS));
    raw_frames(fd, 1, frames, COUNT_OF(frames));
    expect_text(&x, "");
    ck_assert_str_eq(x.heads, "IIR");
    release(&x);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
}

/* RFC 9113, 8.1: a client must not discard a response because RST_STREAM(NO_ERROR) follows it. */
TEST(a_reset_without_an_error_does_not_discard_the_response)
{
    static const frame frames[] = {
        HEAD(0, OK), DATA(END, "whole"), {NGHTTP2_RST_STREAM, 0, BYTES("\0\0\0\0")}};
    h2_exchange x = {.end = &client};
    int fd = open_raw(&client, NULL);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    raw_send(fd, BYTES(SETTINGS));
    raw_frames(fd, 1, frames, COUNT_OF(frames));
    expect_text(&x, "whole");
    release(&x);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
}
