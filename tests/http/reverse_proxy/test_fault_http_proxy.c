/*
 * The reverse proxy with faults: the n-th call fails, as in test_fault.c. Each response is correct,
 * or has the status of a failure, or is visibly truncated. Nothing is leaked.
 */
#include "http/fault_conn.h"
#include "http/fault_web.h"
#include "support/suite.h"

#define HOST "Host: a\r\nConnection: close\r\n"

/* Require the expected response, the status of a failure, or a visibly truncated response. */
static bool forward_request(const char *request, const char *expected)
{
    const char *received = fault_exchange(request);
    if (strstr(received, expected) != NULL)
        return true;
    REQUIRE(atomic_load(&fault.injected) > 0);
    bool is_failure = strncmp(received, "HTTP/1.1 50", 11) == 0;
    bool is_cut = strstr(received, "\r\n0\r\n") == NULL;
    REQUIRE(is_failure || is_cut);
    return false;
}

static bool forward_requests(void)
{
    if (!become_a_cord())
        return false;
    static const weft_http_proxy_options options = {.prefix = "/", .upgrades = "hello"};
    weft_http_proxy *proxy =
        weft_http_proxy_new(format("http://127.0.0.1:%d/", canned.port), &options);
    if (proxy == NULL) {
        REQUIRE(atomic_load(&fault.injected) > 0);
        weft_error_clear();
        return false;
    }
    fault_conn.handler = weft_http_serve_proxy;
    fault_conn.ctx = proxy;
    fault_conn.is_open = true;
    static const char complete[] = "\r\n5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n";
    bool is_done = forward_request("GET / HTTP/1.1\r\n" HOST "\r\n", complete);
    is_done &=
        forward_request("POST / HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\nthe end", complete);
    is_done &= forward_request("POST /./ HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                               "4\r\nsome\r\n0\r\n\r\n",
                               complete);
    is_done &= forward_request(
        "GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: hello\r\n\r\n",
        "\r\n\r\nhello");
    REQUIRE(weft_http_proxy_free(proxy) == 0);
    weft_error_clear();
    return is_done;
}

TEST(a_request_that_cannot_be_forwarded_leaks_nothing_and_the_next_succeeds)
{
    start_canned_server(&canned);
    fail_some_calls(forward_requests, 1);
    stop_canned_server(&canned);
}
