/* The HTTP/2 server: limits, floods, slow clients, timeouts, drain. */
#include "http/h2/h2_raw.h"
#include "support/suite.h"

FIXTURE(NULL, h2_end_test)

static weft_event may_end;
static size_t running, running_max;
static size_t handled; /* requests for /medium and /head */
static int result;     /* of the last handler that has failed */

#define LARGE ((size_t)4 << 20)
static char large[LARGE];

static int wait_for_end(weft_http_request *r)
{
    running++;
    running_max = running > running_max ? running : running_max;
    int rc = weft_event_wait(&may_end);
    running--;
    return rc < 0 ? rc : weft_http_reply(r, 200, NULL, "late", 4);
}

/* Hold a piece of the body during a wait. */
static int hold_piece(weft_http_request *r)
{
    const void *piece;
    ssize_t n = weft_http_read_piece(r, &piece);
    if (n <= 0)
        return (int)n;
    char *copy = weft_http_alloc(r, (size_t)n);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, piece, (size_t)n);
    running++;
    int rc = weft_event_wait(&may_end);
    running--;
    ck_assert_mem_eq(piece, copy, (size_t)n);
    result = (int)weft_http_read_piece(r, &piece);
    return rc < 0 ? rc : result;
}

static int reply_with_long_head(weft_http_request *r)
{
    static char value[8001];
    memset(value, 'v', sizeof value - 1);
    int rc = weft_http_set(r, "Location", value);
    return rc < 0 ? rc : weft_http_reply(r, 302, NULL, NULL, 0);
}

static int serve_paths(weft_http_request *r, void *ctx)
{
    const char *path = weft_http_path(r);
    char *body;
    if (strcmp(path, "/piece") == 0)
        return hold_piece(r);
    if (strcmp(path, "/late") == 0)
        return wait_for_end(r);
    if (strcmp(path, "/medium") == 0) {
        handled++;
        return weft_http_reply(r, 200, NULL, large, 8000);
    }
    if (strcmp(path, "/head") == 0) {
        handled++;
        return reply_with_long_head(r);
    }
    if (strcmp(path, "/large") == 0) {
        result = weft_http_reply(r, 200, NULL, large, LARGE);
        return result;
    }
    if (strcmp(path, "/body") == 0) {
        ssize_t n = weft_http_read_all(r, &body);
        result = n < 0 ? (int)n : 0;
        return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zd bytes", n);
    }
    return weft_http_reply(r, 200, "text/plain", "Hello\n", 6);
}

static void start(const weft_http_limits *limits)
{
    static weft_http_options options;
    options = (weft_http_options){.limits = *limits};
    h2_open(serve_paths, NULL, &options);
}

#define START(...) start(&(weft_http_limits){__VA_ARGS__})

static void expect_calm(void)
{
    h2_receive_all();
    ck_assert_has(h2_log, " ENHANCE_YOUR_CALM\n");
}

TEST(a_head_beyond_its_limits_gets_431)
{
    char head[8192] = H2_GET;
    START(.headers_max = 10);
    for (int i = 0; i < 11; i++)
        strcat(head, "x: y\n");
    h2_send_head(1, H2_WHOLE, head);
    h2_expect("HEADERS 1 :status=431");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
    h2_close();
    START(.head_bytes_max = 1000);
    snprintf(head, sizeof head, H2_GET "x: %01000d\n", 1);
    h2_send_head(1, H2_WHOLE, head);
    h2_expect("HEADERS 1 :status=431");
    ck_assert_has(h2_log, " 6=1000 ");
    h2_close();
    START(.line_bytes_max = 100);
    snprintf(head, sizeof head, ":method: GET\n:scheme: http\n:authority: a\n:path: /%0100d\n", 1);
    h2_send_head(1, H2_WHOLE, head);
    h2_expect("HEADERS 1 :status=414");
}

