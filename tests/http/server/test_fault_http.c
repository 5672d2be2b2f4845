/*
 * The HTTP server with faults: the n-th call fails, as in test_fault.c. Each response is correct,
 * or has the status of a failure, or is visibly truncated. Nothing is leaked.
 */
#include "http/fault_conn.h"
#include "support/suite.h"

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"

/* Requests on one connection, and texts that the responses contain. */
typedef struct exchange {
    const char *requests;
    const char *expected[8]; /* in this order, NULL at the end */
} exchange;

static const weft_http_options options = {
    .gzip_level = 1, .trusted_peers = "unix, 10.0.0.0/8", .server_name = "weft"};

/* The request has all these fields. A missing one has an error, or memory is exhausted. */
static int reply_form(weft_http_request *r)
{
    int error = 0;
    const char *a = weft_http_form(r, "a", &error);
    REQUIRE(a != NULL || (fault_explains(error) && weft_error()->code == error));
    if (a == NULL)
        return error;
    const char *q = weft_http_query_param(r, "q");
    if (!require_object(q))
        return -ENOMEM;
    const char *c = weft_http_cookie(r, "c");
    if (!require_object(c) || !require_object(weft_http_alloc(r, 100000)))
        return -ENOMEM;
    return weft_http_reply_text(r, 200, "form %s %s %s from %s", a, q, c, weft_http_peer(r));
}

/* Ignore the results of all calls. The long head requires memory. */
static int reply_unchecked(weft_http_request *r)
{
    char text[6000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)weft_http_set(r, "X-Long", text);
    switch (weft_http_query(r)[0]) {
    case 'a': /* known length */
        (void)weft_http_begin(r, 200, 8);
        (void)weft_http_write(r, "careless", 8);
        break;
    case 'b': /* unknown length */
        (void)weft_http_write(r, "careless", 8);
        break;
    case 'c': /* chunked */
        (void)weft_http_write(r, "careless", 8);
        (void)weft_http_flush(r);
        (void)weft_http_write(r, text, 5000);
        (void)weft_http_write(r, text, 5000);
        (void)weft_http_write(r, "careless", 8);
        break;
    default:
        (void)weft_http_reply(r, 200, NULL, "careless", 8);
    }
    return 0;
}

static int handle_request(weft_http_request *r, void *ctx)
{
    char *body;
    const char *path = weft_http_path(r);
    if (strcmp(path, "/form") == 0)
        return reply_form(r);
    if (strcmp(path, "/pieces") == 0)
        return reply_in_pieces(r);
    if (strcmp(path, "/careless") == 0)
        return reply_unchecked(r);
    if (strcmp(path, "/echo") == 0)
        return echo_line(r);
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, "text/plain", body, (size_t)n);
}

/* Return whether a client would consider the response complete. */
static bool is_response_complete(const char *response)
{
    const char *body = strstr(response, "\r\n\r\n");
    const char *length = strstr(response, "Content-Length: ");
    if (body == NULL)
        return false;
    if (length != NULL && length < body)
        return strlen(body + 4) >= strtoul(length + 16, NULL, 10);
    return strstr(body, "\r\n0\r\n") != NULL;
}

/* Require the status of a failure, a truncated response, or no response. */
static void require_failure(const char *response)
{
    int code = 0;
    REQUIRE(atomic_load(&fault.injected) > 0);
    if (sscanf(response, "HTTP/1.1 %d ", &code) == 1)
        REQUIRE(code == 500 || code == 503 || code == 101 ||
                (code == 200 && !is_response_complete(response)));
    else
        REQUIRE(strstr(response, "HTTP/1.1 ") == NULL);
}

static const char *exchange_requests(const char *requests)
{
    fault_conn.handler = handle_request;
    fault_conn.options = &options;
    return fault_exchange(requests);
}

static bool run_exchange(const exchange *c)
{
    const char *received = exchange_requests(c->requests);
    const char *at = received, *response = received;
    bool is_done = true;
    for (size_t i = 0; c->expected[i] != NULL && is_done; i++) {
        const char *found = strstr(at, c->expected[i]);
        bool is_new = strncmp(c->expected[i], "HTTP", 4) == 0;
        is_done = found != NULL;
        response = !is_new ? response : is_done ? found : at;
        at = is_done ? found + strlen(c->expected[i]) : at;
    }
    if (!is_done)
        require_failure(response);
    return is_done;
}

static bool run_exchanges(const exchange *all, size_t count)
{
    bool is_done = true;
    for (size_t i = 0; i < count; i++)
        is_done &= run_exchange(&all[i]);
    return is_done;
}

