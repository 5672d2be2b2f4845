/*
 * The memory of streams. A thread keeps a few buffers of the usual size for whoever writes next: a
 * stream has one only while its output waits to be flushed, so that a hundred thousand connections
 * need no more of them than are at work.
 */
#include "io/stream.h"

#include <pthread.h>

/* Buffers that a thread keeps: with io_uring a whole batch of connections writes at once. */
#define SPARE_MAX 128

typedef struct spares {
    unsigned count;
    bool is_known; /* to the key, by which they are freed with the thread */
    char *buffers[SPARE_MAX];
} spares;

static __thread spares kept;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void free_spares(void *arg)
{
    spares *s = arg;
    while (s->count > 0)
        free(s->buffers[--s->count]);
    s->is_known = false;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, free_spares) == 0;
}

/* Without the key they would outlive their thread. */
static bool may_keep(spares *s)
{
    if (s->is_known)
        return true;
    pthread_once(&once, make_key);
    s->is_known = has_key && pthread_setspecific(key, s) == 0;
    return s->is_known;
}

static char *take(size_t bytes)
{
    spares *s = &kept;
    if (bytes == WEFT__BUFFER_BYTES && s->count > 0)
        return s->buffers[--s->count];
    return malloc(bytes + 1);
}

static void give(char *data, size_t bytes)
{
    spares *s = &kept;
    if (bytes == WEFT__BUFFER_BYTES && s->count < SPARE_MAX && may_keep(s))
        s->buffers[s->count++] = data;
    else
        free(data);
}

/* The data that it is to have from now on, with what it holds. */
static char *move_to(weft__buffer *b, size_t bytes)
{
    bool is_own = b->data != NULL && b->data != b->lent;
    bool fits = b->lent != NULL && bytes <= b->lent_bytes;
    if (is_own && !fits)
        return realloc(b->data, bytes + 1);
    char *data = fits ? b->lent : take(bytes);
    if (data == NULL || data == b->data)
        return data;
    if (weft__buffer_held(b) > 0)
        memcpy(data, b->data + b->head, weft__buffer_held(b));
    if (is_own)
        give(b->data, b->bytes);
    return data;
}

int weft__buffer_resize(weft__buffer *b, size_t bytes)
{
    weft__buffer_compact(b);
    char *data = move_to(b, bytes);
    if (data == NULL)
        return -ENOMEM;
    b->data = data;
    b->bytes = bytes;
    return 0;
}

void weft__buffer_release(weft__buffer *b)
{
    if (b->data != NULL && b->data != b->lent)
        give(b->data, b->bytes);
    b->data = NULL;
    b->bytes = 0;
    b->head = 0;
    b->tail = 0;
}
