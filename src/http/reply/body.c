/* The body of a reply: buffered bytes, writes and files. */
#include "http/reply/reply.h"
#include "http/text/format.h"

#include <weft/error.h>
#include <weft/file.h>

#include <stdarg.h>
#include <stdlib.h>

/* The size of the copy buffer for files that sendfile(2) cannot send. */
#define COPY_BYTES ((size_t)16 << 10)

/* Send the head if it is not sent yet. Then send the held bytes and data. */
static int reply_emit(weft_http_request *r, const void *data, size_t bytes)
{
    struct iovec iov[2];
    int n = 0;
    if (r->held_bytes > 0)
        iov[n++] = (struct iovec){r->held, r->held_bytes};
    if (bytes > 0)
        iov[n++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    r->sent += r->held_bytes + bytes;
    r->held_bytes = 0;
    if (r->state == WEFT__REPLY_BEGUN)
        return weft__reply_send_head(r, iov, n, false);
    return n > 0 ? r->codec->send_body(r, iov, n) : 0;
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
        r->held = weft__arena_alloc(r->arena, WEFT__OUT_BYTES);
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
    return rc < 0 ? rc : r->codec->flush(r);
}

/* Files */

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
    bool may_use_sendfile = r->length >= 0 && bytes > COPY_BYTES && r->codec->send_file != NULL;
    rc = may_use_sendfile ? r->codec->send_file(r, fd, offset, bytes) : -EOPNOTSUPP;
    if (rc == -EOPNOTSUPP)
        rc = send_by_copy(r, fd, offset, bytes);
    return rc < 0 ? rc : (int64_t)bytes;
}
