/* Open a connection of the client: dial the server or its proxy, open a tunnel, start TLS. */
#include "http/client/fetch.h"
#include "tls/alpn.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The protocols of the default configuration, in order of preference (ALPN). */
#ifdef WEFT_HAS_HTTP2
#define PROTOCOLS "h2,http/1.1"
#else
#define PROTOCOLS "http/1.1"
#endif

static bool is_https(const weft_fetch *f)
{
    return strcmp(f->url.scheme, "https") == 0;
}

bool weft__fetch_is_tunneled(const weft_fetch *f)
{
    return f->proxy.is_used && (is_https(f) || f->upgrade != NULL);
}

static int dial_url(const weft_url *url)
{
    weft__strbuf w = {0};
    weft__strbuf_add_host(&w, url->host);
    weft__strbuf_printf(&w, ":%d", url->port);
    int fd = w.has_failed ? -ENOMEM : weft_dial("tcp", w.data);
    free(w.data);
    return fd;
}

/* Send a CONNECT request (RFC 9110, 9.3.6). */
static int send_connect(const weft_fetch *f, weft_stream *s)
{
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "CONNECT ");
    weft__strbuf_add_host(&w, f->url.host);
    weft__strbuf_printf(&w, ":%d HTTP/1.1\r\nHost: ", f->url.port);
    weft__strbuf_add_host(&w, f->url.host);
    weft__strbuf_printf(&w, ":%d\r\n", f->url.port);
    if (f->proxy.url.user[0] != '\0') {
        char *basic = weft__basic_auth_new(f->proxy.url.user);
        w.has_failed |= basic == NULL;
        weft__strbuf_printf(&w, "Proxy-Authorization: %s\r\n", basic != NULL ? basic : "");
        free(basic);
    }
    weft__strbuf_printf(&w, "\r\n");
    ssize_t rc = w.has_failed ? -ENOMEM : weft_stream_write(s, w.data, w.bytes);
    free(w.data);
    return rc < 0 ? (int)rc : weft_stream_flush(s);
}

static int fail_connect(int status, const weft_fetch *f)
{
    if (status < 0)
        return status;
    int code = status == 407 ? -EACCES : -ECONNREFUSED;
    return weft_fail(code, "the proxy replied %d to CONNECT %s", status, f->url.host);
}

/* Read the response of the proxy, without a body. Return 0 if the tunnel is open, or an error. */
static int read_connect_response(const weft_fetch *f, weft_stream *s)
{
    weft__message m;
    char *head = NULL;
    bool has_input = false;
    weft__message_open(&m, WEFT__RESPONSE, &f->fetcher->limits);
    m.is_to_connect = true;
    int status = weft__fetch_response_read_head(s, &m, &head, &has_input);
    weft__message_close(&m);
    free(head);
    return status >= 200 && status < 300 ? 0 : fail_connect(status, f);
}

/*
 * Open a tunnel through a connection to the proxy. Return fd. On failure, close fd and return an
 * error.
 */
static int open_tunnel(const weft_fetch *f, int fd)
{
    weft_stream s;
    int rc = weft_stream_open(&s, fd);
    if (rc < 0)
        return rc;
    rc = send_connect(f, &s);
    if (rc == 0)
        rc = read_connect_response(f, &s);
    if (rc == 0)
        rc = weft_stream_detach(&s);
    if (rc >= 0)
        return rc;
    weft_shutdown(fd, SHUT_RDWR);
    weft_stream_close(&s);
    /*
     * A TLS server never sends first. Bytes after the response of the proxy are therefore an error.
     */
    return rc == -ENOTEMPTY ? -EBADMSG : rc;
}

/*
 * Return the TLS configuration of a fetcher. Create the configuration at the first call. Another
 * fiber may create the configuration while this fiber is suspended.
 */
static weft_tls *fetcher_tls(weft_fetcher *fetcher)
{
    if (fetcher->options.tls != NULL)
        return fetcher->options.tls;
    if (fetcher->own_tls == NULL) {
        weft_tls *created = weft_tls_client_new(&(weft_tls_options){.alpn = PROTOCOLS});
        if (fetcher->own_tls == NULL)
            fetcher->own_tls = created;
        else
            weft_tls_free(created);
    }
    return fetcher->own_tls;
}

static int conn_start_tls(const weft_fetch *f, weft__fetch_conn *c, int fd)
{
    weft_tls *tls = fetcher_tls(f->fetcher);
    c->is_tls = true;
    const char *only = weft__origin_may_share(f) ? NULL : "http/1.1";
    if (tls != NULL)
        return weft__tls_connect_only(&c->stream, fd, tls, f->url.host, only);
    weft_close(fd);
    return weft_error() != NULL ? weft_error()->code : -ENOMEM;
}

int weft__fetch_dial(weft_fetch *f, weft__fetch_conn *c)
{
    const char *unix_socket = f->fetcher->unix_socket;
    int fd = unix_socket != NULL ? weft_dial("unix", unix_socket)
                                 : dial_url(f->proxy.is_used ? &f->proxy.url : &f->url);
    if (fd >= 0 && weft__fetch_is_tunneled(f))
        fd = open_tunnel(f, fd);
    if (fd < 0)
        return fd;
    c->fd = fd;
    return is_https(f) ? conn_start_tls(f, c, fd) : weft_stream_open(&c->stream, fd);
}

int weft__fetch_conn_is_h2(const weft_fetch *f, weft__fetch_conn *c)
{
    weft_tls_info info;
    if (!c->is_tls)
        return weft__origin_may_share(f);
    int rc = weft_tls_describe(&c->stream, &info);
    return rc < 0 ? rc : strcmp(info.alpn, "h2") == 0;
}
