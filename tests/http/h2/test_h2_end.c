/* The end of HTTP/2 streams and sessions: resets, GOAWAY, failures, broken peers. */
#include "http/h2/h2_raw_peer.h"

FIXTURE(h2_set_up, NULL)

static int stuck;

static int wait_for_ever(h2_exchange *x)
{
    ssize_t n = 0;
    stuck++;
    while (n == 0 && x->st.error == 0) /* do not read, so that the window closes */
        n = weft_cond_wait(&x->has_event, NULL);
    stuck--;
    return (int)n;
}

TEST(the_end_of_a_reader_ends_its_fibers)
{
    h2_exchange x = {.end = &client};
    open_both(wait_for_ever);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    while (stuck == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(cancel_and_await(server.fiber), -ECANCELED);
    ck_assert_int_eq(stuck, 0);
    ck_assert_int_eq(h2_read_all(&x, NULL), -ECONNRESET);
    ck_assert_int_eq(weft__h2_stream_write(&x.st, "a", 1), -ECONNRESET);
    ck_assert_int_eq(x.closes, 1);
    release(&x);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_le(client.result, 0);
}

TEST(a_cancelled_reader_ends_even_if_the_peer_does_not_read)
{
    int fd[2];
    h2_exchange x = {.end = &client};
    char body[8 * 4096] = "";
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(h2_end_open(&client, fd[1]), 0);
    /* Fill the socket with pings, which no window delays. */
    ck_assert_int_eq(weft_snooze(), 0);
    while (client.session.send.bytes == 0 || client.session.fill.bytes < sizeof body) {
        for (int i = 0; i < 1000; i++)
            weft__h2_session_ping(&client.session);
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_GET, true), 0);
    ck_assert(client.session.is_writing);
    ck_assert_int_eq(cancel_and_await(client.fiber), -ECANCELED);
    ck_assert_int_eq(x.closes, 1);
    release(&x);
    ck_assert_int_eq(weft_close(fd[0]), 0);
}

/*
 * Resets.
 */

static int last_error;
static uint32_t last_code;

static int write_until_reset(h2_exchange *x)
{
    char body[1000] = "";
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    while (rc >= 0)
        rc = (int)weft__h2_stream_write(&x->st, body, sizeof body);
    last_error = rc;
    last_code = x->st.code;
    return rc;
}

TEST(a_client_can_reset_a_stream)
{
    h2_exchange x;
    open_both(write_until_reset);
    get(&x);
    ck_assert_int_eq(h2_await_head(&x), 0);
    weft__h2_stream_reset(&x.st, NGHTTP2_CANCEL);
    weft__h2_stream_reset(&x.st, NGHTTP2_CANCEL);
    ck_assert_int_eq(h2_read_all(&x, NULL), -EPIPE);
    while (last_error == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(last_error, -ECONNRESET);
    ck_assert_uint_eq(last_code, NGHTTP2_CANCEL);
    ck_assert_int_eq(x.closes, 1);
    release(&x);
    close_both();
}

TEST(a_closed_stream_is_reset)
{
    h2_exchange x;
    open_both(write_until_reset);
    get(&x);
    ck_assert_int_eq(h2_await_head(&x), 0);
    weft__h2_stream_close(&x.st, NGHTTP2_CANCEL);
    weft__h2_stream_close(&x.st, NGHTTP2_CANCEL);
    ck_assert_int_eq(x.closes, 0);
    while (last_error == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(last_code, NGHTTP2_CANCEL);
    close_both();
}

static int reset_after_a_part(h2_exchange *x)
{
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    if (rc == 0 && weft__h2_stream_write(&x->st, "part", 4) == 4)
        weft__h2_stream_reset(&x->st, NGHTTP2_ENHANCE_YOUR_CALM);
    return rc;
}

TEST(bytes_before_a_reset_are_readable)
{
    h2_exchange x;
    const void *piece;
    open_both(reset_after_a_part);
    get(&x);
    ck_assert_int_eq(weft__h2_stream_piece(&x.st, &piece), 4);
    ck_assert_int_eq(weft__h2_stream_piece(&x.st, &piece), -ECONNRESET);
    ck_assert_uint_eq(x.st.code, NGHTTP2_ENHANCE_YOUR_CALM);
    ck_assert(x.st.is_reset_by_peer);
    release(&x);
    close_both();
}

TEST(a_server_that_does_not_need_the_body_ends_the_stream_without_error)
{
    h2_exchange x = {.end = &client};
    static char body[MIB];
    open_both(say_hello);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ssize_t n = 1;
    while (n > 0)
        n = weft__h2_stream_write(&x.st, body, sizeof body);
    ck_assert_int_eq(n, -EPIPE);
    ck_assert_uint_eq(x.st.code, NGHTTP2_NO_ERROR);
    expect_text(&x, "hello");
    release(&x);
    close_both();
}

/*
 * The end of a connection.
 */

TEST(goaway_lets_open_streams_end)
{
    h2_exchange x = {.end = &client}, late = {.end = &client};
    open_both(echo);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ck_assert_int_eq(weft__h2_stream_write(&x.st, "abc", 3), 3);
    ck_assert_int_eq(h2_await_head(&x), 0);
    weft__h2_session_notice(&server.session);
    weft__h2_session_goaway(&server.session, NGHTTP2_NO_ERROR);
    while (client.goaways < 2)
        ck_assert_int_eq(weft_cond_wait(&client.has_event, NULL), 0);
    ck_assert_int_eq(client.goaway_last, x.st.id);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &late.st, H2_GET, true), -ESHUTDOWN);
    ck_assert_int_eq(weft__h2_stream_write(&x.st, "def", 3), 3);
    ck_assert_int_eq(weft__h2_stream_end(&x.st), 0);
    expect_text(&x, "abcdef");
    release(&x);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(server.result, 0);
    ck_assert_int_eq(client.result, 0);
}

