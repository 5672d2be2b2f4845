/* Helpers for the tests of HTTP/2 in the client: a server whose handlers may misbehave. */
#ifndef TESTS_HTTP_CLIENT_FETCH_H2_SUPPORT_H
#define TESTS_HTTP_CLIENT_FETCH_H2_SUPPORT_H

#include "http/fetch_support.h"
#include "http/h2/h2_owner.h"
#include "support/tls_support.h"

/* A server of HTTP/2. */
typedef struct h2_site {
    int listener;
    int port;
    weft_tls *tls; /* NULL: plain */
    h2_handler *handler;
    weft__h2_options options;
    weft_fiber fiber;
    size_t conns; /* accepted so far */
    size_t open_conns;
    size_t requests; /* received so far */
    size_t goaways;  /* received so far */
    h2_end *last;    /* the last connection; NULL: none */
} h2_site;

static h2_site h2;

typedef struct h2_site_conn {
    int fd;
    h2_end end;
} h2_site_conn;

static inline weft_value h2_site_conn_run(void *arg)
{
    h2_site_conn *c = arg;
    c->end.handler = h2.handler;
    c->end.options = h2.options;
    c->end.is_tls = h2.tls != NULL;
    c->end.fd = c->fd;
    int rc = h2.tls != NULL ? weft_tls_accept(&c->end.stream, c->fd, h2.tls) : 0;
    if (rc < 0) {
        free(c);
        return 0;
    }
    h2.last = &c->end;
    h2.open_conns++;
    if (h2_end_open(&c->end, c->fd) == 0) {
        if (weft_await(c->end.fiber) == -ECANCELED) /* this fiber, or the reader */
            (void)weft_terminate(c->end.fiber, 10);
        h2.goaways += (size_t)c->end.goaways;
    }
    h2.open_conns--;
    if (h2.last == &c->end)
        h2.last = NULL;
    free(c);
    return 0;
}

static inline weft_value h2_site_run(void *arg)
{
    (void)arg;
    int fd;
    while ((fd = weft_accept(h2.listener, NULL, NULL)) >= 0) {
        h2_site_conn *c = calloc(1, sizeof *c);
        ck_assert_ptr_nonnull(c);
        h2.conns++;
        c->fd = fd;
        ck_assert_int_eq(weft_go(h2_site_conn_run, c), 0);
    }
    return 0;
}

static inline void h2_site_close(void)
{
    close_site();
    if (h2.fiber == 0)
        return;
    weft_cancel(h2.fiber);
    weft_await(h2.fiber);
    weft_close(h2.listener);
    h2.fiber = 0;
}

/* Open the site without TLS, and a fetcher with prior knowledge. */
static inline void h2_site_open(h2_handler *handler)
{
    h2_site_close();
    h2 = (h2_site){.handler = handler, .options = h2.options, .tls = h2.tls};
    h2.listener = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(h2.listener, 0);
    struct sockaddr_in bound;
    socklen_t bytes = sizeof bound;
    ck_assert_int_eq(getsockname(h2.listener, (struct sockaddr *)&bound, &bytes), 0);
    h2.port = ntohs(bound.sin_port);
    site = (script_server){.port = h2.port};
    snprintf(site.base, sizeof site.base, "%s://localhost:%d", h2.tls != NULL ? "https" : "http",
             h2.port);
    h2.fiber = weft_spin(h2_site_run, NULL);
    use_fetcher((weft_fetcher_options){.has_prior_knowledge = true});
}

static tls_pair h2_tls;

/* Open the site with TLS, and a fetcher that trusts it. */
static inline void h2_site_open_tls(h2_handler *handler, const char *alpn)
{
    new_tls_pair(&h2_tls, &(weft_tls_options){.alpn = alpn},
                 &(weft_tls_options){.alpn = "h2,http/1.1"});
    h2.tls = h2_tls.server_tls;
    h2_site_open(handler);
    use_fetcher((weft_fetcher_options){.tls = h2_tls.client_tls});
}

static inline void h2_set_up(void)
{
    h2 = (h2_site){0};
}

static inline void h2_tear_down(void)
{
    h2_site_close();
    free_tls_pair(&h2_tls);
    h2_tls = (tls_pair){0};
}

static inline bool h2_path_is(const h2_exchange *x, const char *path)
{
    return strstr(x->fields, format(":path: %s\n", path)) != NULL;
}

/* Reply with a text. */
static inline int h2_say(h2_exchange *x, const char *text)
{
    return weft__h2_stream_reply(&x->st, H2_OK, text, strlen(text));
}

static inline int h2_hello(h2_exchange *x)
{
    h2.requests++;
    return h2_say(x, "hello");
}

/* Reply with the fields of the request. */
static inline int h2_show(h2_exchange *x)
{
    h2.requests++;
    return h2_say(x, x->fields);
}

/* Send the body back as it arrives. */
static inline int h2_echo(h2_exchange *x)
{
    const void *piece;
    ssize_t n;
    h2.requests++;
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    while (rc == 0 && (n = weft__h2_stream_piece(&x->st, &piece)) != 0)
        rc = n < 0 || weft__h2_stream_write(&x->st, piece, (size_t)n) != n ? -EIO : 0;
    return rc < 0 ? rc : weft__h2_stream_end(&x->st);
}

#endif
