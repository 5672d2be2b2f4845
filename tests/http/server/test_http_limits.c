/*
 * The limits of the HTTP server on sizes, times and rates: a client that exceeds a limit gets the
 * status of that limit, or loses its connection. test_http_serve.c tests the limits on connections.
 */
#include "http/http_support.h"
#include "support/suite.h"

FIXTURE(NULL, end_test)

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static int reply_yes(weft_http_request *r, void *ctx)
{
    return weft_http_reply(r, 200, NULL, "yes", 3);
}

static int reply_body_length(weft_http_request *r, void *ctx)
{
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    if (ctx != NULL)
        *(ssize_t *)ctx = n;
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zd bytes", n);
}

/* Assert that the server sends one response with this status and closes the connection. */
static void expect_refusal(int status)
{
    client_receive_all(&client);
    ck_assert_int_eq(status_of(client.received), status);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1 "), 1);
    ck_assert_has(client.received, "\r\nConnection: close\r\n");
    client_close(&client);
}

/* Assert that the request succeeds and that the connection accepts another request. */
static void expect_two_replies(void)
{
    client_expect(&client, "\r\n\r\nyes");
    client_send(&client, REQUEST);
    expect_times("\r\n\r\nyes", 2);
    ck_assert_int_eq(client_close(&client), 0);
}

/* Assert that a request at a limit succeeds and that a request beyond the limit is refused. */
static void assert_limit(const weft_http_options *o, int status, const char *at, const char *beyond)
{
    start_client(reply_yes, NULL, o, at);
    expect_two_replies();
    start_client(reply_yes, NULL, o, beyond);
    expect_refusal(status);
}

TEST(a_head_over_a_limit_is_414_or_431)
{
    /* 39 bytes in a line, 50 bytes in a head, and 3 fields. */
    assert_limit(&(weft_http_options){.limits = {.line_bytes_max = 39}}, 414,
                 "GET /3456789012345678901234567 HTTP/1.1\r\nHost: a\r\n\r\n",
                 "GET /34567890123456789012345678 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_limit(&(weft_http_options){.limits = {.head_bytes_max = 50}}, 431,
                 "GET / HTTP/1.1\r\nHost: a\r\nX: 345678901234567890\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: a\r\nX: 3456789012345678901\r\n\r\n");
    assert_limit(&(weft_http_options){.limits = {.headers_max = 3}}, 431,
                 "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\n\r\n",
                 "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\nX: y\r\n\r\n");
}

TEST(an_unterminated_request_line_is_414)
{
    start_client(reply_yes, NULL, NULL, "GET /");
    for (int i = 0; i < 1024; i++)
        client_send(&client, "0123456789");
    expect_refusal(414);
}

static const weft_http_options eight_bytes = {.limits = {.body_bytes_max = 8}};

static void assert_body_refused(const char *request)
{
    start_client(reply_body_length, NULL, &eight_bytes, request);
    expect_refusal(413);
}

#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define POST_CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

TEST(a_body_over_its_limit_is_413)
{
    EACH_TEXT(assert_body_refused, POST "Content-Length: 9\r\n\r\n",
              POST "Content-Length: 9\r\n\r\n123456789" REQUEST,
              POST "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
              POST_CHUNKED "4\r\n1234\r\n5\r\n12345\r\n",
              POST_CHUNKED "9\r\n123456789\r\n0\r\n\r\n" REQUEST);
    start_client(reply_body_length, NULL, &eight_bytes,
                 POST "Content-Length: 8\r\n\r\n12345678" POST_CHUNKED
                      "4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n");
    expect_times("8 bytes", 2);
}

static int raise_body_limit(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_limit_body(r, 100), 0);
    int rc = reply_body_length(r, ctx);
    ck_assert_int_eq(weft_http_limit_body(r, 200), -EALREADY);
    return rc;
}

TEST(a_handler_may_change_the_limit_of_a_body)
{
    start_client(raise_body_limit, NULL, &eight_bytes, POST "Content-Length: 10\r\n\r\n0123456789");
    client_expect(&client, "10 bytes");
}

TEST(the_last_reply_of_a_connection_has_connection_close)
{
    const weft_http_options o = {.limits = {.requests_max = 3}};
    start_client(reply_yes, NULL, &o, REQUEST REQUEST REQUEST REQUEST REQUEST);
    client_receive_all(&client);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1 200 OK"), 3);
    ck_assert_uint_eq(count_in(client.received, "Connection: close"), 1);
    ck_assert_lacks(strstr(client.received, "Connection: close"), "HTTP/1.1");
}

TEST(a_client_that_sends_nothing_is_closed_and_incomplete_headers_are_408)
{
    const weft_http_options silent = {.limits = {.first_byte_s = 0.02, .idle_s = INFINITY}};
    const weft_http_options late = {.limits = {.head_s = 0.02}};
    start_client(reply_yes, NULL, &silent, "");
    ck_assert_str_eq(client_receive_all(&client), "");
    start_client(reply_yes, NULL, &late, "GET / HTTP/1.1\r\nHost:");
    expect_refusal(408);
}

