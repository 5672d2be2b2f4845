/*
 * The HTTP/2 server and raw frames: each rule of RFC 9113 about frames, streams and RFC 7541 that a
 * client can break. The sections are those of RFC 9113.
 */
#include "http/h2/h2_raw.h"
#include "support/suite.h"

FIXTURE(NULL, h2_end_test)

static int reply_hello(weft_http_request *r, void *ctx)
{
    const void *piece;
    ssize_t n;
    while ((n = weft_http_read_piece(r, &piece)) > 0)
        ;
    return n < 0 ? (int)n : weft_http_reply(r, 200, "text/plain", "Hello\n", 6);
}

static void start(void)
{
    h2_open(reply_hello, NULL, NULL);
}

/* Assert that the server ends the connection with an error. */
static void expect_connection_error(const char *code)
{
    char text[64];
    snprintf(text, sizeof text, " %s\n", code);
    h2_receive_all();
    const char *goaway = strstr(h2_log, "GOAWAY 0");
    ck_assert_msg(goaway != NULL && strstr(goaway, text) != NULL, "no %s:\n%s", code, h2_log);
    h2_close();
}

/* Assert that the server resets a stream, and that the connection continues. */
static void expect_stream_error(uint32_t id, const char *code)
{
    char text[64];
    snprintf(text, sizeof text, "RST_STREAM %u %s\n", id, code);
    h2_expect(text);
    h2_send_head(101, H2_WHOLE, H2_GET);
    h2_expect("DATA 101 END 6 Hello.\n");
    h2_close();
}

static void expect_reply(uint32_t id)
{
    char text[64];
    snprintf(text, sizeof text, "DATA %u END 6 Hello.\n", id);
    h2_expect(text);
}

TEST(the_server_sends_settings_first_and_replies)
{
    start();
    h2_send_head(1, H2_WHOLE, H2_GET);
    expect_reply(1);
    ck_assert_int_eq(strncmp(h2_log, "SETTINGS 0 4=65536 6=32768 9=1 3=100 8=1\n", 41), 0);
    ck_assert_has(h2_log, "SETTINGS 0 ACK\n",
                  "HEADERS 1 :status=200 date=", " content-type=text/plain content-length=6\n");
}

TEST(an_invalid_preface_after_its_first_line_ends_the_connection)
{
    h2_open_bare(reply_hello, NULL, NULL);
    client_send(&client, H2_MAGIC);
    h2_send_head(1, H2_WHOLE, H2_GET); /* not SETTINGS */
    expect_connection_error("PROTOCOL_ERROR");
}

#define OTHER_PREFACE "INVALID CONNECTION PREFACE\r\n\r\n"

static int logged_status;

static void on_log(const weft_http_record *record, void *ctx)
{
    logged_status = record->status;
}

TEST(a_preface_of_another_protocol_ends_the_connection_without_a_reply)
{
    static const weft_http_options options = {.log = on_log};
    start_client(reply_hello, NULL, &options, OTHER_PREFACE);
    ck_assert_str_eq(client_receive_all(&client), "");
    (void)client_close(&client);
    ck_assert_int_eq(logged_status, 400);
    start_client(reply_hello, NULL, NULL, "");
    for (const char *c = OTHER_PREFACE; *c != '\0' && weft_send(client.fd, c, 1, MSG_NOSIGNAL) > 0;
         c++)
        let_run();
    ck_assert_str_eq(client_receive_all(&client), "");
    (void)client_close(&client);
}

static void assert_garbage_gets_400(const char *garbage)
{
    start_client(reply_hello, NULL, NULL, garbage);
    expect_status(400);
    (void)client_close(&client);
}

