/* Streams: how one is opened, entered and closed, and the descriptor underneath. */
#include "io/stream.h"

#include "core/scope.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <math.h>
#include <poll.h>

/* Longer lines are hardly ever meant: an unlimited one is how a peer fills our memory. */
#define LINE_BYTES_DEFAULT ((size_t)64 << 10)
/* Above this it is a mistake rather than a wish. */
#define BYTES_MAX ((size_t)1 << 30)

static int fd_of(const void *ctx)
{
    return (int)(intptr_t)ctx;
}

static ssize_t fd_read(void *ctx, void *data, size_t bytes)
{
    return weft_read(fd_of(ctx), data, bytes);
}

static ssize_t fd_writev(void *ctx, const struct iovec *pieces, int count)
{
    if (count == 1) /* the cheaper call */
        return weft_write(fd_of(ctx), pieces[0].iov_base, pieces[0].iov_len);
    return weft_writev(fd_of(ctx), pieces, count);
}

static int fd_close(void *ctx)
{
    return weft_close(fd_of(ctx));
}

static int fd_wait(void *ctx)
{
    int rc = weft_wait_fd(fd_of(ctx), POLLIN);
    return rc < 0 ? rc : 0;
}

static const weft_stream_type descriptor = {
    .read = fd_read, .writev = fd_writev, .close = fd_close, .wait = fd_wait};

int weft_stream_open_with(weft_stream *opened, const weft_stream_type *type, void *ctx)
{
    if (type == NULL || type->read == NULL || type->writev == NULL || type->close == NULL)
        return weft_fail(-EINVAL, "a stream needs functions to read, write and close");
    *weft__stream_of(opened) = (weft__stream){
        .type = type,
        .ctx = ctx,
        .read_bytes = WEFT__BUFFER_BYTES,
        .write_bytes = WEFT__BUFFER_BYTES,
        .line_bytes_max = LINE_BYTES_DEFAULT,
    };
    return 0;
}

int weft_stream_open(weft_stream *opened, int fd)
{
    return fd < 0 ? -EBADF : weft_stream_open_with(opened, &descriptor, (void *)(intptr_t)fd);
}

static bool is_open(const weft__stream *s)
{
    return s->type != NULL && !s->is_closing;
}

int weft_stream_configure(weft_stream *configured, const weft_stream_options *options)
{
    weft__stream *s = weft__stream_of(configured);
    weft_stream_options o = options != NULL ? *options : (weft_stream_options){0};
    if (!is_open(s))
        return -EBADF;
    if (o.read_bytes > BYTES_MAX || o.write_bytes > BYTES_MAX)
        return weft_fail(-EINVAL, "a stream's buffers of %zu and %zu bytes", o.read_bytes,
                         o.write_bytes);
    if (o.read_memory != s->in.lent) {
        if (weft__buffer_held(&s->in) > 0 || s->is_reading)
            return weft_fail(-EBUSY, "a stream that holds input");
        weft__buffer_release(&s->in);
    }
    s->read_bytes = o.read_bytes != 0 ? o.read_bytes : WEFT__BUFFER_BYTES;
    s->write_bytes = o.write_bytes != 0 ? o.write_bytes : WEFT__BUFFER_BYTES;
    s->in.lent = o.read_memory;
    s->in.lent_bytes = s->read_bytes;
    return 0;
}

int weft_stream_fd(weft_stream *asked)
{
    const weft__stream *s = weft__stream_of(asked);
    if (!is_open(s))
        return -EBADF;
    return s->type == &descriptor ? fd_of(s->ctx) : -EOPNOTSUPP;
}

void *weft_stream_ctx(weft_stream *asked, const weft_stream_type *type)
{
    const weft__stream *s = weft__stream_of(asked);
    return is_open(s) && s->type == type ? s->ctx : NULL;
}

int weft_stream_limit(weft_stream *limited, size_t line_bytes_max)
{
    weft__stream *s = weft__stream_of(limited);
    if (!is_open(s))
        return -EBADF;
    if (line_bytes_max > BYTES_MAX)
        return weft_fail(-EINVAL, "lines of %zu bytes", line_bytes_max);
    s->line_bytes_max = line_bytes_max != 0 ? line_bytes_max : LINE_BYTES_DEFAULT;
    return 0;
}

int weft__stream_enter(const weft__stream *s, bool *is_in)
{
    if (!is_open(s))
        return -EBADF;
    if (*is_in)
        return weft_fail(-EBUSY, "another fiber is %s this stream",
                         is_in == &s->is_reading ? "reading from" : "writing to");
    *is_in = true;
    return 0;
}

ssize_t weft__stream_leave(weft__stream *s, bool *is_in, ssize_t result)
{
    *is_in = false;
    if (s->closer != 0 && !s->is_reading && !s->is_writing)
        (void)weft_schedule(s->closer, 0);
    return result;
}

static void wait_for_others(weft__stream *s)
{
    s->closer = weft_self();
    WEFT_SHIELD(INFINITY) {
        while (s->is_reading || s->is_writing)
            (void)weft_suspend();
    }
}

static void forget(weft__stream *s)
{
    weft__buffer_release(&s->in);
    weft__buffer_release(&s->out);
    *s = (weft__stream){0};
}

int weft_stream_close(weft_stream *closed)
{
    weft__stream *s = weft__stream_of(closed);
    if (!is_open(s))
        return -EBADF;
    s->is_closing = true;
    int said = -EBADF;
    if (!s->is_writing) {
        s->is_writing = true;
        int unsaid = weft__stream_take_unsaid(s);
        said = weft__stream_drain(s);
        said = unsaid < 0 ? unsaid : said;
        s->is_writing = false;
    }
    s->is_shut = true;
    uint64_t cuts = weft__cuts_so_far();
    int rc = s->type->close(s->ctx);
    if (rc >= 0)
        weft__cuts_forget(cuts);
    if (s->is_reading || s->is_writing)
        wait_for_others(s);
    forget(s);
    return said < 0 ? said : rc;
}

/* Whether the descriptor can be given back, after a flush. */
static int check_detach(const weft__stream *s)
{
    if (s->is_closing)
        return -EBADF;
    if (s->is_reading)
        return weft_fail(-EBUSY, "another fiber is reading from this stream");
    if (weft__buffer_held(&s->in) > 0)
        return weft_fail(-ENOTEMPTY, "a stream with %zu bytes to read", weft__buffer_held(&s->in));
    return 0;
}

int weft_stream_detach(weft_stream *detached)
{
    weft__stream *s = weft__stream_of(detached);
    if (is_open(s) && s->type != &descriptor)
        return -EOPNOTSUPP;
    int rc = weft_stream_flush(detached);
    if (rc == 0)
        rc = check_detach(s);
    if (rc < 0)
        return rc;
    int fd = fd_of(s->ctx);
    forget(s);
    return fd;
}
