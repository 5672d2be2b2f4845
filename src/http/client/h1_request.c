/* Requests of HTTP/1: format and send the head, send a body as a whole or in chunks. */
#include "http/client/fetch.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of bytes of the body between two checks for an early response. */
#define OUT_PIECE_BYTES ((size_t)16 << 10)
/*
 * The time limit of a wait for data after TLS input. The input may contain only a session ticket.
 */
#define PEEK_S 0.001
/*
 * The head.
 */

static void add_first_line(weft__strbuf *w, const weft_fetch *f)
{
    weft__strbuf_printf(w, "%s ", f->method);
    if (weft__fetch_uses_http_proxy(f)) {
        weft__strbuf_printf(w, "http://");
        weft__fetch_add_authority(w, &f->url);
    }
    weft__strbuf_printf(w, "%s%s%s HTTP/1.1\r\n", f->url.path, f->url.has_query ? "?" : "",
                        f->url.query);
}

static void add_h1_field(void *ctx, const char *name, const char *value)
{
    weft__strbuf_printf(ctx, "%s: %s\r\n", name, value);
}

static void add_proxy_credentials(weft__strbuf *w, const weft_fetch *f)
{
    if (!weft__fetch_uses_http_proxy(f) || f->proxy.url.user[0] == '\0' ||
        weft__fetch_request_field(&f->request, "Proxy-Authorization") != NULL)
        return;
    char *basic = weft__basic_auth_new(f->proxy.url.user);
    w->has_failed |= basic == NULL;
    add_h1_field(w, "Proxy-Authorization", basic != NULL ? basic : "");
    free(basic);
}

static void add_head(weft__strbuf *w, const weft_fetch *f)
{
    add_first_line(w, f);
    if (weft__fetch_host_field(f) == NULL) {
        weft__strbuf_printf(w, "Host: ");
        weft__fetch_add_authority(w, &f->url);
        weft__strbuf_printf(w, "\r\n");
    }
    if (f->upgrade != NULL)
        weft__strbuf_printf(w, "Connection: Upgrade\r\nUpgrade: %s\r\n", f->upgrade);
    add_proxy_credentials(w, f);
    weft__fetch_list_fields(f, add_h1_field, w);
    weft__strbuf_printf(w, "\r\n");
}

/*
 * Sending.
 */

/*
 * Check input that arrives while the client sends the body. Return:
 *
 * - 1 if a response has arrived, the connection has ended, or a read has failed
 * - 0 for a TLS record without data
 * - -ECANCELED if the caller is cancelled
 */
static int peek_response(weft_fetch *f)
{
    const void *data;
    ssize_t n = weft_stream_peek(&f->conn->stream, 0, &data);
    if (n != 0 || !f->conn->is_tls)
        return n < 0 ? (int)n : 1;
    WEFT_MOVE_ON_AFTER(PEEK_S)
        n = weft_stream_peek(&f->conn->stream, 1, &data);
    if (n == -ECANCELED)
        return weft_is_cancelled() ? -ECANCELED : 0;
    return 1; /* the next read reports an error */
}

/*
 * Wait until the connection is writable. Return 0. Return -EPIPE if a response or the end of the
 * connection arrives first. Return another error if the wait fails.
 */
static int wait_until_writable(weft_fetch *f)
{
    for (;;) {
        struct pollfd p = {.fd = f->conn->fd, .events = POLLIN | POLLOUT};
        int events = poll(&p, 1, 0) > 0 ? p.revents : 0;
        if (events == 0)
            events = weft_wait_fd(f->conn->fd, POLLIN | POLLOUT);
        if (events < 0)
            return events;
        if ((events & ~POLLOUT) != 0) {
            int rc = peek_response(f);
            if (rc != 0)
                return rc < 0 ? rc : -EPIPE;
        }
        if ((events & POLLOUT) != 0)
            return 0;
    }
}

