/*
 * Helpers for the tests of the reverse proxy: a front server that forwards to an upstream server.
 * The upstream server follows a script.
 */
#ifndef TESTS_HTTP_REVERSE_PROXY_PROXY_SUPPORT_H
#define TESTS_HTTP_REVERSE_PROXY_PROXY_SUPPORT_H

#include "http/fetch_support.h"
#include "http/http_support.h"

/* A front server, its proxy, and a scripted upstream server. */
typedef struct proxy_chain {
    script_server upstream;
    test_server front;
    weft_http_proxy *proxy;
    weft_http_options front_options;
} proxy_chain;

static inline void chain_open_at(proxy_chain *c, const char *upstream,
                                 const weft_http_proxy_options *options)
{
    c->proxy = weft_http_proxy_new(upstream, options);
    ck_assert_ptr_nonnull(c->proxy);
    server_open(&c->front, weft_http_serve_proxy, c->proxy, &c->front_options);
}

static inline void chain_open(proxy_chain *c, const script_step *steps, size_t count,
                              const weft_http_proxy_options *options)
{
    c->front_options = (weft_http_options){0};
    start_server(&c->upstream, steps, count);
    chain_open_at(c, c->upstream.base, options);
}

static inline void chain_close_front(proxy_chain *c)
{
    ck_assert_int_eq(weft_cancel(c->front.fiber), 0);
    (void)weft_await(c->front.fiber);
    weft_close(c->front.listener);
    ck_assert_int_eq(c->front.result, -ECANCELED);
    ck_assert_int_eq(weft_http_proxy_free(c->proxy), 0);
}

static inline void chain_close(proxy_chain *c)
{
    chain_close_front(c);
    stop_server(&c->upstream);
}

/*
 * Send a request to the front server and return everything received until it closes. The request
 * must end the connection.
 */
static inline const char *chain_request(const proxy_chain *c, test_client *client, const char *text)
{
    server_connect(&c->front, client);
    client_send(client, text);
    client_receive_all(client);
    weft_close(client->fd);
    return client->received;
}

/* Assert that the received responses contain text. */
#define ck_assert_received(client, text)                                                     \
    ck_assert_msg(strstr((client)->received, (text)) != NULL, "'%s' is not in:\n%s", (text), \
                  (client)->received)
#define ck_assert_not_received(client, text)                                             \
    ck_assert_msg(strstr((client)->received, (text)) == NULL, "'%s' is in:\n%s", (text), \
                  (client)->received)

#define GET "GET / HTTP/1.1\r\nHost: example.org\r\n"
#define GET_CLOSE GET "Connection: close\r\n"
#define POST_CLOSE "POST / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n"

#endif
