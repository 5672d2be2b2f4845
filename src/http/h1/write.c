/* Output of HTTP/1: writes at the minimum rate, chunks, files. */
#include "http/h1/conn.h"
#include "http/message/iov.h"
#include "http/reply/reply.h"
#include "http/server/unsent_limit.h"

#include <weft/io.h>
#include <weft/net.h>

#include <stdio.h>
#include <sys/socket.h>

/*
 * Write all spans. After a short write, weft_stream_flush returns the error that interrupted the
 * write.
 */
static int stream_write_all(weft_stream *s, const struct iovec *iov, int count, size_t bytes)
{
    ssize_t n = weft_stream_writev(s, iov, count);
    if (n < 0 || (size_t)n == bytes)
        return n < 0 ? (int)n : 0;
    int rc = weft_stream_flush(s);
    return rc < 0 ? rc : -ECANCELED;
}

/* Copy the spans that contain the first bytes of iov. Returns the number of spans. */
static int iov_take_first(struct iovec *first, const struct iovec *iov, int count, size_t bytes)
{
    int n = 0;
    for (; n < count && bytes > 0; n++) {
        first[n] = iov[n];
        if (first[n].iov_len > bytes)
            first[n].iov_len = bytes;
        bytes -= first[n].iov_len;
    }
    return n;
}

/*
 * Write as many bytes as the unsent limit and the minimum rate allow. Set *is_late if the time
 * credit is exhausted.
 */
static ssize_t write_at_min_rate(weft_http_request *r, const struct iovec *iov, int count,
                                 bool *is_late)
{
    weft__conn *c = r->conn;
    weft__min_rate_call call;
    struct iovec first[WEFT__H1_IOV_MAX];
    ssize_t allowed = weft__unsent_limit_allow(c, &r->out_rate);
    if (allowed < 0)
        return allowed;
    count = iov_take_first(first, iov, count, (size_t)allowed);
    int rc = weft__min_rate_open(&call, &r->out_rate, r->server);
    if (rc < 0)
        return rc;
    ssize_t n = weft_stream_writev(&c->stream, first, count);
    uint64_t moved = n > 0 ? (uint64_t)n : 0;
    weft__unsent_limit_add(c, moved);
    rc = weft__min_rate_close(&call, moved);
    *is_late = rc < 0;
    return n < 0 && rc < 0 ? rc : n;
}

/* Write all spans at the minimum rate or faster. */
static int write_all_at_min_rate(weft_http_request *r, const struct iovec *iov, int count,
                                 size_t bytes)
{
    struct iovec rest[WEFT__H1_IOV_MAX];
    bool is_late = false;
    memcpy(rest, iov, (size_t)count * sizeof *rest);
    for (;;) {
        ssize_t n = write_at_min_rate(r, rest, count, &is_late);
        if (n < 0 || (size_t)n == bytes)
            return n < 0 ? (int)n : 0;
        weft__iov_advance(rest, count, (size_t)n);
        bytes -= (size_t)n;
        if (n == 0 && !is_late)
            return stream_write_all(&r->conn->stream, rest, count, bytes);
    }
}

int weft__h1_writev(weft_http_request *r, const struct iovec *iov, int count)
{
    weft__h1_conn *h = weft__h1_conn_of(r);
    size_t bytes = weft__iov_bytes(iov, count);
    h->unflushed += bytes;
    int rc;
    if (h->unflushed <= WEFT__OUT_BYTES) { /* fits in the output buffer without waiting */
        weft__unsent_limit_add(h->conn, bytes);
        rc = stream_write_all(&h->conn->stream, iov, count, bytes);
    } else {
        rc = write_all_at_min_rate(r, iov, count, bytes);
        h->unflushed = WEFT__OUT_BYTES;
    }
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

int weft__h1_add_chunk(struct iovec *iov, char size[WEFT__H1_SIZE_BYTES], const struct iovec *body,
                       int count)
{
    int bytes = snprintf(size, WEFT__H1_SIZE_BYTES, "%zx\r\n", weft__iov_bytes(body, count));
    iov[0] = (struct iovec){size, (size_t)bytes};
    memcpy(iov + 1, body, (size_t)count * sizeof *body);
    iov[count + 1] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
    return count + 2;
}

int weft__h1_send_body(weft_http_request *r, const struct iovec *body, int count)
{
    char size[WEFT__H1_SIZE_BYTES];
    struct iovec iov[WEFT__H1_IOV_MAX];
    return weft__h1_writev(r, iov, weft__h1_add_body(weft__h1_conn_of(r), iov, size, body, count));
}

int weft__h1_flush(weft_http_request *r)
{
    weft__h1_conn *h = weft__h1_conn_of(r);
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->out_rate, r->server);
    if (rc < 0)
        return rc;
    rc = weft_stream_flush(&h->conn->stream);
    int late = weft__min_rate_close(&call, h->unflushed);
    if (rc < 0)
        return weft__reply_abort(r, late < 0 ? late : rc);
    h->unflushed = 0;
    return 0;
}

static ssize_t sendfile_at_min_rate(weft_http_request *r, int out, int fd, off_t *offset,
                                    size_t bytes)
{
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->out_rate, r->server);
    if (rc < 0)
        return rc;
    off_t from = *offset;
    ssize_t n = weft_sendfile(out, fd, offset, bytes);
    uint64_t moved = (uint64_t)(*offset - from);
    weft__unsent_limit_add(r->conn, moved);
    int late = weft__min_rate_close(&call, moved);
    return n < 0 && late < 0 ? late : n;
}

/* Send a part of a file with sendfile(2), after the head. */
static int send_by_sendfile(weft_http_request *r, int out, int fd, off_t offset, uint64_t bytes)
{
    int rc = weft_http_flush(r);
    while (rc == 0 && bytes > 0) {
        ssize_t n = weft__unsent_limit_allow(r->conn, &r->out_rate);
        if (n > 0)
            n = sendfile_at_min_rate(r, out, fd, &offset,
                                     bytes < (uint64_t)n ? (size_t)bytes : (size_t)n);
        rc = n == 0 ? -ENODATA : n < 0 ? (int)n : 0;
        bytes -= n > 0 ? (uint64_t)n : 0;
        r->sent += n > 0 ? (uint64_t)n : 0;
    }
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

int weft__h1_send_file(weft_http_request *r, int fd, off_t offset, uint64_t bytes)
{
    int out = weft_stream_fd(&r->conn->stream);
    return out < 0 ? -EOPNOTSUPP : send_by_sendfile(r, out, fd, offset, bytes);
}

int weft__h1_end_upgraded(weft_http_request *r)
{
    weft__conn *c = r->conn;
    if (c->is_tls)
        return weft_tls_shutdown(&c->stream);
    int rc = weft_stream_flush(&c->stream);
    return rc < 0 ? rc : weft_shutdown(c->fd, SHUT_WR);
}
