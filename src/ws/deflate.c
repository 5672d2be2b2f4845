/*
 * Compression of messages (RFC 7692, 7.2). A compressed message is a raw deflate stream that ends
 * with an empty stored block, without the last 4 bytes of this block.
 */
#include "ws/deflate.h"

#include <errno.h>
#include <string.h>

#ifdef WEFT_HAS_GZIP
#include "base/compiler.h"

#include <pthread.h>
#include <zlib.h>

#define MEM_LEVEL 8 /* the default of zlib */
/* The last bytes of a stream that ends with Z_SYNC_FLUSH. */
#define TAIL_BYTES 4
/* The data_type of zlib after a whole block, without unused bits; and the mask of both facts. */
#define AT_BLOCK_END 128
#define BLOCK_END_MASK (128 | 63)
/* The least room for the output of a call of zlib. */
#define ROOM_BYTES 1024
/* The most bytes in a call of zlib, whose counters have 32 bits. */
#define INPUT_BYTES_MAX ((size_t)1 << 30)
/*
 * The maximum number of final blocks in a message. A sender uses one at most. Each costs a copy of
 * the window, so that a message of nothing else would occupy the thread.
 */
#define FINAL_BLOCKS_MAX 64
/* The smallest window of zlib's compressor. Some clients use it for a window of 8 bits. */
#define ZLIB_BITS_MIN 9

/*
 * The states that connections share. A compressor with an empty window is always correct. A
 * decompressor with an empty window is correct without context takeover.
 */
typedef struct spare_streams {
    z_stream *out; /* NULL: none */
    z_stream *in;  /* with the largest window */
    uint8_t out_bits;
    uint8_t out_level;
    bool is_registered; /* spare_streams_free frees the states when the thread ends */
} spare_streams;

static __thread spare_streams thread_streams;
static pthread_once_t streams_once = PTHREAD_ONCE_INIT;
static pthread_key_t streams_key;
static bool has_streams_key;

static void deflater_free(z_stream *z)
{
    if (z != NULL)
        deflateEnd(z);
    free(z);
}

static void inflater_free(z_stream *z)
{
    if (z != NULL)
        inflateEnd(z);
    free(z);
}

static void spare_streams_free(void *arg)
{
    spare_streams *s = arg;
    deflater_free(s->out);
    inflater_free(s->in);
    *s = (spare_streams){0};
}

static void streams_make_key(void)
{
    has_streams_key = pthread_key_create(&streams_key, spare_streams_free) == 0;
}

/* Return whether the thread can keep states. They are then freed when the thread ends. */
static bool can_spare(spare_streams *s)
{
    if (LIKELY(s->is_registered))
        return true;
    pthread_once(&streams_once, streams_make_key);
    s->is_registered = has_streams_key && pthread_setspecific(streams_key, s) == 0;
    return s->is_registered;
}

static z_stream *deflater_new(const weft__ws_deflate *d)
{
    z_stream *z = calloc(1, sizeof *z);
    if (z != NULL && deflateInit2(z, d->level, Z_DEFLATED, -(int)d->params.send_bits, MEM_LEVEL,
                                  Z_DEFAULT_STRATEGY) == Z_OK)
        return z;
    free(z);
    return NULL;
}

static z_stream *inflater_new(const weft__ws_deflate *d)
{
    uint8_t bits = d->params.recv_bits > ZLIB_BITS_MIN ? d->params.recv_bits : ZLIB_BITS_MIN;
    z_stream *z = calloc(1, sizeof *z);
    if (z != NULL && inflateInit2(z, d->params.resets_recv ? -MAX_WBITS : -(int)bits) == Z_OK)
        return z;
    free(z);
    return NULL;
}

/* Get a compressor. Returns NULL if memory is exhausted. */
static z_stream *deflater_get(weft__ws_deflate *d)
{
    spare_streams *s = &thread_streams;
    if (d->out == NULL && s->out != NULL && s->out_bits == d->params.send_bits &&
        s->out_level == d->level) {
        d->out = s->out;
        s->out = NULL;
    }
    return d->out != NULL ? d->out : (d->out = deflater_new(d));
}

/* Return the compressor to the cache. */
static void deflater_put(weft__ws_deflate *d)
{
    spare_streams *s = &thread_streams;
    z_stream *z = d->out;
    d->out = NULL;
    if (!can_spare(s) || deflateReset(z) != Z_OK) {
        deflater_free(z);
        return;
    }
    deflater_free(s->out);
    s->out = z;
    s->out_bits = d->params.send_bits;
    s->out_level = d->level;
}

