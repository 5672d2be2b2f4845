/*
 * Reading from a stream. A call consumes input only after the buffer holds all bytes that the call
 * needs.
 */
#include "io/stream/stream.h"

#include "core/cord/cord.h"
#include "core/lifetime/scope.h"

#include <weft/error.h>
#include <weft/fiber.h>

/*
 * Flush the output of the calling fiber before the fiber waits for input. Do not flush the output
 * of another fiber, because that could cause a deadlock. The peer may not read before this fiber
 * has read. If the peer has closed the connection, defer the error, because unread input may
 * remain.
 */
static int flush_own_output(weft__stream *s)
{
    if (weft__buffer_held(&s->out) == 0 || s->writer != NULL || s->last_writer != weft_self())
        return 0;
    s->writer = weft__cord_self->current;
    int rc = (int)weft__stream_leave_write(s, weft__stream_drain(s));
    if (rc != -EPIPE && rc != -ECONNRESET)
        return rc;
    if (s->deferred_error == 0)
        s->deferred_error = rc;
    return 0;
}

/*
 * Provide free bytes after the tail. wanted is the total number of contiguous bytes that the caller
 * needs.
 */
static int input_reserve(weft__stream *s, size_t wanted)
{
    weft__buffer *b = &s->in;
    if (weft__buffer_held(b) == 0) {
        weft__buffer_compact(b);
        if (b->bytes < s->read_bytes || (b->bytes > s->read_bytes && wanted <= s->read_bytes))
            return weft__buffer_resize(b, s->read_bytes);
    }
    /* Compact only if the buffer is full, or if at most half of the buffer must move. */
    if (b->head > 0 && (b->tail == b->bytes || b->head >= b->bytes / 2))
        weft__buffer_compact(b);
    /* Double the buffer instead of growing it to wanted, because the peer may send fewer bytes. */
    return b->tail < b->bytes ? 0 : weft__buffer_resize(b, 2 * b->bytes);
}

static ssize_t read_once(weft__stream *s, char *data, size_t bytes)
{
    int rc = flush_own_output(s);
    if (rc < 0)
        return rc;
    if (s->is_shut)
        return -EBADF;
    uint64_t cancels_before = weft__scope_cancels_so_far();
    ssize_t n = s->type->read(s->ctx, data, bytes);
    if (n >= 0)
        weft__scope_cancels_forget(cancels_before);
    return n;
}

/*
 * Read once into the buffer. Returns the number of bytes, 0 at the end of the input, or an error.
 */
static ssize_t input_fill(weft__stream *s, size_t wanted)
{
    int rc = input_reserve(s, wanted);
    if (rc < 0)
        return rc;
    weft__buffer *b = &s->in;
    ssize_t n = read_once(s, b->data + b->tail, b->bytes - b->tail);
    if (n > 0)
        b->tail += (size_t)n;
    return n;
}

/* Read until wanted bytes are held, or the input ends. Returns 0 or an error. */
static int input_fill_to(weft__stream *s, size_t wanted)
{
    ssize_t n = 1;
    while (weft__buffer_held(&s->in) < wanted && n > 0)
        n = input_fill(s, wanted);
    return n < 0 ? (int)n : 0;
}

/*
 * Return the length of the next line, including its newline. Returns 0 at the end of the input, or
 * an error.
 */
static ssize_t find_line(weft__stream *s, size_t bytes_max)
{
    weft__buffer *b = &s->in;
    for (size_t scanned = 0;;) {
        size_t n = weft__buffer_held(b) < bytes_max ? weft__buffer_held(b) : bytes_max;
        const char *end =
            n > scanned ? memchr(b->data + b->head + scanned, '\n', n - scanned) : NULL;
        if (end != NULL)
            return end + 1 - (b->data + b->head);
        if (weft__buffer_held(b) > bytes_max)
            return -EMSGSIZE;
        scanned = n;
        /*
         * Read even if bytes_max bytes are held, because the last line of the input needs no
         * newline.
         */
        ssize_t rc = input_fill(s, weft__buffer_held(b) + 1);
        if (rc <= 0)
            return rc < 0 ? rc : (ssize_t)weft__buffer_held(b);
    }
}

