/* Streams: writing. What a call has taken goes out once, whatever becomes of the call. */
#include "io/stream.h"

#include "core/scope.h"

#include <weft/fiber.h>

#include <stdio.h>

/*
 * The call succeeds although a write of its own has failed: the next call returns the error. A
 * cancellation is not kept, it cuts the next call short anyway; this call it has not, see cuts.
 */
static void say_later(weft__stream *s, ssize_t error, uint64_t cuts)
{
    if (error != -ECANCELED)
        s->unsaid = (int)error;
    weft__cuts_forget(cuts);
}

int weft__stream_take_unsaid(weft__stream *s)
{
    int error = s->unsaid;
    s->unsaid = 0;
    return error;
}

/* Pieces that one call writes, of more the rest follows; the first is the buffer's. */
#define PIECES_MAX 16

/* What is left of some pieces once so many bytes are done. Returns how many, at most max. */
static int gather(struct iovec *left, int max, const struct iovec *pieces, int count, size_t done)
{
    int n = 0;
    for (int i = 0; i < count && n < max; i++) {
        size_t bytes = pieces[i].iov_len;
        if (done >= bytes) {
            done -= bytes;
            continue;
        }
        left[n++] = (struct iovec){(char *)pieces[i].iov_base + done, bytes - done};
        done = 0;
    }
    return n;
}

/*
 * One write of what is in the buffer and, behind it, of those pieces, so many bytes of which are
 * done. Returns how many more of theirs went out, or an error: then nothing went out.
 */
static ssize_t send_once(weft__stream *s, const struct iovec *pieces, int count, size_t done)
{
    if (s->is_shut)
        return -EBADF;
    weft__buffer *b = &s->out;
    size_t pending = weft__buffer_held(b);
    struct iovec left[PIECES_MAX];
    int n = 0;
    if (pending > 0)
        left[n++] = (struct iovec){b->data + b->head, pending};
    n += gather(left + n, PIECES_MAX - n, pieces, count, done);
    uint64_t cuts = weft__cuts_so_far();
    ssize_t written = s->type->writev(s->ctx, left, n);
    if (written < 0)
        return written;
    weft__cuts_forget(cuts);
    size_t sent = (size_t)written < pending ? (size_t)written : pending;
    b->head += sent;
    return written - (ssize_t)sent;
}

int weft__stream_drain(weft__stream *s)
{
    while (weft__buffer_held(&s->out) > 0) {
        ssize_t rc = send_once(s, NULL, 0, 0);
        if (rc < 0)
            return (int)rc;
    }
    weft__buffer_release(&s->out);
    if (s->type->flush == NULL)
        return 0;
    return s->is_shut ? -EBADF : s->type->flush(s->ctx);
}

static size_t bytes_of(const struct iovec *pieces, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

/* All of them have room there. */
static void append_left(weft__buffer *b, const struct iovec *pieces, int count, size_t done)
{
    for (int i = 0; i < count; i++) {
        size_t skipped = done < pieces[i].iov_len ? done : pieces[i].iov_len;
        weft__buffer_append(b, (const char *)pieces[i].iov_base + skipped,
                            pieces[i].iov_len - skipped);
        done -= skipped;
    }
}

static ssize_t put(weft__stream *s, const struct iovec *pieces, int count)
{
    weft__buffer *b = &s->out;
    size_t bytes = bytes_of(pieces, count), done = 0;
    int rc = weft__stream_take_unsaid(s);
    if (rc == 0 && b->data == NULL && bytes < s->write_bytes)
        rc = weft__buffer_resize(b, s->write_bytes);
    if (rc < 0)
        return rc;
    while (bytes - done > weft__buffer_room(b)) {
        uint64_t cuts = weft__cuts_so_far();
        ssize_t n = send_once(s, pieces, count, done);
        if (n < 0 && done > 0) {
            say_later(s, n, cuts);
            return (ssize_t)done;
        }
        if (n < 0)
            return n;
        done += (size_t)n;
    }
    append_left(b, pieces, count, done);
    s->author = weft_self();
    return (ssize_t)bytes;
}

/* For a text of so many bytes, which the buffer has no room for behind its tail. */
static int make_way(weft__stream *s, size_t bytes)
{
    weft__buffer *b = &s->out;
    if (bytes <= weft__buffer_room(b)) {
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
    int rc = weft__stream_take_unsaid(s);
    if (rc == 0 && b->data == NULL)
        rc = weft__buffer_resize(b, s->write_bytes);
    /* Other fibers run in between, and may change what the arguments point to. */
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
        rc = make_way(s, (size_t)n);
        if (rc == 0 && b->data == NULL)
            rc = weft__buffer_resize(b, s->write_bytes);
    }
    return rc;
}

static ssize_t print(weft__stream *s, const char *format, va_list args)
{
    ssize_t bytes = format_text(s, format, args);
    if (bytes < 0)
        return bytes;
    s->author = weft_self();
    if (weft__buffer_held(&s->out) > s->write_bytes) {
        uint64_t cuts = weft__cuts_so_far();
        int rc = weft__stream_drain(s);
        if (rc < 0)
            say_later(s, rc, cuts);
    }
    return bytes;
}

ssize_t weft_stream_writev(weft_stream *written, const struct iovec *pieces, int count)
{
    weft__stream *s = weft__stream_of(written);
    if (count < 0)
        return -EINVAL;
    int rc = weft__stream_enter(s, &s->is_writing);
    return rc < 0 ? rc : weft__stream_leave(s, &s->is_writing, put(s, pieces, count));
}

char *weft_stream_reserve(weft_stream *written, size_t bytes)
{
    weft__stream *s = weft__stream_of(written);
    weft__buffer *b = &s->out;
    if (s->type == NULL || s->is_writing || s->is_closing || s->unsaid != 0)
        return NULL;
    if (b->data == NULL && (bytes > s->write_bytes || weft__buffer_resize(b, s->write_bytes) < 0))
        return NULL;
    return bytes <= b->bytes - b->tail ? b->data + b->tail : NULL;
}

void weft_stream_commit(weft_stream *written, size_t bytes)
{
    weft__stream *s = weft__stream_of(written);
    s->out.tail += bytes;
    s->author = weft_self();
}

ssize_t weft_stream_write(weft_stream *written, const void *data, size_t bytes)
{
    const struct iovec piece = {(void *)(uintptr_t)data, bytes};
    return weft_stream_writev(written, &piece, 1);
}

ssize_t weft_stream_puts(weft_stream *written, const char *text)
{
    return weft_stream_write(written, text, strlen(text));
}

ssize_t weft_stream_vprintf(weft_stream *written, const char *format, va_list args)
{
    weft__stream *s = weft__stream_of(written);
    int rc = weft__stream_enter(s, &s->is_writing);
    return rc < 0 ? rc : weft__stream_leave(s, &s->is_writing, print(s, format, args));
}

ssize_t weft_stream_printf(weft_stream *written, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ssize_t bytes = weft_stream_vprintf(written, format, args);
    va_end(args);
    return bytes;
}

static int flush(weft__stream *s)
{
    int rc = weft__stream_take_unsaid(s);
    return rc < 0 ? rc : weft__stream_drain(s);
}

int weft_stream_flush(weft_stream *flushed)
{
    weft__stream *s = weft__stream_of(flushed);
    int rc = weft__stream_enter(s, &s->is_writing);
    return rc < 0 ? rc : (int)weft__stream_leave(s, &s->is_writing, flush(s));
}
