/*
 * Replies of correct and faulty handlers. After each reply the connection accepts the next request,
 * or ends.
 */
#include "http/http_support.h"
#include "support/suite.h"

FIXTURE(NULL, end_test)

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define HEAD "HEAD / HTTP/1.1\r\n" HOST "\r\n"
#define NEXT "GET /next HTTP/1.1\r\n" HOST "\r\n"

static int handler_rc; /* stored by some replies */

static int send_part_of_file(weft_http_request *r)
{
    int fd = weft_open("/proc/self/exe", O_RDONLY, 0);
    ck_assert_int_ge(fd, 0);
    int rc = weft_http_begin(r, 200, 40000);
    if (rc == 0)
        rc = (int)weft_http_send_file(r, fd, 0, 40000);
    weft_close(fd);
    return rc < 0 ? rc : 0;
}

static int write_chunks(weft_http_request *r)
{
    for (int i = 0; i < 3; i++)
        if (weft_http_write(r, "hello", 5) < 0 || weft_http_flush(r) < 0)
            return -EIO;
    return weft_http_set_trailer(r, "X-Sum", "3");
}

static int write_too_much(weft_http_request *r)
{
    weft_http_begin(r, 200, 5);
    ck_assert_int_eq(weft_http_write(r, "hel", 3), 3);
    handler_rc = (int)weft_http_write(r, "low", 3);
    ck_assert_int_eq(weft_http_write(r, "lo", 2), 2);
    ck_assert_int_eq(weft_http_end(r), 0);
    ck_assert_int_eq(weft_http_write(r, "!", 1), -EALREADY);
    ck_assert_int_eq(weft_http_end(r), -EALREADY);
    return 0;
}

enum kind {
    WHOLE,
    UNKNOWN_LENGTH,
    CHUNKS,
    ANNOUNCED_LENGTH,
    REDIRECT,
    EVENTS,
    SENT_FILE,
    FAILS,
    FAILS_UNSENT, /* after a write that has not been sent */
    NO_REPLY,
    NO_CONTENT,
    NOT_MODIFIED,
    KINDS_WITH_HEAD, /* the kinds above are requested with HEAD */
    FAILS_SENT = KINDS_WITH_HEAD,
    TOO_LITTLE,
    TOO_LITTLE_WITHOUT_END,
    TOO_MUCH,
    CLOSES
};

/* Reply as the kind in ctx. /next has a fixed reply. */
static int reply_kind(weft_http_request *r, void *ctx)
{
    if (strcmp(weft_http_path(r), "/next") == 0)
        return weft_http_reply_text(r, 200, "next");
    switch ((enum kind)(intptr_t)ctx) {
    case WHOLE:
        return weft_http_reply(r, 200, "text/plain", "hello", 5);
    case UNKNOWN_LENGTH:
        return (int)weft_http_write(r, "hello", 5);
    case CHUNKS:
        return write_chunks(r);
    case ANNOUNCED_LENGTH:
        return weft_http_begin(r, 200, 5) < 0 ? -EIO : (int)weft_http_write(r, "hello", 5);
    case REDIRECT:
        return weft_http_redirect(r, 303, "/elsewhere");
    case EVENTS:
        return weft_http_events(r) < 0 ? -EIO : weft_http_event(r, NULL, NULL, "hello");
    case SENT_FILE:
        return send_part_of_file(r);
    case FAILS_SENT:
        weft_http_printf(r, "some");
        weft_http_flush(r);
        return -ENOENT;
    case FAILS_UNSENT:
        weft_http_set(r, "X-Not", "sent");
        weft_http_printf(r, "not sent");
        return -ENOENT;
    case FAILS:
        return -ENOENT;
    case NO_REPLY:
        return 0;
    case NO_CONTENT:
        return weft_http_reply(r, 204, NULL, "hello", 5);
    case NOT_MODIFIED:
        weft_http_set(r, "ETag", "\"x\"");
        return weft_http_reply(r, 304, NULL, "hello", 5);
    case TOO_LITTLE:
    case TOO_LITTLE_WITHOUT_END:
        weft_http_begin(r, 200, 5);
        ck_assert_int_eq(weft_http_write(r, "hell", 4), 4);
        handler_rc = (enum kind)(intptr_t)ctx == TOO_LITTLE ? weft_http_end(r) : -ENODATA;
        return 0;
    case TOO_MUCH:
        return write_too_much(r);
    case CLOSES:
        ck_assert_int_eq(weft_http_set(r, "Connection", "close"), 0);
        return weft_http_reply_text(r, 200, "last");
    }
    return -EINVAL;
}

static void start_kind(int kind, const char *requests)
{
    start_client(reply_kind, as_arg(kind), NULL, requests);
}

/* Return the responses of the kind to the requests, until the server closes. */
static const char *exchange_kind(int kind, const char *requests)
{
    return client_exchange(&client, reply_kind, as_arg(kind), NULL, requests);
}

/* Assert that the reply to the request has no body: the next response follows the head. */
static void expect_no_body(int kind, const char *request)
{
    start_kind(kind, request);
    client_send(&client, NEXT);
    client_expect(&client, "\r\n\r\nnext");
    ck_assert_msg(strncmp(body_of(client.received), "HTTP/1.1 200 OK\r\n", 17) == 0, "%s",
                  client.received);
    ck_assert_int_eq(client_close(&client), 0);
}