/* Send a text at a steady rate, until the fiber is stopped or the connection fails. */
typedef struct slow_sender {
    const char *text;
    size_t bytes;
    double every_s;
} slow_sender;

static weft_value send_slowly(void *arg)
{
    const slow_sender *d = arg;
    while (weft_send(client.fd, d->text, d->bytes, MSG_NOSIGNAL) > 0 && weft_sleep(d->every_s) == 0)
        ;
    return 0;
}

TEST(headers_that_arrive_slowly_are_408)
{
    const weft_http_options o = {
        .limits = {.head_s = 0.05, .headers_max = SIZE_MAX, .head_bytes_max = SIZE_MAX}};
    start_client(reply_yes, NULL, &o, "GET / HTTP/1.1\r\n");
    weft_fiber f = weft_spin(send_slowly, &(slow_sender){"X: y\r\n", 6, 0.001});
    expect_status(408);
    ck_assert_int_eq(weft_stop(f, 0), 0);
    ck_assert_int_eq(client_close(&client), -ETIMEDOUT);
}

TEST(an_idle_connection_is_closed_after_idle_s)
{
    const weft_http_options o = {.limits = {.idle_s = 0.02, .first_byte_s = INFINITY}};
    start_client(reply_yes, NULL, &o, REQUEST);
    client_receive_all(&client);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1"), 1);
    ck_assert_lacks(client.received, "Connection: close");
}

/* The sleep is longer than the time after which an idle connection frees its buffers. */
TEST(a_connection_that_was_idle_for_one_second_still_works)
{
    const weft_http_options o = {.limits = {.idle_s = INFINITY}};
    if (!is_sim()) /* there a_client_that_leaves_a_reply_unread covers this */
        return;
    start_client(reply_yes, NULL, &o, REQUEST);
    client_expect(&client, "yes");
    weft_sleep(1.5);
    expect_two_replies();
}

static void upload_slowly(const weft_http_options *o, size_t at_once, double every_s, ssize_t *n)
{
    static const char filler[4096];
    start_client(reply_body_length, n, o, POST "Content-Length: 10000\r\n\r\n");
    weft_fiber f = weft_spin(send_slowly, &(slow_sender){filler, at_once, every_s});
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(weft_stop(f, 0), 0);
    client_close(&client);
}

TEST(a_body_below_the_minimum_rate_is_408)
{
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 1e6, .slow_s = 0.05}};
    ssize_t n = 0;
    upload_slowly(&o, 1, 0.002, &n);
    ck_assert_int_eq(n, -ETIMEDOUT);
    ck_assert_int_eq(status_of(client.received), 408);
    ck_assert_has(client.received, "Connection: close");
}

/* Only on sim: with virtual time the load of the machine does not affect the result. */
TEST(a_long_body_at_the_minimum_rate_is_accepted)
{
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 100, .slow_s = 5}};
    ssize_t n = 0;
    if (!is_sim())
        return;
    upload_slowly(&o, 500, 4.9, &n); /* 98 s */
    ck_assert_int_eq(n, 10000);
    upload_slowly(&o, 100, 1.2, &n);
    ck_assert_int_eq(n, -ETIMEDOUT);
}

#define LARGE ((size_t)4 << 20)
static char large[LARGE];

/* Store the result of the reply in *ctx. */
static int reply_large(weft_http_request *r, void *ctx)
{
    int rc = weft_http_reply(r, 200, NULL, large, LARGE);
    *(int *)ctx = rc;
    return rc;
}

static int write_large_in_pieces(weft_http_request *r, void *ctx)
{
    ssize_t rc = 0;
    for (size_t sent = 0; sent < LARGE && rc >= 0; sent += 4096)
        rc = weft_http_write(r, large + sent, 4096);
    *(int *)ctx = (int)rc;
    return rc < 0 ? (int)rc : 0;
}

static weft_http_handler *const large_handlers[] = {reply_large, write_large_in_pieces};

TEST(a_client_that_does_not_read_its_reply_is_disconnected)
{
    const weft_http_options o = {.limits = {.slow_s = 0.05}};
    for (size_t i = 0; i < COUNT_OF(large_handlers); i++) {
        int rc = 0;
        start_client(large_handlers[i], &rc, &o, REQUEST);
        (void)weft_await(client.fiber);
        ck_assert_int_eq(rc, -ETIMEDOUT);
        drop_client();
    }
}

/* Read at_once bytes every every_s seconds until the end. Return the number of bytes. */
static size_t read_slowly(size_t at_once, double every_s)
{
    static char filler[65536];
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read_full(client.fd, filler, at_once)) > 0) {
        total += (size_t)n;
        weft_sleep(every_s);
    }
    return total;
}

