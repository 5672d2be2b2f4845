/*
 * Helpers for the tests of the reverse proxy: a front server that forwards to an upstream server.
 * The upstream server follows a script.
 */
#ifndef TESTS_HTTP_REVERSE_PROXY_PROXY_SUPPORT_H
#define TESTS_HTTP_REVERSE_PROXY_PROXY_SUPPORT_H

#include "http/fetch_support.h"
#include "http/http_support.h"

static script_server upstream;
static test_server front;
static weft_http_proxy *proxy;
static weft_http_options front_options; /* set before chain_open */

/* Close the front server and its proxy if they are open. */
static inline void chain_close_front(void)
{
    if (front.fiber != 0)
        ck_assert_int_eq(server_close(&front), -ECANCELED);
    ck_assert_int_eq(weft_http_proxy_free(proxy), 0);
    proxy = NULL;
}

static inline void chain_close(void)
{
    drop_client();
    chain_close_front();
    stop_server(&upstream);
}

/* Replace the front server by one that forwards to a URL. */
static inline void chain_open_at(const char *url, const weft_http_proxy_options *options)
{
    chain_close_front();
    proxy = weft_http_proxy_new(url, options);
    ck_assert_ptr_nonnull(proxy);
    server_open(&front, weft_http_serve_proxy, proxy, &front_options);
}

/* Replace both servers. */
static inline void chain_open(const script_step *steps, size_t count,
                              const weft_http_proxy_options *options)
{
    chain_close();
    start_server(&upstream, steps, count);
    chain_open_at(upstream.base, options);
}

static inline void chain_open_hello(void)
{
    chain_open(hello, 1, NULL);
    let_run(); /* a test may close the front server immediately */
}

/* Connect the client to the front server and send a text. */
static inline void chain_send(const char *text)
{
    drop_client();
    server_connect(&front, &client);
    client_send(&client, text);
}

/*
 * Send a request to the front server and return everything received until it closes. The request
 * must end the connection.
 */
static inline const char *chain_request(const char *text)
{
    chain_send(text);
    client_receive_all(&client);
    drop_client();
    return client.received;
}

static inline void assert_reply(const char *request, int status)
{
    ck_assert_msg(status_of(chain_request(request)) == status, "%s: %s", request, client.received);
}

/* Assert that the client's connection ends with a reset, which a client takes for a failure. */
static inline void assert_client_reset(void)
{
    ssize_t n;
    while ((n = client_receive_some(&client)) > 0)
        continue;
    ck_assert_msg(n == -ECONNRESET, "%zd: %s", n, client.received);
    ck_assert_lacks(client.received, "\r\n0\r\n");
    drop_client();
}

#define GET "GET / HTTP/1.1\r\nHost: example.org\r\n"
#define GET_CLOSE GET "Connection: close\r\n"
#define POST_CLOSE "POST / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n"

#endif