TEST(goaway_without_streams_ends_both_ends)
{
    open_both(say_hello);
    while (client.settings == 0)
        ck_assert_int_eq(weft_cond_wait(&client.has_event, NULL), 0);
    weft__h2_session_goaway(&server.session, NGHTTP2_NO_ERROR);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(server.result, 0);
    ck_assert_int_eq(client.result, 0);
}

TEST(a_ping_is_answered)
{
    open_both(say_hello);
    weft__h2_session_ping(&client.session);
    while (client.pongs == 0)
        ck_assert_int_eq(weft_cond_wait(&client.has_event, NULL), 0);
    ck_assert_uint_eq(server.session.counts.frames[NGHTTP2_PING], 1);
    ck_assert_uint_eq(client.session.counts.pongs, 1);
    close_both();
}

TEST(a_failed_session_wakes_all_fibers)
{
    h2_exchange x = {.end = &client}, y = {.end = &client};
    upload u = {&x, MIB, -1};
    open_both(wait_for_ever);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &y.st, H2_POST, false), 0);
    weft_fiber f = weft_spin(upload_run, &u);
    while (stuck < 2)
        ck_assert_int_eq(weft_snooze(), 0);
    weft__h2_session_fail(&client.session, -ENETDOWN);
    ck_assert_int_eq(h2_read_all(&x, NULL), -ENETDOWN);
    ck_assert_int_eq(h2_read_all(&y, NULL), -ENETDOWN);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(client.result, -ENETDOWN);
    release(&x);
    release(&y);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_eq(stuck, 0);
}

TEST(a_session_fails_if_the_peer_does_not_read)
{
    int fd[2];
    h2_exchange x = {.end = &client};
    client.options.write_s = 0.01;
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(h2_end_open(&client, fd[1]), 0);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_GET, true), 0);
    while (client.session.failure == 0) {
        for (int i = 0; i < 1000; i++)
            weft__h2_session_ping(&client.session);
        ck_assert_int_eq(weft_sleep(0.001), 0);
    }
    ck_assert_int_eq(h2_read_all(&x, NULL), -ETIMEDOUT);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(client.result, -ETIMEDOUT);
    release(&x);
    ck_assert_int_eq(weft_close(fd[0]), 0);
}

/*
 * Broken peers. The test writes the frames of the peer itself.
 */

typedef struct violation {
    const char *what;
    const char *bytes; /* after preface and settings */
    size_t count;
    uint32_t code; /* of GOAWAY */
} violation;

static const violation violations[] = {
    {"PING on a stream", BYTES("\0\0\10\6\0\0\0\0\1abcdefgh"), NGHTTP2_PROTOCOL_ERROR},
    {"PING of 7 bytes", BYTES("\0\0\7\6\0\0\0\0\0abcdefg"), NGHTTP2_FRAME_SIZE_ERROR},
    {"DATA on an idle stream", BYTES("\0\0\1\0\0\0\0\0\1a"), NGHTTP2_PROTOCOL_ERROR},
    {"window update of 0", BYTES("\0\0\4\10\0\0\0\0\0\0\0\0\0"), NGHTTP2_PROTOCOL_ERROR},
    {"window overflow", BYTES("\0\0\4\10\0\0\0\0\0\177\377\377\377"), NGHTTP2_FLOW_CONTROL_ERROR},
    {"a head that is not HPACK", BYTES("\0\0\1\1\5\0\0\0\1\377"), NGHTTP2_COMPRESSION_ERROR},
    {"CONTINUATION without HEADERS", BYTES("\0\0\1\11\4\0\0\0\1a"), NGHTTP2_PROTOCOL_ERROR},
    {"a frame that is too long", BYTES("\1\0\0\0\0\0\0\0\1"), NGHTTP2_FRAME_SIZE_ERROR},
    {"HEADERS on stream 0", BYTES("\0\0\1\1\5\0\0\0\0\202"), NGHTTP2_PROTOCOL_ERROR},
    {"an even stream", BYTES("\0\0\1\1\5\0\0\0\2\202"), NGHTTP2_PROTOCOL_ERROR},
};

