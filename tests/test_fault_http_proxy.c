/*
 * The n-th call fails, as in test_fault.c, while the reverse proxy passes requests on: each reply
 * is what it should be, or tells of a failure, or the connection ends; nothing is left behind.
 */
#include "fault_web.h"

#include <sys/socket.h>

#define HOST "Host: a\r\nConnection: close\r\n"

static int pair[2];
static weft_http_proxy *proxy;

static weft_value serve(void *arg)
{
    (void)arg;
    (void)weft_http_serve_conn(pair[1], weft_http_serve_proxy, proxy, NULL);
    return 0;
}

/* All that is heard until the other side hangs up; we do so behind it. */
static void converse(const char *said, char *heard, size_t room)
{
    size_t bytes = 0;
    ssize_t n = 0;
    WITHOUT_FAULTS(REQUIRE(weft_socketpair(pair) == 0));
    weft_fiber f = require_made(weft_spin(serve, NULL));
    if (f == 0) {
        weft_close(pair[1]);
    } else if (REQUIRE_FELT(weft_write_all(pair[0], said, strlen(said)))) {
        while (bytes + 1 < room && (n = weft_read(pair[0], heard + bytes, room - 1 - bytes)) > 0)
            bytes += (size_t)n;
        REQUIRE(n == 0 || fault_is_felt(n));
    }
    weft_close(pair[0]);
    if (f != 0)
        REQUIRE(weft_await(f) == 0);
    heard[bytes] = '\0';
}

/* The answer, or a failure that a client can see: no half answer. */
static bool pass(const char *said, const char *expected)
{
    char heard[4096];
    converse(said, heard, sizeof heard);
    if (strstr(heard, expected) != NULL)
        return true;
    REQUIRE(atomic_load(&fault.struck) > 0);
    bool is_failure = strncmp(heard, "HTTP/1.1 50", 11) == 0;
    bool is_cut = strstr(heard, "\r\n0\r\n") == NULL;
    REQUIRE(is_failure || is_cut);
    return false;
}

static bool passing(void)
{
    char upstream[64];
    if (!become_a_cord())
        return false;
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", fault_web.port);
    proxy = weft_http_proxy_new(upstream, NULL);
    if (proxy == NULL) {
        REQUIRE(atomic_load(&fault.struck) > 0);
        weft_error_clear();
        return false;
    }
    static const char whole[] = "\r\n5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n";
    bool is_done = pass("GET / HTTP/1.1\r\n" HOST "\r\n", whole);
    is_done &= pass("POST / HTTP/1.1\r\n" HOST "Content-Length: 7\r\n\r\nthe end", whole);
    is_done &= pass("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                    "4\r\nsome\r\n0\r\n\r\n",
                    whole);
    is_done &=
        pass("GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: hello\r\n\r\n",
             "\r\n\r\nhello");
    REQUIRE(weft_http_proxy_free(proxy) == 0);
    weft_error_clear();
    return is_done;
}

START_TEST(a_request_that_could_not_be_passed_on_leaves_nothing_and_the_next_succeeds)
{
    start_web(&fault_web);
    strike_some_calls(passing, 1);
    stop_web(&fault_web);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_request_that_could_not_be_passed_on_leaves_nothing_and_the_next_succeeds,
    };
    return run_suite("fault_http_proxy", tests, COUNT_OF(tests));
}
