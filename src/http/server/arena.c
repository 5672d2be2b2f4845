/* Arenas (arena.h). An arena is a list of blocks, newest first. */
#include "http/server/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * The standard size of a block. A block takes 2 KiB with its own header and the header of
 * malloc(3). The head and the fields of a browser's request fit in one block.
 */
#define BLOCK_BYTES ((size_t)2016)
/* The maximum number of blocks in a cache. */
#define CACHED_BLOCKS_MAX 64
#define ALIGNMENT (sizeof(long double))

struct weft__arena_block {
    weft__arena_block *prev; /* next older block, or next free block; NULL: none */
    size_t bytes;            /* size of data */
    _Alignas(long double) char data[];
};

static void *arena_take(weft__arena *a, size_t bytes)
{
    char *memory = a->next;
    a->next += bytes;
    a->left -= bytes;
    return memory;
}

static weft__arena_block *block_new(size_t bytes)
{
    weft__arena_block *b = malloc(sizeof *b + bytes);
    if (b != NULL)
        b->bytes = bytes;
    return b;
}

static weft__arena_block *block_acquire(weft__arena_block_cache *cache, size_t bytes)
{
    weft__arena_block *b = cache->free;
    if (b == NULL || bytes > BLOCK_BYTES)
        return block_new(bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes);
    cache->free = b->prev;
    cache->count--;
    return b;
}

static void block_release(weft__arena_block_cache *cache, weft__arena_block *b)
{
    if (b->bytes != BLOCK_BYTES || cache->count == CACHED_BLOCKS_MAX) {
        free(b);
        return;
    }
    b->prev = cache->free;
    cache->free = b;
    cache->count++;
}

static void *arena_take_from_new_block(weft__arena *a, size_t bytes)
{
    weft__arena_block *b = block_acquire(a->block_cache, bytes);
    if (b == NULL)
        return NULL;
    b->prev = a->block;
    a->block = b;
    a->next = b->data;
    a->left = b->bytes;
    return arena_take(a, bytes);
}

void *weft__arena_alloc(weft__arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    return bytes <= a->left ? arena_take(a, bytes) : arena_take_from_new_block(a, bytes);
}

static bool memory_has_own_block(const weft__arena *a, const void *memory)
{
    return a->block != NULL && a->block->data == memory && a->block->bytes > BLOCK_BYTES;
}

/* Enlarge the newest block. The block must hold exactly one allocation. The block may move. */
static void *resize_block(weft__arena *a, size_t bytes)
{
    weft__arena_block *b = realloc(a->block, sizeof *b + bytes);
    if (b == NULL)
        return NULL;
    b->bytes = bytes;
    a->block = b;
    a->next = b->data + bytes;
    a->left = 0;
    return b->data;
}

void *weft__arena_resize(weft__arena *a, void *memory, size_t from, size_t to)
{
    if (to <= SIZE_MAX / 2 && memory_has_own_block(a, memory))
        return resize_block(a, to);
    void *larger = weft__arena_alloc(a, to);
    if (larger != NULL && from > 0)
        memcpy(larger, memory, from);
    return larger;
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

void weft__arena_close(weft__arena *a)
{
    while (a->block != NULL) {
        weft__arena_block *b = a->block;
        a->block = b->prev;
        block_release(a->block_cache, b);
    }
    a->next = NULL;
    a->left = 0;
}

void weft__arena_block_cache_close(weft__arena_block_cache *cache)
{
    while (cache->free != NULL) {
        weft__arena_block *b = cache->free;
        cache->free = b->prev;
        free(b);
    }
    cache->count = 0;
}
