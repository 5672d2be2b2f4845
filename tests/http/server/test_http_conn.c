/*
 * The lifetime of a server connection: pipelined requests, unread bodies, clients that half-close,
 * disconnect or keep sending, cancellation at every stage, and the log.
 */
#include "http/http_support.h"
#include "support/suite.h"

#include <malloc.h>

FIXTURE(NULL, end_test)

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define NEXT "GET /next HTTP/1.1\r\n" HOST "\r\n"

/* Reply with the path, by default. /large has a long reply. /read reads the request's body. */
#define LARGE ((size_t)1 << 20)
static char large[LARGE];

static int read_body(weft_http_request *r)
{
    char piece[100];
    ssize_t n;
    size_t total = 0;
    while ((n = weft_http_read(r, piece, sizeof piece)) > 0)
        total += (size_t)n;
    mark(n < 0 ? "broken " : "read ");
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "read %zu", total);
}

static int handle_path(weft_http_request *r, void *ctx)
{
    const char *path = weft_http_path(r);
    if (strncmp(path, "/read", 5) == 0)
        return read_body(r);
    memset(large, 'x', sizeof large);
    if (strcmp(path, "/large") == 0)
        return weft_http_reply(r, 200, NULL, large, LARGE);
    if (strcmp(path, "/stuck") == 0)
        return weft_sleep(INFINITY);
    return weft_http_reply_text(r, 200, "[%s]", path);
}

TEST(a_request_with_an_incomplete_head_gets_no_reply)
{
    static const char whole[] = GET;
    for (size_t bytes = 0; bytes < sizeof whole - 1; bytes++) {
        client_open(&client, handle_path, NULL, NULL);
        client_send_bytes(&client, whole, bytes);
        weft_shutdown(client.fd, SHUT_WR);
        ck_assert_str_eq(client_receive_all(&client), "");
        ck_assert_int_eq(client_close(&client), bytes == 0 ? 0 : -ECONNRESET);
    }
}

static void assert_broken_body(const char *request)
{
    trail[0] = '\0';
    ck_assert_str_eq(exchange(handle_path, request), "");
    ck_assert_trail("broken ");
}

#define POST_READ "POST /read HTTP/1.1\r\n" HOST
#define POST_CHUNKED POST_READ "Transfer-Encoding: chunked\r\n\r\n"

TEST(a_request_with_an_incomplete_body_fails_in_the_handler)
{
    EACH_TEXT(assert_broken_body, POST_READ "Content-Length: 6\r\n\r\nhello",
              POST_READ "Content-Length: 6\r\n\r\n", POST_CHUNKED, POST_CHUNKED "5\r\nhello",
              POST_CHUNKED "5\r\nhello\r\n", POST_CHUNKED "5\r\nhello\r\n0\r\n",
              POST_CHUNKED "5\r\nhello\r\n0\r\n\r");
}

/* The argument of a fiber that sends text repeatedly until the connection fails. */
typedef struct send_args {
    int fd;
    const char *text;
    size_t bytes, times;
} send_args;

static weft_value send_repeatedly(void *arg)
{
    const send_args *s = arg;
    for (size_t i = 0; i < s->times; i++) {
        for (size_t sent = 0; sent < s->bytes;) {
            ssize_t n = weft_send(s->fd, s->text + sent, s->bytes - sent, MSG_NOSIGNAL);
            if (n < 0)
                return 0;
            sent += (size_t)n;
        }
    }
    return 0;
}

