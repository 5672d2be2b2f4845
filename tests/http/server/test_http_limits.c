/*
 * What a stranger may ask of the server: each limit is kept to, and who exceeds it is told so, or
 * cut off. Limits on the number of connections are in test_http_serve.c.
 */
#include "http_support.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

static talk t;

static int say_yes(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply(r, 200, NULL, "yes", 3);
}

static int take_body(weft_http_request *r, void *ctx)
{
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    if (ctx != NULL)
        *(ssize_t *)ctx = n;
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zd bytes", n);
}

/* The server has hung up by itself, after one reply that said so. */
static void expect_only(int status)
{
    talk_hear_all(&t);
    ck_assert_int_eq(status_of(t.heard), status);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1 "), 1);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nConnection: close\r\n"));
    talk_close(&t);
    assert_nothing_pending();
}

/* It was answered, and the connection can be used again. */
static void expect_yes(void)
{
    talk_hear(&t, "\r\n\r\nyes");
    talk_send(&t, REQUEST);
    while (count_in(t.heard, "\r\n\r\nyes") < 2)
        ck_assert_int_gt(talk_hear_some(&t), 0);
    ck_assert_int_eq(talk_close(&t), 0);
}

START_TEST(a_request_line_over_its_limit_is_414)
{
    const weft_http_options o = {.limits = {.line_bytes_max = 40}};
    char text[128];
    for (int extra = 0; extra <= 1; extra++) { /* "GET /aaa HTTP/1.1" */
        snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n",
                 40 - (int)sizeof "GET / HTTP/1.1" + 1 + extra, 0);
        talk_open(&t, say_yes, NULL, &o);
        talk_send(&t, text);
        if (extra == 0)
            expect_yes();
        else
            expect_only(414);
    }
}
END_TEST

START_TEST(a_line_that_never_ends_is_414)
{
    talk_open(&t, say_yes, NULL, NULL);
    talk_send(&t, "GET /");
    for (int i = 0; i < 1024; i++)
        talk_send(&t, "0123456789");
    expect_only(414);
}
END_TEST

START_TEST(headers_over_their_limit_in_bytes_are_431)
{
    const weft_http_options o = {.limits = {.head_bytes_max = 100}};
    char text[256];
    int before = (int)sizeof "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n" - 1;
    for (int extra = 0; extra <= 1; extra++) {
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n",
                 100 - before + extra, 0);
        talk_open(&t, say_yes, NULL, &o);
        talk_send(&t, text);
        if (extra == 0)
            expect_yes();
        else
            expect_only(431);
    }
}
END_TEST

START_TEST(headers_over_their_number_are_431)
{
    const weft_http_options o = {.limits = {.headers_max = 20}};
    for (int extra = 0; extra <= 1; extra++) {
        talk_open(&t, say_yes, NULL, &o);
        talk_send(&t, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (int i = 0; i < 19 + extra; i++)
            talk_send(&t, "X: y\r\n");
        talk_send(&t, "\r\n");
        if (extra == 0)
            expect_yes();
        else
            expect_only(431);
    }
}
END_TEST

START_TEST(a_body_over_its_limit_is_413)
{
    static const char *const over[] = {
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n123456789" REQUEST,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "4\r\n1234\r\n5\r\n12345\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "9\r\n123456789\r\n0\r\n\r\n" REQUEST,
    };
    const weft_http_options o = {.limits = {.body_bytes_max = 8}};
    for (size_t i = 0; i < COUNT_OF(over); i++) {
        talk_open(&t, take_body, NULL, &o);
        talk_send(&t, over[i]);
        expect_only(413);
    }
    talk_open(&t, take_body, NULL, &o);
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n12345678"
                  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n");
    while (count_in(t.heard, "8 bytes") < 2)
        ck_assert_int_gt(talk_hear_some(&t), 0);
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

static int take_large_body(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_limit_body(r, 100), 0);
    int rc = take_body(r, ctx);
    ck_assert_int_eq(weft_http_limit_body(r, 200), -EALREADY);
    return rc;
}

START_TEST(a_handler_may_change_the_limit_of_a_body)
{
    const weft_http_options o = {.limits = {.body_bytes_max = 8}};
    talk_open(&t, take_large_body, NULL, &o);
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789");
    talk_hear(&t, "10 bytes");
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(the_last_request_of_a_connection_is_told_that_it_is)
{
    const weft_http_options o = {.limits = {.requests_max = 3}};
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, REQUEST REQUEST REQUEST REQUEST REQUEST);
    talk_hear_all(&t);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1 200 OK"), 3);
    ck_assert_uint_eq(count_in(t.heard, "Connection: close"), 1);
    const char *third = strstr(t.heard, "Connection: close");
    ck_assert_ptr_null(strstr(third, "HTTP/1.1"));
    talk_close(&t);
}
END_TEST

START_TEST(who_says_nothing_is_closed_without_a_word)
{
    const weft_http_options o = {.limits = {.first_byte_s = 0.02, .idle_s = INFINITY}};
    talk_open(&t, say_yes, NULL, &o);
    ck_assert_str_eq(talk_hear_all(&t), "");
    ck_assert_int_eq(talk_close(&t), 0);
    assert_nothing_pending();
}
END_TEST

START_TEST(headers_that_do_not_come_in_time_are_408)
{
    const weft_http_options o = {.limits = {.head_s = 0.02}};
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, "GET / HTTP/1.1\r\nHost:");
    expect_only(408);
}
END_TEST

