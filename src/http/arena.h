/*
 * Memory that is given out piece by piece and released as a whole: what lives as long as a request.
 */
#ifndef WEFT_HTTP_ARENA_H
#define WEFT_HTTP_ARENA_H

#include <stddef.h>

typedef struct weft__arena_block weft__arena_block;

/*
 * Free blocks of the usual size, for arenas of one thread. What was given back last is taken next:
 * it is still in the processor's cache. All-zero is empty.
 */
typedef struct weft__arena_stock {
    weft__arena_block *free;
    size_t count;
} weft__arena_stock;

void weft__arena_stock_close(weft__arena_stock *stock);

/* All-zero, but for the stock, is empty. */
typedef struct weft__arena {
    weft__arena_stock *stock;
    weft__arena_block *block; /* the one in use; NULL: none */
    char *next;               /* its free bytes */
    size_t left;
} weft__arena;

/* Memory aligned for anything; NULL if there is none. */
void *weft__arena_alloc(weft__arena *arena, size_t bytes);

/*
 * Enlarge memory from so many bytes to so many; it may move. Large memory has a block of its own,
 * which is reallocated; other memory stays in use until the arena is closed. NULL memory is as
 * weft__arena_alloc. Returns NULL if there is no memory.
 */
void *weft__arena_resize(weft__arena *arena, void *memory, size_t from, size_t to);

/* A copy of some bytes with a NUL behind them; NULL if there is no memory. */
char *weft__arena_copy(weft__arena *arena, const char *text, size_t bytes);

/* All that was given out is gone. */
void weft__arena_close(weft__arena *arena);

#endif
