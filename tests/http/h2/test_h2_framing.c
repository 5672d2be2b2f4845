/*
 * The HTTP/2 server: how it reads and writes frames. Parts of frames, compression of heads,
 * settings, windows, and the order of bodies (RFC 9218).
 */
#include "http/h2/h2_raw.h"
#include "support/suite.h"

FIXTURE(NULL, h2_end_test)

static char large[1 << 20];

/* Reply to /STATUS/LENGTH with a body. /early does not read the request. */
static int reply_by_path(weft_http_request *r, void *ctx)
{
    int status = 200, length = 6, rc = 0;
    const void *piece;
    (void)ctx;
    sscanf(weft_http_path(r), "/%d/%d", &status, &length);
    if (strcmp(weft_http_path(r), "/early") != 0)
        while (rc >= 0 && (rc = (int)weft_http_read_piece(r, &piece)) > 0)
            ;
    return rc < 0 ? rc : weft_http_reply(r, status, NULL, large, (size_t)length);
}

static void open_framing(const weft_http_limits *limits)
{
    static weft_http_options options;
    options = (weft_http_options){0};
    if (limits != NULL)
        options.limits = *limits;
    memset(large, 'x', sizeof large);
    h2_open(reply_by_path, NULL, &options);
}

/* Send a request for a path, and further fields. */
static void send_get(uint32_t id, const char *path, const char *fields)
{
    char head[200];
    snprintf(head, sizeof head, ":method: GET\n:scheme: http\n:path: %s\n:authority: a\n%s", path,
             fields);
    h2_send_head(id, H2_WHOLE, head);
}

static void expect_goaway(const char *code)
{
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 ", code);
    h2_close();
}

/*
 * Input
 */

/* The frames of a request with padding, a priority, trailers and a PING. */
static size_t put_frames(uint8_t *to)
{
    static uint8_t block[300] = {3, 0, 0, 0, 0, 15};
    const struct {
        int type, flags;
        uint32_t id;
        const void *payload;
        size_t bytes;
    } frames[] = {
        {NGHTTP2_SETTINGS, 0, 0, "\0\3\0\0\0\12", 6},
        {NGHTTP2_HEADERS, H2_PADDED | H2_PRIORITY, 1, block,
         6 + h2_block(block + 6, 200, H2_POST) + 3},
        {NGHTTP2_CONTINUATION, H2_END_HEADERS, 1, "", 0},
        {NGHTTP2_DATA, H2_PADDED, 1, "\2abc\0\0", 6},
        {NGHTTP2_DATA, 0, 1, "", 0},
        {NGHTTP2_DATA, 0, 1, "defgh", 5},
        {NGHTTP2_DATA, H2_PADDED | H2_END, 1, "\0", 1},
        {NGHTTP2_PING, 0, 0, "12345678", 8},
    };
    size_t at = 0;
    for (size_t i = 0; i < COUNT_OF(frames); i++) {
        h2_put(to + at, (uint32_t)frames[i].bytes, 3);
        to[at + 3] = (uint8_t)frames[i].type;
        to[at + 4] = (uint8_t)frames[i].flags;
        h2_put(to + at + 5, frames[i].id, 4);
        memcpy(to + at + 9, frames[i].payload, frames[i].bytes);
        at += 9 + frames[i].bytes;
    }
    return at;
}

TEST(frames_may_arrive_in_parts_of_any_size)
{
    static uint8_t frames[1000];
    for (size_t part = 1; part <= 40; part++) {
        open_framing(NULL);
        size_t bytes = put_frames(frames);
        for (size_t at = 0; at < bytes; at += part) {
            client_send_bytes(&client, frames + at, bytes - at < part ? bytes - at : part);
            let_run();
        }
        h2_expect("PING 0 ACK\n");
        h2_expect("DATA 1 END 6 xxxxxx\n");
        ck_assert_lacks(h2_log, "GOAWAY", "RST_STREAM");
        h2_close();
    }
}

TEST(a_stream_that_comes_after_goaway_is_ignored)
{
    open_framing(&(weft_http_limits){.requests_max = 1});
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_expect("GOAWAY 0 last=1 NO_ERROR\n");
    h2_send_head(3, H2_END_HEADERS, H2_POST);
    h2_send_data(3, 0, "the client did not know");
    h2_send_head(3, H2_WHOLE, "x-sum: 1\n");
    h2_send_data(1, H2_END, "");
    h2_receive_all();
    ck_assert_has(h2_log, "DATA 1 END 6 xxxxxx\n");
    ck_assert_lacks(h2_log, "_ERROR\nGOAWAY", "STREAM_CLOSED", " 3 ");
}

/*
 * Settings and windows
 */

TEST(too_many_settings_in_a_frame_end_the_connection)
{
    static uint8_t settings[33 * 6];
    open_framing(NULL);
    h2_send(NGHTTP2_SETTINGS, 0, 0, settings, 32 * 6);
    h2_sync();
    h2_send(NGHTTP2_SETTINGS, 0, 0, settings, 33 * 6);
    expect_goaway("ENHANCE_YOUR_CALM\n");
}

TEST(settings_can_be_acknowledged_once)
{
    open_framing(NULL);
    h2_expect("SETTINGS 0 4=");
    h2_sync();
    h2_send(NGHTTP2_SETTINGS, H2_END, 0, NULL, 0);
    expect_goaway("PROTOCOL_ERROR\n");
}