TEST(many_pipelined_requests_get_replies_in_order)
{
    enum { REQUESTS = 300 };
    static char requests[REQUESTS * 64];
    char expected[32], *at = client.received;
    size_t bytes = 0;
    for (int i = 0; i < REQUESTS; i++)
        bytes += (size_t)sprintf(requests + bytes, "GET /%d HTTP/1.1\r\n" HOST "\r\n", i);
    client_open(&client, handle_path, NULL, NULL);
    send_args s = {client.fd, requests, bytes, 1};
    weft_fiber f = weft_spin(send_repeatedly, &s);
    sprintf(expected, "[/%d]", REQUESTS - 1);
    client_expect(&client, expected);
    for (int i = 0; i < REQUESTS; i++) {
        ck_assert_int_eq(status_of(at), 200);
        sprintf(expected, "\r\n\r\n[/%d]", i);
        at = strstr(at, "\r\n\r\n");
        ck_assert_int_eq(strncmp(at, expected, strlen(expected)), 0);
        at += strlen(expected);
    }
    ck_assert_str_eq(at, "");
    ck_assert_int_eq(weft_await(f), 0);
}

/* Read until the server closes. Return the number of bytes. The last ones stay in received. */
static size_t receive_to_end(void)
{
    size_t total = client.received_bytes;
    ssize_t n;
    client.received_bytes = 0;
    while ((n = client_receive_some(&client)) > 0) {
        total += (size_t)n;
        if (client.received_bytes > sizeof client.received / 2) {
            size_t tail_bytes = 1024;
            memmove(client.received, client.received + client.received_bytes - tail_bytes,
                    tail_bytes + 1);
            client.received_bytes = tail_bytes;
        }
    }
    return total;
}

