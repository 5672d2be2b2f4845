/*
 * Writing to a stream. Each byte that a call accepts is written exactly once, even if the first
 * attempt to write it fails.
 */
#include "io/stream/stream.h"

#include "core/fiber/fiber.h"
#include "core/lifetime/scope.h"

#include <weft/fiber.h>

#include <stdio.h>

/*
 * Store a write error for the next call, because the current call succeeds. Do not store a
 * cancellation, because it interrupts the next call anyway. A scope must not count the current call
 * as cancelled. Therefore forget the cancellations since cancels_before.
 */
static void defer_error(weft__stream *s, ssize_t error, uint64_t cancels_before)
{
    if (error != -ECANCELED)
        s->deferred_error = (int)error;
    weft__scope_cancels_forget(cancels_before);
}

int weft__stream_take_deferred(weft__stream *s)
{
    int error = s->deferred_error;
    s->deferred_error = 0;
    return error;
}

/* The maximum number of pieces per writev, including the buffer. More pieces need more calls. */
#define PIECES_MAX 16

/*
 * Store the pieces without their first done bytes in rest. Returns the number of stored pieces, at
 * most max.
 */
static int gather_rest(struct iovec *rest, int max, const struct iovec *pieces, int count,
                       size_t done)
{
    int n = 0;
    for (int i = 0; i < count && n < max; i++) {
        size_t bytes = pieces[i].iov_len;
        if (done >= bytes) {
            done -= bytes;
            continue;
        }
        rest[n++] = (struct iovec){(char *)pieces[i].iov_base + done, bytes - done};
        done = 0;
    }
    return n;
}

/*
 * Write the buffer and the pieces without their first done bytes, in one call. Returns the number
 * of written bytes of the pieces, or an error. If the call fails, no byte was written.
 */
static ssize_t output_write_once(weft__stream *s, const struct iovec *pieces, int count,
                                 size_t done)
{
    if (s->is_shut)
        return -EBADF;
    weft__buffer *b = &s->out;
    size_t pending = weft__buffer_held(b);
    struct iovec rest[PIECES_MAX];
    int n = 0;
    if (pending > 0)
        rest[n++] = (struct iovec){b->data + b->head, pending};
    n += gather_rest(rest + n, PIECES_MAX - n, pieces, count, done);
    uint64_t cancels_before = weft__scope_cancels_so_far();
    ssize_t written = s->type->writev(s->ctx, rest, n);
    if (written < 0)
        return written;
    weft__scope_cancels_forget(cancels_before);
    size_t sent = (size_t)written < pending ? (size_t)written : pending;
    b->head += sent;
    return written - (ssize_t)sent;
}

int weft__stream_drain(weft__stream *s)
{
    while (weft__buffer_held(&s->out) > 0) {
        ssize_t rc = output_write_once(s, NULL, 0, 0);
        if (rc < 0)
            return (int)rc;
    }
    weft__buffer_release(&s->out);
    if (s->type->flush == NULL)
        return 0;
    return s->is_shut ? -EBADF : s->type->flush(s->ctx);
}