/* Until it is told to stop. */
static weft_value drip_headers(void *arg)
{
    const talk *to = arg;
    while (weft_send(to->fd, "X: y\r\n", 6, MSG_NOSIGNAL) > 0 && weft_sleep(0.001) == 0)
        ;
    return 0;
}

START_TEST(headers_that_drip_in_are_408)
{
    const weft_http_options o = {
        .limits = {.head_s = 0.05, .headers_max = SIZE_MAX, .head_bytes_max = SIZE_MAX}};
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, "GET / HTTP/1.1\r\n");
    weft_fiber drip = weft_spin(drip_headers, &t);
    talk_hear_all(&t);
    ck_assert_int_eq(status_of(t.heard), 408);
    ck_assert_int_eq(weft_stop(drip, 0), 0);
    talk_close(&t);
}
END_TEST

START_TEST(a_connection_that_is_idle_for_long_is_closed)
{
    const weft_http_options o = {.limits = {.idle_s = 0.02, .first_byte_s = INFINITY}};
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, REQUEST);
    talk_hear_all(&t);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1"), 1);
    ck_assert_ptr_null(strstr(t.heard, "Connection: close"));
    ck_assert_int_eq(talk_close(&t), 0);
    assert_nothing_pending();
}
END_TEST

/* Longer than a connection keeps its buffers. */
START_TEST(a_connection_that_was_idle_for_a_while_goes_on)
{
    const weft_http_options o = {.limits = {.idle_s = INFINITY}};
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, REQUEST);
    talk_hear(&t, "yes");
    weft_sleep(is_in_memory() ? 1.5 : 1.01);
    expect_yes();
}
END_TEST

/* Bytes at a steady pace, until the server has had enough or all of them. */
typedef struct dripping {
    int fd;
    size_t bytes, at_once;
    double every_s;
} dripping;

static weft_value drip(void *arg)
{
    static const char waste[4096];
    const dripping *d = arg;
    for (size_t sent = 0; sent < d->bytes; sent += d->at_once) {
        if (weft_send(d->fd, waste, d->at_once, MSG_NOSIGNAL) < 0 || weft_sleep(d->every_s) < 0)
            break;
    }
    return 0;
}

static void upload_slowly(const weft_http_options *o, size_t at_once, double every_s, ssize_t *n)
{
    talk_open(&t, take_body, n, o);
    dripping d = {t.fd, 10000, at_once, every_s};
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
    weft_fiber f = weft_spin(drip, &d);
    while (strstr(t.heard, "\r\n\r\n") == NULL)
        ck_assert_int_gt(talk_hear_some(&t), 0);
    ck_assert_int_eq(weft_stop(f, 0), 0);
    talk_close(&t);
}

START_TEST(a_body_that_comes_too_slowly_is_408)
{
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 1e6, .slow_s = 0.05}};
    ssize_t n = 0;
    upload_slowly(&o, 1, 0.002, &n);
    ck_assert_int_eq(n, -ETIMEDOUT);
    ck_assert_int_eq(status_of(t.heard), 408);
    ck_assert_ptr_nonnull(strstr(t.heard, "Connection: close"));
}
END_TEST

