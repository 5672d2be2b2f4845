/* Opening, configuring and closing of streams, and the stream type for descriptors. */
#include "io/stream/stream.h"

#include "core/cord/cord.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/scope.h"

#include <weft/error.h>
#include <weft/io.h>

#include <poll.h>

/*
 * The default limit for a line, in bytes. Without a limit, a peer could exhaust memory with one
 * line.
 */
#define LINE_BYTES_DEFAULT ((size_t)64 << 10)
/* The maximum of each configured size, in bytes. Larger sizes are probably mistakes. */
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
    if (count == 1) /* weft_write is cheaper than weft_writev */
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

static const weft_stream_type fd_stream_type = {
    .read = fd_read, .writev = fd_writev, .close = fd_close, .wait = fd_wait};

int weft_stream_open_with(weft_stream *stream, const weft_stream_type *type, void *ctx)
{
    if (type == NULL || type->read == NULL || type->writev == NULL || type->close == NULL)
        return weft_fail(-EINVAL, "weft_stream_open_with: type, read, writev or close is NULL");
    *weft__stream_of(stream) = (weft__stream){
        .type = type,
        .ctx = ctx,
        .read_bytes = WEFT__BUFFER_BYTES,
        .write_bytes = WEFT__BUFFER_BYTES,
        .line_bytes_max = LINE_BYTES_DEFAULT,
    };
    return 0;
}

int weft_stream_open(weft_stream *stream, int fd)
{
    return fd < 0 ? -EBADF : weft_stream_open_with(stream, &fd_stream_type, (void *)(intptr_t)fd);
}

int weft_stream_configure(weft_stream *stream, const weft_stream_options *options)
{
    weft__stream *s = weft__stream_of(stream);
    weft_stream_options o = options != NULL ? *options : (weft_stream_options){0};
    if (!weft__stream_is_open(s))
        return -EBADF;
    if (o.read_bytes > BYTES_MAX || o.write_bytes > BYTES_MAX)
        return weft_fail(
            -EINVAL,
            "weft_stream_configure: read_bytes is %zu, write_bytes is %zu; at most 1 GiB each",
            o.read_bytes, o.write_bytes);
    if (o.read_memory != s->in.borrowed) {
        if (weft__buffer_held(&s->in) > 0 || s->is_reading)
            return weft_fail(
                -EBUSY, "weft_stream_configure: the stream holds input, or a fiber reads from it");
        weft__buffer_release(&s->in);
    }
    s->read_bytes = (uint32_t)(o.read_bytes != 0 ? o.read_bytes : WEFT__BUFFER_BYTES);
    s->write_bytes = (uint32_t)(o.write_bytes != 0 ? o.write_bytes : WEFT__BUFFER_BYTES);
    s->in.borrowed = o.read_memory;
    s->in.borrowed_bytes = s->read_bytes;
    return 0;
}

int weft_stream_fd(weft_stream *stream)
{
    const weft__stream *s = weft__stream_of(stream);
    if (!weft__stream_is_open(s))
        return -EBADF;
    return s->type == &fd_stream_type ? fd_of(s->ctx) : -EOPNOTSUPP;
}

void *weft_stream_ctx(weft_stream *stream, const weft_stream_type *type)
{
    const weft__stream *s = weft__stream_of(stream);
    return weft__stream_is_open(s) && s->type == type ? s->ctx : NULL;
}

int weft_stream_set_line_max(weft_stream *stream, size_t line_bytes_max)
{
    weft__stream *s = weft__stream_of(stream);
    if (!weft__stream_is_open(s))
        return -EBADF;
    if (line_bytes_max > BYTES_MAX)
        return weft_fail(-EINVAL, "weft_stream_set_line_max: line_bytes_max is %zu; at most 1 GiB",
                         line_bytes_max);
    s->line_bytes_max = (uint32_t)(line_bytes_max != 0 ? line_bytes_max : LINE_BYTES_DEFAULT);
    return 0;
}

static void stream_reset(weft__stream *s)
{
    weft__buffer_release(&s->in);
    weft__buffer_release(&s->out);
    *s = (weft__stream){0};
}

