/*
 * The internals of streams. A stream has two buffers on top of functions that read and write.
 * stream.c opens and closes streams. buffer.c manages the memory. read.c and write.c implement one
 * direction each. queue.c lets one fiber at a time write. Streams use only the public API, core/
 * and base/.
 *
 * A cancelled call loses no bytes. A call consumes input only after the buffer holds all bytes that
 * the call needs. Output leaves the buffer only after the stream type has written it.
 */
#ifndef WEFT_IO_STREAM_STREAM_H
#define WEFT_IO_STREAM_STREAM_H

#include "core/sched/waitq.h"

#include <weft/stream.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The default capacity of a buffer, in bytes. */
#define WEFT__BUFFER_BYTES ((size_t)8 << 10)

/* A buffer. The held bytes are contiguous, from head to tail. */
typedef struct weft__buffer {
    char *data;   /* bytes + 1 bytes, the last byte for a NUL; NULL: none */
    size_t bytes; /* capacity; 0 if data is NULL */
    size_t head;
    size_t tail;
    char *borrowed; /* memory of the caller, used as data if it is large enough; NULL: none */
    size_t borrowed_bytes; /* capacity of borrowed, without the byte for a NUL */
} weft__buffer;

typedef struct weft__stream {
    const weft_stream_type *type; /* NULL: not open */
    void *ctx;
    weft__buffer in;
    weft__buffer out;
    weft_fiber last_writer;     /* the fiber that wrote last; undefined while out is empty */
    struct weft__fiber *writer; /* the fiber in a call that writes; NULL: none */
    /*
     * The fibers that wait to write. While is_closing is set, only the closing fiber waits here,
     * until other fibers have left the stream. Invariant: if a fiber waits to write, writer is set.
     */
    weft__waitq waiters;
    uint32_t read_bytes;
    uint32_t write_bytes;
    uint32_t line_bytes_max;
    int deferred_error; /* a write error that the next writing call returns; 0: none */
    bool is_reading;    /* a fiber is in a call that reads */
    bool is_closing;    /* new calls fail with -EBADF */
    bool is_shut;    /* the type's close was called; no other function of the type may be called */
    uint32_t reader; /* the slot of the reading fiber; undefined unless is_reading is set */
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

/* Return the number of free bytes. The free bytes need not be contiguous. */
static inline size_t weft__buffer_free_bytes(const weft__buffer *b)
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

/*
 * Change the capacity and keep the held bytes. The held bytes must fit.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__buffer_resize(weft__buffer *b, size_t bytes);

/* Discard the held bytes. Return the memory to the cache of the thread. */
void weft__buffer_release(weft__buffer *b);

/* Append bytes. The buffer must have enough free bytes, contiguous or not. */
static inline void weft__buffer_append(weft__buffer *b, const char *data, size_t bytes)
{
    if (bytes == 0)
        return;
    if (bytes > b->bytes - b->tail)
        weft__buffer_compact(b);
    memcpy(b->data + b->tail, data, bytes);
    b->tail += bytes;
}

static inline bool weft__stream_is_open(const weft__stream *s)
{
    return s->type != NULL && !s->is_closing;
}

/*
 * Enter a call that reads.
 *
 * Returns 0, or:
 * -EBADF if the stream is not open
 * -EBUSY if another fiber is in a call that reads
 * -EOWNERDEAD if a fiber that weft_fork has left in the parent is in a call that reads
 */
int weft__stream_enter_read(weft__stream *s);

/* Leave a call that reads. Returns result. */
ssize_t weft__stream_leave_read(weft__stream *s, ssize_t result);

/*
 * Enter a call that writes. Wait while another fiber writes. After an error, the caller must not
 * use the stream, because the stream may be closed.
 *
 * Returns 0, the error that ended the wait, or:
 * -EBADF if the stream is not open, or was closed while the fiber waited
 * -EDEADLK if the calling fiber is already in a call that writes
 * -EIO if weft__stream_fail_waiters was called while the fiber waited
 * -EOWNERDEAD if a fiber that weft_fork has left in the parent is in a call that writes
 */
int weft__stream_enter_write(weft__stream *s);

/* Leave a call that writes. Pass the stream to the first waiting writer. Returns result. */
ssize_t weft__stream_leave_write(weft__stream *s, ssize_t result);

/*
 * Fail the calls of all fibers that wait to write, because a write has ended with error after a
 * part of its bytes. If the write was cancelled or interrupted, replace error with -EIO, because
 * error concerns only the writing fiber.
 */
void weft__stream_fail_waiters(weft__stream *s, int error);

/*
 * Wake all fibers that wait to write with -EBADF. is_closing must be set.
 */
void weft__stream_evict_waiters(weft__stream *s);

/* Return whether a fiber of this process reads or writes. */
bool weft__stream_has_users(const weft__stream *s);

/* Return whether a fiber is in a call that reads or writes. */
bool weft__stream_is_used_by(const weft__stream *s, const struct weft__fiber *f);

/*
 * Wait until no fiber of this process reads or writes. is_closing must be set. Cancellation has no
 * effect.
 */
void weft__stream_wait_for_users(weft__stream *s);

/* The caller of the following functions must have entered with weft__stream_enter_write. */

/* Return and clear the deferred error. Returns 0 if there is none. */
int weft__stream_take_deferred(weft__stream *s);

/* Write all bytes of the output buffer, then flush the stream type. Returns 0 or an error. */
int weft__stream_drain(weft__stream *s);

#endif
