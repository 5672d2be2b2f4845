/*
 * Fault tests of connections without a fiber: the n-th call fails. A connection rests, or keeps its
 * fiber, or is closed. Nothing is left of it.
 */
#include "http/rest/rest.h"
#include "support/fault.h"
#include "support/suite.h"

#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define GET "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

static int serve_hello(weft_http_request *r, void *ctx)
{
    (void)weft_http_reply(r, 200, "text/plain", "hello", 5);
    return 0;
}

typedef struct rest_server {
    int listener;
    struct sockaddr_in address;
    int result;
} rest_server;

static weft_value run_server(void *arg)
{
    rest_server *own = arg;
    own->result =
        weft_http_serve_fd(own->listener, serve_hello, NULL, &(weft_http_options){.drain_s = 0.01});
    return 0;
}

static void open_rest_listener(rest_server *own)
{
    socklen_t bytes = sizeof own->address;
    own->address = (struct sockaddr_in){.sin_family = AF_INET};
    own->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(bind(own->listener, (struct sockaddr *)&own->address, bytes) == 0);
    REQUIRE(listen(own->listener, 8) == 0);
    REQUIRE(getsockname(own->listener, (struct sockaddr *)&own->address, &bytes) == 0);
}

/* Send a request with plain system calls, and wait for the reply with fibers. */
static bool ask(int fd)
{
    char reply[1024];
    size_t used = 0;
    int on = 1;
    ssize_t n;
    WITHOUT_FAULTS(n = send(fd, GET, strlen(GET), MSG_NOSIGNAL));
    /* After a fault, the reply may never arrive. Without one, it does. */
    for (int i = 0; (i < 100 || atomic_load(&fault.injected) == 0) && n >= 0; i++) {
        WITHOUT_FAULTS(n = recv(fd, reply + used, sizeof reply - 1 - used, MSG_DONTWAIT));
        used += n > 0 ? (size_t)n : 0;
        reply[used] = '\0';
        if (strstr(reply, "hello") != NULL) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
            return true;
        }
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        n = 0;
        (void)weft_sleep(0.001);
    }
    return false;
}

static bool rest_and_ask(void)
{
    rest_server own = {0};
    weft__rest_after_s = 0.001;
    if (!become_a_cord())
        return false;
    WITHOUT_FAULTS(open_rest_listener(&own));
    int fd = -1;
    weft_fiber server = require_created(weft_spin(run_server, &own));
    bool is_done = server != 0;
    if (is_done) {
        WITHOUT_FAULTS(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); REQUIRE(
                           connect(fd, (struct sockaddr *)&own.address, sizeof own.address) == 0));
        for (int i = 0; i < 2 && is_done; i++) {
            is_done = ask(fd);
            (void)weft_sleep(0.004);
        }
        close(fd);
        (void)weft_cancel(server);
        (void)weft_await(server);
    }
    close(own.listener);
    return is_done;
}

FAULT_TEST(a_connection_that_rests_survives_failing_calls_or_is_closed, rest_and_ask, 1)
