/*
 * Replies of correct and faulty handlers. After each reply the connection accepts the next request,
 * or ends.
 */
#include "http/http_support.h"
#include "support/suite.h"

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define NEXT "GET /next HTTP/1.1\r\n" HOST "\r\n"

/* The handler under test. /next has a fixed reply. */
typedef struct subject {
    weft_http_handler *handler;
    int rc; /* stored by the handler */
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

static int write_unknown_length(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return (int)weft_http_write(r, "hello", 5);
}

static int write_chunks(weft_http_request *r, void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 3; i++)
        if (weft_http_write(r, "hello", 5) < 0 || weft_http_flush(r) < 0)
            return -EIO;
    return weft_http_set_trailer(r, "X-Sum", "3");
}

static int write_announced_length(weft_http_request *r, void *ctx)
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

static int fail_after_unsent_write(weft_http_request *r, void *ctx)
{
    (void)ctx;
    weft_http_set(r, "X-Not", "sent");
    weft_http_printf(r, "not sent");
    return -ENOENT;
}

static int return_without_reply(weft_http_request *r, void *ctx)
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

/* Assert that the reply to the request has no body: the next response follows the head. */
static void expect_no_body(weft_http_handler *handler, const char *request)
{
    subject s = {.handler = handler};
    start_client(dispatch, &s, NULL, request);
    client_send(&client, NEXT);
    client_expect(&client, "\r\n\r\nnext");
    ck_assert_msg(strncmp(body_of(client.received), "HTTP/1.1 200 OK\r\n", 17) == 0, "%s",
                  client.received);
    ck_assert_int_eq(client_close(&client), 0);
}

TEST(a_reply_to_head_never_has_a_body)
{
    static weft_http_handler *const handlers[] = {
        reply_whole,
        write_unknown_length,
        write_chunks,
        write_announced_length,
        reply_redirect,
        reply_events,
        reply_file,
        fail_at_once,
        fail_after_unsent_write,
        return_without_reply,
        reply_204,
        reply_304,
    };
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        expect_no_body(handlers[i], "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    expect_no_body(reply_whole, "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
}

TEST(a_reply_to_head_has_the_headers_of_get)
{
    const char *response = exchange(write_unknown_length, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_has(response, "\r\nContent-Length: 5\r\n");
    response = exchange(fail_at_once, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_int_eq(status_of(response), 404);
    ck_assert_str_eq(body_of(response), "");
}

TEST(a_refused_head_request_gets_no_body)
{
    static const char *const bad[] = {
        "HEAD / HTTP/1.1\r\n\r\n",
        "HEAD /../x HTTP/1.1\r\n" HOST "\r\n",
        "HEAD / HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *response = exchange(reply_whole, bad[i]);
        ck_assert_int_eq(status_of(response), 400);
        ck_assert_str_eq(body_of(response), "");
    }
}

TEST(statuses_204_and_304_have_no_body_and_no_length)
{
    static weft_http_handler *const handlers[] = {reply_204, reply_304, return_without_reply};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        expect_no_body(handlers[i], GET);
        const char *response = client_exchange(&client, handlers[i], NULL, NULL, GET);
        ck_assert_lacks(response, "Content-Length", "Transfer-Encoding");
        ck_assert_str_eq(body_of(response), "");
    }
}

TEST(a_handler_that_fails_before_any_byte_is_sent_gets_an_error_status)
{
    static weft_http_handler *const handlers[] = {fail_at_once, fail_after_unsent_write};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        subject s = {.handler = handlers[i]};
        start_client(dispatch, &s, NULL, GET NEXT);
        client_expect(&client, "\r\n\r\nnext");
        ck_assert_int_eq(status_of(client.received), 404);
        ck_assert_int_eq(strncmp(body_of(client.received), "404 Not Found\nHTTP/1.1 200", 26), 0);
        ck_assert_lacks(client.received, "X-Not");
        ck_assert_int_eq(client_close(&client), 0);
    }
}

static int fail_after_flush(weft_http_request *r, void *ctx)
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

static int write_too_little_without_end(weft_http_request *r, void *ctx)
{
    ((subject *)ctx)->rc = -ENODATA;
    weft_http_begin(r, 200, 5);
    return (int)weft_http_write(r, "hell", 4) > 0 ? 0 : -EIO;
}

TEST(an_incomplete_reply_does_not_look_complete)
{
    subject s = {.handler = fail_after_flush};
    start_client(dispatch, &s, NULL, GET NEXT);
    client_receive_all(&client);
    ck_assert_lacks(client.received, "\r\n0\r\n");
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1"), 1);
    client_close(&client);

    static weft_http_handler *const handlers[] = {write_too_little, write_too_little_without_end};
    for (size_t i = 0; i < COUNT_OF(handlers); i++) {
        s = (subject){.handler = handlers[i]};
        start_client(dispatch, &s, NULL, GET NEXT);
        client_receive_all(&client);
        ck_assert_int_eq(s.rc, -ENODATA);
        ck_assert_lacks(client.received, "hello", "next");
        client_close(&client);
    }
    assert_nothing_pending();
}

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

TEST(no_more_than_the_announced_length_is_sent)
{
    subject s = {.handler = write_too_much};
    start_client(dispatch, &s, NULL, GET NEXT);
    client_expect(&client, "\r\n\r\nnext");
    ck_assert_int_eq(s.rc, -EMSGSIZE);
    ck_assert_has(client.received, "\r\n\r\nhelloHTTP/1.1 200 OK");
    ck_assert_int_eq(client_close(&client), 0);
}

static int set_headers(weft_http_request *r, void *ctx)
{
    (void)ctx;
    static const char *const server_headers[] = {"Date", "content-length", "Transfer-Encoding",
                                                 "Connection"};
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
    for (size_t i = 0; i < COUNT_OF(server_headers); i++)
        ck_assert_int_eq(weft_http_set(r, server_headers[i], "5"), -EPERM);
    ck_assert_int_eq(weft_http_set(r, "Twice", "1"), 0);
    ck_assert_int_eq(weft_http_set(r, "twice", "2"), 0);
    ck_assert_int_eq(weft_http_add(r, "Twice", "3"), 0);
    ck_assert_int_eq(weft_http_reply_text(r, 200, "good"), 0);
    ck_assert_int_eq(weft_http_set(r, "Late", "1"), -EALREADY);
    ck_assert_int_eq(weft_http_reply_text(r, 200, "again"), -EALREADY);
    return 0;
}

TEST(line_breaks_cannot_inject_headers_into_a_reply)
{
    const char *response = exchange(set_headers, GET);
    ck_assert_lacks(response, "Evil");
    ck_assert_has(response, "\r\ntwice: 2\r\nTwice: 3\r\n");
    ck_assert_lacks(response, "Twice: 1");
    ck_assert_str_eq(body_of(response), "good");
}

static int reply_with_types(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_set(r, "Content-Type", "text/css"), 0);
    return weft_http_reply(r, 200, ctx, "", 0);
}