/*
 * Flush a stream that is being closed. Store the deferred error, or the result of the flush, in
 * *result. Returns false if the flush of the transport would switch where switching is forbidden.
 * The call then does not store a result.
 */
static bool flush_last(weft__cord *c, weft__stream *s, int *result)
{
    s->writer = c->current;
    int rc = weft__stream_drain(s);
    s->writer = NULL;
    if (rc == -EPERM && c->current->live->no_switch > 0)
        return false;
    int deferred_error = weft__stream_take_deferred(s);
    *result = deferred_error < 0 ? deferred_error : rc;
    return true;
}

/*
 * Close the transport of a stream without waiting fibers, wait for its users, and free the stream.
 * Returns the result of closing the transport.
 */
static int stream_shut(weft__stream *s)
{
    s->is_shut = true;
    uint64_t cancels_before = weft__scope_cancels_so_far();
    int rc = s->type->close(s->ctx);
    if (rc >= 0)
        weft__scope_cancels_forget(cancels_before);
    weft__stream_wait_for_users(s);
    stream_reset(s);
    return rc;
}

int weft_stream_close(weft_stream *stream)
{
    weft__stream *s = weft__stream_of(stream);
    if (!weft__stream_is_open(s))
        return -EBADF;
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (weft__stream_is_used_by(s, c->current))
        return weft_fail(-EDEADLK, "weft_stream_close: a function of the transport is the caller");
    bool would_switch = weft__stream_has_users(s) || weft__buffer_held(&s->out) > 0;
    if (would_switch && c->current->live->no_switch > 0)
        return (int)weft__call_refuse(c);
    s->is_closing = true;
    weft__stream_evict_waiters(s);
    int write_rc = -EBADF;
    if (s->writer == NULL && !flush_last(c, s, &write_rc)) {
        s->is_closing = false;
        return -EPERM;
    }
    int rc = stream_shut(s);
    return write_rc < 0 ? write_rc : rc;
}

/* Set *to to a copy of a buffer, in memory of the stream. Returns 0 or -ENOMEM. */
static int buffer_copy_borrowed(weft__buffer *to, const weft__buffer *from)
{
    size_t held = weft__buffer_held(from);
    *to = (weft__buffer){0};
    if (held == 0)
        return 0;
    int rc = weft__buffer_resize(to, from->bytes);
    if (rc == 0)
        weft__buffer_append(to, from->data + from->head, held);
    return rc;
}

int weft_stream_move(weft_stream *to, weft_stream *from)
{
    weft__stream *s = weft__stream_of(from);
    if (!weft__stream_is_open(s))
        return -EBADF;
    if (to == from)
        return weft_fail(-EINVAL, "weft_stream_move: to and from are the same stream");
    if (s->is_reading || s->writer != NULL)
        return weft_fail(-EBUSY, "weft_stream_move: a fiber is in a call on the stream");
    weft__buffer in = s->in;
    if (s->in.data == s->in.borrowed && buffer_copy_borrowed(&in, &s->in) < 0)
        return -ENOMEM;
    in.borrowed = NULL;
    in.borrowed_bytes = 0;
    s->in = in;
    *weft__stream_of(to) = *s;
    *s = (weft__stream){0};
    return 0;
}

/* Check whether the descriptor can be detached. Call this function after a flush. */
static int check_detach(const weft__stream *s)
{
    if (s->is_closing)
        return -EBADF;
    if (s->is_reading || s->writer != NULL)
        return weft_fail(-EBUSY, "weft_stream_detach: another fiber %s this stream",
                         s->is_reading ? "is reading from" : "waits to write to");
    if (weft__buffer_held(&s->in) > 0)
        return weft_fail(-ENOTEMPTY, "weft_stream_detach: the stream holds %zu unread bytes",
                         weft__buffer_held(&s->in));
    return 0;
}

int weft_stream_detach(weft_stream *stream)
{
    weft__stream *s = weft__stream_of(stream);
    if (weft__stream_is_open(s) && s->type != &fd_stream_type)
        return -EOPNOTSUPP;
    int rc = weft_stream_flush(stream);
    if (rc == 0)
        rc = check_detach(s);
    if (rc < 0)
        return rc;
    int fd = fd_of(s->ctx);
    stream_reset(s);
    return fd;
}
