/* The web server: requests, replies, and the connection between them. */
#include "http_support.h"

static talk t;

static int say_hello(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply(r, 200, "text/plain", "Hello\n", 6);
}

START_TEST(a_request_is_answered)
{
    const char *reply = talk_once(&t, say_hello, NULL, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(status_of(reply), 200);
    ck_assert_ptr_nonnull(strstr(reply, "\r\nContent-Type: text/plain\r\n"));
    ck_assert_ptr_nonnull(strstr(reply, "\r\nContent-Length: 6\r\n"));
    ck_assert_ptr_nonnull(strstr(reply, "\r\nDate: "));
    ck_assert_ptr_null(strstr(reply, "Connection: close"));
    ck_assert_str_eq(body_of(reply), "Hello\n");
}
END_TEST

static int say_path(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *color = weft_http_query_param(r, "color");
    return weft_http_reply_text(r, 200, "%s %s %s?%s [%s] %s\n", weft_http_method(r),
                                weft_http_host(r), weft_http_path(r), weft_http_query(r),
                                color != NULL ? color : "none", weft_http_peer(r));
}

START_TEST(a_handler_sees_what_was_asked)
{
    const char *reply = talk_once(&t, say_path, NULL, NULL,
                                  "DELETE /a%20b/../c?x=1&color=light+blue HTTP/1.1\r\n"
                                  "Host: Example.ORG:8080\r\n\r\n");
    ck_assert_str_eq(body_of(reply),
                     "DELETE example.org /c?x=1&color=light+blue [light blue] unix\n");
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order_on_one_connection)
{
    talk_open(&t, say_path, NULL, NULL);
    talk_send(&t, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
                  "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                  "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n");
    talk_hear_all(&t);
    const char *one = strstr(t.heard, "GET a /1"), *two = strstr(t.heard, "GET a /2");
    const char *three = strstr(t.heard, "GET a /3");
    ck_assert(one != NULL && two > one && three > two);
    ck_assert_ptr_null(strstr(t.heard, "GET a /4"));
    ck_assert_ptr_nonnull(strstr(two, "Connection: close"));
    talk_close(&t);
}
END_TEST

static int echo(weft_http_request *r, void *ctx)
{
    (void)ctx;
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, NULL, body, (size_t)n);
}

START_TEST(a_body_is_read_by_its_length_or_in_chunks)
{
    talk_open(&t, echo, NULL, NULL);
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    talk_hear(&t, "\r\n\r\nhello");
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nab");
    let_run();
    talk_send(&t, "c\r\n4;x=y\r\ndefg\r\n0\r\nT: v\r\n\r\n");
    talk_hear(&t, "\r\n\r\nabcdefg");
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(a_client_that_waits_to_be_invited_is)
{
    talk_open(&t, echo, NULL, NULL);
    talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                  "Expect: 100-continue\r\n\r\n");
    talk_hear(&t, "HTTP/1.1 100 Continue\r\n\r\n");
    talk_send(&t, "hello");
    talk_hear(&t, "\r\n\r\nhello");
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

static int say_pieces(weft_http_request *r, void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 3; i++) {
        weft_http_printf(r, "piece %d\n", i);
        int rc = weft_http_flush(r);
        if (rc < 0)
            return rc;
    }
    return weft_http_set_trailer(r, "Pieces", "3");
}

START_TEST(a_reply_of_unknown_length_goes_out_in_chunks)
{
    const char *reply = talk_once(&t, say_pieces, NULL, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_ptr_nonnull(strstr(reply, "Transfer-Encoding: chunked"));
    ck_assert_str_eq(body_of(reply), "8\r\npiece 0\n\r\n8\r\npiece 1\n\r\n8\r\npiece 2\n\r\n"
                                     "0\r\nPieces: 3\r\n\r\n");
}
END_TEST

START_TEST(in_http_1_0_it_ends_with_the_connection)
{
    const char *reply =
        talk_once(&t, say_pieces, NULL, NULL, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    ck_assert_ptr_null(strstr(reply, "chunked"));
    ck_assert_ptr_nonnull(strstr(reply, "Connection: close"));
    ck_assert_str_eq(body_of(reply), "piece 0\npiece 1\npiece 2\n");
}
END_TEST

START_TEST(a_head_request_gets_the_head_only)
{
    talk_open(&t, say_hello, NULL, NULL);
    talk_send(&t, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    talk_hear(&t, "\r\n\r\nHello\n");
    ck_assert_ptr_nonnull(strstr(t.heard, "Content-Length: 6\r\n\r\nHTTP/1.1 200 OK"));
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

static int return_error(weft_http_request *r, void *ctx)
{
    (void)r;
    return *(int *)ctx;
}

START_TEST(an_error_of_the_handler_is_answered_with_its_status)
{
    static const struct {
        int error, status;
    } cases[] = {{-ENOENT, 404}, {-EACCES, 403},    {-EINVAL, 400}, {-EBUSY, 503},
                 {-EIO, 500},    {-ETIMEDOUT, 504}, {0, 204}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int error = cases[i].error;
        const char *reply =
            talk_once(&t, return_error, &error, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        ck_assert_int_eq(status_of(reply), cases[i].status);
    }
}
END_TEST

static int count_pieces(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const void *piece;
    size_t bytes = 0, pieces = 0;
    ssize_t n;
    while ((n = weft_http_read_piece(r, &piece)) > 0) {
        bytes += (size_t)n;
        pieces++;
    }
    return n < 0 ? (int)n
                 : weft_http_reply_text(r, 200, "%zu in %s\n", bytes,
                                        pieces <= bytes / 4096 ? "few" : "many");
}

START_TEST(a_large_body_comes_in_large_pieces_and_the_next_request_as_ever)
{
    static char body[200000];
    talk_open(&t, count_pieces, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        talk_send(&t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
        talk_send_bytes(&t, body, sizeof body);
        talk_hear(&t, "200000 in few\n");
        t.heard_bytes = 0;
        talk_send(&t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        talk_hear(&t, "\r\n\r\n0 in few\n");
        t.heard_bytes = 0;
    }
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_request_is_answered,
    &a_handler_sees_what_was_asked,
    &pipelined_requests_are_answered_in_order_on_one_connection,
    &a_body_is_read_by_its_length_or_in_chunks,
    &a_client_that_waits_to_be_invited_is,
    &a_reply_of_unknown_length_goes_out_in_chunks,
    &in_http_1_0_it_ends_with_the_connection,
    &a_head_request_gets_the_head_only,
    &an_error_of_the_handler_is_answered_with_its_status,
    &a_large_body_comes_in_large_pieces_and_the_next_request_as_ever,
};

int main(void)
{
    return run_suite("http", tests, COUNT_OF(tests));
}