/* The times are virtual, so that no other load can change the outcome. */
START_TEST(a_body_may_take_long_if_it_keeps_to_the_rate)
{
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 100, .slow_s = 5}};
    ssize_t n = 0;
    if (!is_in_memory())
        return;
    upload_slowly(&o, 500, 4.9, &n); /* 98 s */
    ck_assert_int_eq(n, 10000);
    upload_slowly(&o, 100, 1.2, &n);
    ck_assert_int_eq(n, -ETIMEDOUT);
}
END_TEST

#define LARGE ((size_t)4 << 20)
static char large[LARGE];

/* What became of the reply, seen by the handler. */
static int reply_large(weft_http_request *r, void *ctx)
{
    int rc = weft_http_reply(r, 200, NULL, large, LARGE);
    *(int *)ctx = rc;
    return rc;
}

static int reply_large_in_pieces(weft_http_request *r, void *ctx)
{
    ssize_t rc = 0;
    for (size_t sent = 0; sent < LARGE && rc >= 0; sent += 4096)
        rc = weft_http_write(r, large + sent, 4096);
    *(int *)ctx = (int)rc;
    return rc < 0 ? (int)rc : 0;
}

START_TEST(who_does_not_read_a_reply_is_cut_off)
{
    static weft_http_handler *const handlers[] = {reply_large, reply_large_in_pieces};
    const weft_http_options o = {.limits = {.slow_s = 0.05}};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        int rc = 0;
        talk_open(&t, handlers[i], &rc, &o);
        talk_send(&t, REQUEST);
        (void)weft_await(t.server);
        ck_assert_int_eq(rc, -ETIMEDOUT);
        weft_close(t.fd);
        assert_nothing_pending();
    }
}
END_TEST

/* All there is, so many bytes at a time. Returns how many came. */
static size_t read_slowly(size_t at_once, double every_s)
{
    static char waste[65536];
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read_full(t.fd, waste, at_once)) > 0) {
        total += (size_t)n;
        weft_sleep(every_s);
    }
    return total;
}

START_TEST(a_reply_may_take_long_if_the_peer_keeps_to_the_rate)
{
    static weft_http_handler *const handlers[] = {reply_large, reply_large_in_pieces};
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 1000, .slow_s = 20}};
    if (!is_in_memory())
        return;
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        int rc = -1;
        talk_open(&t, handlers[i], &rc, &o);
        talk_send(&t, REQUEST);
        weft_shutdown(t.fd, SHUT_WR);
        ck_assert_uint_gt(read_slowly(8192, 4), LARGE); /* 2,048 s */
        ck_assert_int_ge(rc, 0);
        talk_close(&t);
    }
}
END_TEST

START_TEST(a_reply_that_is_read_more_slowly_than_that_is_cut)
{
    const weft_http_options o = {.limits = {.body_bytes_per_s_min = 1000, .slow_s = 5}};
    int rc = 0;
    if (!is_in_memory())
        return;
    talk_open(&t, reply_large, &rc, &o);
    talk_send(&t, REQUEST);
    ck_assert_uint_lt(read_slowly(512, 1), LARGE);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    talk_close(&t);
}
END_TEST

START_TEST(who_does_not_take_a_reply_that_the_kernel_holds_is_not_idle_but_slow)
{
    const weft_http_options o = {.limits = {.slow_s = 0.05, .idle_s = 3600}};
    if (is_in_memory())
        return;
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, REQUEST);
    ck_assert_int_eq(weft_await(t.server), 0);
    weft_close(t.fd);
    assert_nothing_pending();
    /* Who has taken it may be idle. */
    talk_open(&t, say_yes, NULL, &o);
    talk_send(&t, REQUEST);
    talk_hear(&t, "\r\n\r\nyes");
    weft_sleep(1.2); /* a connection rests after a second */
    talk_send(&t, REQUEST);
    while (count_in(t.heard, "\r\n\r\nyes") < 2)
        ck_assert_int_gt(talk_hear_some(&t), 0);
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

