/* The HTTP/2 server: streams whose reply has ended before the body of the request. */
#include "http/h2/h2_raw.h"
#include "support/suite.h"

FIXTURE(NULL, h2_end_test)

#define HELLO(id) "DATA " id " END 6 Hello.\n"

static int say_hello(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply(r, 200, NULL, "Hello\n", 6);
}

static void open_limited(const weft_http_limits *limits)
{
    static weft_http_options options;
    options = (weft_http_options){.limits = *limits};
    h2_open(say_hello, NULL, &options);
}

#define START(...) open_limited(&(weft_http_limits){__VA_ARGS__})

/* Send a request without the end of its body, and wait for the reply. */
static void post(const char *head)
{
    START(0);
    h2_send_head(1, H2_END_HEADERS, head);
    h2_expect(HELLO("1"));
}

TEST(the_rest_of_a_body_is_discarded_after_the_reply)
{
    static char body[15000];
    post(H2_POST);
    for (int i = 0; i < 4; i++)
        h2_send(NGHTTP2_DATA, i == 3 ? H2_END : 0, 1, body, sizeof body);
    h2_sync();
    ck_assert_lacks(h2_log, "RST_STREAM", "WINDOW_UPDATE 1 ");
    h2_send_head(3, H2_END_HEADERS, H2_POST);
    h2_send_head(3, H2_WHOLE, "x-sum: one\n");
    h2_expect(HELLO("3"));
    h2_sync();
    ck_assert_lacks(h2_log, "RST_STREAM");
}

TEST(frames_after_the_reply_are_checked)
{
    post(H2_POST "content-length: 5\n");
    h2_send_data(1, H2_END, "abc");
    h2_expect("RST_STREAM 1 PROTOCOL_ERROR\n");
    h2_close();
    post(H2_POST);
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 0);
    h2_expect_either("RST_STREAM 1 PROTOCOL_ERROR\n", "GOAWAY 0 last=1 PROTOCOL_ERROR\n");
    h2_close();
    post(H2_POST);
    h2_send(NGHTTP2_DATA, H2_PADDED, 1, "\5abc", 4);
    h2_expect("GOAWAY 0 last=1 PROTOCOL_ERROR\n");
    h2_close();
    post(H2_POST);
    h2_send_head(1, H2_END_HEADERS, "x-sum: one\n");
    h2_expect_either("RST_STREAM 1 PROTOCOL_ERROR\n", "GOAWAY 0 last=1 PROTOCOL_ERROR\n");
    h2_close();
    post(H2_POST);
    h2_send_number(NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    h2_send_data(1, 0, "abc");
    h2_expect("GOAWAY 0 last=1 STREAM_CLOSED\n");
}

TEST(a_stream_that_has_used_its_window_after_the_reply_ends_without_an_error)
{
    static char body[16384];
    post(H2_POST);
    for (int i = 0; i < 4; i++)
        h2_send(NGHTTP2_DATA, 0, 1, body, sizeof body);
    h2_sync();
    ck_assert_has(h2_log, "RST_STREAM 1 NO_ERROR\n");
    ck_assert_lacks(h2_log, "WINDOW_UPDATE 1 ");
}

TEST(a_stream_without_further_input_ends_some_time_after_the_reply)
{
    post(H2_POST);
    h2_send_head(3, H2_END_HEADERS, H2_POST);
    h2_expect("RST_STREAM 1 NO_ERROR\n");
    h2_expect("RST_STREAM 3 NO_ERROR\n");
    h2_send_data(1, 0, "the client did not know"); /* not an error */
    h2_send_head(5, H2_WHOLE, H2_GET);
    h2_expect(HELLO("5"));
}

TEST(the_oldest_of_too_many_lingering_streams_ends)
{
    START(0);
    for (uint32_t id = 1; id < 2 * 60; id += 2)
        h2_send_head(id, H2_END_HEADERS, H2_POST);
    h2_sync();
    ck_assert_uint_eq(count_in(h2_log, " END 6 Hello."), 60);
    ck_assert_has(h2_log, "RST_STREAM 1 NO_ERROR\n", "RST_STREAM 19 NO_ERROR\n");
    ck_assert_lacks(h2_log, "RST_STREAM 21 ");
}

TEST(lingering_streams_do_not_delay_the_end_of_a_connection)
{
    START(.requests_max = 3);
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send_head(3, H2_END_HEADERS, H2_POST);
    h2_expect(HELLO("3"));
    h2_send_head(5, H2_WHOLE, H2_GET);
    h2_receive_all();
    ck_assert_has(h2_log, HELLO("5"), "RST_STREAM 1 NO_ERROR\n", "RST_STREAM 3 NO_ERROR\n",
                  "GOAWAY 0 last=5 NO_ERROR\n");
}