static ssize_t get_line(weft__stream *s, char *line, size_t room)
{
    size_t bytes_max = room - 1 < s->line_bytes_max ? room - 1 : s->line_bytes_max;
    ssize_t n = find_line(s, bytes_max);
    if (n < 0)
        return n;
    if (n > 0)
        memcpy(line, s->in.data + s->in.head, (size_t)n);
    line[n] = '\0';
    s->in.head += (size_t)n;
    return n;
}

ssize_t weft_stream_gets(weft_stream *stream, char *line, size_t room)
{
    weft__stream *s = weft__stream_of(stream);
    if (room == 0)
        return weft_fail(-EINVAL, "weft_stream_gets: room is 0");
    int rc = weft__stream_enter_read(s);
    return rc < 0 ? rc : weft__stream_leave_read(s, get_line(s, line, room));
}

static int get_line_in_place(weft__stream *s, char **line, size_t *bytes)
{
    ssize_t n = find_line(s, s->line_bytes_max);
    if (n <= 0)
        return (int)n;
    char *start = s->in.data + s->in.head;
    s->in.head += (size_t)n;
    if (start[n - 1] == '\n') {
        n--;
        n -= n > 0 && start[n - 1] == '\r';
    }
    start[n] = '\0';
    *line = start;
    if (bytes != NULL)
        *bytes = (size_t)n;
    return 1;
}

int weft_stream_line(weft_stream *stream, char **line, size_t *bytes)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_read(s);
    return rc < 0 ? rc : (int)weft__stream_leave_read(s, get_line_in_place(s, line, bytes));
}

/* Copy and consume held bytes. */
static ssize_t input_take(weft__stream *s, void *data, size_t bytes)
{
    if (bytes > 0)
        memcpy(data, s->in.data + s->in.head, bytes);
    s->in.head += bytes;
    return (ssize_t)bytes;
}

static ssize_t read_some(weft__stream *s, void *data, size_t bytes)
{
    if (weft__buffer_held(&s->in) == 0 && bytes >= s->read_bytes)
        return read_once(s, data, bytes);
    if (bytes > 0) {
        int rc = input_fill_to(s, 1);
        if (rc < 0)
            return rc;
    }
    return input_take(s, data,
                      bytes < weft__buffer_held(&s->in) ? bytes : weft__buffer_held(&s->in));
}

ssize_t weft_stream_read(weft_stream *stream, void *data, size_t bytes)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_read(s);
    return rc < 0 ? rc : weft__stream_leave_read(s, read_some(s, data, bytes));
}

static ssize_t read_all(weft__stream *s, void *data, size_t bytes)
{
    int rc = input_fill_to(s, bytes);
    if (rc < 0)
        return rc;
    if (weft__buffer_held(&s->in) < bytes)
        return weft__buffer_held(&s->in) == 0 ? 0 : -ENODATA;
    return input_take(s, data, bytes);
}

ssize_t weft_stream_read_exact(weft_stream *stream, void *data, size_t bytes)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_read(s);
    return rc < 0 ? rc : weft__stream_leave_read(s, read_all(s, data, bytes));
}

ssize_t weft_stream_peek(weft_stream *stream, size_t min, const void **data)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_read(s);
    if (rc < 0)
        return rc;
    rc = input_fill_to(s, min);
    *data = s->in.data != NULL ? s->in.data + s->in.head : "";
    return weft__stream_leave_read(s, rc < 0 ? rc : (ssize_t)weft__buffer_held(&s->in));
}

int weft_stream_skip(weft_stream *stream, size_t bytes)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_read(s);
    if (rc < 0)
        return rc;
    if (bytes <= weft__buffer_held(&s->in))
        s->in.head += bytes;
    else
        rc = -EINVAL;
    return (int)weft__stream_leave_read(s, rc);
}

static int wait_for_input(weft__stream *s)
{
    if (weft__buffer_held(&s->in) > 0)
        return 0;
    int rc = flush_own_output(s);
    if (rc < 0)
        return rc;
    weft__buffer_release(&s->in);
    if (weft__buffer_held(&s->out) == 0 && s->writer == NULL)
        weft__buffer_release(&s->out);
    if (s->is_shut)
        return -EBADF;
    return s->type->wait != NULL ? s->type->wait(s->ctx) : 0;
}

int weft_stream_wait(weft_stream *stream)
{
    weft__stream *s = weft__stream_of(stream);
    int rc = weft__stream_enter_read(s);
    return rc < 0 ? rc : (int)weft__stream_leave_read(s, wait_for_input(s));
}