TEST_ROWS(a_violation_ends_the_connection, violations)
{
    const violation *v = &violations[_i];
    int fd = open_raw(&server, say_hello);
    raw_send(fd, BYTES(PREFACE SETTINGS));
    raw_send(fd, v->bytes, v->count);
    ck_assert_msg(raw_goaway_code(fd) == (long)v->code, "%s", v->what);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_eq(server.result, -EBADMSG);
    ck_assert_int_eq(weft_close(fd), 0);
}

TEST(a_peer_without_preface_is_rejected)
{
    int fd = open_raw(&server, say_hello);
    raw_send(fd, BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    ck_assert_int_eq(raw_goaway_code(fd), NGHTTP2_PROTOCOL_ERROR);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_eq(server.result, -EBADMSG);
    ck_assert_int_eq(weft_close(fd), 0);
}

/* HPACK: GET http / with the authority a (":authority" is entry 1 of the static table). */
#define GET_BLOCK "\202\206\204\1\1a"

TEST(a_peer_that_ends_within_a_head_leaves_nothing)
{
    int fd = open_raw(&server, say_hello);
    raw_send(fd, BYTES(PREFACE SETTINGS));
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_NONE, 1, GET_BLOCK);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_le(server.result, 0);
}

static int note_read_error(h2_exchange *x)
{
    last_error = (int)h2_read_all(x, NULL);
    return last_error;
}

TEST(a_body_that_contradicts_its_length_is_an_error)
{
    int fd = open_raw(&server, note_read_error);
    raw_send(fd, BYTES(PREFACE SETTINGS));
    /* content-length (entry 28, a literal without indexing): 5 */
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, POST_BLOCK "\17\15\0015");
    raw_frame(fd, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "abc");
    while (last_error == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(last_error, -EBADMSG);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(server.fiber), 0);
}

TEST(padding_opens_the_windows_again)
{
    int fd = open_raw(&server, note_read_error);
    last_error = -1;
    raw_send(fd, BYTES(PREFACE SETTINGS));
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, POST_BLOCK);
    /* Of 100 bytes, 1 is data. 1,000 frames need more than the window of the stream. */
    for (int i = 0; i < 1000; i++) {
        uint8_t frame[9 + 100] = {0, 0, 100, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 0, 0, 0, 1, 98};
        raw_send(fd, frame, sizeof frame);
    }
    raw_frame(fd, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "");
    while (last_error == -1)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(last_error, 1000);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(server.fiber), 0);
}

TEST(the_session_counts_what_the_peer_sends)
{
    int fd = open_raw(&server, note_read_error);
    raw_send(fd, BYTES(PREFACE SETTINGS));
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, POST_BLOCK);
    for (int i = 0; i < 5; i++)
        raw_frame(fd, NGHTTP2_DATA, NGHTTP2_FLAG_NONE, 1, "");
    raw_frame(fd, NGHTTP2_PING, NGHTTP2_FLAG_NONE, 0, "abcdefgh");
    raw_frame(fd, NGHTTP2_WINDOW_UPDATE, NGHTTP2_FLAG_NONE, 0, "\0\0\0\1");
    raw_frame(fd, NGHTTP2_PRIORITY, NGHTTP2_FLAG_NONE, 1, "\0\0\0\0\1");
    raw_frame(fd, NGHTTP2_RST_STREAM, NGHTTP2_FLAG_NONE, 1, "\0\0\0\10");
    while (server.session.counts.frames[NGHTTP2_RST_STREAM] == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    const weft__h2_counts *c = &server.session.counts;
    ck_assert_uint_eq(c->opened, 1);
    ck_assert_uint_eq(c->empty_data, 5);
    ck_assert_uint_eq(c->frames[NGHTTP2_DATA], 5);
    ck_assert_uint_eq(c->frames[NGHTTP2_PING], 1);
    ck_assert_uint_eq(c->frames[NGHTTP2_WINDOW_UPDATE], 1);
    ck_assert_uint_eq(c->frames[NGHTTP2_PRIORITY], 1);
    ck_assert_uint_eq(c->frames[NGHTTP2_SETTINGS], 1);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(server.fiber), 0);
}

TEST(goaway_refuses_the_streams_above_the_last)
{
    h2_exchange x[3];
    int fd = open_raw(&client, NULL);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        get(&x[i]);
    raw_send(fd, BYTES(SETTINGS));
    raw_frame(fd, NGHTTP2_GOAWAY, NGHTTP2_FLAG_NONE, 0, "\0\0\0\1\0\0\0\0");
    ck_assert_int_eq(h2_read_all(&x[1], NULL), -ECONNRESET);
    ck_assert_uint_eq(x[1].st.code, NGHTTP2_REFUSED_STREAM);
    ck_assert_uint_eq(x[2].st.code, NGHTTP2_REFUSED_STREAM);
    ck_assert(!x[0].st.is_closed);
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, "\210");
    expect_text(&x[0], "");
    for (size_t i = 0; i < COUNT_OF(x); i++)
        release(&x[i]);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(client.result, 0);
    ck_assert_int_eq(weft_close(fd), 0);
}
