/* Streams: reading. Nothing is taken from the buffer before the call has all it was asked for. */
#include "io/stream.h"

#include "core/scope.h"

#include <weft/error.h>
#include <weft/fiber.h>

/*
 * Before waiting for input. Not what another fiber has written: that one may be kept waiting by a
 * peer that is not going to read before we do.
 */
static int flush_own(weft__stream *s)
{
    if (weft__buffer_held(&s->out) == 0 || s->is_writing || s->author != weft_self())
        return 0;
    s->is_writing = true;
    int rc = (int)weft__stream_leave(s, &s->is_writing, weft__stream_drain(s));
    if (rc != -EPIPE && rc != -ECONNRESET)
        return rc;
    if (s->unsaid == 0)
        s->unsaid = rc;
    return 0;
}

/* Make room behind the tail, for a caller who wants so many bytes in one piece. */
static int make_room(weft__stream *s, size_t wanted)
{
    weft__buffer *b = &s->in;
    if (weft__buffer_held(b) == 0) {
        weft__buffer_compact(b);
        if (b->data == NULL || (b->bytes > s->read_bytes && wanted <= s->read_bytes))
            return weft__buffer_resize(b, s->read_bytes);
    }
    /* Not for a few bytes: the smaller half is moved, or it is that or growing. */
    if (b->head > 0 && (b->tail == b->bytes || b->head >= b->bytes / 2))
        weft__buffer_compact(b);
    /* By as much as has come, not by what is still to come: that is only a promise. */
    return b->tail < b->bytes ? 0 : weft__buffer_resize(b, 2 * b->bytes);
}

static ssize_t read_once(weft__stream *s, char *data, size_t bytes)
{
    int rc = flush_own(s);
    if (rc < 0)
        return rc;
    if (s->is_shut)
        return -EBADF;
    uint64_t cuts = weft__cuts_so_far();
    ssize_t n = s->type->read(s->ctx, data, bytes);
    if (n >= 0)
        weft__cuts_forget(cuts);
    return n;
}

/* One read into the buffer: how many bytes, 0 at the end. */
static ssize_t fill(weft__stream *s, size_t wanted)
{
    int rc = make_room(s, wanted);
    if (rc < 0)
        return rc;
    weft__buffer *b = &s->in;
    ssize_t n = read_once(s, b->data + b->tail, b->bytes - b->tail);
    if (n > 0)
        b->tail += (size_t)n;
    return n;
}

/* Fill until so many bytes are held, or the input ends: 0 or an error. */
static int fill_up(weft__stream *s, size_t wanted)
{
    ssize_t n = 1;
    while (weft__buffer_held(&s->in) < wanted && n > 0)
        n = fill(s, wanted);
    return n < 0 ? (int)n : 0;
}

/* The length of the next line with its newline; 0 at the end. */
static ssize_t find_line(weft__stream *s, size_t bytes_max)
{
    weft__buffer *b = &s->in;
    for (size_t seen = 0;;) {
        size_t n = weft__buffer_held(b) < bytes_max ? weft__buffer_held(b) : bytes_max;
        const char *end = n > seen ? memchr(b->data + b->head + seen, '\n', n - seen) : NULL;
        if (end != NULL)
            return end + 1 - (b->data + b->head);
        if (weft__buffer_held(b) > bytes_max)
            return -EMSGSIZE;
        seen = n;
        /* Also with bytes_max of them: it could be the last line, which needs no newline. */
        ssize_t rc = fill(s, weft__buffer_held(b) + 1);
        if (rc <= 0)
            return rc < 0 ? rc : (ssize_t)weft__buffer_held(b);
    }
}

static ssize_t get_line(weft__stream *s, char *line, size_t line_room)
{
    size_t bytes_max = line_room - 1 < s->line_bytes_max ? line_room - 1 : s->line_bytes_max;
    ssize_t n = find_line(s, bytes_max);
    if (n < 0)
        return n;
    if (n > 0)
        memcpy(line, s->in.data + s->in.head, (size_t)n);
    line[n] = '\0';
    s->in.head += (size_t)n;
    return n;
}

