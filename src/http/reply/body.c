/* The body of a reply: buffered chunks, writes at the minimum rate, and files. */
#include "http/reply/reply.h"
#include "http/server/unsent_limit.h"
#include "http/text/format.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The size of the copy buffer for files that sendfile(2) cannot send. */
#define COPY_BYTES ((size_t)16 << 10)

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

void weft__iov_advance(struct iovec *iov, int count, size_t bytes)
{
    for (int i = 0; i < count && bytes > 0; i++) {
        size_t taken = bytes < iov[i].iov_len ? bytes : iov[i].iov_len;
        iov[i] = (struct iovec){(char *)iov[i].iov_base + taken, iov[i].iov_len - taken};
        bytes -= taken;
    }
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
    struct iovec first[WEFT__REPLY_IOV_MAX + 1];
    ssize_t allowed = weft__unsent_limit_allow(c, &r->out_rate);
    if (allowed < 0)
        return allowed;
    count = iov_take_first(first, iov, count, (size_t)allowed);
    int rc = weft__min_rate_open(&call, &r->out_rate, r->conn->server);
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
    struct iovec rest[WEFT__REPLY_IOV_MAX + 1];
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

int weft__reply_writev(weft_http_request *r, const struct iovec *iov, int count)
{
    weft__conn *c = r->conn;
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    c->unflushed += bytes;
    int rc;
    if (c->unflushed <= WEFT__OUT_BYTES) { /* fits in the output buffer without waiting */
        weft__unsent_limit_add(c, bytes);
        rc = stream_write_all(&c->stream, iov, count, bytes);
    } else {
        rc = write_all_at_min_rate(r, iov, count, bytes);
        c->unflushed = WEFT__OUT_BYTES;
    }
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

/*
 * Send the head if it is not sent yet. Then send the held bytes and data. If the reply is chunked,
 * send them as one chunk.
 */
static int reply_emit(weft_http_request *r, const void *data, size_t bytes)
{
    char size[2 * sizeof bytes + sizeof "\r\n"];
    struct iovec iov[WEFT__REPLY_IOV_MAX];
    int n = 0;
    size_t total = r->held_bytes + bytes;
    bool is_chunk = r->is_chunked && total > 0;
    if (is_chunk)
        iov[n++] = (struct iovec){size, (size_t)snprintf(size, sizeof size, "%zx\r\n", total)};
    if (r->held_bytes > 0)
        iov[n++] = (struct iovec){r->held, r->held_bytes};
    if (bytes > 0)
        iov[n++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    if (is_chunk)
        iov[n++] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
    r->sent += total;
    r->held_bytes = 0;
    if (r->state == WEFT__REPLY_BEGUN)
        return weft__reply_send_head(r, iov, n);
    return n > 0 ? weft__reply_writev(r, iov, n) : 0;
}

int weft__reply_flush_held(weft_http_request *r)
{
    return reply_emit(r, NULL, 0);
}

int weft__reply_write_encoded(weft_http_request *r, const void *data, size_t bytes)
{
    if (r->length >= 0 || r->held_bytes + bytes > WEFT__OUT_BYTES)
        return reply_emit(r, data, bytes);
    if (r->held == NULL)
        r->held = weft__arena_alloc(&r->conn->arena, WEFT__OUT_BYTES);
    if (r->held == NULL)
        return -ENOMEM;
    memcpy(r->held + r->held_bytes, data, bytes);
    r->held_bytes += bytes;
    return 0;
}

/* Check that the body may grow by this number of bytes. Begin the reply if necessary. */
static int reply_check_write(weft_http_request *r, uint64_t bytes)
{
    int rc = r->state == WEFT__REPLY_NONE ? weft_http_begin(r, 200, -1) : 0;
    if (rc < 0)
        return rc;
    if (r->state > WEFT__REPLY_BODY)
        return r->state == WEFT__REPLY_ABORTED ? -EPIPE : -EALREADY;
    if (r->announced >= 0 && bytes > (uint64_t)r->announced - r->written)
        return weft_fail(-EMSGSIZE, "weft_http_write: the body exceeds the announced %lld bytes",
                         (long long)r->announced);
    return 0;
}

ssize_t weft_http_write(weft_http_request *r, const void *data, size_t bytes)
{
    int rc = reply_check_write(r, bytes);
    if (rc < 0)
        return rc;
    r->written += bytes;
    if (bytes == 0 || r->is_bodiless)
        return (ssize_t)bytes;
    rc = weft__reply_encode_write(r, data, bytes);
    r->failure = rc < 0 ? rc : r->failure;
    return rc < 0 ? rc : (ssize_t)bytes;
}

ssize_t weft_http_printf(weft_http_request *r, const char *format, ...)
{
    weft__format text;
    va_list args;
    va_start(args, format);
    ssize_t n = weft__format_open(&text, format, args);
    va_end(args);
    if (n < 0)
        return n;
    n = weft_http_write(r, text.bytes, text.count);
    weft__format_close(&text);
    return n;
}

static int reply_flush_stream(weft_http_request *r)
{
    weft__conn *c = r->conn;
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->out_rate, r->conn->server);
    if (rc < 0)
        return rc;
    rc = weft_stream_flush(&c->stream);
    int late = weft__min_rate_close(&call, c->unflushed);
    if (rc < 0)
        return weft__reply_abort(r, late < 0 ? late : rc);
    c->unflushed = 0;
    return 0;
}

int weft_http_flush(weft_http_request *r)
{
    if (r->state == WEFT__REPLY_NONE)
        return -EINVAL;
    if (r->state == WEFT__REPLY_ABORTED)
        return -EPIPE;
    int rc = r->state <= WEFT__REPLY_BODY ? weft__reply_encode_flush(r) : 0;
    if (rc == 0 && (r->state == WEFT__REPLY_BEGUN || r->held_bytes > 0))
        rc = weft__reply_flush_held(r);
    r->failure = rc < 0 ? rc : r->failure;
    return rc < 0 ? rc : reply_flush_stream(r);
}

/* Files */

static ssize_t sendfile_at_min_rate(weft_http_request *r, int out, int fd, off_t *offset,
                                    size_t bytes)
{
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->out_rate, r->conn->server);
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

static int send_by_copy(weft_http_request *r, int fd, off_t offset, uint64_t bytes)
{
    char *buffer = malloc(COPY_BYTES);
    int rc = buffer != NULL ? 0 : -ENOMEM;
    while (rc == 0 && bytes > 0) {
        ssize_t n = weft_pread(fd, buffer, bytes < COPY_BYTES ? (size_t)bytes : COPY_BYTES, offset);
        rc = n == 0 ? -ENODATA : n < 0 ? (int)n : weft__reply_encode_write(r, buffer, (size_t)n);
        offset += n > 0 ? n : 0;
        bytes -= n > 0 ? (uint64_t)n : 0;
    }
    free(buffer);
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

int64_t weft_http_send_file(weft_http_request *r, int fd, off_t offset, uint64_t bytes)
{
    int rc = reply_check_write(r, bytes);
    if (rc < 0)
        return rc;
    r->written += bytes;
    if (bytes == 0 || r->is_bodiless)
        return (int64_t)bytes;
    int out = r->length >= 0 && bytes > COPY_BYTES ? weft_stream_fd(&r->conn->stream) : -EOPNOTSUPP;
    if (out >= 0)
        rc = send_by_sendfile(r, out, fd, offset, bytes);
    else
        rc = send_by_copy(r, fd, offset, bytes);
    return rc < 0 ? rc : (int64_t)bytes;
}
