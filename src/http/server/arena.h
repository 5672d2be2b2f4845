/*
 * Arenas. An arena holds the memory of one request. Closing an arena frees all its allocations.
 * Only one thread may use an arena and its block cache.
 */
#ifndef WEFT_HTTP_SERVER_ARENA_H
#define WEFT_HTTP_SERVER_ARENA_H

#include <stddef.h>

typedef struct weft__arena_block weft__arena_block;

/*
 * Free blocks of the standard size. The cache reuses the most recently released block first,
 * because that block is probably still in the CPU cache. All-zero is an empty cache.
 */
typedef struct weft__arena_block_cache {
    weft__arena_block *free;
    size_t count;
} weft__arena_block_cache;

/* Free all blocks in a cache. */
void weft__arena_block_cache_close(weft__arena_block_cache *cache);

/* An arena is empty if all fields except block_cache are zero. */
typedef struct weft__arena {
    weft__arena_block_cache *block_cache;
    weft__arena_block *block; /* the newest block; NULL: none */
    char *next;               /* first free byte of block */
    size_t left;              /* number of free bytes in block */
} weft__arena;

/* Allocate memory with the alignment of long double. Returns NULL if memory is exhausted. */
void *weft__arena_alloc(weft__arena *arena, size_t bytes);

/*
 * Enlarge an allocation and return its new address. from and to are sizes in bytes. memory may be
 * NULL if from is 0. If the newest block holds only this allocation, the call reallocates the
 * block. Otherwise the call copies the bytes. The old bytes then remain allocated until
 * weft__arena_close. Returns NULL if memory is exhausted.
 */
void *weft__arena_resize(weft__arena *arena, void *memory, size_t from, size_t to);

/* Copy text and append a NUL. Returns NULL if memory is exhausted. */
char *weft__arena_copy(weft__arena *arena, const char *text, size_t bytes);

/* Free all allocations of an arena. The arena is then empty and can be used again. */
void weft__arena_close(weft__arena *arena);

#endif
