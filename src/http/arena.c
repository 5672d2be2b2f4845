/* Memory of a request: blocks in a list, the newest first. */
#include "http/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * A block's usual size: what malloc of the C library keeps at hand for a thread goes up to 1,032
 * bytes, and a block is taken and given back with each request.
 */
#define BLOCK_BYTES ((size_t)1008)
#define ALIGNMENT (sizeof(long double))

struct weft__arena_block {
    weft__arena_block *before;
    size_t bytes;
    _Alignas(long double) char data[];
};

static void *take(weft__arena *a, size_t bytes)
{
    char *memory = a->next;
    a->next += bytes;
    a->left -= bytes;
    return memory;
}

static void start(weft__arena *a)
{
    a->next = a->block->data;
    a->left = a->block->bytes;
}

static void *take_from_new(weft__arena *a, size_t bytes)
{
    size_t block_bytes = bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes;
    weft__arena_block *b = malloc(sizeof *b + block_bytes);
    if (b == NULL)
        return NULL;
    b->bytes = block_bytes;
    b->before = a->block;
    a->block = b;
    start(a);
    return take(a, bytes);
}

void *weft__arena_alloc(weft__arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    return bytes <= a->left ? take(a, bytes) : take_from_new(a, bytes);
}

char *weft__arena_copy(weft__arena *a, const char *text, size_t bytes)
{
    char *copy = weft__arena_alloc(a, bytes + 1);
    if (copy == NULL)
        return NULL;
    if (bytes > 0)
        memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

/* The oldest block is kept: of the usual size, unless the first thing asked for was large. */
void weft__arena_reset(weft__arena *a)
{
    while (a->block != NULL && (a->block->before != NULL || a->block->bytes > BLOCK_BYTES)) {
        weft__arena_block *b = a->block;
        a->block = b->before;
        free(b);
    }
    if (a->block != NULL)
        start(a);
    else
        *a = (weft__arena){0};
}

void weft__arena_close(weft__arena *a)
{
    for (weft__arena_block *b = a->block, *before; b != NULL; b = before) {
        before = b->before;
        free(b);
    }
    *a = (weft__arena){0};
}