/* Get a decompressor, with the window of earlier messages. Returns NULL if memory is exhausted. */
static z_stream *inflater_get(weft__ws_deflate *d)
{
    spare_streams *s = &thread_streams;
    if (d->in != NULL)
        return d->in;
    if (d->params.resets_recv && s->in != NULL) {
        d->in = s->in;
        s->in = NULL;
        return d->in;
    }
    d->in = inflater_new(d);
    if (d->in == NULL || d->window == NULL)
        return d->in;
    if (inflateSetDictionary(d->in, (const Bytef *)d->window, d->window_bytes) != Z_OK) {
        inflater_free(d->in);
        d->in = NULL;
        return NULL;
    }
    free(d->window);
    d->window = NULL;
    return d->in;
}

/* Return the decompressor to the cache after a message. */
static void inflater_put(weft__ws_deflate *d)
{
    spare_streams *s = &thread_streams;
    z_stream *z = d->in;
    d->in = NULL;
    if (s->in == NULL && can_spare(s) && inflateReset(z) == Z_OK)
        s->in = z;
    else
        inflater_free(z);
}

void weft__ws_deflate_close(weft__ws_deflate *d)
{
    deflater_free(d->out);
    inflater_free(d->in);
    free(d->window);
    *d = (weft__ws_deflate){0};
}

/*
 * Store the window of received messages, which is often short, in place of zlib's state. If memory
 * is exhausted, keep the state.
 */
static void inflater_release(weft__ws_deflate *d)
{
    uInt bytes = 0;
    char *window = NULL;
    if (inflateGetDictionary(d->in, NULL, &bytes) != Z_OK)
        return;
    if (bytes > 0) {
        window = malloc(bytes);
        if (window == NULL)
            return;
        (void)inflateGetDictionary(d->in, (Bytef *)window, &bytes);
    }
    inflater_free(d->in);
    d->in = NULL;
    d->window = window;
    d->window_bytes = (uint16_t)bytes;
}

/* The compressor can always start with an empty window. The peer needs its own window only. */
void weft__ws_deflate_release(weft__ws_deflate *d)
{
    if (d->out != NULL)
        deflater_put(d);
    if (d->in != NULL && !d->has_open_message)
        inflater_release(d);
}

/* Call zlib until it has compressed all input and written all output. */
static int deflate_all(z_stream *z, int flush, weft__buffer *out)
{
    do {
        int rc = weft__buffer_reserve(out, ROOM_BYTES);
        if (rc < 0)
            return rc;
        size_t room = out->capacity - out->bytes;
        z->next_out = (Bytef *)out->data + out->bytes;
        z->avail_out = (uInt)(room < INPUT_BYTES_MAX ? room : INPUT_BYTES_MAX);
        uInt before = z->avail_out;
        (void)deflate(z, flush); /* Z_BUF_ERROR: there is nothing to do */
        out->bytes += before - z->avail_out;
    } while (z->avail_out == 0 || z->avail_in > 0);
    return 0;
}

/* Compress data, in portions that the counters of zlib can hold. */
static int deflate_data(z_stream *z, const char *data, size_t bytes, weft__buffer *out)
{
    for (;;) {
        size_t n = bytes < INPUT_BYTES_MAX ? bytes : INPUT_BYTES_MAX;
        z->next_in = (z_const Bytef *)(uintptr_t)data;
        z->avail_in = (uInt)n;
        data += n;
        bytes -= n;
        int rc = deflate_all(z, bytes > 0 ? Z_NO_FLUSH : Z_SYNC_FLUSH, out);
        if (rc < 0 || bytes == 0)
            return rc;
    }
}

/*
 * End a message: remove the tail of the last block. If the last part is empty, zlib writes no
 * second empty block. The message then needs the first byte of such a block (RFC 7692, 7.2.3.6).
 */
static int deflate_end(weft__buffer *out, size_t bytes_before)
{
    if (out->bytes >= bytes_before + TAIL_BYTES) {
        out->bytes -= TAIL_BYTES;
        return 0;
    }
    int rc = weft__buffer_reserve(out, 1);
    if (rc == 0)
        out->data[out->bytes++] = '\0';
    return rc;
}

int weft__ws_deflate_part(weft__ws_deflate *d, const void *data, size_t bytes, bool is_last,
                          weft__buffer *out)
{
    size_t bytes_before = out->bytes;
    z_stream *z = deflater_get(d);
    if (z == NULL)
        return -ENOMEM;
    int rc = weft__buffer_reserve(out, bytes / 2 + ROOM_BYTES);
    if (rc == 0)
        rc = deflate_data(z, data, bytes, out);
    if (rc == 0 && is_last)
        rc = deflate_end(out, bytes_before);
    /*
     * After an error, the peer lacks a part of the stream. Continue with an empty window, which is
     * correct between two parts, because each part ends at a byte boundary.
     */
    if (rc < 0) {
        out->bytes = bytes_before;
        deflater_free(z);
        d->out = NULL;
    } else if (is_last && d->params.resets_send) {
        deflater_put(d);
    }
    return rc;
}

