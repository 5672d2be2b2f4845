/* The body of a reply: what goes out at once, what is held for a chunk, and files. */
#include "http/format.h"
#include "http/server.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What of a file is copied at a time where it cannot be sent by the kernel. */
#define COPY_BYTES ((size_t)16 << 10)

/* All of it, or an error. A write that was cut short says why when asked again. */
static int write_all(weft_stream *s, const struct iovec *pieces, int count, size_t bytes)
{
    ssize_t n = weft_stream_writev(s, pieces, count);
    if (n < 0 || (size_t)n == bytes)
        return n < 0 ? (int)n : 0;
    int rc = weft_stream_flush(s);
    return rc < 0 ? rc : -ECANCELED;
}

void weft__pieces_advance(struct iovec *pieces, int count, size_t bytes)
{
    for (int i = 0; i < count && bytes > 0; i++) {
        size_t gone = bytes < pieces[i].iov_len ? bytes : pieces[i].iov_len;
        pieces[i] = (struct iovec){(char *)pieces[i].iov_base + gone, pieces[i].iov_len - gone};
        bytes -= gone;
    }
}

/* Copy the first pieces, up to so many bytes. Returns their number. */
static int take_first(struct iovec *first, const struct iovec *pieces, int count, size_t bytes)
{
    int n = 0;
    for (; n < count && bytes > 0; n++) {
        first[n] = pieces[n];
        if (first[n].iov_len > bytes)
            first[n].iov_len = bytes;
        bytes -= first[n].iov_len;
    }
    return n;
}

/* As much as goes in the time that the peer has; *is_late: it was not all because of that. */
static ssize_t write_in_time(weft_http_request *r, const struct iovec *pieces, int count,
                             bool *is_late)
{
    weft__conn *c = r->conn;
    weft__pace_turn turn;
    struct iovec first[WEFT__BEHIND_MAX + 1];
    ssize_t allowed = weft__unsent_allow(c, &r->out_pace);
    if (allowed < 0)
        return allowed;
    count = take_first(first, pieces, count, (size_t)allowed);
    int rc = weft__pace_open(&turn, &r->out_pace, r->conn->server);
    if (rc < 0)
        return rc;
    ssize_t n = weft_stream_writev(&c->stream, first, count);
    uint64_t moved = n > 0 ? (uint64_t)n : 0;
    weft__unsent_add(c, moved);
    rc = weft__pace_close(&turn, moved);
    *is_late = rc < 0;
    return n < 0 && rc < 0 ? rc : n;
}

/* Has to wait for the peer, maybe: for as long as enough moves, however much there is. */
static int write_paced(weft_http_request *r, const struct iovec *pieces, int count, size_t bytes)
{
    struct iovec rest[WEFT__BEHIND_MAX + 1];
    bool is_late = false;
    memcpy(rest, pieces, (size_t)count * sizeof *rest);
    for (;;) {
        ssize_t n = write_in_time(r, rest, count, &is_late);
        if (n < 0 || (size_t)n == bytes)
            return n < 0 ? (int)n : 0;
        weft__pieces_advance(rest, count, (size_t)n);
        bytes -= (size_t)n;
        if (n == 0 && !is_late)
            return write_all(&r->conn->stream, rest, count, bytes);
    }
}

int weft__reply_put(weft_http_request *r, const struct iovec *pieces, int count)
{
    weft__conn *c = r->conn;
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    c->unflushed += bytes;
    int rc;
    if (c->unflushed <= WEFT__OUT_BYTES) { /* it has room: there is no waiting */
        weft__unsent_add(c, bytes);
        rc = write_all(&c->stream, pieces, count, bytes);
    } else {
        rc = write_paced(r, pieces, count, bytes);
        c->unflushed = WEFT__OUT_BYTES;
    }
    return rc < 0 ? weft__reply_cut(r, rc) : 0;
}

