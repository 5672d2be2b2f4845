/* The table of descriptor generations, see fd_generation.h. */
#include "backend/fd_generation.h"

#include <errno.h>
#include <stdlib.h>

static atomic_uint first_chunk[WEFT__FD_CHUNK_FIRST];
_Atomic(atomic_uint *) weft__fd_chunks[WEFT__FD_CHUNKS] = {first_chunk};
atomic_uint weft__fd_advances;

/* If fd has no counter, no cord caches state about fd. */
void weft__fd_advance(int fd)
{
    atomic_uint *counter = weft__fd_counter(fd);
    if (counter == NULL)
        return;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&weft__fd_advances, 1, memory_order_relaxed);
}

int weft__fd_reserve(int fd)
{
    if (LIKELY(weft__fd_counter(fd) != NULL))
        return 0;
    unsigned chunk = 32 - WEFT__FD_CHUNK_BITS - (unsigned)__builtin_clz((unsigned)fd);
    atomic_uint *counters = calloc(WEFT__FD_CHUNK_FIRST << (chunk - 1), sizeof *counters);
    if (counters == NULL)
        return -ENOMEM;
    atomic_uint *expected = NULL;
    if (!atomic_compare_exchange_strong(&weft__fd_chunks[chunk], &expected, counters))
        free(counters); /* another thread has added the chunk */
    return 0;
}

unsigned weft__fd_numbers(void)
{
    unsigned chunk = WEFT__FD_CHUNKS - 1; /* the chunk for negative numbers */
    while (chunk > 0 && atomic_load(&weft__fd_chunks[chunk - 1]) == NULL)
        chunk--;
    return chunk > 0 ? WEFT__FD_CHUNK_FIRST << (chunk - 1) : 0;
}
