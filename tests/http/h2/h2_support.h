/*
 * A client and a server of HTTP/2 in one thread, over a socket pair. On the backend sim the socket
 * pair is simulated.
 */
#ifndef TESTS_HTTP_H2_H2_SUPPORT_H
#define TESTS_HTTP_H2_H2_SUPPORT_H

#include "http/h2/h2_owner.h"

#define MIB ((size_t)1 << 20)

static h2_end client, server;

static inline void h2_set_up(void)
{
    client = server = (h2_end){0};
    client.options.is_client = true;
}

static inline void open_both(h2_handler *handler)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    server.handler = handler;
    ck_assert_int_eq(h2_end_open(&server, fd[0]), 0);
    ck_assert_int_eq(h2_end_open(&client, fd[1]), 0);
}

/* End the client, then the server. */
static inline void close_both(void)
{
    weft__h2_session_goaway(&client.session, NGHTTP2_NO_ERROR);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    ck_assert_int_eq(weft_await(server.fiber), 0);
}

static inline void get(h2_exchange *x)
{
    *x = (h2_exchange){.end = &client};
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x->st, H2_GET, true), 0);
}

static inline void release(h2_exchange *x)
{
    weft__h2_stream_close(&x->st, NGHTTP2_CANCEL);
}

static inline void expect_text(h2_exchange *x, const char *text)
{
    char body[4096] = "";
    ck_assert_int_eq(h2_await_head(x), 0);
    ssize_t n = h2_read_all(x, body);
    ck_assert_int_eq(n, (ssize_t)strlen(text));
    ck_assert_str_eq(body, text);
}

static inline int say_hello(h2_exchange *x)
{
    return weft__h2_stream_reply(&x->st, H2_OK, "hello", 5);
}

/* Send the body back. */
static inline int echo(h2_exchange *x)
{
    const void *piece;
    ssize_t n;
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    while (rc == 0 && (n = weft__h2_stream_piece(&x->st, &piece)) != 0)
        rc = n < 0 || weft__h2_stream_write(&x->st, piece, (size_t)n) != n ? -EIO : 0;
    return rc < 0 ? rc : weft__h2_stream_end(&x->st);
}

typedef struct upload {
    h2_exchange *x;
    size_t bytes;
    int result;
} upload;

static inline weft_value upload_run(void *arg)
{
    upload *u = arg;
    char *body = malloc(u->bytes);
    h2_fill_body(body, u->bytes);
    ssize_t n = weft__h2_stream_write(&u->x->st, body, u->bytes);
    u->result = n < 0 ? (int)n : weft__h2_stream_end(&u->x->st);
    free(body);
    return 0;
}

/* Upload a body in a fiber, and read the echo. */
static inline void expect_echo(size_t bytes)
{
    h2_exchange x = {.end = &client};
    upload u = {&x, bytes, -1};
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    weft_fiber f = weft_spin(upload_run, &u);
    ck_assert_int_eq(h2_check_body(&x), (ssize_t)bytes);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(u.result, 0);
    ck_assert_int_eq(x.closes, 1);
    release(&x);
}

#endif