/* What was said before fills the server's buffer, then the connection takes no more. */
static int say_much_then_take_body(weft_http_request *r, void *ctx)
{
    static const char much[8000];
    if (strcmp(weft_http_path(r), "/much") == 0)
        return weft_http_reply(r, 200, NULL, much, sizeof much);
    WEFT_MOVE_ON_AFTER(0.1)
        while (weft_write(t.server_fd, much, sizeof much) > 0)
            ;
    return take_body(r, ctx);
}

START_TEST(who_sends_no_body_and_does_not_read_why_is_cut_off)
{
    const weft_http_options o = {.limits = {.slow_s = 0.2}};
    ssize_t read = 0;
    talk_open(&t, say_much_then_take_body, &read, &o);
    talk_send(&t, "GET /much HTTP/1.1\r\nHost: a\r\n\r\n"
                  "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    ck_assert_int_eq(weft_await(t.server), 0);
    ck_assert_int_eq(read, -ETIMEDOUT);
    weft_close(t.fd);
    assert_nothing_pending();
}
END_TEST

#ifdef WEFT_HAS_TLS
START_TEST(who_does_not_shake_hands_in_time_is_closed)
{
    static const char *const said[] = {"", "\026\003\001", REQUEST};
    char *cert, *key;
    ck_assert_int_eq(weft_tls_self_signed("localhost", 2, &cert, &key), 0);
    const weft_tls_options identity = {.identity = {.cert_pem = cert, .key_pem = key}};
    weft_tls *tls = weft_tls_server_new(&identity);
    ck_assert_ptr_nonnull(tls);
    const weft_http_options o = {.limits = {.head_s = 0.05}, .tls = tls};
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        talk_open(&t, say_yes, NULL, &o);
        talk_send(&t, said[i]);
        talk_hear_all(&t);
        ck_assert_ptr_null(strstr(t.heard, "yes"));
        ck_assert_int_lt(talk_close(&t), 0);
        assert_nothing_pending();
    }
    weft_tls_free(tls);
    free(cert);
    free(key);
}
END_TEST
#endif

START_TEST(without_limits_there_are_none)
{
    const weft_http_options o = {.limits = {SIZE_MAX, SIZE_MAX, SIZE_MAX, UINT64_MAX, SIZE_MAX,
                                            SIZE_MAX, SIZE_MAX, INFINITY, INFINITY, INFINITY,
                                            1e-300, INFINITY}};
    talk_open(&t, take_body, NULL, &o);
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab");
    let_run();
    talk_send(&t, "c");
    talk_hear(&t, "3 bytes");
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(limits_that_make_no_sense_are_refused)
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
        talk_open(&t, say_yes, NULL, &bad[i]);
        ck_assert_str_eq(talk_hear_all(&t), "");
        ck_assert_int_eq(talk_close(&t), -EINVAL);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_request_line_over_its_limit_is_414,
    &a_line_that_never_ends_is_414,
    &headers_over_their_limit_in_bytes_are_431,
    &headers_over_their_number_are_431,
    &a_body_over_its_limit_is_413,
    &a_handler_may_change_the_limit_of_a_body,
    &the_last_request_of_a_connection_is_told_that_it_is,
    &who_says_nothing_is_closed_without_a_word,
    &headers_that_do_not_come_in_time_are_408,
    &headers_that_drip_in_are_408,
    &a_connection_that_is_idle_for_long_is_closed,
    &a_connection_that_was_idle_for_a_while_goes_on,
    &a_body_that_comes_too_slowly_is_408,
    &a_body_may_take_long_if_it_keeps_to_the_rate,
    &who_does_not_read_a_reply_is_cut_off,
    &a_reply_may_take_long_if_the_peer_keeps_to_the_rate,
    &a_reply_that_is_read_more_slowly_than_that_is_cut,
    &who_does_not_take_a_reply_that_the_kernel_holds_is_not_idle_but_slow,
    &who_sends_no_body_and_does_not_read_why_is_cut_off,
#ifdef WEFT_HAS_TLS
    &who_does_not_shake_hands_in_time_is_closed,
#endif
    &without_limits_there_are_none,
    &limits_that_make_no_sense_are_refused,
};

int main(void)
{
    return run_suite("http_limits", tests, COUNT_OF(tests));
}