TEST(garbage_gets_a_reply_of_http_1)
{
    EACH_TEXT(assert_garbage_gets_400, "GARBAGE\r\n\r\n", "TWO WORDS\r\n\r\n",
              "FOUR WORDS OF GARBAGE\r\n\r\n", "three small words\r\n\r\n", "GET / PREFACE\r\n\r\n",
              "INVALID CONNECTION HTTP/1.1\r\n\r\n", "LINE WITHOUT RETURN\n\n",
              "THREE  WORDS APART\r\n\r\n");
    static const weft_http_options options = {.has_no_http2 = true};
    start_client(reply_hello, NULL, &options, OTHER_PREFACE);
    expect_status(400);
    (void)client_close(&client);
    start_client(reply_hello, NULL, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n" OTHER_PREFACE);
    client_receive_all(&client);
    ck_assert_has(client.received, "HTTP/1.1 200 OK", "HTTP/1.1 400 ");
    (void)client_close(&client);
}

TEST(a_preface_in_single_bytes_is_recognised)
{
    static const char magic[] = H2_MAGIC;
    h2_open_bare(reply_hello, NULL, NULL);
    for (size_t i = 0; i < sizeof magic - 1; i++) {
        client_send_bytes(&client, magic + i, 1);
        let_run();
    }
    h2_send(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    h2_send_head(1, H2_WHOLE, H2_GET);
    expect_reply(1);
}

TEST(padded_and_prioritised_frames_are_accepted)
{
    static uint8_t frame[300] = {3, 0x80, 0, 0, 0, 15}; /* padding, exclusive, weight */
    start();
    size_t bytes = h2_block(frame + 6, 200, H2_POST);
    h2_send(NGHTTP2_HEADERS, H2_END_HEADERS | H2_PADDED | H2_PRIORITY, 1, frame, 6 + bytes + 3);
    h2_send(NGHTTP2_DATA, H2_PADDED, 1, "\x02xyz\0\0", 6);
    h2_send_data(1, H2_END, "z");
    expect_reply(1);
}

TEST(unknown_frames_flags_settings_and_codes_are_ignored)
{
    start();
    h2_send(0x16, 0xff, 0, "12345678", 8);
    h2_send(NGHTTP2_PING, 0xfe, 0, "12345678", 8);
    h2_send(NGHTTP2_PING, H2_END, 0, "12345678", 8);
    h2_send_setting(0xff, 1);
    h2_send(NGHTTP2_PRIORITY, 0, 9, "\0\0\0\x07\x01", 5); /* 5.1: an idle stream */
    h2_send_head(1, H2_WHOLE, H2_GET);
    expect_reply(1);
    h2_send(NGHTTP2_PRIORITY, 0, 1, "\0\0\0\x07\x01", 5); /* a closed stream */
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 100);
    h2_send_number(NGHTTP2_RST_STREAM, 1, 0xff);
    h2_send_head(3, H2_END_HEADERS, H2_POST);
    h2_send_number(NGHTTP2_RST_STREAM, 3, 0xff);
    h2_send_head(5, H2_WHOLE, H2_GET);
    expect_reply(5);
    h2_send(NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\xff", 8);
    h2_receive_all();
}

/* Frames after the preface that end the connection. */
static const struct bad_frame {
    const char *section;
    int type, flags;
    uint32_t id;
    const char *payload;
    size_t bytes;
    const char *code;
} bad_frames[] = {
    {"5.1 idle", NGHTTP2_DATA, H2_END, 1, "x", 1, "PROTOCOL_ERROR"},
    {"5.1 idle", NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4, "PROTOCOL_ERROR"},
    {"5.1 idle", NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\x08", 4, "PROTOCOL_ERROR"},
    {"5.1 idle", NGHTTP2_CONTINUATION, H2_END_HEADERS, 1, "\x82", 1, "PROTOCOL_ERROR"},
    {"5.1.1 even", NGHTTP2_HEADERS, H2_WHOLE, 2, "\x82\x84\x86\x41\x01\x61", 6, "PROTOCOL_ERROR"},
    {"6.1", NGHTTP2_DATA, H2_END, 0, "x", 1, "PROTOCOL_ERROR"},
    {"6.2", NGHTTP2_HEADERS, H2_WHOLE, 0, "\x82", 1, "PROTOCOL_ERROR"},
    {"6.2 padding", NGHTTP2_HEADERS, H2_WHOLE | H2_PADDED, 1, "\x07\x82\x84", 3, "PROTOCOL_ERROR"},
    {"6.3", NGHTTP2_PRIORITY, 0, 0, "\0\0\0\x01\x01", 5, "PROTOCOL_ERROR"},
    {"6.4", NGHTTP2_RST_STREAM, 0, 0, "\0\0\0\x08", 4, "PROTOCOL_ERROR"},
    {"6.4 length", NGHTTP2_RST_STREAM, 0, 1, "\0\0\x08", 3, "FRAME_SIZE_ERROR"},
    {"6.5 ACK", NGHTTP2_SETTINGS, H2_END, 0, "\0\0\0\0\0\0", 6, "FRAME_SIZE_ERROR"},
    {"6.5", NGHTTP2_SETTINGS, 0, 1, "\0\x03\0\0\0\x01", 6, "PROTOCOL_ERROR"},
    {"6.5 length", NGHTTP2_SETTINGS, 0, 0, "\0\x03\0", 3, "FRAME_SIZE_ERROR"},
    {"6.5.2 push", NGHTTP2_SETTINGS, 0, 0, "\0\x02\0\0\0\x02", 6, "PROTOCOL_ERROR"},
    {"6.5.2 window", NGHTTP2_SETTINGS, 0, 0, "\0\x04\x80\0\0\0", 6, "FLOW_CONTROL_ERROR"},
    {"6.5.2 frame", NGHTTP2_SETTINGS, 0, 0, "\0\x05\0\0\x3f\xff", 6, "PROTOCOL_ERROR"},
    {"6.5.2 frame", NGHTTP2_SETTINGS, 0, 0, "\0\x05\x01\0\0\0", 6, "PROTOCOL_ERROR"},
    {"6.7", NGHTTP2_PING, 0, 1, "12345678", 8, "PROTOCOL_ERROR"},
    {"6.7 length", NGHTTP2_PING, 0, 0, "123456", 6, "FRAME_SIZE_ERROR"},
    {"6.8", NGHTTP2_GOAWAY, 0, 1, "\0\0\0\0\0\0\0\0", 8, "PROTOCOL_ERROR"},
    {"6.9 zero", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4, "PROTOCOL_ERROR"},
    {"6.9 length", NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\x01", 3, "FRAME_SIZE_ERROR"},
    {"6.9.1", NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4, "FLOW_CONTROL_ERROR"},
    {"6.10", NGHTTP2_CONTINUATION, H2_END_HEADERS, 0, "\x82", 1, "PROTOCOL_ERROR"},
    {"8.4", NGHTTP2_PUSH_PROMISE, H2_END_HEADERS, 1, "\0\0\0\x02\x82", 5, "PROTOCOL_ERROR"},
    {"RFC 9218, 7.1", NGHTTP2_PRIORITY_UPDATE, 0, 0, "\0\0\0\0u=1", 7, "PROTOCOL_ERROR"},
    {"RFC 9218, 7.1 push", NGHTTP2_PRIORITY_UPDATE, 0, 0, "\0\0\0\2u=1", 7, "PROTOCOL_ERROR"},
    /* RFC 7541 */
    {"2.3.3 index", NGHTTP2_HEADERS, H2_WHOLE, 1, "\xc6", 1, "COMPRESSION_ERROR"},
    {"6.1 index 0", NGHTTP2_HEADERS, H2_WHOLE, 1, "\x80", 1, "COMPRESSION_ERROR"},
    {"4.2 size", NGHTTP2_HEADERS, H2_WHOLE, 1, "\x82\x84\x86\x41\x01\x61\x20", 7,
     "COMPRESSION_ERROR"},
    {"6.3 size", NGHTTP2_HEADERS, H2_WHOLE, 1, "\x3f\xe2\x1f\x82\x84\x86", 6, "COMPRESSION_ERROR"},
    {"5.2 padding", NGHTTP2_HEADERS, H2_WHOLE, 1, "\x82\x84\x86\x00\x81\xff\x82\x1f\xff", 9,
     "COMPRESSION_ERROR"},
    {"5.2 padding", NGHTTP2_HEADERS, H2_WHOLE, 1, "\x82\x84\x86\x00\x81\x1c\x81\x18", 8,
     "COMPRESSION_ERROR"},
    {"5.2 EOS", NGHTTP2_HEADERS, H2_WHOLE, 1, "\x82\x84\x86\x00\x81\x1f\x84\xff\xff\xff\xff", 11,
     "COMPRESSION_ERROR"},
};

TEST(a_malformed_frame_ends_the_connection)
{
    for (size_t i = 0; i < COUNT_OF(bad_frames); i++) {
        const struct bad_frame *f = &bad_frames[i];
        start();
        h2_send(f->type, f->flags, f->id, f->payload, f->bytes);
        expect_connection_error(f->code);
    }
}

TEST(frames_above_the_maximum_size_are_errors)
{
    static char large[16385];
    start();
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send(NGHTTP2_DATA, H2_END, 1, large, 16384);
    expect_reply(1);
    h2_send_head(3, H2_END_HEADERS, H2_POST);
    h2_send(NGHTTP2_DATA, H2_END, 3, large, 16385);
    expect_connection_error("FRAME_SIZE_ERROR");
    start();
    h2_send(NGHTTP2_HEADERS, H2_WHOLE, 1, large, 16385);
    expect_connection_error("FRAME_SIZE_ERROR");
}

TEST(nothing_may_interrupt_a_head)
{
    static const struct {
        int type;
        uint32_t id;
    } between[] = {{NGHTTP2_PRIORITY, 1},
                   {NGHTTP2_HEADERS, 3},
                   {NGHTTP2_DATA, 1},
                   {NGHTTP2_PING, 0},
                   {0x16, 0},
                   {NGHTTP2_CONTINUATION, 3}};
    for (size_t i = 0; i < COUNT_OF(between); i++) {
        start();
        h2_send_head(1, 0, H2_GET);
        h2_send(between[i].type, 0, between[i].id, "\0\0\0\0\0\0\0\0",
                between[i].type == NGHTTP2_PRIORITY ? 5 : 8);
        expect_connection_error("PROTOCOL_ERROR");
    }
}

TEST(a_head_may_continue_in_several_frames)
{
    start();
    h2_send_head(1, H2_END, ":method: GET\n");
    uint8_t block[100];
    h2_send(NGHTTP2_CONTINUATION, 0, 1, block, h2_block(block, 100, ":scheme: http\n"));
    h2_send(NGHTTP2_CONTINUATION, 0, 1, block, h2_block(block, 100, ":path: /\n"));
    h2_send(NGHTTP2_CONTINUATION, 4, 1, block, h2_block(block, 100, ":authority: a\n"));
    expect_reply(1);
    h2_send(NGHTTP2_CONTINUATION, H2_END_HEADERS, 1, block, 0);
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=1 ");
}

TEST(frames_on_a_half_closed_or_closed_stream_are_errors)
{
    static const int types[] = {NGHTTP2_DATA, NGHTTP2_HEADERS, NGHTTP2_CONTINUATION};
    for (size_t i = 0; i < 2 * COUNT_OF(types); i++) {
        bool is_closed = i >= COUNT_OF(types);
        int type = types[i % COUNT_OF(types)];
        start();
        h2_send_head(1, H2_WHOLE, H2_GET);
        if (is_closed) {
            expect_reply(1);
            h2_send_number(NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
        }
        if (type == NGHTTP2_HEADERS)
            h2_send_head(1, H2_WHOLE, H2_GET);
        else
            h2_send(type, H2_WHOLE, 1, "x", 1);
        h2_receive_all();
        ck_assert_msg(strstr(h2_log, "STREAM_CLOSED") != NULL ||
                          strstr(h2_log, "PROTOCOL_ERROR") != NULL,
                      "type %d:\n%s", type, h2_log);
        h2_close();
    }
}

TEST(stream_ids_must_increase)
{
    start();
    h2_send_head(5, H2_WHOLE, H2_GET);
    expect_reply(5);
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=5 ");
}

TEST(a_stream_cannot_depend_on_itself)
{
    uint8_t frame[100] = {0, 0, 0, 1, 15};
    start();
    size_t bytes = h2_block(frame + 5, 90, H2_GET);
    h2_send(NGHTTP2_HEADERS, H2_WHOLE | H2_PRIORITY, 1, frame, 5 + bytes);
    h2_expect_either("RST_STREAM 1 PROTOCOL_ERROR\n", "GOAWAY 0 last=0 PROTOCOL_ERROR\n");
    h2_close();
    start();
    h2_send(NGHTTP2_PRIORITY, 0, 1, "\0\0\0\x01\x0f", 5);
    h2_expect_either("RST_STREAM 1 PROTOCOL_ERROR\n", "GOAWAY 0 last=0 PROTOCOL_ERROR\n");
    h2_close();
    start();
    h2_send(NGHTTP2_PRIORITY, 0, 1, "\0\0\0\x01", 4);
    h2_expect_either("RST_STREAM 1 FRAME_SIZE_ERROR\n", "GOAWAY 0 last=0 FRAME_SIZE_ERROR\n");
}

TEST(a_second_head_must_end_the_stream)
{
    start();
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send_head(1, H2_END_HEADERS, "x: y\n");
    expect_stream_error(1, "PROTOCOL_ERROR");
}

TEST(padding_must_be_shorter_than_the_frame)
{
    start();
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send(NGHTTP2_DATA, H2_END | H2_PADDED, 1, "\x05hello", 5);
    expect_connection_error("PROTOCOL_ERROR");
}

TEST(windows_limit_the_reply_and_overflow_is_an_error)
{
    start();
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1);
    h2_send_head(1, H2_WHOLE, H2_GET);
    h2_expect("DATA 1 1 H\n");
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 3);
    h2_expect("DATA 1 2 el\n");
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2); /* the window is now negative */
    h2_sync();
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 2);
    h2_expect("DATA 1 1 l\n");
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 2);
    h2_expect("DATA 1 END 2 o.\n");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 2 He\n");
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 3, 0);
    h2_expect_either("RST_STREAM 3 PROTOCOL_ERROR\n", "GOAWAY 0 last=3 PROTOCOL_ERROR\n");
}

TEST(a_window_above_the_maximum_is_an_error)
{
    start();
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 0x7fffffff);
    expect_stream_error(1, "FLOW_CONTROL_ERROR");
    start();
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 0x70000000);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x70000000);
    h2_expect_either("RST_STREAM 1 FLOW_CONTROL_ERROR", "GOAWAY 0 last=1 FLOW_CONTROL_ERROR");
}

static weft_event may_read;

static int reply_later(weft_http_request *r, void *ctx)
{
    int rc = weft_event_wait(&may_read);
    return rc < 0 ? rc : reply_hello(r, ctx);
}

TEST(a_client_that_exceeds_the_window_of_a_stream_gets_an_error)
{
    static char body[16384];
    h2_open(reply_later, NULL, NULL);
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    for (int i = 0; i < 5; i++)
        h2_send(NGHTTP2_DATA, 0, 1, body, sizeof body);
    h2_expect_either("RST_STREAM 1 FLOW_CONTROL_ERROR", "GOAWAY 0 last=1 FLOW_CONTROL_ERROR");
    weft_event_set(&may_read);
}

TEST(a_ping_gets_its_payload_back)
{
    start();
    h2_sync();
    h2_sync();
}
