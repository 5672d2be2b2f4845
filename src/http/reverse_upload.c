/*
 * The upload fiber of the reverse proxy. It reads the request's body and writes it to the upstream
 * server, while the handler's fiber waits for the answer or passes it on. Then it waits for the
 * client to hang up: the handler's fiber would notice that only at its next write.
 */
#include "http/reverse.h"

#include <weft/time.h>

#include <stdio.h>
#include <stdlib.h>

/* A result beside 0 and errors. */
enum { UPSTREAM_TAKES_NO_MORE = 1 };

/*
 * Writing.
 */

static size_t bytes_of(const struct iovec *pieces, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

/* One write or, without pieces, the flush: how many bytes have gone, or an error. */
static ssize_t write_once(weft_stream *s, const struct iovec *pieces, int count, double idle_s)
{
    weft_scope scope;
    ssize_t n = weft_scope_open(&scope, idle_s);
    if (n < 0)
        return n;
    n = count > 0 ? weft_stream_writev(s, pieces, count) : weft_stream_flush(s);
    int late = weft_scope_close(&scope);
    return n < 0 && late < 0 ? late : n;
}

int weft__reverse_write(weft_stream *s, struct iovec *pieces, int count, double idle_s)
{
    size_t left = bytes_of(pieces, count);
    while (left > 0) {
        ssize_t n = write_once(s, pieces, count, idle_s);
        if (n < 0)
            return (int)n;
        weft__pieces_advance(pieces, count, (size_t)n);
        left -= (size_t)n;
    }
    return (int)write_once(s, NULL, 0, idle_s);
}

/*
 * The body.
 */

/* Wait until the head is on a connection, then use that. */
static int write_body(weft__pass *p, struct iovec *pieces, int count)
{
    int rc = weft_latch_wait(&p->unopened);
    if (rc < 0)
        return rc;
    p->has_begun = true;
    rc = weft__reverse_write(&p->f->conn->stream, pieces, count, p->proxy->options.idle_s);
    if (rc == -ETIMEDOUT)
        p->words = "the upstream server takes nothing of the request's body";
    return rc == -EPIPE || rc == -ECONNRESET ? UPSTREAM_TAKES_NO_MORE : rc;
}

static int write_piece(weft__pass *p, const void *data, size_t bytes)
{
    char size[2 * sizeof bytes + sizeof "\r\n"];
    struct iovec body = {(void *)(uintptr_t)data, bytes};
    if (!p->r->conn->message.is_chunked)
        return write_body(p, &body, 1);
    int size_bytes = snprintf(size, sizeof size, "%zx\r\n", bytes);
    struct iovec chunk[] = {{size, (size_t)size_bytes}, body, {(char *)(uintptr_t) "\r\n", 2}};
    return write_body(p, chunk, 3);
}

/* What is behind the last chunk. */
static int write_end(weft__pass *p)
{
    weft__words w = {0};
    weft__words_print(&w, "0\r\n");
    weft__reverse_trailers(&w, p->r);
    weft__words_print(&w, "\r\n");
    struct iovec end = {w.data, w.bytes};
    int rc = w.has_failed ? -ENOMEM : write_body(p, &end, 1);
    free(w.data);
    return rc;
}

/* 0: it is sent. The client's errors have words of the server's. */
static int send_body(weft__pass *p)
{
    const void *piece;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = weft_http_read_piece(p->r, &piece)) > 0)
        rc = write_piece(p, piece, (size_t)n);
    if (rc != 0)
        return rc;
    if (n < 0) {
        if (n != -ECANCELED) /* else the exchange has failed elsewhere */
            p->words = "the request's body cannot be read";
        return (int)n;
    }
    rc = p->r->conn->message.is_chunked ? write_end(p) : 0;
    if (rc != 0)
        return rc;
    p->sent_s = weft_now();
    weft_latch_done(&p->unsent);
    return 0;
}

/* Wait for the client to hang up: -ECONNRESET. 0 if it sends its next request instead. */
static int watch_client(weft__pass *p)
{
    const void *ignored;
    ssize_t n = weft_stream_peek(&p->r->conn->stream, 1, &ignored);
    if (n > 0 || n == -ECANCELED)
        return n > 0 ? 0 : (int)n;
    p->is_gone = true;
    p->words = "the client has hung up";
    return n == 0 ? -ECONNRESET : (int)n;
}

static weft_value upload(void *arg)
{
    weft__pass *p = arg;
    int rc = weft__pass_is_sent(p) ? 0 : send_body(p);
    if (rc == 0)
        rc = watch_client(p);
    if (rc < 0 && rc != -ECANCELED) {
        p->failure = rc;
        weft_scope_cancel(&p->scope);
    }
    return 0;
}

int weft__upload_start(weft__pass *p)
{
    p->upload = weft_spin(upload, p);
    return p->upload != 0 ? 0 : -ENOMEM;
}

void weft__upload_stop(weft__pass *p)
{
    if (p->upload == 0)
        return;
    weft_cancel(p->upload);
    WEFT_SHIELD(INFINITY)
        (void)weft_await(p->upload);
    p->upload = 0;
}
