/*
 * Replies as handlers make them, or fail to: each time the connection has to stay in step with the
 * client.
 */
#include "http_support.h"

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define NEXT "GET /next HTTP/1.1\r\n" HOST "\r\n"

static talk t;

/* What the test is about, unless it is asked for /next. */
typedef struct subject {
    weft_http_handler *handler;
    int rc; /* what the handler has to tell */
} subject;

static int dispatch(weft_http_request *r, void *ctx)
{
    const subject *s = ctx;
    if (strcmp(weft_http_path(r), "/next") == 0)
        return weft_http_reply_text(r, 200, "next");
    return s->handler(r, ctx);
}

static int reply_whole(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply(r, 200, "text/plain", "hello", 5);
}

static int reply_unknown(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return (int)weft_http_write(r, "hello", 5);
}

static int reply_chunks(weft_http_request *r, void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 3; i++)
        if (weft_http_write(r, "hello", 5) < 0 || weft_http_flush(r) < 0)
            return -EIO;
    return weft_http_set_trailer(r, "X-Sum", "3");
}

static int reply_announced(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int rc = weft_http_begin(r, 200, 5);
    return rc < 0 ? rc : (int)weft_http_write(r, "hello", 5);
}

static int reply_redirect(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_redirect(r, 303, "/elsewhere");
}

static int reply_events(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int rc = weft_http_events(r);
    return rc < 0 ? rc : weft_http_event(r, NULL, NULL, "hello");
}

static int reply_file(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int fd = weft_open("/proc/self/exe", O_RDONLY, 0);
    ck_assert_int_ge(fd, 0);
    int rc = weft_http_begin(r, 200, 40000);
    if (rc == 0)
        rc = (int)weft_http_send_file(r, fd, 0, 40000);
    weft_close(fd);
    return rc < 0 ? rc : 0;
}

static int fail_at_once(weft_http_request *r, void *ctx)
{
    (void)r;
    (void)ctx;
    return -ENOENT;
}

static int fail_begun(weft_http_request *r, void *ctx)
{
    (void)ctx;
    weft_http_set(r, "X-Not", "said");
    weft_http_printf(r, "not said");
    return -ENOENT;
}

static int say_nothing(weft_http_request *r, void *ctx)
{
    (void)r;
    (void)ctx;
    return 0;
}

static int reply_204(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply(r, 204, NULL, "hello", 5);
}

static int reply_304(weft_http_request *r, void *ctx)
{
    (void)ctx;
    weft_http_set(r, "ETag", "\"x\"");
    return weft_http_reply(r, 304, NULL, "hello", 5);
}

/* Then /next is asked for, and its reply comes right behind a head. */
static void expect_no_body(weft_http_handler *handler, const char *request)
{
    subject s = {.handler = handler};
    talk_open(&t, dispatch, &s, NULL);
    talk_send(&t, request);
    talk_send(&t, NEXT);
    talk_hear(&t, "\r\n\r\nnext");
    ck_assert_msg(strncmp(body_of(t.heard), "HTTP/1.1 200 OK\r\n", 17) == 0, "%s", t.heard);
    ck_assert_int_eq(talk_close(&t), 0);
}

