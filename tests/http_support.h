/*
 * What the tests of the web server share: one connection to it, over a socket pair, which is in
 * memory on sim, so that time is virtual there; and a server on a port of its own.
 */
#ifndef TESTS_HTTP_SUPPORT_H
#define TESTS_HTTP_SUPPORT_H

#include "net_support.h"

/* One side of a connection that is served. */
typedef struct talk {
    int fd;
    int server_fd;
    weft_fiber server;
    int result; /* what serving it returned */
    weft_http_handler *handler;
    void *ctx;
    const weft_http_options *options;
    char heard[64 << 10]; /* what came, NUL-terminated */
    size_t heard_bytes;
} talk;

static inline weft_value talk_serve(void *arg)
{
    talk *t = arg;
    t->result = weft_http_serve_conn(t->server_fd, t->handler, t->ctx, t->options);
    return 0; /* an error would climb to the test */
}

static inline void talk_open(talk *t, weft_http_handler *handler, void *ctx,
                             const weft_http_options *options)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    t->fd = fd[0];
    t->server_fd = fd[1];
    t->handler = handler;
    t->ctx = ctx;
    t->options = options;
    t->heard_bytes = 0;
    t->heard[0] = '\0';
    t->server = weft_spin(talk_serve, t);
    ck_assert_uint_ne(t->server, 0);
}

static inline void talk_send_bytes(talk *t, const void *data, size_t bytes)
{
    ck_assert_int_eq(weft_write_all(t->fd, data, bytes), (ssize_t)bytes);
}

static inline void talk_send(talk *t, const char *text)
{
    talk_send_bytes(t, text, strlen(text));
}

/* One read more: what came, 0 at the end. */
static inline ssize_t talk_hear_some(talk *t)
{
    ssize_t n = weft_read(t->fd, t->heard + t->heard_bytes, sizeof t->heard - 1 - t->heard_bytes);
    if (n > 0)
        t->heard_bytes += (size_t)n;
    t->heard[t->heard_bytes] = '\0';
    return n;
}

/* Until it has said this. */
static inline void talk_hear(talk *t, const char *expected)
{
    while (strstr(t->heard, expected) == NULL)
        ck_assert_msg(talk_hear_some(t) > 0, "not said: \"%s\", but: \"%s\"", expected, t->heard);
}

/* All that it says until it hangs up. */
static inline const char *talk_hear_all(talk *t)
{
    while (talk_hear_some(t) > 0)
        ;
    return t->heard;
}

/* Hang up; what serving returned. */
static inline weft_value talk_close(talk *t)
{
    weft_close(t->fd);
    ck_assert_int_eq(weft_await(t->server), 0);
    return t->result;
}

/* All of a conversation: we say this and no more, and hear the server out. */
static inline const char *talk_once(talk *t, weft_http_handler *handler, void *ctx,
                                    const weft_http_options *options, const char *text)
{
    talk_open(t, handler, ctx, options);
    talk_send(t, text);
    weft_shutdown(t->fd, SHUT_WR);
    talk_hear_all(t);
    talk_close(t);
    return t->heard;
}

/* A server on a port of its own. */
typedef struct site {
    place at;
    int listener;
    weft_fiber server;
    int served; /* as in talk */
    weft_http_handler *handler;
    void *ctx;
    const weft_http_options *options;
} site;

static inline weft_value site_serve(void *arg)
{
    site *s = arg;
    s->served = weft_http_serve_fd(s->listener, s->handler, s->ctx, s->options);
    return 0;
}

static inline void site_open(site *s, weft_http_handler *handler, void *ctx,
                             const weft_http_options *options)
{
    *s = (site){.handler = handler, .ctx = ctx, .options = options};
    s->listener = listen_tcp(&s->at, 128);
    s->server = weft_spin(site_serve, s);
    ck_assert_uint_ne(s->server, 0);
}

static inline int site_port(const site *s)
{
    return ntohs(s->at.u.in.sin_port);
}

/* Tell it to end, and wait for that; what serving returned. */
static inline int site_close(site *s)
{
    ck_assert_int_eq(weft_cancel(s->server), 0);
    (void)weft_await(s->server);
    weft_close(s->listener);
    return s->served;
}

/* Talk to it. */
static inline void site_call(const site *s, talk *t)
{
    t->fd = socket_for(&s->at);
    ck_assert_int_eq(weft_connect(t->fd, &s->at.u.any, s->at.bytes), 0);
    t->heard_bytes = 0;
    t->heard[0] = '\0';
}

/* The body of the first reply heard. */
static inline const char *body_of(const char *reply)
{
    const char *body = strstr(reply, "\r\n\r\n");
    ck_assert_ptr_nonnull(body);
    return body + 4;
}

static inline int status_of(const char *reply)
{
    int status = 0;
    ck_assert_msg(sscanf(reply, "HTTP/1.1 %d ", &status) == 1, "no reply: \"%s\"", reply);
    return status;
}

#endif
