/* Helpers for the tests of connections without a fiber. */
#ifndef TESTS_HTTP_REST_REST_SUPPORT_H
#define TESTS_HTTP_REST_REST_SUPPORT_H

#include "http/http_support.h"
#include "http/rest/rest.h"
#include "support/suite.h"
#include "support/tls_support.h"

#include <netinet/tcp.h>

#define HOST "Host: x\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"

/* The silent time before a rest in the tests. */
#define REST_S 0.01

static test_server s;
static weft_tls *server_tls;
static int descriptors; /* open before the test */
static size_t served;   /* requests so far */

static inline int serve_count(weft_http_request *r, void *ctx)
{
    char text[32];
    snprintf(text, sizeof text, "reply %zu\n", ++served);
    return weft_http_reply(r, 200, "text/plain", text, strlen(text));
}

static void begin(void)
{
    weft__rest_after_s = REST_S;
    warm_up();
    descriptors = count_descriptors();
}

/* Wait for the end of a server that was cancelled. */
static inline void end_server(void)
{
    (void)weft_await(s.fiber);
    ck_assert_int_eq(s.result, -ECANCELED);
    weft_close(s.listener);
    s.fiber = 0;
}

/* End the server. Nothing of it is left. */
static void finish(void)
{
    if (s.fiber != 0)
        ck_assert_int_eq(server_close(&s), -ECANCELED);
    weft_tls_free(server_tls);
    server_tls = NULL;
    let_run();
    assert_nothing_pending();
    ck_assert_int_eq(count_descriptors(), descriptors);
    ck_assert_uint_eq(stats().fibers, 0);
}

FIXTURE(begin, finish)

static inline void open_server(weft_http_handler *handler, const weft_http_options *options)
{
    server_open(&s, handler, NULL, options);
    let_run();
}

static inline void open_tls_server(weft_http_handler *handler, weft_http_options options)
{
    make_local_cert();
    options.tls = server_tls = weft_tls_server_new(
        &(weft_tls_options){.identity = {.cert_pem = local_cert, .key_pem = local_key}});
    ck_assert_ptr_nonnull(server_tls);
    open_server(handler, &options);
}

/* Wait until only the server and this number of other fibers are left. */
static inline void await_fibers(size_t others)
{
    while (stats().fibers > 1 + others)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_uint_eq(stats().fibers, 1 + others);
}

/* Wait until all connections rest. */
static inline void await_rest(void)
{
    await_fibers(0);
}

static inline void hang_up(test_client *c)
{
    ck_assert_int_eq(weft_close(c->fd), 0);
    c->fd = 0;
}

/* Read until the server closes the connection. Close the client. */
static inline void expect_end(test_client *c)
{
    c->received_bytes = 0;
    ck_assert_int_eq(client_receive_some(c), 0);
    hang_up(c);
}

/*
 * Acknowledge the received bytes now. The kernel may delay acknowledgements by 40 ms, and a
 * connection with unacknowledged bytes does not rest. The call fails for a Unix socket.
 */
static inline void acknowledge(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

/* Send a request and expect the reply with this number. */
static inline void ask(test_client *c, size_t number)
{
    c->received_bytes = 0;
    c->received[0] = '\0';
    client_send(c, GET);
    client_expect(c, format("reply %zu\n", number));
    acknowledge(c->fd);
}

/* Connect, receive the first reply, and wait until the connection rests. */
static inline void connect_and_rest(test_client *c)
{
    server_connect(&s, c);
    ask(c, served + 1);
    await_rest();
}

#endif
