/*
 * Malformed and ambiguous requests over a connection. The server replies with the matching status
 * and closes the connection. The server never parses the following bytes as a request (request
 * smuggling). Each request is sent at once, in two parts, and byte by byte. test_http_message.c has
 * more requests that the parser refuses.
 */
#include "http/http_support.h"
#include "support/suite.h"

FIXTURE(NULL, end_test)

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
#define LENGTH "Content-Length: "
#define ENCODING "Transfer-Encoding: "
#define CHUNKED POST ENCODING "chunked\r\n\r\n"
#define NEXT "GET /smuggled HTTP/1.1\r\n" HOST "\r\n"

static bool was_smuggled;

static int reply_after_body(weft_http_request *r, void *ctx)
{
    char *body;
    was_smuggled |= strcmp(weft_http_path(r), "/smuggled") == 0;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, NULL, NULL, 0);
}

static int reply_without_body(weft_http_request *r, void *ctx)
{
    was_smuggled |= strcmp(weft_http_path(r), "/smuggled") == 0;
    (void)weft_http_reply(r, 200, NULL, NULL, 0);
    return 0;
}

/* Ignore errors: the server may close the connection early. */
static void send_ignoring_errors(const char *text, size_t bytes)
{
    ssize_t n;
    for (size_t sent = 0; sent < bytes; sent += (size_t)n)
        if ((n = weft_send(client.fd, text + sent, bytes - sent, MSG_NOSIGNAL)) < 0)
            return;
}

/* Send head bytes at once, then step bytes at a time, then NEXT. 0xfe stands for NUL. */
static void send_probe(const char *probe, weft_http_handler *handler, size_t head, size_t step)
{
    char text[1024];
    size_t bytes = strlen(probe);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(probe[i] == '\xfe' ? '\0' : probe[i]);
    memcpy(text + bytes, NEXT, sizeof NEXT);
    was_smuggled = false;
    client_open(&client, handler, NULL, NULL);
    send_ignoring_errors(text, head);
    for (size_t at = head; at < bytes; at += step) {
        let_run();
        send_ignoring_errors(text + at, step < bytes - at ? step : bytes - at);
    }
    if (head <= bytes)
        send_ignoring_errors(NEXT, sizeof NEXT - 1);
}

/* Assert one response with this status, and that the server closes the connection. */
static void expect_refusal(int status, const char *probe)
{
    client_receive_all(&client);
    const char *response = client.received;
    if (strncmp(response, "HTTP/1.1 100 ", 13) == 0)
        response = body_of(response);
    ck_assert_msg(strncmp(response, "HTTP/1.1 ", 9) == 0 && status_of(response) == status,
                  "%s: expected %d, received %s", probe, status, client.received);
    ck_assert_msg(count_in(response, "HTTP/1.1 ") == 1, "%s: more than one response", probe);
    ck_assert_msg(strstr(response, "\r\nConnection: close\r\n") != NULL, "%s", probe);
    ck_assert_msg(!was_smuggled, "%s: smuggled", probe);
    client_close(&client);
}

static int expected_status;

static void assert_probe_refused(const char *probe)
{
    size_t bytes = strlen(probe), splits = 4;
    send_probe(probe, reply_after_body, bytes + sizeof NEXT - 1, 1); /* at once, with NEXT */
    expect_refusal(expected_status, probe);
    send_probe(probe, reply_after_body, 1, 1);
    expect_refusal(expected_status, probe);
    for (size_t i = 1; i <= splits; i++) {
        size_t head = i < splits ? bytes * i / splits : bytes - 1;
        send_probe(probe, reply_after_body, head, SIZE_MAX);
        expect_refusal(expected_status, probe);
    }
}

#define REFUSED(status, ...)                          \
    do {                                              \
        expected_status = status;                     \
        EACH_TEXT(assert_probe_refused, __VA_ARGS__); \
    } while (0)

TEST(malformed_request_lines_are_refused)
{
    REFUSED(400, "GET / HTTP/1.1\nHost: a\n\n", "GET  / HTTP/1.1\r\n" HOST "\r\n",
            " GET / HTTP/1.1\r\n" HOST "\r\n", "GET / HTTP/1.1\r\r\n" HOST "\r\n", "GET /\r\n\r\n",
            "\n" GET HOST "\r\n", "\376" GET HOST "\r\n", "GET / HTTP/1.1.1\r\n" HOST "\r\n",
            "GET / HTTP/11\r\n" HOST "\r\n", "FROB / HTTP/1.1\n" HOST "\r\n",
            "CONNECT / HTTP/1.1\r\n" HOST "\r\n", "GET * HTTP/1.1\r\n" HOST "\r\n",
            "GET http://me@a/ HTTP/1.1\r\n" HOST "\r\n", "GET /a#b HTTP/1.1\r\n" HOST "\r\n",
            "GET /\376 HTTP/1.1\r\n" HOST "\r\n");
    REFUSED(505, "GET / HTTP/2.0\r\n" HOST "\r\n");
    REFUSED(501, "A-METHOD-OF-MORE-THAN-32-CHARACTERS / HTTP/1.1\r\n" HOST "\r\n",
            "PRI / HTTP/1.1\r\n" HOST "\r\n", "CONNECT a:80 HTTP/1.1\r\n" HOST "\r\n");
}

