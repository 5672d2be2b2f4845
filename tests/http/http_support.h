/*
 * Helpers for the tests of the HTTP server: a raw client over a socket pair, and a server on a free
 * TCP port. On the backend sim the socket pair is simulated, and time is virtual.
 */
#ifndef TESTS_HTTP_HTTP_SUPPORT_H
#define TESTS_HTTP_HTTP_SUPPORT_H

#include "support/cases.h"
#include "support/net_support.h"

#include <weft/web.h>

#ifdef WEFT_HAS_HTTP2
#include "http/h2_gateway.h"
#else
#define gateway_before(fd) (fd)
#endif

/* Return whether the server under test speaks HTTP/2, behind a gateway that speaks HTTP/1.1. */
static inline bool is_over_http2(void)
{
    return getenv("WEFT_TEST_HTTP2") != NULL;
}

/* End a test that is about HTTP/1. */
#define ONLY_HTTP_1          \
    do {                     \
        if (is_over_http2()) \
            return;          \
    } while (0)

/* A raw client and the fiber that serves its connection. */
typedef struct test_client {
    int fd;
    int server_fd;
    weft_fiber fiber;
    int result; /* of weft_http_serve_conn */
    weft_http_handler *handler;
    void *ctx;
    const weft_http_options *options;
    char received[64 << 10]; /* NUL-terminated */
    size_t received_bytes;
} test_client;

static inline weft_value serve_conn_fiber(void *arg)
{
    test_client *client = arg;
    client->result =
        weft_http_serve_conn(client->server_fd, client->handler, client->ctx, client->options);
    return 0; /* an error would propagate to the test */
}

static inline void client_open(test_client *client, weft_http_handler *handler, void *ctx,
                               const weft_http_options *options)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    client->fd = is_over_http2() ? gateway_before(fd[0]) : fd[0];
    client->server_fd = fd[1];
    client->handler = handler;
    client->ctx = ctx;
    client->options = options;
    client->received_bytes = 0;
    client->received[0] = '\0';
    client->fiber = weft_spin(serve_conn_fiber, client);
    ck_assert_uint_ne(client->fiber, 0);
}

static inline void client_send_bytes(test_client *client, const void *data, size_t bytes)
{
    ck_assert_int_eq(weft_write_all(client->fd, data, bytes), (ssize_t)bytes);
}

static inline void client_send(test_client *client, const char *text)
{
    client_send_bytes(client, text, strlen(text));
}

/* Read once. Return the number of bytes, 0 at the end, or an error. */
static inline ssize_t client_receive_some(test_client *client)
{
    ssize_t n = weft_read(client->fd, client->received + client->received_bytes,
                          sizeof client->received - 1 - client->received_bytes);
    if (n > 0)
        client->received_bytes += (size_t)n;
    client->received[client->received_bytes] = '\0';
    return n;
}

/* Read until the received text contains expected. */
static inline void client_expect(test_client *client, const char *expected)
{
    while (strstr(client->received, expected) == NULL)
        ck_assert_msg(client_receive_some(client) > 0, "expected \"%s\", received \"%s\"", expected,
                      client->received);
}

/* Read until the server closes the connection. */
static inline const char *client_receive_all(test_client *client)
{
    while (client_receive_some(client) > 0)
        ;
    return client->received;
}

/* Close the connection. Return the result of the server. */
static inline weft_value client_close(test_client *client)
{
    weft_close(client->fd);
    ck_assert_int_eq(weft_await(client->fiber), 0);
    client->fd = 0;
    client->fiber = 0;
    return client->result;
}

/* Send text, half-close, and return everything received until the server closes. */
static inline const char *client_exchange(test_client *client, weft_http_handler *handler,
                                          void *ctx, const weft_http_options *options,
                                          const char *text)
{
    client_open(client, handler, ctx, options);
    client_send(client, text);
    weft_shutdown(client->fd, SHUT_WR);
    client_receive_all(client);
    client_close(client);
    return client->received;
}

/* A server on a free TCP port. */
typedef struct test_server {
    endpoint address;
    int listener;
    weft_fiber fiber;
    int result; /* of weft_http_serve_fd */
    weft_http_handler *handler;
    void *ctx;
    weft_http_options options;
} test_server;

static inline weft_value test_server_run(void *arg)
{
    test_server *s = arg;
    s->result = weft_http_serve_fd(s->listener, s->handler, s->ctx, &s->options);
    return 0;
}

static inline void server_open(test_server *s, weft_http_handler *handler, void *ctx,
                               const weft_http_options *options)
{
    *s = (test_server){.handler = handler, .ctx = ctx};
    if (options != NULL)
        s->options = *options;
    s->listener = listen_tcp(&s->address, 128);
    s->fiber = weft_spin(test_server_run, s);
    ck_assert_uint_ne(s->fiber, 0);
}

static inline int server_port(const test_server *s)
{
    return ntohs(s->address.u.in.sin_port);
}

/* Cancel the server and wait for its end. Return its result. */
static inline int server_close(test_server *s)
{
    ck_assert_int_eq(weft_cancel(s->fiber), 0);
    (void)weft_await(s->fiber);
    weft_close(s->listener);
    s->fiber = 0;
    return s->result;
}

/* Connect a client that has no serving fiber. */
static inline void server_connect(const test_server *s, test_client *client)
{
    client->fd = socket_for(&s->address);
    ck_assert_int_eq(weft_connect(client->fd, &s->address.u.any, s->address.bytes), 0);
    if (is_over_http2())
        client->fd = gateway_before(client->fd);
    client->received_bytes = 0;
    client->received[0] = '\0';
}

/* Return the body of the first response, and anything after it. */
static inline const char *body_of(const char *response)
{
    const char *body = strstr(response, "\r\n\r\n");
    ck_assert_ptr_nonnull(body);
    return body + 4;
}

static inline int status_of(const char *response)
{
    int status = 0;
    ck_assert_msg(sscanf(response, "HTTP/1.1 %d ", &status) == 1, "not a response: \"%s\"",
                  response);
    return status;
}

/* The client in tests with one. */
static test_client client;

/* Close the client's descriptor unless it is closed. Do not wait for the server. */
static inline void drop_client(void)
{
    if (client.fd > 0)
        weft_close(client.fd);
    client.fd = 0;
    client.fiber = 0;
}

/* Close the client if it is open. Assert that the server has succeeded. */
static inline void end_client(void)
{
    if (client.fiber != 0)
        ck_assert_int_eq(client_close(&client), 0);
}

/* The end of each test with one client. */
static inline void end_test(void)
{
    end_client();
    assert_nothing_pending();
}

/* Open a connection and send a text. */
static inline void start_client(weft_http_handler *handler, void *ctx,
                                const weft_http_options *options, const char *text)
{
    end_client();
    client_open(&client, handler, ctx, options);
    client_send(&client, text);
}

/* Send text on a new connection, half-close, and return everything received. */
static inline const char *exchange(weft_http_handler *handler, const char *text)
{
    return client_exchange(&client, handler, NULL, NULL, text);
}

/* Read until the server closes the connection. Assert the status of the first response. */
static inline void expect_status(int status)
{
    ck_assert_int_eq(status_of(client_receive_all(&client)), status);
}

/* Read until the text has been received count times. */
static inline void expect_times(const char *text, size_t count)
{
    while (count_in(client.received, text) < count)
        ck_assert_int_gt(client_receive_some(&client), 0);
}

#endif