static size_t pieces_bytes(const struct iovec *pieces, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

/* Append the pieces without their first done bytes. The buffer must have enough free bytes. */
static void append_rest(weft__buffer *b, const struct iovec *pieces, int count, size_t done)
{
    for (int i = 0; i < count; i++) {
        size_t skipped = done < pieces[i].iov_len ? done : pieces[i].iov_len;
        weft__buffer_append(b, (const char *)pieces[i].iov_base + skipped,
                            pieces[i].iov_len - skipped);
        done -= skipped;
    }
}

static ssize_t write_pieces(weft__stream *s, const struct iovec *pieces, int count)
{
    weft__buffer *b = &s->out;
    size_t bytes = pieces_bytes(pieces, count), done = 0;
    int rc = weft__stream_take_deferred(s);
    if (rc == 0 && b->data == NULL && bytes < s->write_bytes)
        rc = weft__buffer_resize(b, s->write_bytes);
    if (rc < 0)
        return rc;
    s->writer->was_interrupted = false; /* for weft__stream_fail_waiters */
    while (bytes - done > weft__buffer_free_bytes(b)) {
        uint64_t cancels_before = weft__scope_cancels_so_far();
        ssize_t n = output_write_once(s, pieces, count, done);
        if (n < 0 && done > 0) {
            defer_error(s, n, cancels_before);
            weft__stream_fail_waiters(s, (int)n);
            return (ssize_t)done;
        }
        if (n < 0)
            return n;
        done += (size_t)n;
    }
    append_rest(b, pieces, count, done);
    s->last_writer = s->writer->id;
    return (ssize_t)bytes;
}

/* Provide space for a text of bytes bytes that does not fit after the tail. */
static int output_reserve(weft__stream *s, size_t bytes)
{
    weft__buffer *b = &s->out;
    if (bytes <= weft__buffer_free_bytes(b)) {
        weft__buffer_compact(b);
        return 0;
    }
    if (weft__buffer_held(b) > 0 &&
        (bytes <= s->write_bytes || weft__buffer_held(b) > s->write_bytes))
        return weft__stream_drain(s);
    return weft__buffer_resize(b, weft__buffer_held(b) + bytes);
}

static ssize_t format_text(weft__stream *s, const char *format, va_list args)
{
    weft__buffer *b = &s->out;
    int rc = weft__stream_take_deferred(s);
    if (rc == 0 && b->data == NULL)
        rc = weft__buffer_resize(b, s->write_bytes);
    /*
     * Format the text again in each iteration. Other fibers may have run meanwhile and changed the
     * data of the arguments.
     */
    while (rc == 0) {
        va_list copy;
        va_copy(copy, args);
        int n = vsnprintf(b->data + b->tail, b->bytes - b->tail + 1, format, copy);
        va_end(copy);
        if (n < 0)
            return -EINVAL;
        if ((size_t)n <= b->bytes - b->tail) {
            b->tail += (size_t)n;
            return n;
        }
        rc = output_reserve(s, (size_t)n);
        if (rc == 0 && b->data == NULL)
            rc = weft__buffer_resize(b, s->write_bytes);
    }
    return rc;
}

static ssize_t print_text(weft__stream *s, const char *format, va_list args)
{
    ssize_t bytes = format_text(s, format, args);
    if (bytes < 0)
        return bytes;
    s->last_writer = s->writer->id;
    if (weft__buffer_held(&s->out) > s->write_bytes) {
        uint64_t cancels_before = weft__scope_cancels_so_far();
        int rc = weft__stream_drain(s);
        if (rc < 0)
            defer_error(s, rc, cancels_before);
    }
    return bytes;
}

ssize_t weft_stream_writev(weft_stream *stream, const struct iovec *pieces, int count)
{
    weft__stream *s = weft__stream_of(stream);
    if (count < 0)
        return -EINVAL;
    int rc = weft__stream_enter_write(s);
    return rc < 0 ? rc : weft__stream_leave_write(s, write_pieces(s, pieces, count));
}

char *weft_stream_reserve(weft_stream *stream, size_t bytes)
{
    weft__stream *s = weft__stream_of(stream);
    weft__buffer *b = &s->out;
    if (s->type == NULL || s->writer != NULL || s->is_closing || s->deferred_error != 0)
        return NULL;
    if (b->data == NULL && (bytes > s->write_bytes || weft__buffer_resize(b, s->write_bytes) < 0))
        return NULL;
    return bytes <= b->bytes - b->tail ? b->data + b->tail : NULL;
}

void weft_stream_commit(weft_stream *stream, size_t bytes)
{
    weft__stream *s = weft__stream_of(stream);
    s->out.tail += bytes;
    s->last_writer = weft_self();
}

ssize_t weft_stream_write(weft_stream *stream, const void *data, size_t bytes)
{
    const struct iovec piece = {(void *)(uintptr_t)data, bytes};
    return weft_stream_writev(stream, &piece, 1);
}

ssize_t weft_stream_puts(weft_stream *stream, const char *text)
{
    return weft_stream_write(stream, text, strlen(text));
}

ssize_t weft_stream_vprintf(weft_stream *stream, const char *format, va_list args)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_write(s);
    return rc < 0 ? rc : weft__stream_leave_write(s, print_text(s, format, args));
}

ssize_t weft_stream_printf(weft_stream *stream, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ssize_t bytes = weft_stream_vprintf(stream, format, args);
    va_end(args);
    return bytes;
}

static int flush_output(weft__stream *s)
{
    int rc = weft__stream_take_deferred(s);
    return rc < 0 ? rc : weft__stream_drain(s);
}

int weft_stream_flush(weft_stream *stream)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_write(s);
    return rc < 0 ? rc : (int)weft__stream_leave_write(s, flush_output(s));
}