TEST(malformed_headers_are_refused)
{
    REFUSED(400, GET "\r\n", GET HOST HOST "\r\n", GET "Host: a, b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n\r\n", GET "Host : a\r\n\r\n", GET " Host: a\r\n\r\n",
            GET HOST "X: a\r\n b\r\n\r\n", GET HOST "X[: a\r\n\r\n", GET HOST "X: a\376b\r\n\r\n",
            GET HOST "X: a\nY: b\r\n\r\n", GET HOST "X: a\r\n\n", GET HOST "X: a\n\n");
    REFUSED(417, POST LENGTH "5\r\nExpect: more\r\n\r\nhello",
            GET HOST "Expect: 100-continue, more\r\n\r\n",
            POST ENCODING "chunked\r\nExpect: more\r\n\r\n0\r\n\r\n");
}

/* Another parser could split these messages into two requests. */
TEST(ambiguous_lengths_are_refused)
{
    REFUSED(
        400, POST LENGTH "0\r\n" LENGTH "44\r\n\r\n", POST LENGTH "5\r\n" LENGTH "5\r\n\r\nhello",
        POST LENGTH "+5\r\n\r\nhello", POST LENGTH "five\r\n\r\nhello",
        POST "Content-Length\r\n: 5\r\n\r\nhello", POST LENGTH "\r\n 5\r\n\r\nhello",
        POST LENGTH "5\r\n" ENCODING "chunked\r\n\r\n0\r\n\r\n",
        POST ENCODING "chunked\r\n" LENGTH "0\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\n" HOST ENCODING "chunked\r\n\r\n0\r\n\r\n",
        POST ENCODING "chunked, gzip\r\n\r\n0\r\n\r\n", POST ENCODING "chunked\t\r\n\r\n0\r\n\r\n",
        POST ENCODING "\r\n chunked\r\n\r\n0\r\n\r\n",
        POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        POST "\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    REFUSED(501, POST ENCODING "gzip, chunked\r\n\r\n0\r\n\r\n");
    REFUSED(411, "POST / HTTP/1.0\r\n\r\n", "PUT / HTTP/1.0\r\n" HOST "\r\nhello");
    REFUSED(413, POST LENGTH "9223372036854775807\r\n\r\nhello");
}

static void assert_refused_unread(const char *probe)
{
    send_probe(probe, reply_without_body, strlen(probe) + sizeof NEXT - 1, 1);
    expect_refusal(400, probe);
}

#define BAD_CHUNKS                                                               \
    CHUNKED "g\r\nhello\r\n0\r\n\r\n", CHUNKED " 5\r\nhello\r\n0\r\n\r\n",       \
        CHUNKED "5\nhello\r\n0\r\n\r\n", CHUNKED "5\r\nhello!\r\n0\r\n\r\n",     \
        CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n",                       \
        CHUNKED "5;a\376b\r\nhello\r\n0\r\n\r\n", CHUNKED "5\r\nhello\r\n0\n\n", \
        CHUNKED "5\r\nhello\r\n0\r\nX : a\r\n\r\n",                              \
        CHUNKED "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"

TEST(malformed_chunks_are_refused_even_if_the_handler_does_not_read_them)
{
    REFUSED(400, BAD_CHUNKS);
    EACH_TEXT(assert_refused_unread, BAD_CHUNKS);
}

/* Assert that the probe and the next request succeed on one connection. */
static void assert_accepted(const char *probe)
{
    const size_t heads[] = {strlen(probe), 1};
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        send_probe(probe, reply_after_body, heads[i], 1);
        while (count_in(client.received, "HTTP/1.1 200 OK\r\n") < 2)
            ck_assert_msg(client_receive_some(&client) > 0, "%s: %s", probe, client.received);
        ck_assert(was_smuggled);
        ck_assert_int_eq(client_close(&client), 0);
    }
}

TEST(unusual_but_valid_requests_get_a_reply)
{
    EACH_TEXT(assert_accepted, "\r\n\r\n" GET HOST "\r\n", "GET / HTTP/1.9\r\n" HOST "\r\n",
              "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
              "GET http://b:80?y HTTP/1.1\r\n" HOST "\r\n", "GET HTTP://b HTTP/1.1\r\n" HOST "\r\n",
              "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
              "GET /a/%2e/./../b?c=/../%2f%zz HTTP/1.1\r\n" HOST "\r\n",
              GET "hOST: a.b-c.d:8080\r\n\r\n", GET HOST "X:\r\nY: a\tb \303\244\r\n\r\n",
              POST LENGTH "00005\r\n\r\nhello", POST "\r\n", GET HOST LENGTH "5\r\n\r\nhello",
              POST ENCODING "CHUNKED\r\n\r\n05\r\nhello\r\n000\r\n\r\n",
              CHUNKED "5;a=\"b\"\r\nhello\r\n0;c\r\n\r\n",
              CHUNKED "5\r\nhello\r\n0\r\nX: y\r\nZ:\r\n\r\n",
              GET HOST "Connection: x, keep-alive\r\n\r\n",
              POST LENGTH "5\r\nExpect: 100-Continue\r\n\r\nhello",
              GET HOST "Expect: 100-continue\r\n\r\n");
}
