/*
 * What the tests of the reverse proxy share: an upstream server that does as a script says, or one
 * with a handler, and a server before it that passes on.
 */
#ifndef TESTS_PROXY_SUPPORT_H
#define TESTS_PROXY_SUPPORT_H

#include "fetch_support.h"
#include "http_support.h"

/* A front server, the proxy and a scripted upstream server. */
typedef struct chain {
    web up;
    site front;
    weft_http_proxy *proxy;
    weft_http_options front_options;
} chain;

static inline void chain_open_at(chain *c, const char *upstream,
                                 const weft_http_proxy_options *options)
{
    c->proxy = weft_http_proxy_new(upstream, options);
    ck_assert_ptr_nonnull(c->proxy);
    site_open(&c->front, weft_http_serve_proxy, c->proxy, &c->front_options);
}

static inline void chain_open(chain *c, const turn *turns, size_t count,
                              const weft_http_proxy_options *options)
{
    c->front_options = (weft_http_options){0};
    start_server(&c->up, turns, count);
    chain_open_at(c, c->up.base, options);
}

static inline void front_close(chain *c)
{
    ck_assert_int_eq(weft_cancel(c->front.server), 0);
    (void)weft_await(c->front.server);
    weft_close(c->front.listener);
    ck_assert_int_eq(c->front.served, -ECANCELED);
    ck_assert_int_eq(weft_http_proxy_free(c->proxy), 0);
}

static inline void chain_close(chain *c)
{
    front_close(c);
    stop_server(&c->up);
}

/* Ask the front server; what it says until it hangs up. The request says Connection: close. */
static inline const char *chain_ask(const chain *c, talk *t, const char *text)
{
    site_call(&c->front, t);
    talk_send(t, text);
    talk_hear_all(t);
    weft_close(t->fd);
    return t->heard;
}

/* These words are in the reply. */
#define ck_assert_heard(t, words) \
    ck_assert_msg(strstr((t)->heard, (words)) != NULL, "'%s' is not in:\n%s", (words), (t)->heard)
#define ck_assert_unheard(t, words) \
    ck_assert_msg(strstr((t)->heard, (words)) == NULL, "'%s' is in:\n%s", (words), (t)->heard)

static inline size_t times_in(const char *text, const char *words)
{
    size_t times = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        times++;
    return times;
}

#define GET "GET / HTTP/1.1\r\nHost: example.org\r\n"
#define GET_CLOSE GET "Connection: close\r\n"
#define POST_CLOSE "POST / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n"

#endif
