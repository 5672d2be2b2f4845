/* Memory of a request: blocks in a list, the newest first. */
#include "http/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A block's usual size, with what malloc adds: the fields and head of a browser's request. */
#define BLOCK_BYTES ((size_t)2016)
/* Blocks that a stock keeps. */
#define STOCK_MAX 64
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

static weft__arena_block *new_block(size_t bytes)
{
    weft__arena_block *b = malloc(sizeof *b + bytes);
    if (b != NULL)
        b->bytes = bytes;
    return b;
}

static weft__arena_block *block_for(weft__arena_stock *s, size_t bytes)
{
    weft__arena_block *b = s->free;
    if (b == NULL || bytes > BLOCK_BYTES)
        return new_block(bytes < BLOCK_BYTES ? BLOCK_BYTES : bytes);
    s->free = b->before;
    s->count--;
    return b;
}

static void give_back(weft__arena_stock *s, weft__arena_block *b)
{
    if (b->bytes != BLOCK_BYTES || s->count == STOCK_MAX) {
        free(b);
        return;
    }
    b->before = s->free;
    s->free = b;
    s->count++;
}

static void *take_from_new(weft__arena *a, size_t bytes)
{
    weft__arena_block *b = block_for(a->stock, bytes);
    if (b == NULL)
        return NULL;
    b->before = a->block;
    a->block = b;
    a->next = b->data;
    a->left = b->bytes;
    return take(a, bytes);
}

void *weft__arena_alloc(weft__arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    return bytes <= a->left ? take(a, bytes) : take_from_new(a, bytes);
}

static bool has_block_of_its_own(const weft__arena *a, const void *memory)
{
    return a->block != NULL && a->block->data == memory && a->block->bytes > BLOCK_BYTES;
}

/* Enlarge the newest block, which is not of the usual size. It may move. */
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
    if (to <= SIZE_MAX / 2 && has_block_of_its_own(a, memory))
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
        a->block = b->before;
        give_back(a->stock, b);
    }
    a->next = NULL;
    a->left = 0;
}

void weft__arena_stock_close(weft__arena_stock *s)
{
    while (s->free != NULL) {
        weft__arena_block *b = s->free;
        s->free = b->before;
        free(b);
    }
    s->count = 0;
}