TEST(extended_connect_cannot_be_taken_back)
{
    open_framing(NULL);
    h2_send_setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1);
    h2_send_setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 0);
    expect_goaway("PROTOCOL_ERROR\n");
}

TEST(the_window_of_the_connection_limits_all_bodies)
{
    open_framing(NULL);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100000);
    send_get(1, "/200/65530", "");
    send_get(3, "/200/10", "");
    send_get(5, "/200/0", ""); /* needs no window */
    h2_expect("DATA 3 5 xxxxx\n");
    h2_expect("HEADERS 5 END ");
    h2_sync();
    ck_assert_lacks(h2_log, "DATA 3 END");
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 0, 5);
    h2_expect("DATA 3 END 5 xxxxx\n");
}

TEST(a_window_above_the_maximum_is_an_error_after_the_reply)
{
    open_framing(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/early"));
    h2_expect("DATA 1 END 6 xxxxxx\n");
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 0x7fffffff);
    h2_expect("RST_STREAM 1 FLOW_CONTROL_ERROR\n");
}

/*
 * Heads of replies. The server itself compresses the status and the length, and nghttp2 the rest.
 */

TEST(the_status_and_the_length_arrive_as_they_are)
{
    static const int statuses[] = {200, 201, 203, 205, 206, 299, 300, 400, 401, 404, 418, 500, 599};
    static const int lengths[] = {0, 1, 9, 10, 99, 100, 12345};
    uint32_t id = 1;
    open_framing(NULL);
    for (size_t i = 0; i < COUNT_OF(statuses); i++)
        for (size_t j = 0; j < COUNT_OF(lengths); j++, id += 2) {
            char path[32], expected[64];
            bool is_bodiless = statuses[i] == 205;
            snprintf(path, sizeof path, "/%d/%d", statuses[i], is_bodiless ? 0 : lengths[j]);
            snprintf(expected, sizeof expected, "HEADERS %u %s:status=%d ", id,
                     is_bodiless || lengths[j] == 0 ? "END " : "", statuses[i]);
            h2_log[0] = '\0';
            send_get(id, path, "");
            h2_send_number(NGHTTP2_WINDOW_UPDATE, 0, 20000);
            h2_expect(expected);
            snprintf(expected, sizeof expected, " content-length=%d\n",
                     is_bodiless ? 0 : lengths[j]);
            ck_assert_has(h2_log, expected);
        }
}

TEST(a_change_of_the_table_is_announced_at_the_begin_of_the_next_head)
{
    open_framing(NULL);
    send_get(1, "/200/6", "");
    h2_expect("DATA 1 END ");
    for (uint32_t id = 3; id < 11; id += 2) {
        uint32_t bytes = id % 4 == 3 ? 0 : 200;
        ck_assert_int_eq(nghttp2_hd_inflate_change_table_size(h2_inflater, bytes), 0);
        h2_send_setting(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, bytes);
        char expected[32];
        snprintf(expected, sizeof expected, "HEADERS %u :status=200 ", id);
        send_get(id, "/200/6", "");
        h2_expect(expected);
    }
}

/*
 * Priorities
 */

/* Use up the window of the connection, so that further bodies wait. */
static void block_connection(void)
{
    open_framing(NULL);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, sizeof large);
    send_get(1, "/200/65535", "");
    h2_expect("DATA 1 END ");
}

static void open_window(uint32_t bytes)
{
    h2_log[0] = '\0';
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 0, bytes);
}

TEST(urgent_replies_are_sent_first)
{
    block_connection();
    send_get(3, "/200/100", "");
    send_get(5, "/200/100", "priority: u=5\n");
    send_get(7, "/200/100", "priority: u=1\n");
    send_get(9, "/200/100", "priority: u=1\n");
    h2_sync();
    open_window(300);
    h2_expect("DATA 3 END ");
    const char *first = strstr(h2_log, "DATA 7 END "), *second = strstr(h2_log, "DATA 9 END ");
    ck_assert(first != NULL && second > first && strstr(h2_log, "DATA 3 END ") > second);
    ck_assert_lacks(h2_log, "DATA 5 ");
    open_window(100);
    h2_expect("DATA 5 END ");
}

TEST(incremental_replies_share_the_connection)
{
    block_connection();
    send_get(3, "/200/40000", "priority: i\n");
    send_get(5, "/200/40000", "priority: u=3, i=?1\n");
    h2_sync();
    open_window(65536);
    h2_expect("DATA 5 16384 ");
    h2_sync();
    ck_assert_uint_eq(count_in(h2_log, "DATA 3 16384 "), 2);
    ck_assert_uint_eq(count_in(h2_log, "DATA 5 16384 "), 2);
    ck_assert(strstr(h2_log, "DATA 3 ") < strstr(h2_log, "DATA 5 "));
}

TEST(a_client_can_change_priorities)
{
    block_connection();
    h2_send(NGHTTP2_PRIORITY_UPDATE, 0, 0, "\0\0\0\7u=0", 7); /* before the request */
    send_get(3, "/200/100", "priority: u=1\n");
    send_get(5, "/200/100", "priority: u=2\n");
    send_get(7, "/200/100", "priority: u=7\n");
    h2_sync();
    h2_send(NGHTTP2_PRIORITY_UPDATE, 0, 0, "\0\0\0\3u=6,x", 9);
    open_window(200);
    h2_expect("DATA 5 END ");
    ck_assert_has(h2_log, "DATA 7 END ");
    ck_assert_lacks(h2_log, "DATA 3 ");
}