/* Continue after a block that its sender has marked as the last one (RFC 7692, 7.2.3.4). */
static int inflate_continue(z_stream *z)
{
    uInt bytes = 0;
    Bytef *window = malloc((size_t)1 << MAX_WBITS);
    if (window == NULL)
        return -ENOMEM;
    bool is_done = inflateGetDictionary(z, window, &bytes) == Z_OK && inflateReset(z) == Z_OK &&
                   inflateSetDictionary(z, window, bytes) == Z_OK;
    free(window);
    z->data_type = AT_BLOCK_END;
    return is_done ? 0 : -ENOMEM;
}

/*
 * Provide room for output and a NUL. If message has reached its limit, provide one byte in spill,
 * to detect further output.
 */
static int inflate_reserve(z_stream *z, weft__buffer *message, size_t bytes_max, Bytef *spill)
{
    size_t left = bytes_max - message->bytes;
    if (left == 0) {
        z->next_out = spill;
        z->avail_out = 1;
        return 0;
    }
    int rc = weft__buffer_reserve(message, left < ROOM_BYTES ? left + 1 : ROOM_BYTES + 1);
    if (rc < 0)
        return rc;
    size_t room = message->capacity - message->bytes - 1;
    room = room < left ? room : left;
    z->next_out = (Bytef *)message->data + message->bytes;
    z->avail_out = (uInt)(room < INPUT_BYTES_MAX ? room : INPUT_BYTES_MAX);
    return 0;
}

/* Decompress the input of z. */
static int inflate_all(weft__ws_deflate *d, z_stream *z, weft__buffer *message, size_t bytes_max)
{
    Bytef spill;
    do {
        int rc = inflate_reserve(z, message, bytes_max, &spill);
        if (rc < 0)
            return rc;
        uInt before = z->avail_out;
        int result = inflate(z, Z_SYNC_FLUSH);
        size_t n = before - z->avail_out;
        if (n > 0 && z->next_out == &spill + 1)
            return -EMSGSIZE;
        message->bytes += n;
        if (result == Z_STREAM_END)
            rc = ++d->final_blocks <= FINAL_BLOCKS_MAX ? inflate_continue(z) : -EMSGSIZE;
        else if (result != Z_OK && result != Z_BUF_ERROR)
            rc = result == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
        if (rc < 0)
            return rc;
    } while (z->avail_in > 0 || z->avail_out == 0);
    return 0;
}

/*
 * Decompress the tail, which completes the empty block at the end of the message. In a message that
 * is cut inside another block, the tail adds bytes to that block, or does not end it.
 */
static int inflate_tail(weft__ws_deflate *d, z_stream *z, weft__buffer *message, size_t bytes_max)
{
    static const uint8_t tail[TAIL_BYTES] = {0, 0, 0xff, 0xff};
    size_t bytes_before = message->bytes;
    z->next_in = (z_const Bytef *)(uintptr_t)tail;
    z->avail_in = TAIL_BYTES;
    int rc = inflate_all(d, z, message, bytes_max);
    if (rc < 0)
        return rc;
    bool is_complete = (z->data_type & BLOCK_END_MASK) == AT_BLOCK_END;
    return is_complete && message->bytes == bytes_before ? 0 : -EBADMSG;
}

int weft__ws_inflate_part(weft__ws_deflate *d, const void *data, size_t bytes, bool is_last,
                          weft__buffer *message, size_t bytes_max)
{
    z_stream *z = inflater_get(d);
    if (z == NULL)
        return -ENOMEM;
    if (!d->has_open_message)
        d->final_blocks = 0;
    d->has_open_message = !is_last;
    z->next_in = (z_const Bytef *)(uintptr_t)data;
    z->avail_in = (uInt)bytes;
    int rc = inflate_all(d, z, message, bytes_max);
    if (rc < 0 || !is_last)
        return rc;
    rc = inflate_tail(d, z, message, bytes_max);
    if (rc == 0 && d->params.resets_recv)
        inflater_put(d);
    return rc;
}

#else

void weft__ws_deflate_close(weft__ws_deflate *d)
{
    (void)d;
}

void weft__ws_deflate_release(weft__ws_deflate *d)
{
    (void)d;
}

int weft__ws_deflate_part(weft__ws_deflate *d, const void *data, size_t bytes, bool is_last,
                          weft__buffer *out)
{
    (void)d, (void)data, (void)bytes, (void)is_last, (void)out;
    return -ENOMEM;
}

int weft__ws_inflate_part(weft__ws_deflate *d, const void *data, size_t bytes, bool is_last,
                          weft__buffer *message, size_t bytes_max)
{
    (void)d, (void)data, (void)bytes, (void)is_last, (void)message, (void)bytes_max;
    return -EBADMSG;
}

#endif