TEST(a_reply_to_head_has_the_headers_of_get_and_never_a_body)
{
    for (int kind = WHOLE; kind < KINDS_WITH_HEAD; kind++)
        expect_no_body(kind, HEAD);
    expect_no_body(WHOLE, "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    ck_assert_has(exchange_kind(UNKNOWN_LENGTH, HEAD), "\r\nContent-Length: 5\r\n");
    ck_assert_int_eq(status_of(exchange_kind(FAILS, HEAD)), 404);
    ck_assert_str_eq(body_of(client.received), "");
}

static void assert_400_without_body(const char *request)
{
    ck_assert_int_eq(status_of(exchange_kind(WHOLE, request)), 400);
    ck_assert_str_eq(body_of(client.received), "");
}

TEST(a_refused_head_request_gets_no_body)
{
    ONLY_HTTP_1;
    EACH_TEXT(assert_400_without_body, "HEAD / HTTP/1.1\r\n\r\n",
              "HEAD /../x HTTP/1.1\r\n" HOST "\r\n",
              "HEAD / HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n");
}

TEST(statuses_204_and_304_have_no_body_and_no_length)
{
    static const int kinds[] = {NO_CONTENT, NOT_MODIFIED, NO_REPLY};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        expect_no_body(kinds[i], GET);
        ck_assert_lacks(exchange_kind(kinds[i], GET), "Content-Length", "Transfer-Encoding");
        ck_assert_str_eq(body_of(client.received), "");
    }
}

TEST(a_handler_that_fails_before_any_byte_is_sent_gets_an_error_status)
{
    for (int kind = FAILS; kind <= FAILS_UNSENT; kind++) {
        start_kind(kind, GET NEXT);
        client_expect(&client, "\r\n\r\nnext");
        ck_assert_int_eq(status_of(client.received), 404);
        ck_assert_int_eq(strncmp(body_of(client.received), "404 Not Found\nHTTP/1.1 200", 26), 0);
        ck_assert_lacks(client.received, "X-Not");
    }
}

TEST(an_incomplete_reply_does_not_look_complete)
{
    for (int kind = FAILS_SENT; kind <= TOO_LITTLE_WITHOUT_END; kind++) {
        handler_rc = -ENODATA;
        start_kind(kind, GET NEXT);
        client_receive_all(&client);
        ck_assert_int_eq(handler_rc, -ENODATA);
        ck_assert_lacks(client.received, "\r\n0\r\n", "hello", "next");
        ck_assert_uint_le(count_in(client.received, "HTTP/1.1"), 1);
    }
}

TEST(no_more_than_the_announced_length_is_sent)
{
    start_kind(TOO_MUCH, GET NEXT);
    client_expect(&client, "\r\n\r\nnext");
    ck_assert_int_eq(handler_rc, -EMSGSIZE);
    ck_assert_has(client.received, "\r\n\r\nhelloHTTP/1.1 200 OK");
}

TEST(a_handler_can_end_the_connection)
{
    ONLY_HTTP_1;
    start_kind(CLOSES, GET GET);
    client_receive_all(&client);
    ck_assert_uint_eq(count_in(client.received, "\r\nConnection: close\r\n"), 1);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1"), 1);
}

static int set_headers(weft_http_request *r, void *ctx)
{
    static const struct {
        const char *name, *value;
        int rc;
    } rows[] = {
        {"X", "a\r\nEvil: 1", -EINVAL},  {"X", "a\nEvil: 1", -EINVAL},
        {"X", "a\rEvil: 1", -EINVAL},    {"X\r\nEvil", "1", -EINVAL},
        {"X:Evil", "1", -EINVAL},        {"", "1", -EINVAL},
        {"Evil thing", "1", -EINVAL},    {"Date", "5", -EPERM},
        {"Connection", "5", -EPERM},     {"Transfer-Encoding", "5", -EPERM},
        {"content-length", "5", -EPERM},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_int_eq(weft_http_set(r, rows[i].name, rows[i].value), rows[i].rc);
        ck_assert_int_eq(weft_http_add(r, rows[i].name, rows[i].value), rows[i].rc);
    }
    ck_assert_int_eq(weft_http_set_trailer(r, "X", "a\r\nEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_set_cookie(r, "a", "b\r\nEvil: 1", NULL), -EINVAL);
    ck_assert_int_eq(weft_http_set_cookie(r, "a", "b; Evil", NULL), -EINVAL);
    ck_assert_int_eq(weft_http_redirect(r, 302, "/\r\nEvil: 1"), -EINVAL);
    ck_assert_int_eq(weft_http_redirect(r, 200, "/"), -EINVAL);
    ck_assert_int_eq(weft_http_reply(r, 200, "text/plain\r\nEvil: 1", "", 0), -EINVAL);
    ck_assert_int_eq(weft_http_begin(r, 100, 0), -EINVAL);
    ck_assert_int_eq(weft_http_begin(r, 200, -2), -EINVAL);
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
    ck_assert_lacks(exchange(set_headers, GET), "Evil", "Twice: 1");
    ck_assert_has(client.received, is_over_http2() ? "\r\nTwice: 2\r\nTwice: 3\r\n"
                                                   : "\r\ntwice: 2\r\nTwice: 3\r\n");
    ck_assert_str_eq(body_of(client.received), "good");
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

static int echo_trailer(weft_http_request *r, void *ctx)
{
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

static const weft_http_options compressing = {.gzip_level = 6};

static void assert_400_with_gzip(const char *request)
{
    client_exchange(&client, reply_kind, as_arg(WHOLE), &compressing, request);
    ck_assert_int_eq(status_of(client.received), 400);
}

TEST(a_refusal_ignores_the_headers_of_the_refused_request)
{
    ONLY_HTTP_1;
    EACH_TEXT(assert_400_with_gzip, "GET /../x HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n",
              "GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n",
              "GET / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\nX\r\n\r\n");
}
