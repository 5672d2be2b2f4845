/* HTTP/2 sessions whose peer breaks the rules of messages and windows. */
#include "http/h2/h2_raw_peer.h"

FIXTURE(h2_set_up, NULL)

/* Frames of a server after its settings. A request is open on stream 1. */
typedef struct bad_response {
    const char *what;
    const char *bytes;
    size_t count;
    int code; /* of the stream, or of GOAWAY */
    bool ends_connection;
} bad_response;

#define STATUS(digits) "\10\3" digits /* a literal without indexing */
static const bad_response bad_responses[] = {
    {"status 101", BYTES("\0\0\5\1\4\0\0\0\1" STATUS("101")), NGHTTP2_PROTOCOL_ERROR, false},
    {"an interim end", BYTES("\0\0\5\1\5\0\0\0\1" STATUS("103")), NGHTTP2_PROTOCOL_ERROR, false},
    {"a length of 103", BYTES("\0\0\11\1\4\0\0\0\1" STATUS("103") "\17\15\0010"),
     NGHTTP2_PROTOCOL_ERROR, false},
    {"a length of 204", BYTES("\0\0\5\1\5\0\0\0\1\211\17\15\0015"), NGHTTP2_PROTOCOL_ERROR, false},
    {"two statuses", BYTES("\0\0\2\1\5\0\0\0\1\210\210"), NGHTTP2_PROTOCOL_ERROR, false},
    {"a late status", BYTES("\0\0\6\1\5\0\0\0\1\0\1a\1b\210"), NGHTTP2_PROTOCOL_ERROR, false},
    {":path", BYTES("\0\0\2\1\5\0\0\0\1\210\204"), NGHTTP2_PROTOCOL_ERROR, false},
    {"DATA first", BYTES("\0\0\1\0\1\0\0\0\1x"), NGHTTP2_PROTOCOL_ERROR, true},
    {"trailers without end", BYTES("\0\0\1\1\4\0\0\0\1\210\0\0\5\1\4\0\0\0\1\0\1a\1b"),
     NGHTTP2_PROTOCOL_ERROR, false},
    {"a short body", BYTES("\0\0\5\1\5\0\0\0\1\210\17\15\0015"), NGHTTP2_PROTOCOL_ERROR, false},
    {"a push", BYTES("\0\0\5\5\4\0\0\0\1\0\0\0\2\202"), NGHTTP2_PROTOCOL_ERROR, true},
    {"enabled push", BYTES("\0\0\6\4\0\0\0\0\0\0\2\0\0\0\1"), NGHTTP2_PROTOCOL_ERROR, true},
    {"a new stream", BYTES("\0\0\1\1\5\0\0\0\2\210"), NGHTTP2_PROTOCOL_ERROR, true},
    {"an idle stream", BYTES("\0\0\1\1\5\0\0\0\3\210"), NGHTTP2_PROTOCOL_ERROR, true},
    {"GOAWAY grows",
     BYTES("\0\0\10\7\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\10\7\0\0\0\0\0"
           "\0\0\0\3\0\0\0\0"),
     NGHTTP2_PROTOCOL_ERROR, true},
};

TEST_ROWS(a_bad_response_is_an_error, bad_responses)
{
    const bad_response *b = &bad_responses[_i];
    h2_exchange x;
    char preface[sizeof PREFACE - 1];
    int fd = open_raw(&client, NULL);
    get(&x);
    ck_assert_int_eq(weft_read(fd, preface, sizeof preface), sizeof preface);
    raw_send(fd, BYTES(SETTINGS));
    raw_send(fd, b->bytes, b->count);
    ssize_t n = h2_read_all(&x, NULL);
    ck_assert_msg(n < 0, "%s", b->what);
    if (b->ends_connection)
        ck_assert_msg(raw_goaway_code(fd) == b->code, "%s", b->what);
    else
        ck_assert_msg(x.st.code == (uint32_t)b->code && n == -EBADMSG, "%s", b->what);
    release(&x);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
}

TEST(a_length_of_0_without_content_is_accepted)
{
    h2_exchange x;
    int fd = open_raw(&client, NULL);
    get(&x);
    raw_send(fd, BYTES(SETTINGS));
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
              "\211\17\15\0010"); /* 204 */
    expect_text(&x, "");
    ck_assert_str_eq(x.fields, ":status: 204\n");
    release(&x);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
}

static int wait_for_the_end(h2_exchange *x)
{
    int rc = 0;
    while (rc == 0 && x->st.error == 0) /* do not read, so that the window closes */
        rc = weft_cond_wait(&x->has_event, NULL);
    return rc;
}

TEST(a_peer_that_exceeds_the_window_of_the_connection_gets_an_error)
{
    static uint8_t frame[9 + 16384] = {0, 0x40, 0, NGHTTP2_DATA, 0, 0, 0, 0, 1};
    server.options.connection_window_bytes = 65535;
    server.options.buffered_bytes_max = 1;
    int fd = open_raw(&server, wait_for_the_end);
    raw_send(fd, BYTES(PREFACE SETTINGS));
    for (int id = 1; id <= 3; id += 2) {
        raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, POST_BLOCK);
        frame[8] = (uint8_t)id;
        raw_send(fd, frame, sizeof frame);
        raw_send(fd, frame, id == 1 ? sizeof frame : 9); /* the head of the last is enough */
    }
    ck_assert_int_eq(raw_goaway_code(fd), NGHTTP2_FLOW_CONTROL_ERROR);
    ck_assert_int_eq(weft_await(server.fiber), 0);
    ck_assert_int_eq(weft_close(fd), 0);
}