/* Only on sim: with virtual time the load of the machine does not affect the result. */
TEST(a_reply_is_sent_completely_at_the_minimum_rate_and_aborted_below_it)
{
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 1000, .slow_s = 20}};
    int rc;
    if (!is_sim())
        return;
    for (size_t i = 0; i < COUNT_OF(large_handlers); i++) {
        rc = -1;
        start_client(large_handlers[i], &rc, &o, REQUEST);
        weft_shutdown(client.fd, SHUT_WR);
        ck_assert_uint_gt(read_slowly(8192, 4), LARGE); /* 2,048 s */
        ck_assert_int_ge(rc, 0);
    }
    start_client(reply_large, &rc, &o, REQUEST);
    ck_assert_uint_lt(read_slowly(512, 1), LARGE);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

/* An idle connection frees its buffers after 1 s. */
TEST(a_client_that_leaves_a_reply_unread_in_the_kernel_is_slow_not_idle)
{
    const weft_http_options o = {.limits = {.slow_s = 0.05, .idle_s = 3600}};
    static test_client idle;
    if (is_sim())
        return;
    client_open(&idle, reply_yes, NULL, &o);
    client_send(&idle, REQUEST);
    client_expect(&idle, "\r\n\r\nyes");
    start_client(reply_yes, NULL, &o, REQUEST);
    ck_assert_int_eq(weft_await(client.fiber), 0); /* after more than 1 s */
    drop_client();
    idle.received_bytes = 0; /* only idle_s applies to a client that has read its reply */
    client_send(&idle, REQUEST);
    client_expect(&idle, "\r\n\r\nyes");
    ck_assert_int_eq(client_close(&idle), 0);
}

/*
 * Fill the socket buffer of the server before reading the body. /much leaves bytes in the server's
 * output buffer, so that the reply after the timeout cannot be written.
 */
static int fill_buffers_then_read_body(weft_http_request *r, void *ctx)
{
    static const char much[8000];
    if (strcmp(weft_http_path(r), "/much") == 0)
        return weft_http_reply(r, 200, NULL, much, sizeof much);
    WEFT_MOVE_ON_AFTER(0.03)
        while (weft_write(client.server_fd, much, sizeof much) > 0)
            ;
    return reply_body_length(r, ctx);
}

TEST(a_client_that_neither_sends_its_body_nor_reads_the_408_is_disconnected)
{
    const weft_http_options o = {.limits = {.slow_s = 0.05}};
    ssize_t read = 0;
    start_client(fill_buffers_then_read_body, &read, &o,
                 "GET /much HTTP/1.1\r\nHost: a\r\n\r\n" POST "Content-Length: 5\r\n\r\n");
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(read, -ETIMEDOUT);
    drop_client();
}

#ifdef WEFT_HAS_TLS
TEST(a_client_that_does_not_finish_its_handshake_in_time_is_closed)
{
    static const char *const sent[] = {"", "\026\003\001", REQUEST};
    char *cert, *key;
    ck_assert_int_eq(weft_tls_self_signed("localhost", 2, &cert, &key), 0);
    const weft_tls_options identity = {.identity = {.cert_pem = cert, .key_pem = key}};
    weft_tls *tls = weft_tls_server_new(&identity);
    ck_assert_ptr_nonnull(tls);
    const weft_http_options o = {.limits = {.head_s = 0.05}, .tls = tls};
    for (size_t i = 0; i < COUNT_OF(sent); i++) {
        start_client(reply_yes, NULL, &o, sent[i]);
        client_receive_all(&client);
        ck_assert_lacks(client.received, "yes");
        ck_assert_int_lt(client_close(&client), 0);
    }
    weft_tls_free(tls);
    free(cert);
    free(key);
}
#endif

TEST(infinite_limits_disable_all_checks)
{
    const weft_http_options o = {.limits = {SIZE_MAX, SIZE_MAX, SIZE_MAX, UINT64_MAX, SIZE_MAX,
                                            SIZE_MAX, SIZE_MAX, INFINITY, INFINITY, INFINITY,
                                            1e-300, INFINITY}};
    start_client(reply_body_length, NULL, &o, POST "Content-Length: 3\r\n\r\nab");
    let_run();
    client_send(&client, "c");
    client_expect(&client, "3 bytes");
}

TEST(invalid_limits_are_einval)
{
    const weft_http_options bad[] = {
        {.limits = {.head_s = -1}},
        {.limits = {.idle_s = NAN}},
        {.limits = {.body_bytes_per_s_min = -1}},
        {.drain_s = -1},
        {.gzip_level = 10},
        {.trusted_peers = "nowhere"},
        {.server_name = "weft\r\nEvil: 1"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        client_open(&client, reply_yes, NULL, &bad[i]);
        ck_assert_str_eq(client_receive_all(&client), "");
        ck_assert_int_eq(client_close(&client), -EINVAL);
    }
}