START_TEST(a_reply_to_head_has_no_body_whatever_the_handler_does)
{
    static weft_http_handler *const handlers[] = {
        reply_whole, reply_unknown, reply_chunks, reply_announced, reply_redirect, reply_events,
        reply_file,  fail_at_once,  fail_begun,   say_nothing,     reply_204,      reply_304,
    };
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        expect_no_body(handlers[i], "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    expect_no_body(reply_whole, "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
}
END_TEST

START_TEST(a_reply_to_head_says_what_get_would_get)
{
    const char *reply = talk_once(&t, reply_unknown, NULL, NULL, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_ptr_nonnull(strstr(reply, "\r\nContent-Length: 5\r\n"));
    reply = talk_once(&t, fail_at_once, NULL, NULL, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_int_eq(status_of(reply), 404);
    ck_assert_str_eq(body_of(reply), "");
}
END_TEST

START_TEST(a_head_request_that_is_refused_gets_no_body_either)
{
    static const char *const bad[] = {
        "HEAD / HTTP/1.1\r\n\r\n",
        "HEAD /../x HTTP/1.1\r\n" HOST "\r\n",
        "HEAD / HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *reply = talk_once(&t, reply_whole, NULL, NULL, bad[i]);
        ck_assert_int_eq(status_of(reply), 400);
        ck_assert_str_eq(body_of(reply), "");
    }
}
END_TEST

START_TEST(some_statuses_have_no_body_and_no_length)
{
    static weft_http_handler *const handlers[] = {reply_204, reply_304, say_nothing};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        expect_no_body(handlers[i], GET);
        const char *reply = talk_once(&t, handlers[i], NULL, NULL, GET);
        ck_assert_ptr_null(strstr(reply, "Content-Length"));
        ck_assert_ptr_null(strstr(reply, "Transfer-Encoding"));
        ck_assert_str_eq(body_of(reply), "");
    }
}
END_TEST

START_TEST(a_handler_that_fails_before_a_byte_is_out_says_so_and_nothing_else)
{
    static weft_http_handler *const handlers[] = {fail_at_once, fail_begun};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        subject s = {.handler = handlers[i]};
        talk_open(&t, dispatch, &s, NULL);
        talk_send(&t, GET NEXT);
        talk_hear(&t, "\r\n\r\nnext");
        ck_assert_int_eq(status_of(t.heard), 404);
        ck_assert_int_eq(strncmp(body_of(t.heard), "404 Not Found\nHTTP/1.1 200", 26), 0);
        ck_assert_ptr_null(strstr(t.heard, "X-Not"));
        ck_assert_int_eq(talk_close(&t), 0);
    }
}
END_TEST

static int fail_after_some(weft_http_request *r, void *ctx)
{
    (void)ctx;
    weft_http_printf(r, "some");
    weft_http_flush(r);
    return -ENOENT;
}

static int write_too_little(weft_http_request *r, void *ctx)
{
    weft_http_begin(r, 200, 5);
    ck_assert_int_eq(weft_http_write(r, "hell", 4), 4);
    ((subject *)ctx)->rc = weft_http_end(r);
    return 0;
}

static int write_too_little_and_leave(weft_http_request *r, void *ctx)
{
    ((subject *)ctx)->rc = -ENODATA;
    weft_http_begin(r, 200, 5);
    return (int)weft_http_write(r, "hell", 4) > 0 ? 0 : -EIO;
}

START_TEST(half_a_reply_is_not_taken_for_a_whole_one)
{
    subject s = {.handler = fail_after_some};
    talk_open(&t, dispatch, &s, NULL);
    talk_send(&t, GET NEXT);
    talk_hear_all(&t);
    ck_assert_ptr_null(strstr(t.heard, "\r\n0\r\n"));
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1"), 1);
    talk_close(&t);

    static weft_http_handler *const handlers[] = {write_too_little, write_too_little_and_leave};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        s = (subject){.handler = handlers[i]};
        talk_open(&t, dispatch, &s, NULL);
        talk_send(&t, GET NEXT);
        talk_hear_all(&t);
        ck_assert_int_eq(s.rc, -ENODATA);
        ck_assert_ptr_null(strstr(t.heard, "hello"));
        ck_assert_ptr_null(strstr(t.heard, "next"));
        talk_close(&t);
    }
    assert_nothing_pending();
}
END_TEST

static int write_too_much(weft_http_request *r, void *ctx)
{
    weft_http_begin(r, 200, 5);
    ck_assert_int_eq(weft_http_write(r, "hel", 3), 3);
    ((subject *)ctx)->rc = (int)weft_http_write(r, "low", 3);
    ck_assert_int_eq(weft_http_write(r, "lo", 2), 2);
    ck_assert_int_eq(weft_http_end(r), 0);
    ck_assert_int_eq(weft_http_write(r, "!", 1), -EALREADY);
    ck_assert_int_eq(weft_http_end(r), -EALREADY);
    return 0;
}

