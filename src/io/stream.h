/*
 * Streams inside: two buffers over something that reads and writes, and who is in them. stream.c
 * opens and closes, stream_buffer.c has the memory, stream_read.c and stream_write.c are the two
 * directions. All of it stands on the public API only.
 *
 * What makes a call safe to cut short: input is taken from the buffer only when the call has all it
 * was asked for, and output leaves the buffer only when the write underneath has said so.
 */
#ifndef WEFT_IO_STREAM_H
#define WEFT_IO_STREAM_H

#include <weft/stream.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A buffer's usual size. */
#define WEFT__BUFFER_BYTES ((size_t)8 << 10)

/* The bytes from head to tail are held, in one piece. */
typedef struct weft__buffer {
    char *data;   /* with one byte more than bytes, for a NUL; NULL: none yet */
    size_t bytes; /* its size; 0 with no data */
    size_t head;
    size_t tail;
    char *lent;        /* memory of somebody else's that serves as data where it is enough; NULL */
    size_t lent_bytes; /* without the one for a NUL */
} weft__buffer;

typedef struct weft__stream {
    const weft_stream_type *type; /* NULL: not open */
    void *ctx;
    weft__buffer in;
    weft__buffer out;
    size_t read_bytes;
    size_t write_bytes;
    size_t line_bytes_max;
    weft_fiber author; /* who has written last; meaningless unless out holds something */
    weft_fiber closer; /* waits in close for the others to leave; 0: nobody */
    int unsaid;        /* an error of writing that could not be returned yet; 0: none */
    bool is_reading;   /* a fiber is in a call that reads */
    bool is_writing;
    bool is_closing; /* nobody is let in any more */
    bool is_shut;    /* the type's close has been called: nothing else of it may be */
} weft__stream;

_Static_assert(sizeof(weft__stream) <= sizeof(weft_stream), "weft_stream is too small");
_Static_assert(_Alignof(weft__stream) <= _Alignof(weft_stream),
               "weft_stream is aligned too little");

static inline weft__stream *weft__stream_of(weft_stream *s)
{
    return (weft__stream *)(void *)s;
}

static inline size_t weft__buffer_held(const weft__buffer *b)
{
    return b->tail - b->head;
}

/* What it could take more, though not in one piece. */
static inline size_t weft__buffer_room(const weft__buffer *b)
{
    return b->bytes - weft__buffer_held(b);
}

static inline void weft__buffer_compact(weft__buffer *b)
{
    size_t bytes = weft__buffer_held(b);
    if (b->head > 0 && bytes > 0)
        memmove(b->data, b->data + b->head, bytes);
    b->head = 0;
    b->tail = bytes;
}

/* To a size that holds what it holds. */
int weft__buffer_resize(weft__buffer *b, size_t bytes);

/* What it holds is gone, and its memory is free for others. */
void weft__buffer_release(weft__buffer *b);

/* There is room, in one piece or not. */
static inline void weft__buffer_append(weft__buffer *b, const char *data, size_t bytes)
{
    if (bytes == 0)
        return;
    if (bytes > b->bytes - b->tail)
        weft__buffer_compact(b);
    memcpy(b->data + b->tail, data, bytes);
    b->tail += bytes;
}

/*
 * Let the calling fiber in; is_in is the stream's is_reading or is_writing. -EBADF if the stream is
 * not open, -EBUSY if another fiber is in.
 */
int weft__stream_enter(const weft__stream *s, bool *is_in);

/* Let it out; returns result. */
ssize_t weft__stream_leave(weft__stream *s, bool *is_in, ssize_t result);

/* For a fiber that is in is_writing. */

/* The error that could not be returned when it happened; 0: none. It is said now. */
int weft__stream_take_unsaid(weft__stream *s);

/* Write out all that out holds. */
int weft__stream_drain(weft__stream *s);

#endif
