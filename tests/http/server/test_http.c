/* The HTTP server: requests, replies, bodies, and status codes of failed handlers. */
#include "http/http_support.h"
#include "support/suite.h"

FIXTURE(NULL, end_test)

static int reply_hello(weft_http_request *r, void *ctx)
{
    return weft_http_reply(r, 200, "text/plain", "Hello\n", 6);
}

TEST(a_request_gets_a_reply)
{
    const char *response = exchange(reply_hello, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(status_of(response), 200);
    ck_assert_has(response, "\r\nContent-Type: text/plain\r\n", "\r\nContent-Length: 6\r\n",
                  "\r\nDate: ");
    ck_assert_lacks(response, "Connection: close");
    ck_assert_str_eq(body_of(response), "Hello\n");
}

static int reply_request_line(weft_http_request *r, void *ctx)
{
    const char *color = weft_http_query_param(r, "color");
    return weft_http_reply_text(r, 200, "%s %s %s?%s [%s] %s\n", weft_http_method(r),
                                weft_http_host(r), weft_http_path(r), weft_http_query(r),
                                color != NULL ? color : "none", weft_http_peer(r));
}

TEST(a_handler_sees_method_host_path_query_and_peer)
{
    const char *response =
        exchange(reply_request_line, "DELETE /a%20b/../c?x=1&color=light+blue HTTP/1.1\r\n"
                                     "Host: Example.ORG:8080\r\n\r\n");
    ck_assert_str_eq(body_of(response),
                     "DELETE example.org /c?x=1&color=light+blue [light blue] unix\n");
}

TEST(no_request_after_connection_close_gets_a_reply)
{
    ONLY_HTTP_1;
    start_client(reply_request_line, NULL, NULL,
                 "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                 "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_has(client_receive_all(&client), "GET a /1", "Connection: close");
    ck_assert_lacks(client.received, "GET a /2");
}

static int echo_whole_body(weft_http_request *r, void *ctx)
{
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, NULL, body, (size_t)n);
}

TEST(a_body_is_read_by_its_length_in_chunks_or_after_100_continue)
{
    start_client(echo_whole_body, NULL, NULL,
                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    client_expect(&client, "\r\n\r\nhello");
    client_send(&client, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "3\r\nab");
    let_run();
    client_send(&client, "c\r\n4;x=y\r\ndefg\r\n0\r\nT: v\r\n\r\n");
    client_expect(&client, "\r\n\r\nabcdefg");
    client_send(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
                         "Expect: 100-continue\r\n\r\n");
    client_expect(&client, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send(&client, "world");
    client_expect(&client, "\r\n\r\nworld");
}

static int reply_in_pieces(weft_http_request *r, void *ctx)
{
    for (int i = 0; i < 3; i++) {
        weft_http_printf(r, "piece %d\n", i);
        int rc = weft_http_flush(r);
        if (rc < 0)
            return rc;
    }
    return weft_http_set_trailer(r, "Pieces", "3");
}

TEST(a_reply_of_unknown_length_is_chunked_or_in_http_1_0_ends_with_the_connection)
{
    ONLY_HTTP_1;
    ck_assert_has(exchange(reply_in_pieces, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                  "Transfer-Encoding: chunked");
    ck_assert_str_eq(body_of(client.received),
                     "8\r\npiece 0\n\r\n8\r\npiece 1\n\r\n8\r\npiece 2\n\r\n"
                     "0\r\nPieces: 3\r\n\r\n");
    exchange(reply_in_pieces, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    ck_assert_lacks(client.received, "chunked");
    ck_assert_has(client.received, "Connection: close");
    ck_assert_str_eq(body_of(client.received), "piece 0\npiece 1\npiece 2\n");
}

static int return_error(weft_http_request *r, void *ctx)
{
    return *(int *)ctx;
}

TEST(an_error_of_the_handler_becomes_a_status)
{
    static const struct {
        int error, status;
    } cases[] = {{-ENOENT, 404}, {-EACCES, 403},    {-EINVAL, 400}, {-EBUSY, 503},
                 {-EIO, 500},    {-ETIMEDOUT, 504}, {0, 204}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int error = cases[i].error;
        const char *response = client_exchange(&client, return_error, &error, NULL,
                                               "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        ck_assert_int_eq(status_of(response), cases[i].status);
    }
}

static int reply_piece_count(weft_http_request *r, void *ctx)
{
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

TEST(a_large_body_is_read_in_large_pieces_and_the_connection_stays_usable)
{
    static char body[200000];
    client_open(&client, reply_piece_count, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        client_send(&client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
        client_send_bytes(&client, body, sizeof body);
        client_expect(&client, "200000 in few\n");
        client.received_bytes = 0;
        client_send(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(&client, "\r\n\r\n0 in few\n");
        client.received_bytes = 0;
    }
}