START_TEST(no_more_goes_out_than_was_announced)
{
    subject s = {.handler = write_too_much};
    talk_open(&t, dispatch, &s, NULL);
    talk_send(&t, GET NEXT);
    talk_hear(&t, "\r\n\r\nnext");
    ck_assert_int_eq(s.rc, -EMSGSIZE);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\n\r\nhelloHTTP/1.1 200 OK"));
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

static int set_headers(weft_http_request *r, void *ctx)
{
    (void)ctx;
    static const char *const own[] = {"Date", "content-length", "Transfer-Encoding", "Connection"};
    ck_assert_int_eq(weft_http_set(r, "X", "a\r\nEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_set(r, "X", "a\nEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_set(r, "X", "a\rEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_add(r, "X\r\nEvil", "1"), -EINVAL);
    ck_assert_int_eq(weft_http_add(r, "X:Evil", "1"), -EINVAL);
    ck_assert_int_eq(weft_http_add(r, "", "1"), -EINVAL);
    ck_assert_int_eq(weft_http_add(r, "Evil thing", "1"), -EINVAL);
    ck_assert_int_eq(weft_http_set_trailer(r, "X", "a\r\nEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_set_cookie(r, "a", "b\r\nEvil: 1", NULL), -EINVAL);
    ck_assert_int_eq(weft_http_set_cookie(r, "a", "b; Evil", NULL), -EINVAL);
    ck_assert_int_eq(weft_http_redirect(r, 302, "/\r\nEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_redirect(r, 200, "/"), -EINVAL);
    ck_assert_int_eq(weft_http_reply(r, 200, "text/plain\r\nEvil: 1", "", 0), -EINVAL);
    ck_assert_int_eq(weft_http_begin(r, 100, 0), -EINVAL);
    ck_assert_int_eq(weft_http_begin(r, 200, -2), -EINVAL);
    for (size_t i = 0; i < COUNT_OF(own); i++)
        ck_assert_int_eq(weft_http_set(r, own[i], "5"), -EPERM);
    ck_assert_int_eq(weft_http_set(r, "Twice", "1"), 0);
    ck_assert_int_eq(weft_http_set(r, "twice", "2"), 0);
    ck_assert_int_eq(weft_http_add(r, "Twice", "3"), 0);
    ck_assert_int_eq(weft_http_reply_text(r, 200, "good"), 0);
    ck_assert_int_eq(weft_http_set(r, "Late", "1"), -EALREADY);
    ck_assert_int_eq(weft_http_reply_text(r, 200, "again"), -EALREADY);
    return 0;
}

START_TEST(nobody_can_put_a_line_of_his_own_into_a_reply)
{
    const char *reply = talk_once(&t, set_headers, NULL, NULL, GET);
    ck_assert_ptr_null(strstr(reply, "Evil"));
    ck_assert_ptr_nonnull(strstr(reply, "\r\ntwice: 2\r\nTwice: 3\r\n"));
    ck_assert_ptr_null(strstr(reply, "Twice: 1"));
    ck_assert_str_eq(body_of(reply), "good");
}
END_TEST

static int reply_with_types(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_set(r, "Content-Type", "text/css"), 0);
    return weft_http_reply(r, 200, ctx, "", 0);
}

START_TEST(a_reply_has_one_type)
{
    talk_once(&t, reply_with_types, (void *)(uintptr_t) "text/html", NULL, GET);
    ck_assert_uint_eq(count_in(t.heard, "Content-Type: "), 1);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nContent-Type: text/html\r\n"));
    talk_once(&t, reply_with_types, NULL, NULL, GET);
    ck_assert_uint_eq(count_in(t.heard, "Content-Type: "), 1);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nContent-Type: text/css\r\n"));
}
END_TEST

static int close_after(weft_http_request *r, void *ctx)
{
    (void)ctx;
    ck_assert_int_eq(weft_http_set(r, "Connection", "close"), 0);
    return weft_http_reply_text(r, 200, "last");
}

START_TEST(a_handler_can_end_the_connection)
{
    talk_open(&t, close_after, NULL, NULL);
    talk_send(&t, GET GET);
    talk_hear_all(&t);
    ck_assert_uint_eq(count_in(t.heard, "\r\nConnection: close\r\n"), 1);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1"), 1);
    talk_close(&t);
}
END_TEST

static int echo_trailer(weft_http_request *r, void *ctx)
{
    (void)ctx;
    char *body;
    ck_assert_ptr_null(weft_http_trailer(r, "X-Sum"));
    ck_assert_int_eq(weft_http_read_all(r, &body), 5);
    ck_assert_str_eq(weft_http_trailer(r, "x-sum"), "abc");
    ck_assert_ptr_null(weft_http_trailer(r, "Other"));
    ck_assert_int_eq(weft_http_set_trailer(r, "X-Sum", weft_http_trailer(r, "X-Sum")), 0);
    return (int)weft_http_write(r, body, 5);
}

START_TEST(trailers_are_read_and_sent)
{
    talk_once(&t, echo_trailer, NULL, NULL,
              "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
              "5\r\nhello\r\n0\r\nX-Sum:  abc \r\n\r\n");
    ck_assert_str_eq(body_of(t.heard), "5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n");
}
END_TEST

#ifdef WEFT_HAS_GZIP
static int reply_long_text(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%05000d", 0);
}

START_TEST(replies_are_compressed_for_those_who_accept_that)
{
    const weft_http_options o = {.gzip_level = 6};
    talk_once(&t, reply_long_text, NULL, &o, GET);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nContent-Length: 5000\r\n"));
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nVary: Accept-Encoding\r\n"));
    talk_once(&t, reply_long_text, NULL, &o,
              "GET / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nContent-Encoding: gzip\r\n"));
    ck_assert_uint_lt(t.heard_bytes, 1000);
}
END_TEST
#endif

START_TEST(a_refusal_looks_at_nothing_of_what_it_refuses)
{
    const weft_http_options o = {.gzip_level = 6};
    static const char *const bad[] = {
        "GET /../x HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n",
        "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\nX\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        talk_once(&t, reply_whole, NULL, &o, bad[i]);
        ck_assert_int_eq(status_of(t.heard), 400);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_reply_to_head_has_no_body_whatever_the_handler_does,
    &a_reply_to_head_says_what_get_would_get,
    &a_head_request_that_is_refused_gets_no_body_either,
    &some_statuses_have_no_body_and_no_length,
    &a_handler_that_fails_before_a_byte_is_out_says_so_and_nothing_else,
    &half_a_reply_is_not_taken_for_a_whole_one,
    &no_more_goes_out_than_was_announced,
    &nobody_can_put_a_line_of_his_own_into_a_reply,
    &a_reply_has_one_type,
    &a_handler_can_end_the_connection,
    &trailers_are_read_and_sent,
#ifdef WEFT_HAS_GZIP
    &replies_are_compressed_for_those_who_accept_that,
#endif
    &a_refusal_looks_at_nothing_of_what_it_refuses,
};

int main(void)
{
    return run_suite("http_reply", tests, COUNT_OF(tests));
}