TEST(a_client_may_send_requests_while_a_large_reply_is_pending)
{
    start_client(handle_path, NULL, NULL, "GET /large HTTP/1.1\r\n" HOST "\r\n");
    send_args s = {client.fd, NEXT, sizeof NEXT - 1, 100};
    weft_fiber f = weft_spin(send_repeatedly, &s);
    let_run();
    client_expect(&client, "HTTP/1.1 200 OK");
    ck_assert_int_eq(weft_await(f), 0);
    client_send(&client, "GET /last HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    ck_assert_uint_gt(receive_to_end(), LARGE);
    ck_assert_has(client.received, "[/last]");
}

TEST(a_small_unread_body_is_skipped)
{
    start_client(handle_path, NULL, NULL,
                 "POST /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                 "POST /b HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                 "5\r\nhello\r\n0\r\nX: y\r\n\r\n" NEXT "POST /c HTTP/1.1\r\n" HOST
                 "Content-Length: 5\r\n\r\nhe");
    client_expect(&client, "[/c]"); /* before the body has arrived */
    client_send(&client, "llo" NEXT);
    expect_times("[/next]", 2);
    ck_assert_lacks(client.received, "Connection: close");
}

/* Send a body that is too large to skip. The reply must arrive while the client still sends. */
static void expect_reply_while_sending(const char *head, size_t body_bytes)
{
    start_client(handle_path, NULL, NULL, head);
    send_args s = {client.fd, large, 4096, body_bytes / 4096};
    weft_fiber f = weft_spin(send_repeatedly, &s);
    expect_status(200);
    ck_assert_str_eq(body_of(client.received), "[/]");
    (void)weft_stop(f, 0); /* the fiber may still send */
    client_close(&client);
}

TEST(a_large_unread_body_ends_the_connection_after_the_reply)
{
    expect_reply_while_sending("POST / HTTP/1.1\r\n" HOST "Content-Length: 500000\r\n\r\n", 499712);
    expect_reply_while_sending("POST / HTTP/1.1\r\n" HOST "Content-Length: 900000000000\r\n\r\n",
                               LARGE * 4);
    expect_reply_while_sending(
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", LARGE);
}

/* Return the bytes that malloc has allocated. */
static size_t allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static int read_body_at_once(weft_http_request *r, void *ctx)
{
    size_t before = allocated_bytes(), *used_bytes = ctx;
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    ck_assert_int_eq(body[n], '\0');
    *used_bytes = allocated_bytes() - before;
    return weft_http_reply_text(r, 200, "%zd %c%c", n, body[0], body[n - 1]);
}

#define WHOLE_BYTES ((size_t)1 << 20)

TEST(read_all_allocates_little_more_than_the_length_of_the_body)
{
    static char chunk[4096];
    memset(chunk, 'a', sizeof chunk);
    for (int is_chunked = 0; is_chunked <= 1; is_chunked++) {
        size_t used_bytes;
        start_client(read_body_at_once, &used_bytes, NULL,
                     is_chunked ? "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                                : "POST / HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n");
        for (size_t i = is_chunked; i < WHOLE_BYTES / sizeof chunk; i++) {
            client_send(&client, is_chunked ? "1000\r\n" : "");
            client_send_bytes(&client, chunk, sizeof chunk);
            client_send(&client, is_chunked ? "\r\n" : "");
        }
        client_send(&client, is_chunked ? "0\r\n\r\n" : "");
        client_expect(&client, is_chunked ? "1044480 aa" : "1048576 aa");
        ck_assert_uint_lt(used_bytes, WHOLE_BYTES + (128 << 10)); /* the body and the read buffer */
    }
}

#define EXPECTING(path) \
    "POST " path " HTTP/1.1\r\n" HOST "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"

TEST(a_100_continue_is_sent_only_if_the_handler_reads_the_body)
{
    start_client(handle_path, NULL, NULL, EXPECTING("/")); /* without the body */
    expect_status(200);
    ck_assert_has(client.received, "Connection: close");
    /* With the body, which must not be parsed as a request. */
    start_client(handle_path, NULL, NULL, EXPECTING("/") "hello" NEXT);
    client_receive_all(&client);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1"), 1);
    /* With the body, which the handler reads. */
    start_client(handle_path, NULL, NULL, EXPECTING("/read") "hello" NEXT);
    client_expect(&client, "[/next]");
    ck_assert_has(client.received, "read 5");
}

TEST(in_http_1_0_a_connection_is_reused_only_after_keep_alive)
{
    start_client(handle_path, NULL, NULL, "GET / HTTP/1.0\r\n\r\n" NEXT);
    client_receive_all(&client);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1"), 1);
    start_client(handle_path, NULL, NULL, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" NEXT);
    client_expect(&client, "[/next]");
    ck_assert_uint_eq(count_in(client.received, "Connection: keep-alive"), 1);
}

/* Stages of a connection. Each is reached after the client has sent this text. */
static const char *const stages[] = {
    "",
    "GET / HT",
    GET,
    "GET /stuck HTTP/1.1\r\n" HOST "\r\n",
    POST_READ "Content-Length: 9\r\n\r\nhello",
    POST_READ "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    POST_CHUNKED "5\r\nhel",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhello",
    "GET /large HTTP/1.1\r\n" HOST "\r\n",
    "GET /large HTTP/1.1\r\n" HOST "\r\n" GET GET,
    "BAD\r\n\r\n",
};

TEST(a_connection_that_is_cancelled_or_closed_at_any_stage_leaves_nothing_open)
{
    warm_up();
    for (size_t i = 0; i < 2 * COUNT_OF(stages); i++) {
        bool is_cancelled = i % 2 == 0;
        if (!is_cancelled && strstr(stages[i / 2], "/stuck") != NULL)
            continue; /* this handler does not use the connection */
        size_t open = count_descriptors();
        start_client(handle_path, NULL, NULL, stages[i / 2]);
        let_run();
        ck_assert_int_eq(weft_state_of(client.fiber), WEFT_WAITING);
        weft_fiber server = client.fiber;
        if (is_cancelled)
            ck_assert_int_eq(weft_cancel(server), 0);
        else
            drop_client();
        (void)weft_await(server);
        if (is_cancelled)
            receive_to_end();
        drop_client();
        assert_nothing_pending();
        ck_assert_uint_eq(count_descriptors(), open);
    }
}

/* All log records as text. */
static char logged[1024];

static void log_record(const weft_http_record *record, void *ctx)
{
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s %s %s %s %d %d %d%s%s;", record->peer,
             record->method, record->target, record->user_agent, record->version, record->status,
             (int)record->bytes, record->reason[0] != '\0' ? " " : "", record->reason);
}

static const weft_http_options logging = {.log = log_record};

static void assert_logged(const char *request, const char *line)
{
    logged[0] = '\0';
    client_exchange(&client, handle_path, NULL, &logging, request);
    ck_assert_str_eq(logged, line);
}

TEST(each_request_is_logged)
{
    assert_logged(
        "GET /a?b HTTP/1.1\r\n" HOST "User-Agent: me\r\n\r\n"
        "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /.. HTTP/1.1\r\n" HOST "\r\n",
        "unix GET /a?b me 11 200 4;unix HEAD /  10 200 0;unix GET /..  11 400 16 a path with "
        "an invalid character or above the root;");
}

TEST(a_refused_request_is_logged_with_its_reason)
{
    EACH_PAIR(
        assert_logged,
        "GET /a?b HTTP/1.1\r\n\r\n -> unix GET /a?b  11 400 16 a missing Host header;",
        "GET /a HTTP/1.1\r\n" HOST
        "Host: b\r\n\r\n -> unix GET /a  11 400 16 several Host headers;",
        "GET /a HTTP/1.1\r\n" HOST "a b: c\r\n\r\n -> unix GET /a  11 400 16 a malformed header;",
        "POST /a HTTP/1.1\r\n" HOST
        "Content-Length: x\r\n\r\n -> unix POST /a  11 400 16 a malformed header;",
        "POST /a HTTP/1.0\r\n\r\n -> unix POST /a  10 411 20 a body without Content-Length;",
        "GET /< HTTP/1.1\r\n" HOST "\r\n -> unix GET /<  0 400 16 a malformed request line;",
        "GET /a HTTP/3.0\r\n -> unix GET /a  0 505 31 an HTTP version other than 1;",
        "PRI /a HTTP/1.1\r\n\r\n -> unix PRI /a  0 501 20 the HTTP/2 method PRI;",
        "\r\nG(T /a HTTP/1.1\r\n -> unix G(T /a  0 400 16 a malformed request line;",
        "GE\001 -> unix GE   0 400 16 a control character in the request line;",
        "\026\003\001 -> unix    0 400 16 a control character in the request line;",
        "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n -> unix CONNECT a:1  11 501 20 the CONNECT method;");
}

TEST(long_targets_and_late_headers_are_logged)
{
    const weft_http_options o = {.log = log_record,
                                 .limits = {.line_bytes_max = 12, .head_s = 0.02}};
    logged[0] = '\0';
    client_exchange(&client, handle_path, NULL, &o,
                    "GET /0123456789012345678901234567890123456789");
    ck_assert_has(logged, "unix GET /012345678", "  0 414 17 a request line that is too long;");
    logged[0] = '\0';
    start_client(handle_path, NULL, &o, "GET /a");
    client_receive_all(&client);
    client_close(&client);
    ck_assert_str_eq(logged, "unix GET /a  0 408 20 headers arrived too slowly;");
}

static int reply_method(weft_http_request *r, void *ctx)
{
    const char *method = weft_http_method(r);
    return strcmp(method, "FOO") == 0 ? weft_http_reply_text(r, 200, "[%s]", method)
                                      : weft_http_reply_status(r, 501);
}

TEST(an_unknown_method_reaches_the_handler)
{
    exchange(reply_method, "FOO / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
                           "foo / HTTP/1.1\r\n" HOST "\r\n"
                           "PURGE / HTTP/1.1\r\n" HOST "\r\n"
                           "FOO / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    ck_assert_uint_eq(count_in(client.received, "\r\n\r\n[FOO]"), 2);
    ck_assert_uint_eq(count_in(client.received, "HTTP/1.1 501 "), 2);
    ck_assert_uint_eq(count_in(client.received, "Connection: close"), 1);
}
