/*
 * The compressor of replies: zlib, with a buffer for what comes out, and a few idle ones kept by
 * each thread, as making one costs more than compressing a small page.
 */
#include "http/gzip.h"

#include "base/list.h"

#include <weft/fiber.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>

/*
 * A window of 16 KiB and hash tables to match: 128 KiB for one compressor, half of zlib's default,
 * for output that is 3 % larger.
 */
#define WINDOW_BITS 14
#define MEMORY_LEVEL 7
#define GZIP_HEADER 16 /* added to the window bits: gzip, not zlib's own frame */

#define OUT_BYTES ((size_t)8 << 10)
#define IDLE_MAX 4 /* compressors that a thread keeps */

/* What is compressed before others may run: about a millisecond's work. */
#define PIECE_BYTES ((size_t)64 << 10)

struct weft__gzip {
    z_stream z;
    weft__list idle; /* among the thread's, if it is */
    int level;
    bool has_ended;
    bool is_broken; /* it has failed half-way: what comes next would follow a gap */
    unsigned char out[OUT_BYTES];
};

/* The thread's idle ones, the one used last at the head; next is NULL before the first. */
typedef struct idle_list {
    weft__list head;
    size_t count;
} idle_list;

static _Thread_local idle_list idle;
static pthread_key_t idle_key;
static pthread_once_t idle_once = PTHREAD_ONCE_INIT;
static bool has_idle_key;

static void destroy(weft__gzip *gz)
{
    deflateEnd(&gz->z);
    free(gz);
}

/* At the end of a thread. What is kept after that, by fibers that end later, comes here again. */
static void destroy_idle(void *arg)
{
    idle_list *list = arg;
    weft__list *node;
    while ((node = weft__list_pop(&list->head)) != NULL)
        destroy(CONTAINER_OF(node, weft__gzip, idle));
    list->count = 0;
}

static void make_key(void)
{
    has_idle_key = pthread_key_create(&idle_key, destroy_idle) == 0;
}

/* One of that level that the thread has kept, ready to begin; NULL. */
static weft__gzip *take_idle(int level)
{
    if (idle.count == 0)
        return NULL;
    WEFT__LIST_FOR(node, &idle.head) {
        weft__gzip *gz = CONTAINER_OF(node, weft__gzip, idle);
        if (gz->level != level)
            continue;
        weft__list_remove(node);
        idle.count--;
        return gz;
    }
    return NULL;
}

/* Is there room for one more, and will somebody free it? */
static bool can_keep(void)
{
    pthread_once(&idle_once, make_key);
    if (!has_idle_key || idle.count == IDLE_MAX || pthread_setspecific(idle_key, &idle) != 0)
        return false;
    if (idle.head.next == NULL)
        weft__list_init(&idle.head);
    return true;
}

weft__gzip *weft__gzip_new(int level)
{
    weft__gzip *gz = take_idle(level);
    if (gz != NULL)
        return gz;
    gz = malloc(sizeof *gz);
    if (gz == NULL)
        return NULL;
    gz->z = (z_stream){0};
    gz->level = level;
    gz->has_ended = gz->is_broken = false;
    if (deflateInit2(&gz->z, level, Z_DEFLATED, WINDOW_BITS + GZIP_HEADER, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(gz);
        return NULL;
    }
    gz->z.next_out = gz->out;
    gz->z.avail_out = sizeof gz->out;
    return gz;
}

void weft__gzip_free(weft__gzip *gz)
{
    if (gz == NULL)
        return;
    if (!can_keep() || deflateReset(&gz->z) != Z_OK) {
        destroy(gz);
        return;
    }
    gz->has_ended = gz->is_broken = false;
    gz->z.next_in = NULL;
    gz->z.avail_in = 0;
    gz->z.next_out = gz->out;
    gz->z.avail_out = sizeof gz->out;
    weft__list_insert(idle.head.next, &gz->idle);
    idle.count++;
}

/* Hand on what has come out. */
static int drain(weft__gzip *gz, weft__gzip_sink *sink, void *ctx)
{
    size_t bytes = sizeof gz->out - gz->z.avail_out;
    if (bytes == 0)
        return 0;
    int rc = sink(ctx, gz->out, bytes);
    gz->z.next_out = gz->out;
    gz->z.avail_out = sizeof gz->out;
    return rc < 0 ? rc : 0;
}

/*
 * Until zlib has taken all and has nothing more to say. It has if it leaves room: with none left it
 * may have more, and is asked again.
 */
static int squeeze(weft__gzip *gz, int flush, weft__gzip_sink *sink, void *ctx)
{
    do {
        if (gz->z.avail_out == 0) {
            int rc = drain(gz, sink, ctx);
            if (rc < 0)
                return rc;
        }
        int z = deflate(&gz->z, flush);
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR)
            return -EINVAL;
    } while (gz->z.avail_in > 0 || gz->z.avail_out == 0);
    return flush != Z_NO_FLUSH ? drain(gz, sink, ctx) : 0;
}

int weft__gzip_write(weft__gzip *gz, const void *data, size_t bytes, weft__gzip_mode mode,
                     weft__gzip_sink *sink, void *ctx)
{
    static const int flushes[] = {Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH};
    if (gz->has_ended || gz->is_broken)
        return -EINVAL;
    const unsigned char *at = data;
    int rc;
    do {
        size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        gz->z.next_in = (unsigned char *)(uintptr_t)at;
        gz->z.avail_in = (unsigned)piece;
        at = piece > 0 ? at + piece : at;
        bytes -= piece;
        rc = squeeze(gz, bytes > 0 ? Z_NO_FLUSH : flushes[mode], sink, ctx);
        if (rc == 0 && bytes > 0)
            rc = weft_snooze();
    } while (rc == 0 && bytes > 0);
    gz->is_broken = rc < 0;
    gz->has_ended = mode == WEFT__GZIP_END;
    return rc;
}