static ssize_t write_body_piece(weft_fetch *f, const char *data, size_t bytes)
{
    weft_stream *s = &f->conn->stream;
    if (f->out_length >= 0)
        return weft_stream_write(s, data, bytes);
    char size[24];
    int size_bytes = snprintf(size, sizeof size, "%zx\r\n", bytes);
    const struct iovec pieces[] = {
        {size, (size_t)size_bytes}, {(char *)(uintptr_t)data, bytes}, {(char *)"\r\n", 2}};
    size_t sum = (size_t)size_bytes + bytes + 2;
    ssize_t n = weft_stream_writev(s, pieces, 3);
    if (n < 0 || (size_t)n == sum)
        return n;
    return weft_is_cancelled() ? -ECANCELED
                               : -EPIPE; /* the chunk is truncated, the connection is unusable */
}

static ssize_t h1_write(weft_fetch *f, const char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < OUT_PIECE_BYTES ? bytes - done : OUT_PIECE_BYTES;
        int rc = wait_until_writable(f);
        ssize_t written = rc < 0 ? rc : write_body_piece(f, data + done, n);
        if (written < 0)
            return written == -ECONNRESET ? -EPIPE : written;
        done += f->out_length < 0 ? n : (size_t)written;
    }
    return (ssize_t)bytes;
}

static int h1_end(weft_fetch *f)
{
    weft_stream *s = &f->conn->stream;
    if (f->has_body && f->out_length < 0 && !f->is_ended) {
        ssize_t n = weft_stream_puts(s, "0\r\n\r\n");
        if (n < 0)
            return (int)n;
    }
    f->is_ended = true;
    return weft_stream_flush(s);
}

/*
 * If the request has "Expect: 100-continue", wait for 100 or for a final response (RFC 9110,
 * 10.1.1). The wait takes at most CONTINUE_S. Return 0 to send the body. Return -EPIPE if a final
 * response has arrived or the connection has ended. Otherwise, return an error.
 */
static int await_continue(weft_fetch *f)
{
    if (!weft__fetch_expects_continue(f))
        return 0;
    const void *data;
    ssize_t n = 0;
    WEFT_MOVE_ON_AFTER(WEFT__FETCH_CONTINUE_S)
        n = weft_stream_peek(&f->conn->stream, 1, &data);
    if (n == -ECANCELED)
        return weft_is_cancelled() ? (int)n : 0;
    return n <= 0 ? -EPIPE : weft__h1_response_interim(f);
}

/* Send the body. Send a short body together with the head. */
static int request_send_body(weft_fetch *f, size_t head_bytes)
{
    const char *body = f->request.body;
    size_t bytes = f->request.body_bytes;
    if (head_bytes + bytes <= WEFT__FETCH_WRITE_BYTES &&
        weft__fetch_request_field(&f->request, "Expect") == NULL) {
        ssize_t n = weft_stream_write(&f->conn->stream, body, bytes);
        return n < 0 ? (int)n : weft_stream_flush(&f->conn->stream);
    }
    int rc = weft_stream_flush(&f->conn->stream);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    rc = await_continue(f);
    ssize_t n = rc < 0 ? rc : h1_write(f, body, bytes);
    return n < 0 ? (int)n : weft_stream_flush(&f->conn->stream);
}

static int h1_send(weft_fetch *f)
{
    weft__strbuf w = {0};
    add_head(&w, f);
    if (!w.has_failed)
        weft__fetch_trace(f, WEFT_FETCH_REQUEST, w.data);
    ssize_t n = w.has_failed ? -ENOMEM : weft_stream_write(&f->conn->stream, w.data, w.bytes);
    free(w.data);
    if (n < 0)
        return (int)n;
    f->out_left = f->out_length;
    int rc = f->has_body && !f->is_streamed ? request_send_body(f, w.bytes)
                                            : weft_stream_flush(&f->conn->stream);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    return f->has_body && f->is_streamed ? await_continue(f) : 0;
}

const weft__fetch_codec weft__fetch_h1 = {.send = h1_send,
                                          .write = h1_write,
                                          .end = h1_end,
                                          .read_head = weft__h1_response_await,
                                          .next = weft__h1_response_next,
                                          .release = weft__conn_pool_release_h1};