TEST(a_reply_has_one_type)
{
    client_exchange(&client, reply_with_types, (void *)(uintptr_t) "text/html", NULL, GET);
    ck_assert_uint_eq(count_in(client.received, "Content-Type: "), 1);
    ck_assert_has(client.received, "\r\nContent-Type: text/html\r\n");
    exchange(reply_with_types, GET);
    ck_assert_uint_eq(count_in(client.received, "Content-Type: "), 1);
    ck_assert_has(client.received, "\r\nContent-Type: text/css\r\n");
}

static int reply_and_close(weft_http_request *r, void *ctx)
{
    (void)ctx;
    ck_assert_int_eq(weft_http_set(r, "Connection", "close"), 0);
    return weft_http_reply_text(r, 200, "last");
}

TEST(a_handler_can_end_the_connection)
{
    start_client(reply_and_close, NULL, NULL, GET GET);
    client_receive_all(&client);
    ck_assert_uint_eq(count_in(client.received, "\r\nConnection: close\r\n"), 1);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1"), 1);
    client_close(&client);
}

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

TEST(trailers_are_read_and_sent)
{
    exchange(echo_trailer, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                           "5\r\nhello\r\n0\r\nX-Sum:  abc \r\n\r\n");
    ck_assert_str_eq(body_of(client.received), "5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n");
}

#ifdef WEFT_HAS_GZIP
static int reply_long_text(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%05000d", 0);
}

TEST(replies_are_compressed_for_clients_that_accept_gzip)
{
    const weft_http_options o = {.gzip_level = 6};
    client_exchange(&client, reply_long_text, NULL, &o, GET);
    ck_assert_has(client.received, "\r\nContent-Length: 5000\r\n", "\r\nVary: Accept-Encoding\r\n");
    client_exchange(&client, reply_long_text, NULL, &o,
                    "GET / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n");
    ck_assert_has(client.received, "\r\nContent-Encoding: gzip\r\n");
    ck_assert_uint_lt(client.received_bytes, 1000);
}
#endif

TEST(a_refusal_ignores_the_headers_of_the_refused_request)
{
    const weft_http_options o = {.gzip_level = 6};
    static const char *const bad[] = {
        "GET /../x HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n",
        "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\nX\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        client_exchange(&client, reply_whole, NULL, &o, bad[i]);
        ck_assert_int_eq(status_of(client.received), 400);
    }
}