ssize_t weft_stream_gets(weft_stream *read, char *line, size_t line_room)
{
    weft__stream *s = weft__stream_of(read);
    if (line_room == 0)
        return weft_fail(-EINVAL, "no room for a line");
    int rc = weft__stream_enter(s, &s->is_reading);
    return rc < 0 ? rc : weft__stream_leave(s, &s->is_reading, get_line(s, line, line_room));
}

static int line_in_place(weft__stream *s, char **line, size_t *bytes)
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

int weft_stream_line(weft_stream *read, char **line, size_t *bytes)
{
    weft__stream *s = weft__stream_of(read);
    int rc = weft__stream_enter(s, &s->is_reading);
    return rc < 0 ? rc : (int)weft__stream_leave(s, &s->is_reading, line_in_place(s, line, bytes));
}

/* So many of the bytes that are held. */
static ssize_t take(weft__stream *s, void *data, size_t bytes)
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
        int rc = fill_up(s, 1);
        if (rc < 0)
            return rc;
    }
    return take(s, data, bytes < weft__buffer_held(&s->in) ? bytes : weft__buffer_held(&s->in));
}

ssize_t weft_stream_read(weft_stream *read, void *data, size_t bytes)
{
    weft__stream *s = weft__stream_of(read);
    int rc = weft__stream_enter(s, &s->is_reading);
    return rc < 0 ? rc : weft__stream_leave(s, &s->is_reading, read_some(s, data, bytes));
}

static ssize_t read_all(weft__stream *s, void *data, size_t bytes)
{
    int rc = fill_up(s, bytes);
    if (rc < 0)
        return rc;
    if (weft__buffer_held(&s->in) < bytes)
        return weft__buffer_held(&s->in) == 0 ? 0 : -ENODATA;
    return take(s, data, bytes);
}

ssize_t weft_stream_read_exact(weft_stream *read, void *data, size_t bytes)
{
    weft__stream *s = weft__stream_of(read);
    int rc = weft__stream_enter(s, &s->is_reading);
    return rc < 0 ? rc : weft__stream_leave(s, &s->is_reading, read_all(s, data, bytes));
}

ssize_t weft_stream_peek(weft_stream *read, size_t min, const void **data)
{
    weft__stream *s = weft__stream_of(read);
    int rc = weft__stream_enter(s, &s->is_reading);
    if (rc < 0)
        return rc;
    rc = fill_up(s, min);
    *data = s->in.data != NULL ? s->in.data + s->in.head : "";
    return weft__stream_leave(s, &s->is_reading, rc < 0 ? rc : (ssize_t)weft__buffer_held(&s->in));
}

int weft_stream_skip(weft_stream *read, size_t bytes)
{
    weft__stream *s = weft__stream_of(read);
    int rc = weft__stream_enter(s, &s->is_reading);
    if (rc < 0)
        return rc;
    if (bytes <= weft__buffer_held(&s->in))
        s->in.head += bytes;
    else
        rc = -EINVAL;
    return (int)weft__stream_leave(s, &s->is_reading, rc);
}

static int wait_for_input(weft__stream *s)
{
    if (weft__buffer_held(&s->in) > 0)
        return 0;
    int rc = flush_own(s);
    if (rc < 0)
        return rc;
    weft__buffer_release(&s->in);
    if (weft__buffer_held(&s->out) == 0 && !s->is_writing)
        weft__buffer_release(&s->out);
    if (s->is_shut)
        return -EBADF;
    return s->type->wait != NULL ? s->type->wait(s->ctx) : 0;
}

int weft_stream_wait(weft_stream *read)
{
    weft__stream *s = weft__stream_of(read);
    int rc = weft__stream_enter(s, &s->is_reading);
    return rc < 0 ? rc : (int)weft__stream_leave(s, &s->is_reading, wait_for_input(s));
}
