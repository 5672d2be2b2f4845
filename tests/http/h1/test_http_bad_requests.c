/*
 * Requests that are malformed or ambiguous. The server replies with the matching status and closes
 * the connection. The server never parses the following bytes as a request (request smuggling).
 * Each request is sent at once, in two parts, and byte by byte.
 */
#include "http/http_support.h"
#include "support/suite.h"

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST
#define LENGTH "Content-Length: "
#define ENCODING "Transfer-Encoding: "
#define CHUNKED POST ENCODING "chunked\r\n\r\n"
#define NEXT "GET /smuggled HTTP/1.1\r\n" HOST "\r\n"

typedef struct probe {
    const char *text;
    size_t bytes;
    int status;
} probe;

#define PROBE(status, text)            \
    {                                  \
        text, sizeof(text) - 1, status \
    }

static const probe bad_lines[] = {
    PROBE(400, "GET / HTTP/1.1\nHost: a\n\n"),
    PROBE(400, "GET  / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /  HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, " GET / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET / HTTP/1.1 \r\n" HOST "\r\n"),
    PROBE(400, "GET / HTTP/1.1\r\r\n" HOST "\r\n"),
    PROBE(400, "GET / HTTP/1.1\rHost: a\r\n\r\n"),
    PROBE(400, "GET / http/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /\r\n\r\n"),
    PROBE(400, "GET\r\n\r\n"),
    PROBE(400, "\n" GET HOST "\r\n"),
    PROBE(400, "\r" GET HOST "\r\n"),
    PROBE(400, "\r\n\r\n\r\n" GET HOST "\r\n"),
    PROBE(400, "\0" GET HOST "\r\n"),
    PROBE(400, "GET / HTTP/1.1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET / HTTP/11\r\n" HOST "\r\n"),
    PROBE(400, "GET / HTTP/1.\r\n" HOST "\r\n"),
    PROBE(400, "GET / HTTP/1.11\r\n" HOST "\r\n"),
    PROBE(400, "GET / XTTP/1.1\r\n" HOST "\r\n"),
    PROBE(505, "GET / HTTP/2.0\r\n" HOST "\r\n"),
    PROBE(505, "GET / HTTP/0.9\r\n" HOST "\r\n"),
    PROBE(505, "GET / HTTP/9.9\r\n" HOST "\r\n"),
    PROBE(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    PROBE(501, "A-METHOD-OF-MORE-THAN-32-CHARACTERS / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(501, "PRI / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "FROB / HTTP/1.1\n" HOST "\r\n"),
    PROBE(400, "FROB  / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "FROB / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n"),
    PROBE(400,
          "FROB / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    PROBE(501, "CONNECT a:80 HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "CONNECT / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "G(T / HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET a HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET * HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "OPTIONS *a HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET http:// HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET http:///a HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET http://me@a/ HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET http://a:1x/ HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /a#b HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /a b HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /\"a HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /\001 HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /\0 HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /\377 HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /\177 HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /%zz HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /% HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /%2 HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /a%00b HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /a%2fb HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /a%5Cb HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /.. HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /../x HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /%2e%2E/x HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET /a/../../x HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(400, "GET http://a/../x HTTP/1.1\r\n" HOST "\r\n"),
};

static const probe bad_fields[] = {
    PROBE(400, GET "\r\n"),
    PROBE(400, GET "X: y\r\n\r\n"),
    PROBE(400, GET HOST HOST "\r\n"),
    PROBE(400, GET HOST "Host: b\r\n\r\n"),
    PROBE(400, GET "Host: a, b\r\n\r\n"),
    PROBE(400, GET "Host:\r\n\r\n"),
    PROBE(400, GET "Host: a b\r\n\r\n"),
    PROBE(400, GET "Host: a/b\r\n\r\n"),
    PROBE(400, GET "Host: me@a\r\n\r\n"),
    PROBE(400, GET "Host: a:x\r\n\r\n"),
    PROBE(400, GET "Host: a:99999\r\n\r\n"),
    PROBE(400, GET "Host: [::1\r\n\r\n"),
    PROBE(400, GET "Host: [x]\r\n\r\n"),
    PROBE(400, GET "Host: a\\b\r\n\r\n"),
    PROBE(400, "GET http://a/ HTTP/1.1\r\n\r\n"),
    PROBE(400, GET "Host : a\r\n\r\n"),
    PROBE(400, GET "Host\t: a\r\n\r\n"),
    PROBE(400, GET " Host: a\r\n\r\n"),
    PROBE(400, GET "\tX: a\r\n" HOST "\r\n"),
    PROBE(400, GET HOST "X: a\r\n b\r\n\r\n"),
    PROBE(400, GET HOST "X: a\r\n\tb\r\n\r\n"),
    PROBE(400, GET HOST "X:\r\n b\r\n\r\n"),
    PROBE(400, GET HOST "X\r\n\r\n"),
    PROBE(400, GET HOST ": a\r\n\r\n"),
    PROBE(400, GET HOST "X y: a\r\n\r\n"),
    PROBE(400, GET HOST "X[: a\r\n\r\n"),
    PROBE(400, GET HOST "X\200: a\r\n\r\n"),
    PROBE(400, GET HOST "X: a\0b\r\n\r\n"),
    PROBE(400, GET HOST "X\0: a\r\n\r\n"),
    PROBE(400, GET HOST "X: a\rb\r\n\r\n"),
    PROBE(400, GET HOST "X: a\nY: b\r\n\r\n"),
    PROBE(400, GET HOST "X: a\r\r\n\r\n"),
    PROBE(400, GET HOST "X: a\r\n\n"),
    PROBE(400, GET HOST "X: a\n\r\n"),
    PROBE(400, GET HOST "X: a\n\n"),
    PROBE(400, GET HOST "X: \001\r\n\r\n"),
    PROBE(400, GET HOST "X: \177\r\n\r\n"),
    PROBE(400, GET HOST "X: \013a\r\n\r\n"),
    PROBE(417, POST LENGTH "5\r\nExpect: more\r\n\r\nhello"),
    PROBE(417, GET HOST "Expect: 100-continue, more\r\n\r\n"),
};

/* Messages with ambiguous framing, which another parser could split into two requests. */
static const probe bad_framings[] = {
    PROBE(400, POST LENGTH "0\r\n" LENGTH "44\r\n\r\n"),
    PROBE(400, POST LENGTH "44\r\n" LENGTH "0\r\n\r\n"),
    PROBE(400, POST LENGTH "5\r\n" LENGTH "5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "5, 5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "5,\r\n\r\nhello"),
    PROBE(400, POST LENGTH "5 5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "+5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "-5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "0x5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "5.0\r\n\r\nhello"),
    PROBE(400, POST LENGTH "\"5\"\r\n\r\nhello"),
    PROBE(400, POST LENGTH "5a\r\n\r\nhello"),
    PROBE(400, POST LENGTH "\r\n\r\n"),
    PROBE(400, POST LENGTH "five\r\n\r\nhello"),
    PROBE(400, POST LENGTH "99999999999999999999\r\n\r\n"),
    PROBE(400, POST LENGTH "18446744073709551616\r\n\r\n"),
    PROBE(400, POST "Content-Length : 5\r\n\r\nhello"),
    PROBE(400, POST "Content-Length\r\n: 5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "\r\n 5\r\n\r\nhello"),
    PROBE(400, POST LENGTH "5\r\n" ENCODING "chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked\r\n" LENGTH "5\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked\r\n" LENGTH "0\r\n\r\n0\r\n\r\n"),
    PROBE(400, "POST / HTTP/1.0\r\n" HOST ENCODING "chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "identity\r\n\r\n"),
    PROBE(400, POST ENCODING "gzip\r\n\r\n"),
    PROBE(501, POST ENCODING "gzip, chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked, gzip\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked, identity\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked, chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked\r\n" ENCODING "chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked\r\n" ENCODING "identity\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "xchunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked;a=b\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked a\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked\t\r\n\r\n0\r\n\r\n"),
    PROBE(400, "POST / HTTP/1.1\r\n" ENCODING "chunked\r\n\r\n0\r\n\r\n"),
    PROBE(417, POST ENCODING "chunked\r\nExpect: more\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "\"chunked\"\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "\013chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "chunked\0\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING ",chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "\r\n chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST ENCODING "\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST "Transfer-Encoding\r\n: chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST "\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    PROBE(400, POST "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    PROBE(411, "POST / HTTP/1.0\r\n\r\n"),
    PROBE(411, "PUT / HTTP/1.0\r\n" HOST "\r\nhello"),
};

/* Malformed bodies. The handler has been called, and its read fails. */
static const probe bad_chunks[] = {
    PROBE(400, CHUNKED "g\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "0x5\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "+5\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "-5\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED " 5\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5 \r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "\r\n5\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED ";a\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5\rhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello0\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r0\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello!\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "4\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "10000000000000000\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5,5\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5;a\0b\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5;a\rb\r\nhello\r\n0\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\n\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\n\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nX: a\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\n X: a\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nX : a\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nX\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\n: a\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nX: \0\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nContent-Length: 44\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    PROBE(400, CHUNKED "5\r\nhello\r\n0\r\nHost: b\r\n\r\n"),
    PROBE(413, POST LENGTH "9223372036854775807\r\n\r\nhello"),
};

/* Unusual, but valid. */
static const probe valid[] = {
    PROBE(200, "\r\n" GET HOST "\r\n"),
    PROBE(200, "\r\n\r\n" GET HOST "\r\n"),
    PROBE(200, "GET / HTTP/1.9\r\n" HOST "\r\n"),
    PROBE(200, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
    PROBE(200, "GET http://b/x?y HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(200, "GET http://b:80?y HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(200, "GET HTTP://b HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(200, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(200, "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n"),
    PROBE(200, "GET /a/%2e/./../b?c=/../%2f%zz HTTP/1.1\r\n" HOST "\r\n"),
    PROBE(200, GET "hOST: a.b-c.d:8080\r\n\r\n"),
    PROBE(200, GET "Host: [::1]:80\r\n\r\n"),
    PROBE(200, GET "Host:a\r\n\r\n"),
    PROBE(200, GET "Host: \t a \t \r\n\r\n"),
    PROBE(200, GET HOST "X:\r\nY: a\tb \303\244\r\n\r\n"),
    PROBE(200, POST LENGTH "00005\r\n\r\nhello"),
    PROBE(200, POST LENGTH "0\r\n\r\n"),
    PROBE(200, POST "\r\n"),
    PROBE(200, GET HOST LENGTH "5\r\n\r\nhello"),
    PROBE(200, POST ENCODING "CHUNKED\r\n\r\n05\r\nhello\r\n000\r\n\r\n"),
    PROBE(200, CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n"),
    PROBE(200, CHUNKED "5;a=\"b\"\r\nhello\r\n0;c\r\n\r\n"),
    PROBE(200, CHUNKED "5\r\nhello\r\n0\r\nX: y\r\nZ:\r\n\r\n"),
    PROBE(200, CHUNKED "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
    PROBE(200, CHUNKED "0\r\n\r\n"),
    PROBE(200, GET HOST "Connection: x, keep-alive\r\n\r\n"),
    PROBE(200, POST LENGTH "5\r\nExpect: 100-Continue\r\n\r\nhello"),
    PROBE(200, GET HOST "Expect: 100-continue\r\n\r\n"),
};

static test_client client;
static bool was_smuggled;

static int reply_after_body(weft_http_request *r, void *ctx)
{
    (void)ctx;
    char *body;
    was_smuggled |= strcmp(weft_http_path(r), "/smuggled") == 0;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, NULL, NULL, 0);
}

/* Ignore errors: the server may close the connection early. */
static void send_ignoring_errors(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = weft_send(client.fd, text, bytes, MSG_NOSIGNAL);
        if (n < 0)
            return;
        text += n;
        bytes -= (size_t)n;
    }
}

/* Send the request that the handler may see only after a valid probe. */
static void send_next(void)
{
    send_ignoring_errors(NEXT, sizeof NEXT - 1);
}

/* Reply without reading the body. */
static int reply_without_body(weft_http_request *r, void *ctx)
{
    (void)ctx;
    was_smuggled |= strcmp(weft_http_path(r), "/smuggled") == 0;
    (void)weft_http_reply(r, 200, NULL, NULL, 0);
    return 0;
}

static void open_with_handler(weft_http_handler *handler)
{
    was_smuggled = false;
    client_open(&client, handler, NULL, NULL);
}

static void open_with_body_reader(void)
{
    open_with_handler(reply_after_body);
}

/* Assert one response with the status of p, and that the server closes the connection. */
static void expect_refusal(const probe *p, const char *how)
{
    client_receive_all(&client);
    const char *response = client.received;
    if (strncmp(response, "HTTP/1.1 100 ", 13) == 0)
        response = body_of(response);
    ck_assert_msg(strncmp(response, "HTTP/1.1 ", 9) == 0 && status_of(response) == p->status,
                  "%s, %s: expected %d, received %s", p->text, how, p->status, client.received);
    ck_assert_msg(count_in(response, "HTTP/1.1 ") == 1, "%s, %s: more than one response", p->text,
                  how);
    ck_assert_msg(strstr(response, "\r\nConnection: close\r\n") != NULL, "%s, %s", p->text, how);
    ck_assert_msg(!was_smuggled, "%s, %s: smuggled", p->text, how);
    client_close(&client);
}

static void try_at_once(const probe *p, weft_http_handler *handler)
{
    char text[1024];
    open_with_handler(handler);
    memcpy(text, p->text, p->bytes);
    memcpy(text + p->bytes, NEXT, sizeof NEXT);
    send_ignoring_errors(text, p->bytes + sizeof NEXT - 1);
    expect_refusal(p, "at once");
}

static void try_split(const probe *p, size_t at)
{
    open_with_body_reader();
    send_ignoring_errors(p->text, at);
    let_run();
    send_ignoring_errors(p->text + at, p->bytes - at);
    send_next();
    expect_refusal(p, "in two parts");
}

static void try_by_bytes(const probe *p)
{
    open_with_body_reader();
    for (size_t i = 0; i < p->bytes; i++) {
        send_ignoring_errors(p->text + i, 1);
        let_run();
    }
    send_next();
    expect_refusal(p, "byte by byte");
}

#define SPLITS 6

static void assert_refused(const probe *probes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        try_at_once(&probes[i], reply_after_body);
        try_by_bytes(&probes[i]);
        for (size_t j = 1; j <= SPLITS; j++)
            try_split(&probes[i], probes[i].bytes * j / (SPLITS + 1));
        try_split(&probes[i], probes[i].bytes - 1);
    }
    assert_nothing_pending();
}

TEST(malformed_request_lines_are_refused)
{
    assert_refused(bad_lines, COUNT_OF(bad_lines));
}

TEST(malformed_headers_are_refused)
{
    assert_refused(bad_fields, COUNT_OF(bad_fields));
}

TEST(ambiguous_lengths_are_refused)
{
    assert_refused(bad_framings, COUNT_OF(bad_framings));
}

TEST(malformed_chunks_are_refused)
{
    assert_refused(bad_chunks, COUNT_OF(bad_chunks));
}

TEST(malformed_chunks_are_refused_even_if_the_handler_does_not_read_them)
{
    for (size_t i = 0; i < COUNT_OF(bad_chunks); i++)
        if (bad_chunks[i].status == 400) {
            try_at_once(&bad_chunks[i], reply_without_body);
        }
    assert_nothing_pending();
}

/* Assert that the probe and the next request succeed on one connection. */
static void accept_probe(const probe *p, bool is_by_bytes)
{
    open_with_body_reader();
    for (size_t i = 0; i < p->bytes; i += is_by_bytes ? 1 : p->bytes) {
        send_ignoring_errors(p->text + i, is_by_bytes ? 1 : p->bytes);
        let_run();
    }
    send_next();
    while (count_in(client.received, "HTTP/1.1 200 OK\r\n") < 2)
        ck_assert_msg(client_receive_some(&client) > 0, "%s: %s", p->text, client.received);
    ck_assert(was_smuggled);
    ck_assert_int_eq(client_close(&client), 0);
}

TEST(unusual_but_valid_requests_get_a_reply)
{
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        accept_probe(&valid[i], false);
        accept_probe(&valid[i], true);
    }
    assert_nothing_pending();
}
