/*
 * The output of an HTTP/2 session. Frames go to a buffer, in the fiber that causes them. The reader
 * or a writer sends the buffer while a second buffer takes further frames.
 */
#include "http/h2/internal.h"

#include <weft/fiber.h>
#include <weft/scope.h>

/*
 * Take no further DATA frame if the buffer has this many bytes. Beyond it, bodies wait in their
 * streams, which send in the order of their priorities.
 */
#define OUTPUT_BYTES_MAX ((size_t)64 << 10)
/*
 * The first and the largest capacity of a buffer. The largest has space for one more frame. A
 * buffer that would have more than half of it gets all of it.
 */
#define CAPACITY_FIRST ((size_t)1 << 10)
#define CAPACITY_MAX (OUTPUT_BYTES_MAX + ((size_t)17 << 10))

int weft__h2_output_reserve(weft__h2_session *s, size_t bytes)
{
    weft__buffer *b = &s->fill;
    if (LIKELY(bytes <= b->capacity - b->bytes))
        return 0;
    size_t capacity = b->capacity < CAPACITY_MAX / 4 ? CAPACITY_FIRST : CAPACITY_MAX;
    size_t room = capacity > b->bytes ? capacity - b->bytes : 0;
    return weft__buffer_reserve(b, bytes > room ? bytes : room);
}

bool weft__h2_output_is_full(const weft__h2_session *s)
{
    return s->fill.bytes >= OUTPUT_BYTES_MAX;
}

static ssize_t write_part(weft__h2_session *s, const void *data, size_t bytes)
{
    if (s->events->write != NULL)
        return s->events->write(s, data, bytes);
    return weft_stream_write(s->stream, data, bytes);
}

/* Write the rest of the buffer that is being sent. */
static int write_rest(weft__h2_session *s)
{
    while (s->send_at < s->send.bytes) {
        ssize_t n = write_part(s, s->send.data + s->send_at, s->send.bytes - s->send_at);
        if (n < 0)
            return (int)n;
        s->send_at += (size_t)n;
        s->sent_bytes += (size_t)n;
    }
    s->send.bytes = s->send_at = 0;
    return s->events->write != NULL ? 0 : weft_stream_flush(s->stream);
}

static int write_in_time(weft__h2_session *s)
{
    int rc = 0, late = 0;
    double write_s = s->is_brief ? WEFT__H2_BRIEF_S : s->options.write_s;
    if (write_s <= 0 || (s->is_brief && s->events->write != NULL))
        return write_rest(s);
    WEFT_CANCEL_AFTER(write_s, late)
        rc = write_rest(s);
    return late < 0 ? late : rc;
}

/* Provide a buffer to send. Returns false if there is no output. */
static bool next_output(weft__h2_session *s)
{
    if (s->is_output_closed || s->send.bytes > 0)
        return !s->is_output_closed;
    weft__h2_schedule_send(s);
    weft__buffer empty = s->send;
    s->send = s->fill;
    s->fill = empty;
    return s->send.bytes > 0 && !s->is_output_closed;
}

/* A write has failed. */
static void output_fail(weft__h2_session *s, int error)
{
    s->is_output_closed = true;
    s->fill.bytes = s->send.bytes = s->send_at = 0;
    /* Unread input may explain why the peer has closed. The reader finds the end of the input. */
    if (s->has_input_ended || (error != -EPIPE && error != -ECONNRESET))
        weft__h2_session_fail(s, error);
}

static void output_end(weft__h2_session *s, int rc)
{
    s->is_writing = false;
    s->writer = 0;
    if (rc < 0 && rc != -ECANCELED)
        output_fail(s, rc);
    weft_cond_broadcast(&s->written);
    weft__h2_session_check_end(s);
}

void weft__h2_output_write(weft__h2_session *s)
{
    int rc = 0;
    s->is_writing = true;
    s->must_write = false;
    s->writer = weft_self();
    while (rc == 0 && next_output(s))
        rc = write_in_time(s);
    output_end(s, rc);
}

void weft__h2_output_write_briefly(weft__h2_session *s)
{
    if (s->is_writing || !next_output(s))
        return;
    s->is_writing = s->is_brief = true;
    s->writer = weft_self();
    int rc = write_in_time(s);
    s->is_brief = false;
    output_end(s, rc != -ETIMEDOUT ? rc : 0);
    weft__h2_output(s); /* a writer sends the rest, and later output */
}

static weft_value writer_run(void *arg)
{
    weft__h2_output_write(arg);
    return 0;
}

/* The reader has ended before its child, the writer, has begun. */
static void writer_drop(void *arg)
{
    weft__h2_session *s = arg;
    s->is_writing = false;
    weft_cond_broadcast(&s->written);
}

static void spin_writer(weft__h2_session *s)
{
    if (s->fill.bytes + s->send.bytes == 0 || s->is_writing || s->reader == 0)
        return;
    const weft_spin_options options = {
        .parent = s->reader, .is_daemon = s->options.is_daemon, .drop = writer_drop};
    s->is_writing = true;
    if (weft_go_with(writer_run, s, &options) == 0)
        return;
    s->is_writing = false;
    s->must_write = true;
    weft__h2_session_nudge(s);
}

void weft__h2_output(weft__h2_session *s)
{
    if (s->is_in_input || s->is_output_closed)
        return;
    weft__h2_schedule_send(s);
    if (!s->is_feeding || weft__h2_output_is_full(s))
        spin_writer(s);
}
