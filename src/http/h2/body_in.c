/*
 * Read the body of a stream. The input is a list of chunks. Bytes never move, so that a reader can
 * use a piece while further bytes arrive.
 */
#include "http/h2/internal.h"

/* The capacity of the first chunk of a short body, and of all other chunks. */
#define CHUNK_SMALL ((size_t)1 << 10)
#define CHUNK_BYTES ((size_t)16 << 10)

static weft__h2_chunk *add_chunk(weft__h2_stream *st, size_t bytes)
{
    bool is_small = st->in_last == NULL && bytes <= CHUNK_SMALL;
    size_t capacity = is_small ? CHUNK_SMALL : CHUNK_BYTES;
    weft__h2_chunk *chunk = malloc(sizeof *chunk + capacity);
    if (chunk == NULL)
        return NULL;
    *chunk = (weft__h2_chunk){.capacity = capacity};
    if (st->in_last != NULL)
        st->in_last->next = chunk;
    else
        st->in_first = chunk;
    st->in_last = chunk;
    return chunk;
}

int weft__h2_body_in_add(weft__h2_stream *st, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        weft__h2_chunk *chunk = st->in_last;
        if (chunk == NULL || chunk->bytes == chunk->capacity)
            chunk = add_chunk(st, bytes);
        if (chunk == NULL)
            return -ENOMEM;
        size_t space = chunk->capacity - chunk->bytes, n = bytes < space ? bytes : space;
        memcpy(chunk->data + chunk->bytes, from, n);
        chunk->bytes += n;
        st->in_bytes += n;
        st->session->buffered_bytes += n;
        from += n;
        bytes -= n;
    }
    weft_cond_signal(&st->readable);
    return 0;
}

/* Free the first chunk if all its bytes are released. Keep a chunk that further bytes can use. */
static void trim_first(weft__h2_stream *st)
{
    weft__h2_chunk *chunk = st->in_first;
    if (chunk->at < chunk->bytes)
        return;
    if (chunk->next == NULL && !st->is_remote_ended) {
        chunk->at = chunk->bytes = 0;
        return;
    }
    st->in_first = chunk->next;
    if (st->in_first == NULL)
        st->in_last = NULL;
    free(chunk);
}

/*
 * The reader has no input. If the reader has read a whole window since the window grew, the reader
 * is faster than the peer may send. Let the peer send more.
 */
static void grow_window(weft__h2_stream *st)
{
    weft__h2_session *s = st->session;
    uint32_t max = s->options.stream_window_bytes_max;
    if (st->window_used < st->window_bytes || st->window_bytes >= max)
        return;
    uint32_t bytes_max = st->window_bytes > max / 2 ? max : 2 * st->window_bytes;
    weft__h2_frame_window_update(s, st->id, bytes_max - st->window_bytes);
    st->inflow.window_left += bytes_max - st->window_bytes;
    st->window_bytes = bytes_max;
    st->window_used = 0;
    weft__h2_output(s);
}

/* The reader has read bytes. Count them, and open the windows again. */
static void count_read(weft__h2_stream *st, size_t bytes)
{
    weft__h2_session *s = st->session;
    s->buffered_bytes -= bytes;
    if (s->failure < 0)
        return;
    if (s->unconsumed > 0 && s->buffered_bytes <= s->options.buffered_bytes_max) {
        weft__h2_consume_connection(s, s->unconsumed);
        s->unconsumed = 0;
    }
    weft__h2_consume_stream(st, bytes);
    st->window_used += (uint32_t)bytes;
}

/* Release the piece that the reader holds. */
static void release_piece(weft__h2_stream *st)
{
    size_t bytes = st->piece_bytes;
    if (bytes == 0)
        return;
    st->piece_bytes = 0;
    st->in_first->at += bytes;
    trim_first(st);
    count_read(st, bytes);
    weft__h2_output(st->session);
}

static void free_chunks(weft__h2_chunk *chunk)
{
    while (chunk != NULL) {
        weft__h2_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
}

void weft__h2_body_in_discard(weft__h2_stream *st)
{
    size_t bytes = st->in_bytes;
    weft__h2_chunk *held = st->piece_bytes > 0 ? st->in_first : NULL;
    st->in_bytes = 0;
    free_chunks(held != NULL ? held->next : st->in_first);
    st->in_first = st->in_last = held;
    if (held != NULL) {
        held->next = NULL;
        held->bytes = held->at + st->piece_bytes;
    }
    if (bytes > 0)
        count_read(st, bytes);
}

void weft__h2_body_in_clear(weft__h2_stream *st)
{
    st->in_bytes += st->piece_bytes;
    st->piece_bytes = 0;
    weft__h2_body_in_discard(st);
}

static bool must_wait(const weft__h2_stream *st)
{
    return st->in_bytes == 0 && !st->is_remote_ended && st->error == 0 && !st->is_closed &&
           !st->is_shut;
}

static int wait_readable(weft__h2_stream *st)
{
    if (st->is_reading)
        return -EBUSY;
    if (must_wait(st))
        grow_window(st);
    while (must_wait(st)) {
        st->is_reading = true;
        int rc = weft_cond_wait(&st->readable, NULL);
        st->is_reading = false;
        if (rc < 0)
            return rc;
    }
    return st->is_shut ? -EBADF : 0;
}

int weft__h2_stream_wait(weft__h2_stream *st)
{
    if (st->session == NULL)
        return -ECONNRESET;
    release_piece(st);
    return wait_readable(st);
}

ssize_t weft__h2_stream_piece(weft__h2_stream *st, const void **data)
{
    *data = "";
    int rc = weft__h2_stream_wait(st);
    if (rc < 0)
        return rc;
    if (st->in_bytes == 0)
        return st->is_remote_ended && !st->is_reset ? 0 : st->error < 0 ? st->error : -ECONNRESET;
    while (st->in_first->at == st->in_first->bytes)
        trim_first(st);
    const weft__h2_chunk *chunk = st->in_first;
    *data = chunk->data + chunk->at;
    st->piece_bytes = chunk->bytes - chunk->at;
    st->in_bytes -= st->piece_bytes;
    return (ssize_t)st->piece_bytes;
}

ssize_t weft__h2_stream_read(weft__h2_stream *st, void *data, size_t bytes)
{
    const void *piece;
    ssize_t n = bytes > 0 ? weft__h2_stream_piece(st, &piece) : 0;
    if (n <= 0)
        return n;
    size_t taken = (size_t)n < bytes ? (size_t)n : bytes;
    memcpy(data, piece, taken);
    st->in_bytes += st->piece_bytes - taken;
    st->piece_bytes = taken;
    release_piece(st);
    return (ssize_t)taken;
}