/* What is held and, behind it, data: one chunk, or plain. */
static int emit(weft_http_request *r, const void *data, size_t bytes)
{
    char size[2 * sizeof bytes + sizeof "\r\n"];
    struct iovec pieces[WEFT__BEHIND_MAX];
    int n = 0;
    size_t total = r->held_bytes + bytes;
    bool is_chunk = r->is_chunked && total > 0;
    if (is_chunk)
        pieces[n++] = (struct iovec){size, (size_t)snprintf(size, sizeof size, "%zx\r\n", total)};
    if (r->held_bytes > 0)
        pieces[n++] = (struct iovec){r->held, r->held_bytes};
    if (bytes > 0)
        pieces[n++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    if (is_chunk)
        pieces[n++] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
    r->sent += total;
    r->held_bytes = 0;
    if (r->state == WEFT__REPLY_BEGUN)
        return weft__reply_send_head(r, pieces, n);
    return n > 0 ? weft__reply_put(r, pieces, n) : 0;
}

int weft__reply_release(weft_http_request *r)
{
    return emit(r, NULL, 0);
}

int weft__reply_take(weft_http_request *r, const void *data, size_t bytes)
{
    if (r->length >= 0 || r->held_bytes + bytes > WEFT__OUT_BYTES)
        return emit(r, data, bytes);
    if (r->held == NULL)
        r->held = weft__arena_alloc(&r->conn->arena, WEFT__OUT_BYTES);
    if (r->held == NULL)
        return -ENOMEM;
    memcpy(r->held + r->held_bytes, data, bytes);
    r->held_bytes += bytes;
    return 0;
}

/* May so many bytes of the body be written now? A reply that was not begun is begun. */
static int enter(weft_http_request *r, uint64_t bytes)
{
    int rc = r->state == WEFT__REPLY_NONE ? weft_http_begin(r, 200, -1) : 0;
    if (rc < 0)
        return rc;
    if (r->state > WEFT__REPLY_BODY)
        return r->state == WEFT__REPLY_CUT ? -EPIPE : -EALREADY;
    if (r->announced >= 0 && bytes > (uint64_t)r->announced - r->written)
        return weft_fail(-EMSGSIZE, "a reply of more than the %lld bytes that were announced",
                         (long long)r->announced);
    return 0;
}

ssize_t weft_http_write(weft_http_request *r, const void *data, size_t bytes)
{
    int rc = enter(r, bytes);
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

static int flush_stream(weft_http_request *r)
{
    weft__conn *c = r->conn;
    weft__pace_turn turn;
    int rc = weft__pace_open(&turn, &r->out_pace, r->conn->server);
    if (rc < 0)
        return rc;
    rc = weft_stream_flush(&c->stream);
    int late = weft__pace_close(&turn, c->unflushed);
    if (rc < 0)
        return weft__reply_cut(r, late < 0 ? late : rc);
    c->unflushed = 0;
    return 0;
}

int weft_http_flush(weft_http_request *r)
{
    if (r->state == WEFT__REPLY_NONE)
        return -EINVAL;
    if (r->state == WEFT__REPLY_CUT)
        return -EPIPE;
    int rc = r->state <= WEFT__REPLY_BODY ? weft__reply_encode_flush(r) : 0;
    if (rc == 0 && (r->state == WEFT__REPLY_BEGUN || r->held_bytes > 0))
        rc = weft__reply_release(r);
    r->failure = rc < 0 ? rc : r->failure;
    return rc < 0 ? rc : flush_stream(r);
}

/* Files */

static ssize_t send_piece(weft_http_request *r, int out, int fd, off_t *offset, size_t bytes)
{
    weft__pace_turn turn;
    int rc = weft__pace_open(&turn, &r->out_pace, r->conn->server);
    if (rc < 0)
        return rc;
    off_t from = *offset;
    ssize_t n = weft_sendfile(out, fd, offset, bytes);
    uint64_t moved = (uint64_t)(*offset - from);
    weft__unsent_add(r->conn, moved);
    int late = weft__pace_close(&turn, moved);
    return n < 0 && late < 0 ? late : n;
}

/* By the kernel. The head goes first. */
static int send_by_kernel(weft_http_request *r, int out, int fd, off_t offset, uint64_t bytes)
{
    int rc = weft_http_flush(r);
    while (rc == 0 && bytes > 0) {
        ssize_t n = weft__unsent_allow(r->conn, &r->out_pace);
        if (n > 0)
            n = send_piece(r, out, fd, &offset, bytes < (uint64_t)n ? (size_t)bytes : (size_t)n);
        rc = n == 0 ? -ENODATA : n < 0 ? (int)n : 0;
        bytes -= n > 0 ? (uint64_t)n : 0;
        r->sent += n > 0 ? (uint64_t)n : 0;
    }
    return rc < 0 ? weft__reply_cut(r, rc) : 0;
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
    return rc < 0 ? weft__reply_cut(r, rc) : 0;
}

int64_t weft_http_send_file(weft_http_request *r, int fd, off_t offset, uint64_t bytes)
{
    int rc = enter(r, bytes);
    if (rc < 0)
        return rc;
    r->written += bytes;
    if (bytes == 0 || r->is_bodiless)
        return (int64_t)bytes;
    int out = r->length >= 0 && bytes > COPY_BYTES ? weft_stream_fd(&r->conn->stream) : -EOPNOTSUPP;
    if (out >= 0)
        rc = send_by_kernel(r, out, fd, offset, bytes);
    else
        rc = send_by_copy(r, fd, offset, bytes);
    return rc < 0 ? rc : (int64_t)bytes;
}
