/*
 * Memory that is given out piece by piece and released as a whole: what lives as long as a request.
 */
#ifndef WEFT_HTTP_ARENA_H
#define WEFT_HTTP_ARENA_H

#include <stddef.h>

typedef struct weft__arena_block weft__arena_block;

/* All-zero is empty. */
typedef struct weft__arena {
    weft__arena_block *block; /* the one in use; NULL: none */
    char *next;               /* its free bytes */
    size_t left;
} weft__arena;

/* Memory aligned for anything; NULL if there is none. */
void *weft__arena_alloc(weft__arena *arena, size_t bytes);

/* A copy of some bytes with a NUL behind them; NULL if there is no memory. */
char *weft__arena_copy(weft__arena *arena, const char *text, size_t bytes);

/* All that was given out is gone; one block is kept for the next to come. */
void weft__arena_reset(weft__arena *arena);

/* Release everything. */
void weft__arena_close(weft__arena *arena);

#endif