TEST(a_compressed_head_counts_in_its_expanded_size)
{
    static char head[70000];
    START(.headers_max = 0);
    char value[2901];
    memset(value, 'v', 2900);
    value[2900] = '\0';
    strcpy(head, H2_GET);
    for (int i = 0; i < 12; i++) /* each but the first is one byte on the wire */
        sprintf(head + strlen(head), "x: %s\n", value);
    h2_send_head(1, H2_WHOLE, head);
    h2_expect("HEADERS 1 :status=431");
}

TEST(an_endless_head_ends_the_connection)
{
    START(.headers_max = 0);
    h2_is_acking = false;
    h2_send_head(1, 0, H2_GET);
    for (int i = 0; i < 2000; i++)
        h2_send(NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
    expect_calm();
}

TEST(a_head_that_arrives_too_slowly_ends_the_connection)
{
    START(.head_s = 0.05);
    h2_is_acking = false;
    h2_send_head(1, 0, H2_GET);
    expect_calm();
}

/* Write a frame with the head of a request to the buffer. Return its length. */
static size_t put_long_request(uint8_t *frame, size_t capacity, uint32_t id)
{
    char head[2200];
    snprintf(head, sizeof head, H2_GET "x: %02000u\n", id);
    size_t bytes = h2_block(frame + 9, capacity - 9, head);
    h2_put(frame, (uint32_t)bytes, 3);
    frame[3] = NGHTTP2_HEADERS;
    frame[4] = H2_WHOLE;
    h2_put(frame + 5, id, 4);
    return 9 + bytes;
}

TEST(heads_that_always_arrive_in_two_parts_are_no_flood)
{
    uint8_t bytes[8192]; /* the rest of a frame, and the next frame */
    size_t rest = 0;
    char reply[32];
    START(.head_bytes_max = 4096);
    h2_sync();
    for (uint32_t id = 1; id < 200; id += 2) {
        size_t next = put_long_request(bytes + rest, sizeof bytes - rest, id);
        size_t sent = rest + next / 2;
        client_send_bytes(&client, bytes, sent);
        snprintf(reply, sizeof reply, "DATA %u END", id - 2);
        if (id > 1)
            h2_expect(reply);
        rest += next - sent;
        memmove(bytes, bytes + sent, rest);
    }
}

TEST(half_a_preface_has_the_time_of_one_head)
{
    static const weft_http_options options = {.limits = {.head_s = 0.05}};
    h2_open_bare(serve_paths, NULL, &options);
    double begun_s = weft_now();
    client_send(&client, "PRI * HT");
    expect_status(408);
    if (is_sim())
        ck_assert_double_lt(weft_now(), begun_s + 1.5 * options.limits.head_s);
}

TEST(a_connection_without_settings_or_requests_is_closed)
{
    static const weft_http_options options = {.limits = {.first_byte_s = 0.05, .idle_s = 0.05}};
    h2_open_bare(serve_paths, NULL, &options);
    h2_is_acking = false;
    client_send(&client, H2_MAGIC);
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=0 SETTINGS_TIMEOUT\n");
    h2_close();
    h2_open(serve_paths, NULL, &options);
    h2_send_head(1, H2_WHOLE, H2_GET);
    h2_receive_all();
    ck_assert_has(h2_log, "DATA 1 END 6 Hello.\n", "GOAWAY 0 last=1 NO_ERROR\n");
}

TEST(a_client_that_closes_its_side_gets_the_replies_to_complete_requests)
{
    START(.first_byte_s = 0);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_send_head(3, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    ck_assert_int_eq(weft_shutdown(client.fd, SHUT_WR), 0);
    while (result == 0) /* the server has noticed the end: the body is incomplete */
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(result, -ECONNRESET);
    weft_event_set(&may_end);
    h2_expect("DATA 1 END 4 late\n");
    ck_assert_has(h2_log, "RST_STREAM 3 CANCEL\n");
}

TEST(a_connection_ends_after_the_last_reply_to_a_client_that_has_closed_its_side)
{
    START(.first_byte_s = 0);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
    ck_assert_int_eq(weft_shutdown(client.fd, SHUT_WR), 0);
    let_run();
    weft_event_set(&may_end);
    h2_receive_all();
    ck_assert_has(h2_log, "DATA 1 END 4 late\n");
    ck_assert_int_eq(client_close(&client), 0);
    h2_finish();
}

TEST(a_reply_that_waits_for_a_window_fails_when_the_client_closes_its_side)
{
    START(.first_byte_s = 0);
    result = 1;
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/large"));
    h2_sync();
    ck_assert_int_eq(weft_shutdown(client.fd, SHUT_WR), 0);
    h2_receive_all();
    ck_assert_int_eq(result, -ECONNRESET);
    ck_assert_has(h2_log, "RST_STREAM 1 CANCEL\n");
    ck_assert_int_eq(client_close(&client), 0);
    h2_finish();
}

TEST(pings_do_not_keep_an_idle_connection_open)
{
    START(.idle_s = 0.05);
    while (strstr(h2_log, "GOAWAY") == NULL) {
        h2_send(NGHTTP2_PING, 0, 0, "12345678", 8);
        if (!h2_receive())
            break;
        weft_sleep(0.01);
    }
    ck_assert_has(h2_log, "GOAWAY 0 last=0 NO_ERROR\n");
}

TEST(an_idle_connection_continues_after_it_has_returned_its_buffers)
{
    START(.idle_s = 100);
    h2_send_head(1, H2_WHOLE, H2_GET);
    h2_expect("DATA 1 END 6 Hello.\n");
    weft_sleep(1.1);
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
}

TEST(the_idle_time_begins_after_the_last_request)
{
    if (!is_sim()) /* the test needs exact times */
        return;
    START(.idle_s = 1);
    for (uint32_t id = 1; id <= 7; id += 2) {
        h2_send_head(id, H2_WHOLE, H2_GET);
        while (count_in(h2_log, "Hello") < (id + 1) / 2)
            ck_assert_msg(h2_receive(), "received:\n%s", h2_log);
        weft_sleep(0.9);
    }
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=7 NO_ERROR\n");
}

/* The reader writes replies itself, but must not wait until the client reads. */
TEST(a_server_reads_while_its_client_does_not)
{
    START(.slow_s = 100);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20);
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 0, 4 << 20);
    for (uint32_t id = 1; id < 199; id += 2) {
        h2_send_head(id, H2_WHOLE, H2_HEAD("GET", "/medium"));
        while (handled < (id + 1) / 2)
            ck_assert_int_eq(weft_snooze(), 0);
    }
    h2_send_head(199, H2_WHOLE, H2_HEAD("GET", "/late"));
    while (running == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    weft_event_set(&may_end);
    while (count_in(h2_log, " END 8000 ") < 99 || strstr(h2_log, "DATA 199 END") == NULL)
        ck_assert_msg(h2_receive(), "received:\n%s", h2_log);
}

TEST(heads_that_a_client_does_not_read_take_bounded_memory)
{
    START(.slow_s = 100, .resets_per_s_max = 1e6);
    for (uint32_t id = 1; id < 4000; id += 2)
        h2_send_head(id, H2_WHOLE, H2_HEAD("GET", "/head"));
    h2_send(NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    h2_receive_all();
    ck_assert_uint_gt(handled, 100);
    ck_assert_uint_lt(handled, 1000);
}

TEST(streams_beyond_the_limit_are_refused)
{
    START(.streams_max = 3);
    h2_is_acking = false;
    h2_expect(" 3=3 ");
    for (uint32_t id = 1; id <= 9; id += 2)
        h2_send_head(id, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_expect("RST_STREAM 9 REFUSED_STREAM\n");
    ck_assert_has(h2_log, "RST_STREAM 7 REFUSED_STREAM\n");
    ck_assert_uint_eq(running_max, 3);
    weft_event_set(&may_end);
    h2_expect("DATA 5 END 4 late\n");
    h2_send_head(11, H2_WHOLE, H2_GET);
    h2_expect("DATA 11 END 6 Hello.\n");
}

TEST(streams_that_a_client_opens_before_it_knows_the_limit_are_not_abuse)
{
    START(.streams_max = 3, .resets_per_s_max = 1);
    h2_is_acking = false;
    for (uint32_t id = 1; id <= 199; id += 2)
        h2_send_head(id, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_expect("RST_STREAM 199 REFUSED_STREAM\n");
    weft_event_set(&may_end);
    h2_expect("DATA 5 END 4 late\n");
    ck_assert_lacks(h2_log, "GOAWAY");
}

TEST(streams_beyond_an_acknowledged_limit_are_an_error)
{
    START(.streams_max = 3);
    h2_sync();
    for (uint32_t id = 1; id <= 9; id += 2)
        h2_send_head(id, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_expect("GOAWAY 0 last=5 PROTOCOL_ERROR\n");
    ck_assert_uint_eq(running_max, 3);
    weft_event_set(&may_end);
}

TEST(handlers_of_reset_streams_count)
{
    START(.streams_max = 5, .resets_per_s_max = 1000);
    for (uint32_t id = 1; id <= 99; id += 2) {
        h2_send_head(id, H2_WHOLE, H2_HEAD("GET", "/late"));
        h2_send_number(NGHTTP2_RST_STREAM, id, NGHTTP2_CANCEL);
    }
    h2_sync();
    ck_assert_uint_le(running_max, 10);
    weft_event_set(&may_end);
    let_run();
    h2_send_head(101, H2_WHOLE, H2_GET);
    h2_expect("DATA 101 END 6 Hello.\n");
}

TEST(rapid_resets_end_the_connection)
{
    START(.resets_per_s_max = 2);
    for (uint32_t id = 1; id < 100; id += 2) {
        h2_send_head(id, H2_WHOLE, H2_GET);
        h2_send_number(NGHTTP2_RST_STREAM, id, NGHTTP2_CANCEL);
    }
    expect_calm();
}

TEST(streams_that_the_server_must_reset_count_as_resets)
{
    START(.resets_per_s_max = 2);
    for (uint32_t id = 1; id < 100; id += 2)
        h2_send_head(id, H2_WHOLE, H2_GET "connection: x\n");
    expect_calm();
}

static void send_ping(uint32_t i)
{
    (void)i;
    h2_send(NGHTTP2_PING, 0, 0, "12345678", 8);
}

static void send_empty_settings(uint32_t i)
{
    (void)i;
    h2_send(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

static void send_small_window_update(uint32_t i)
{
    (void)i;
    h2_send_number(NGHTTP2_WINDOW_UPDATE, 0, 1);
}

static void send_priority(uint32_t i)
{
    (void)i;
    h2_send(NGHTTP2_PRIORITY, 0, 3, "\0\0\0\x01\x0f", 5);
}

static void send_priority_update(uint32_t i)
{
    (void)i;
    h2_send(0x10, 0, 0, "\0\0\0\x01u=1", 7);
}

static void send_empty_data(uint32_t i)
{
    if (i == 0)
        h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send(NGHTTP2_DATA, 0, 1, NULL, 0);
}

static void send_only_padding(uint32_t i)
{
    if (i == 0)
        h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send(NGHTTP2_DATA, H2_PADDED, 1, "\1", 2);
}

TEST(floods_of_frames_without_a_request_end_the_connection)
{
    void (*const floods[])(uint32_t) = {
        send_ping,        send_empty_settings,  send_small_window_update,
        send_priority,    send_priority_update, send_empty_data,
        send_only_padding};
    for (size_t i = 0; i < COUNT_OF(floods); i++) {
        START(.control_frames_per_s_max = 5);
        h2_is_acking = false;
        for (uint32_t n = 0; n < 500; n++)
            floods[i](n);
        expect_calm();
        h2_close();
    }
}

TEST(a_long_body_gets_413_and_a_slow_one_408)
{
    START(.body_bytes_max = 10);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body") "content-length: 11\n");
    h2_expect("HEADERS 1 :status=413");
    h2_send_head(3, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_data(3, 0, "0123456789a");
    h2_expect("HEADERS 3 :status=413");
    h2_close();
    START(.slow_s = 0.05);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_data(1, 0, "x");
    h2_expect("HEADERS 1 :status=408");
    ck_assert_int_eq(result, -ETIMEDOUT);
}

TEST(a_client_that_does_not_open_its_window_is_reset)
{
    START(.slow_s = 0.05);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/large"));
    h2_send_head(3, H2_WHOLE, H2_GET); /* the reply fits into a buffer */
    h2_expect("RST_STREAM 1 ");
    h2_expect("RST_STREAM 3 ");
    ck_assert_int_eq(result, -ETIMEDOUT);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100);
    h2_send_head(5, H2_WHOLE, H2_GET);
    h2_expect("DATA 5 END 6 Hello.\n");
}

TEST(a_window_that_opens_slowly_but_in_time_is_enough)
{
    if (!is_sim()) /* the test needs exact times */
        return;
    START(.slow_s = 0.05, .body_bytes_per_s_min = 1);
    h2_send_setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1);
    h2_send_head(1, H2_WHOLE, H2_GET);
    for (int i = 0; i < 5; i++) {
        weft_sleep(0.04);
        h2_send_number(NGHTTP2_WINDOW_UPDATE, 1, 1);
    }
    h2_expect("DATA 1 END 1 .\n");
}

TEST(the_memory_of_bodies_is_limited)
{
    static char body[10000];
    START(.bodies_bytes_max = 100000);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/late"));
    for (int i = 0; i < 5; i++)
        h2_send(NGHTTP2_DATA, 0, 1, body, sizeof body);
    h2_send_head(3, H2_END_HEADERS, H2_HEAD("POST", "/late"));
    for (int i = 0; i < 3; i++)
        h2_send(NGHTTP2_DATA, 0, 3, body, sizeof body);
    h2_expect("RST_STREAM 3 ENHANCE_YOUR_CALM\n");
    weft_event_set(&may_end);
    h2_expect("DATA 1 END 4 late\n");
    h2_send_head(5, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send(NGHTTP2_DATA, H2_END, 5, body, 9000);
    h2_expect("DATA 5 END 10 9000 bytes\n");
}

TEST(a_stream_beyond_the_memory_of_bodies_keeps_the_piece_that_its_handler_holds)
{
    static char body[10000];
    memset(body, 'x', sizeof body);
    START(.bodies_bytes_max = 60000);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/piece"));
    h2_send(NGHTTP2_DATA, 0, 1, body, sizeof body);
    while (running == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    for (int i = 0; i < 5; i++)
        h2_send(NGHTTP2_DATA, 0, 1, body, sizeof body);
    h2_expect("RST_STREAM 1 ENHANCE_YOUR_CALM\n");
    weft_event_set(&may_end);
    while (running > 0)
        ck_assert_int_eq(weft_snooze(), 0);
    h2_sync();
    ck_assert_int_eq(result, -EPIPE);
}

TEST(a_connection_ends_after_its_last_request)
{
    START(.requests_max = 2);
    h2_send_head(1, H2_WHOLE, H2_GET);
    h2_expect("DATA 1 END 6 Hello.\n");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_receive_all();
    ck_assert_has(h2_log, "DATA 3 END 6 Hello.\n", "GOAWAY 0 last=3 NO_ERROR\n");
}

TEST(a_client_that_disappears_ends_its_handlers)
{
    START(.slow_s = 100);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_head(3, H2_WHOLE, H2_HEAD("GET", "/large"));
    h2_sync();
    h2_close();
    ck_assert_int_lt(result, 0);
}