TEST_FAULTS(requests_get_a_reply_or_fail)
{
    static const exchange all[] = {
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello",
         {"HTTP/1.1 200", "\r\n\r\nhello"}},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
         {"HTTP/1.1 200", "\r\n\r\nabc"}},
        {"GET /../ HTTP/1.1\r\n" HOST "\r\n", {"HTTP/1.1 400"}},
        {"GET / HTTP/1.1\r\n\r\n", {"HTTP/1.1 400"}},
    };
    return run_exchanges(all, COUNT_OF(all));
}

/* Return the number of the first response that contains text, from 1. 0: none. */
static size_t response_with(const char *received, const char *text)
{
    size_t n = 0;
    const char *found = strstr(received, text), *at = received;
    while (found != NULL && (at = strstr(at, "HTTP/1.1 ")) != NULL && at < found) {
        n++;
        at++;
    }
    return n;
}

/* After a failed request the other requests get replies, or the connection ends. */
TEST_FAULTS(pipelined_requests_get_replies_in_order_or_fail)
{
    const char *received =
        exchange_requests("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                          "GET / HTTP/1.1\r\n" HOST "\r\nGET /pieces HTTP/1.1\r\n" HOST "\r\n");
    size_t good = count_in(received, "HTTP/1.1 200 "), all = count_in(received, "HTTP/1.1 ");
    REQUIRE(all <= 3 && (good == 3 || atomic_load(&fault.injected) > 0));
    REQUIRE(all ==
            good + count_in(received, "HTTP/1.1 500 ") + count_in(received, "HTTP/1.1 503 "));
    size_t first = response_with(received, "\r\n\r\nhello"),
           last = response_with(received, "X-Long");
    REQUIRE(first <= 1 && (last == 0 || last == 3)); /* no reply is skipped */
    return good == 3 && strstr(received, "X-End: yes\r\n\r\n") != NULL;
}

TEST_FAULTS(fields_of_a_request_are_read_or_it_fails)
{
    return run_exchange(&(const exchange){
        "POST /form?q=1 HTTP/1.1\r\n" HOST "Cookie: c=2\r\nX-Forwarded-For: 192.0.2.1\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
        {"HTTP/1.1 200", "form b 1 2 from "}});
}

TEST_FAULTS(a_streamed_reply_is_complete_or_visibly_truncated)
{
    return run_exchange(&(const exchange){
        "GET /pieces HTTP/1.1\r\n" HOST "\r\n",
        {"HTTP/1.1 200", "piece 0", "piece 1", "piece 2", "\r\n0\r\nX-End: yes\r\n\r\n"}});
}

TEST_FAULTS(a_reply_with_unchecked_errors_is_complete_or_visibly_truncated)
{
    static const exchange all[] = {
        {"GET /careless HTTP/1.1\r\n" HOST "\r\n" GET,
         {"HTTP/1.1 200", "\r\n\r\ncareless", "HTTP/1.1 200"}},
        {"GET /careless?a HTTP/1.1\r\n" HOST "\r\n" GET,
         {"HTTP/1.1 200", "\r\n\r\ncareless", "HTTP/1.1 200"}},
        {"GET /careless?b HTTP/1.1\r\n" HOST "\r\n" GET,
         {"HTTP/1.1 200", "\r\n\r\ncareless", "HTTP/1.1 200"}},
        {"GET /careless?c HTTP/1.1\r\n" HOST "\r\n" GET,
         {"HTTP/1.1 200", "\r\ncareless", "careless\r\n0\r\n\r\n", "HTTP/1.1 200"}},
    };
    return run_exchanges(all, COUNT_OF(all));
}

TEST_FAULTS(a_reply_is_compressed_or_fails)
{
    static char text[4096];
    int n =
        snprintf(text, sizeof text,
                 "POST / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\nContent-Length: 3000\r\n\r\n"
                 "%03000d",
                 0);
    REQUIRE(n > 3000);
    return run_exchange(&(const exchange){text, {"HTTP/1.1 200", "Content-Encoding: gzip\r\n"}});
}

TEST_FAULTS(an_upgrade_succeeds_or_the_connection_ends)
{
    return run_exchange(&(const exchange){"GET /echo HTTP/1.1\r\n" HOST
                                          "Connection: upgrade\r\nUpgrade: echo\r\n\r\nhello\n",
                                          {"HTTP/1.1 101", "<hello>"}});
}

TEST_FAULTS(a_router_is_created_or_an_error_is_recorded)
{
    weft_http_router *router = weft_http_router_new();
    bool is_done = require_object(router);
    weft_http_router_free(router);
    return is_done;
}
