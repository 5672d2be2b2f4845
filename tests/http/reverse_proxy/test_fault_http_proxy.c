/*
 * The reverse proxy with faults: the n-th call fails, as in test_fault.c. Each response is correct,
 * or has the status of a failure, or is visibly truncated. Nothing is leaked.
 */
#include "http/fault_web.h"
#include "support/suite.h"

#include <weft/web.h>

#include <sys/socket.h>

#define HOST "Host: a\r\nConnection: close\r\n"

static int pair[2];
static weft_http_proxy *proxy;

static weft_value serve_proxy(void *arg)
{
    (void)arg;
    (void)weft_http_serve_conn(pair[1], weft_http_serve_proxy, proxy, NULL);
    return 0;
}

/* Send a request and read until the server closes the connection. */
static void exchange_bytes(const char *request, char *received, size_t room)
{
    size_t bytes = 0;
    ssize_t n = 0;
    WITHOUT_FAULTS(REQUIRE(weft_socketpair(pair) == 0));
    weft_fiber f = require_created(weft_spin(serve_proxy, NULL));
    if (f == 0) {
        weft_close(pair[1]);
    } else if (REQUIRE_OR_PEER_FAULT(weft_write_all(pair[0], request, strlen(request)))) {
        while (bytes + 1 < room && (n = weft_read(pair[0], received + bytes, room - 1 - bytes)) > 0)
            bytes += (size_t)n;
        REQUIRE(n == 0 || fault_explains_at_peer(n));
    }
    weft_close(pair[0]);
    if (f != 0)
        REQUIRE(weft_await(f) == 0);
    received[bytes] = '\0';
}

/* Require the expected response, the status of a failure, or a visibly truncated response. */
static bool forward_request(const char *request, const char *expected)
{
    char received[4096];
    exchange_bytes(request, received, sizeof received);
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
    char upstream[64];
    if (!become_a_cord())
        return false;
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", canned.port);
    proxy = weft_http_proxy_new(upstream, NULL);
    if (proxy == NULL) {
        REQUIRE(atomic_load(&fault.injected) > 0);
        weft_error_clear();
        return false;
    }
    static const char complete[] = "\r\n5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n";
    bool is_done = forward_request("GET / HTTP/1.1\r\n" HOST "\r\n", complete);
    is_done &=
        forward_request("POST / HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\nthe end", complete);
    is_done &= forward_request("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
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
