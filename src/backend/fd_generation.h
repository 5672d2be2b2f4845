/*
 * Descriptor generations: a counter per descriptor number, one table for the whole process. The
 * kernel reuses a number as soon as it is closed, and any thread may close it. A cord that caches
 * facts about a descriptor stores the generation it learned them under; they hold only while the
 * generation is the same. A generation repeats after 2^32 advances of its number.
 *
 * weft advances the generation before it closes a descriptor and after it creates one, in any
 * thread. A thread that is handed a number by another thread is ordered after both, so relaxed
 * loads suffice.
 */
#ifndef WEFT_BACKEND_FD_GENERATION_H
#define WEFT_BACKEND_FD_GENERATION_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers in the first chunk. Each further chunk holds as many as all chunks before it. */
#define WEFT__FD_CHUNK_BITS 10
#define WEFT__FD_CHUNK_FIRST (1u << WEFT__FD_CHUNK_BITS)
/* One chunk for each further bit of an int, and one for negative numbers, which stays empty. */
#define WEFT__FD_CHUNKS (32 - WEFT__FD_CHUNK_BITS + 1)

/* NULL: no cord has learned anything about these numbers. Chunks never move and are never freed. */
extern _Atomic(atomic_uint *) weft__fd_chunks[WEFT__FD_CHUNKS];

/* How often any generation was advanced: tells cheaply that none has been. */
extern atomic_uint weft__fd_advances;

/* The counter of a number; NULL: there is none yet. */
static inline atomic_uint *weft__fd_counter(int fd)
{
    unsigned number = (unsigned)fd, chunk = 0, first = 0;
    if (UNLIKELY(number >= WEFT__FD_CHUNK_FIRST)) {
        chunk = 32 - WEFT__FD_CHUNK_BITS - (unsigned)__builtin_clz(number);
        first = WEFT__FD_CHUNK_FIRST << (chunk - 1);
    }
    atomic_uint *counters = atomic_load_explicit(&weft__fd_chunks[chunk], memory_order_acquire);
    return LIKELY(counters != NULL) ? &counters[number - first] : NULL;
}

/* The generation of a number; 0 if weft__fd_reserve was not called for it. */
static inline uint32_t weft__fd_generation(int fd)
{
    const atomic_uint *counter = weft__fd_counter(fd);
    return LIKELY(counter != NULL) ? atomic_load_explicit(counter, memory_order_relaxed) : 0;
}

/* The number is about to be closed, or was just given to a new file. From any thread. */
void weft__fd_advance(int fd);

/* Make the counter of an open number, before anything is noted about it. 0 or -ENOMEM. */
int weft__fd_reserve(int fd);

#endif
