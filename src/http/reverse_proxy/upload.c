/*
 * The upload fiber of the reverse proxy. The fiber reads the body of the request and writes the
 * body to the upstream server. Meanwhile, the fiber of the handler waits for the response or
 * forwards the response. After the body, the upload fiber waits until the client closes the
 * connection. The fiber of the handler would detect a closed connection only at its next write.
 */
#include "http/message/iov.h"
#include "http/reverse_proxy/reverse_proxy.h"

#include <weft/time.h>

#include <stdio.h>
#include <stdlib.h>

/*
 * A result in addition to 0 and errors: the upstream server has closed the connection. The upstream
 * server may have sent a response first, so the exchange continues.
 */
enum { UPSTREAM_CLOSED = 1 };

/*
 * Writing.
 */

/* Write once. If count is 0, flush the stream. Return the number of bytes written, or an error. */
static ssize_t write_once(weft_stream *s, const struct iovec *iov, int count, double idle_s)
{
    weft_scope scope;
    ssize_t n = weft_scope_open(&scope, idle_s);
    if (n < 0)
        return n;
    n = count > 0 ? weft_stream_writev(s, iov, count) : weft_stream_flush(s);
    int late = weft_scope_close(&scope);
    return n < 0 && late < 0 ? late : n;
}

int weft__reverse_proxy_write(weft_stream *s, struct iovec *iov, int count, double idle_s)
{
    size_t left = weft__iov_bytes(iov, count);
    while (left > 0) {
        ssize_t n = write_once(s, iov, count, idle_s);
        if (n < 0)
            return (int)n;
        weft__iov_advance(iov, count, (size_t)n);
        left -= (size_t)n;
    }
    return (int)write_once(s, NULL, 0, idle_s);
}

/*
 * The body.
 */

/*
 * Wait until the head is sent, then write to the connection of the head. Return 0, UPSTREAM_CLOSED
 * or an error.
 */
static int upload_write(weft__exchange *p, struct iovec *iov, int count)
{
    int rc = weft_latch_wait(&p->head_latch);
    if (rc < 0)
        return rc;
    p->has_begun_body = true;
    rc = weft__reverse_proxy_write(&p->f->conn->stream, iov, count, p->proxy->options.idle_s);
    if (rc == -ETIMEDOUT)
        p->reason = "the upstream server stopped reading the body of the request";
    return rc == -EPIPE || rc == -ECONNRESET ? UPSTREAM_CLOSED : rc;
}

static int upload_write_piece(weft__exchange *p, const void *data, size_t bytes)
{
    char size[2 * sizeof bytes + sizeof "\r\n"];
    struct iovec body = {(void *)(uintptr_t)data, bytes};
    if (p->r->body_length >= 0)
        return upload_write(p, &body, 1);
    int size_bytes = snprintf(size, sizeof size, "%zx\r\n", bytes);
    struct iovec chunk[] = {{size, (size_t)size_bytes}, body, {(char *)(uintptr_t) "\r\n", 2}};
    return upload_write(p, chunk, 3);
}

/* Write the last chunk and the trailers. */
static int upload_write_end(weft__exchange *p)
{
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "0\r\n");
    weft__reverse_proxy_trailers(&w, p->r);
    weft__strbuf_printf(&w, "\r\n");
    struct iovec end = {w.data, w.bytes};
    int rc = w.has_failed ? -ENOMEM : upload_write(p, &end, 1);
    free(w.data);
    return rc;
}

/* Send the whole body. Return 0, UPSTREAM_CLOSED or an error. */
static int upload_send_body(weft__exchange *p)
{
    const void *piece;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = weft_http_read_piece(p->r, &piece)) > 0)
        rc = upload_write_piece(p, piece, (size_t)n);
    if (rc != 0)
        return rc;
    if (n < 0) {
        if (n != -ECANCELED) /* after -ECANCELED, the exchange has another reason */
            p->reason = "cannot read the body of the request";
        return (int)n;
    }
    rc = p->r->body_length < 0 ? upload_write_end(p) : 0;
    if (rc != 0)
        return rc;
    p->sent_s = weft_now();
    weft_latch_done(&p->sent_latch);
    return 0;
}

/*
 * Wait until the client abandons the request. Return 0 if the client has sent its next request.
 * Otherwise, return an error.
 */
static int await_client_close(weft__exchange *p)
{
    int rc = p->r->codec->await_abandoned(p->r);
    if (rc == 0 || rc == -ECANCELED)
        return rc;
    p->has_client_closed = true;
    p->reason = "the client closed the connection";
    return rc;
}

static weft_value upload(void *arg)
{
    weft__exchange *p = arg;
    int rc = weft__exchange_is_sent(p) ? 0 : upload_send_body(p);
    if (rc == 0)
        rc = await_client_close(p);
    if (rc < 0 && rc != -ECANCELED) {
        p->failure = rc;
        weft_scope_cancel(&p->scope);
    }
    return 0;
}

int weft__upload_start(weft__exchange *p)
{
    p->upload = weft_spin(upload, p);
    return p->upload != 0 ? 0 : -ENOMEM;
}

void weft__upload_stop(weft__exchange *p)
{
    if (p->upload == 0)
        return;
    weft_cancel(p->upload);
    WEFT_SHIELD(INFINITY)
        (void)weft_await(p->upload);
    p->upload = 0;
}
