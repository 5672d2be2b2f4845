/*
 * The compressor (gzip.h): zlib with an output buffer. Each thread keeps a few idle compressors,
 * because creating a compressor costs more than compressing a small page.
 */
#include "http/reply/gzip.h"

#include "base/list.h"

#include <weft/fiber.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>

/*
 * A window of 16 KiB, and hash tables of a matching size. A compressor needs 128 KiB, half of
 * zlib's default. The output is 3 % larger than with the default.
 */
#define WINDOW_BITS 14
#define MEMORY_LEVEL 7
#define GZIP_HEADER 16 /* added to WINDOW_BITS: selects the gzip format */

#define OUT_BYTES ((size_t)8 << 10)
#define IDLE_MAX 4 /* maximum number of idle compressors of a thread */

/* The number of input bytes between two switchpoints: about 1 ms of work. */
#define SNOOZE_BYTES ((size_t)64 << 10)

struct weft__gzip {
    z_stream z;
    weft__list idle; /* in the thread's idle list, while not in use */
    int level;
    bool has_ended;
    bool is_broken; /* a write has failed; further output would follow a gap */
    unsigned char out[OUT_BYTES];
};

/* The idle compressors of a thread, most recently used first. */
typedef struct idle_list {
    weft__list head; /* next is NULL before the first use */
    size_t count;
} idle_list;

static _Thread_local idle_list idle;
static pthread_key_t idle_key;
static pthread_once_t idle_once = PTHREAD_ONCE_INIT;
static bool has_idle_key;

static void gzip_destroy(weft__gzip *gz)
{
    deflateEnd(&gz->z);
    free(gz);
}

/*
 * Free the idle compressors when a thread exits. If fibers exit later and add compressors, the
 * thread runs this destructor again.
 */
static void idle_list_destroy(void *arg)
{
    idle_list *list = arg;
    weft__list *node;
    while ((node = weft__list_pop(&list->head)) != NULL)
        gzip_destroy(CONTAINER_OF(node, weft__gzip, idle));
    list->count = 0;
}

static void idle_key_create(void)
{
    has_idle_key = pthread_key_create(&idle_key, idle_list_destroy) == 0;
}

/*
 * Remove a compressor of this level from the idle list. Returns the compressor, or NULL if the list
 * has none.
 */
static weft__gzip *idle_take(int level)
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

/*
 * Prepare the idle list for one more compressor. Returns false if the list is full, or if its
 * destructor cannot be registered.
 */
static bool idle_reserve(void)
{
    pthread_once(&idle_once, idle_key_create);
    if (!has_idle_key || idle.count == IDLE_MAX || pthread_setspecific(idle_key, &idle) != 0)
        return false;
    if (idle.head.next == NULL)
        weft__list_init(&idle.head);
    return true;
}

weft__gzip *weft__gzip_new(int level)
{
    weft__gzip *gz = idle_take(level);
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
    if (!idle_reserve() || deflateReset(&gz->z) != Z_OK) {
        gzip_destroy(gz);
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

/* Pass the buffered output to the sink. */
static int gzip_drain(weft__gzip *gz, weft__gzip_sink *sink, void *ctx)
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
 * Run zlib until it has consumed all input and has no more output. If the output buffer has free
 * space, no output is pending.
 */
static int gzip_deflate(weft__gzip *gz, int flush, weft__gzip_sink *sink, void *ctx)
{
    do {
        if (gz->z.avail_out == 0) {
            int rc = gzip_drain(gz, sink, ctx);
            if (rc < 0)
                return rc;
        }
        int z = deflate(&gz->z, flush);
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR)
            return -EINVAL;
    } while (gz->z.avail_in > 0 || gz->z.avail_out == 0);
    return flush != Z_NO_FLUSH ? gzip_drain(gz, sink, ctx) : 0;
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
        size_t n = bytes < SNOOZE_BYTES ? bytes : SNOOZE_BYTES;
        gz->z.next_in = (unsigned char *)(uintptr_t)at;
        gz->z.avail_in = (unsigned)n;
        at = n > 0 ? at + n : at;
        bytes -= n;
        rc = gzip_deflate(gz, bytes > 0 ? Z_NO_FLUSH : flushes[mode], sink, ctx);
        if (rc == 0 && bytes > 0)
            rc = weft_snooze();
    } while (rc == 0 && bytes > 0);
    gz->is_broken = rc < 0;
    gz->has_ended = mode == WEFT__GZIP_END;
    return rc;
}
