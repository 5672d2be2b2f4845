/* How the client makes a connection: to the server or its proxy, through that, and TLS over it. */
#include "http/fetch.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_https(const weft_fetch *f)
{
    return strcmp(f->url.scheme, "https") == 0;
}

static int dial(const weft_url *url)
{
    weft__words w = {0};
    weft__words_host(&w, url->host);
    weft__words_print(&w, ":%d", url->port);
    int fd = w.has_failed ? -ENOMEM : weft_dial("tcp", w.data);
    free(w.data);
    return fd;
}

/* CONNECT (RFC 9110, 9.3.6). */
static int send_connect(const weft_fetch *f, weft_stream *s)
{
    weft__words w = {0};
    weft__words_print(&w, "CONNECT ");
    weft__words_host(&w, f->url.host);
    weft__words_print(&w, ":%d HTTP/1.1\r\nHost: ", f->url.port);
    weft__words_host(&w, f->url.host);
    weft__words_print(&w, ":%d\r\n", f->url.port);
    if (f->proxy.url.user[0] != '\0') {
        char *basic = weft__words_basic(f->proxy.url.user);
        w.has_failed |= basic == NULL;
        weft__words_print(&w, "Proxy-Authorization: %s\r\n", basic != NULL ? basic : "");
        free(basic);
    }
    weft__words_print(&w, "\r\n");
    ssize_t rc = w.has_failed ? -ENOMEM : weft_stream_write(s, w.data, w.bytes);
    free(w.data);
    return rc < 0 ? (int)rc : weft_stream_flush(s);
}

static int explain(int status, const weft_fetch *f)
{
    if (status < 0)
        return status;
    int code = status == 407 ? -EACCES : -ECONNREFUSED;
    return weft_fail(code, "the proxy answers %d to the wish for %s", status, f->url.host);
}

/* What the proxy says; a body that comes with a refusal is not read. 0: there is a way. */
static int read_consent(const weft_fetch *f, weft_stream *s)
{
    weft__message m;
    char *head = NULL;
    bool has_input = false;
    weft__message_open(&m, WEFT__ANSWER, &f->fetcher->limits);
    m.is_to_connect = true;
    int status = weft__answer_read(s, &m, &head, &has_input);
    weft__message_close(&m);
    free(head);
    return status >= 200 && status < 300 ? 0 : explain(status, f);
}

/* Through the proxy's connection, which is closed if this fails. The same descriptor. */
static int tunnel(const weft_fetch *f, int fd)
{
    weft_stream s;
    int rc = weft_stream_open(&s, fd);
    if (rc < 0)
        return rc;
    rc = send_connect(f, &s);
    if (rc == 0)
        rc = read_consent(f, &s);
    if (rc == 0)
        rc = weft_stream_detach(&s);
    if (rc >= 0)
        return rc;
    weft_shutdown(fd, SHUT_RDWR);
    weft_stream_close(&s);
    /* Bytes behind the proxy's answer: the server never speaks first. */
    return rc == -ENOTEMPTY ? -EBADMSG : rc;
}

/* Made once: another fiber may have been faster. */
static weft_tls *tls_of(weft_fetcher *o)
{
    if (o->options.tls != NULL)
        return o->options.tls;
    if (o->own_tls == NULL) {
        weft_tls *made = weft_tls_client_new(&(weft_tls_options){.alpn = "http/1.1"});
        if (o->own_tls == NULL)
            o->own_tls = made;
        else
            weft_tls_free(made);
    }
    return o->own_tls;
}

static int secure(const weft_fetch *f, weft__fetch_conn *c, int fd)
{
    weft_tls *tls = tls_of(f->fetcher);
    c->is_tls = true;
    if (tls != NULL)
        return weft_tls_connect(&c->stream, fd, tls, f->url.host);
    weft_close(fd);
    return weft_error() != NULL ? weft_error()->code : -ENOMEM;
}

int weft__fetch_dial(weft_fetch *f, weft__fetch_conn *c)
{
    int fd = dial(f->proxy.is_used ? &f->proxy.url : &f->url);
    if (fd >= 0 && f->proxy.is_used && is_https(f))
        fd = tunnel(f, fd);
    if (fd < 0)
        return fd;
    c->fd = fd;
    return is_https(f) ? secure(f, c, fd) : weft_stream_open(&c->stream, fd);
}
