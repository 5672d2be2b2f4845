/*
 * Descriptor generations: a counter for each descriptor number, in one table for the whole process.
 * Any thread may close a descriptor, and the kernel may then reuse its number. A cord that caches
 * state about a descriptor also stores the generation of its number. The cached state is valid only
 * while the generation is unchanged. A generation repeats after 2^32 advances.
 *
 * A thread advances the generation of a number before it closes a descriptor with weft, and after
 * it has created a descriptor with weft. A thread that receives a number from another thread is
 * ordered after both advances. Therefore relaxed loads suffice.
 */
#ifndef WEFT_BACKEND_FD_GENERATION_H
#define WEFT_BACKEND_FD_GENERATION_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The size of the first chunk. Each further chunk is as large as all previous chunks together. */
#define WEFT__FD_CHUNK_BITS 10
#define WEFT__FD_CHUNK_FIRST (1u << WEFT__FD_CHUNK_BITS)
/*
 * The first chunk, one chunk for each further value bit of an int, and one chunk for negative
 * numbers. The chunk for negative numbers remains empty.
 */
#define WEFT__FD_CHUNKS (32 - WEFT__FD_CHUNK_BITS + 1)

/*
 * The chunks of counters. NULL: no cord caches state about the numbers of the chunk. Chunks never
 * move. weft never frees them.
 */
extern _Atomic(atomic_uint *) weft__fd_chunks[WEFT__FD_CHUNKS];

/*
 * The number of advances of all generations. If this value is unchanged, every generation is
 * unchanged.
 */
extern atomic_uint weft__fd_advances;

/* Return the counter of a number, or NULL if the number has no counter yet. */
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

/* Return the generation of a number, or 0 if the number has no counter yet. */
static inline uint32_t weft__fd_generation(int fd)
{
    const atomic_uint *counter = weft__fd_counter(fd);
    return LIKELY(counter != NULL) ? atomic_load_explicit(counter, memory_order_relaxed) : 0;
}

/*
 * Advance the generation of a number. Call this function before closing the descriptor, and after a
 * new file has received the number. Any thread may call this function.
 */
FOR_POSIX void weft__fd_advance(int fd);

/*
 * Create the counter of a number. fd must be open. Call this function before caching state about
 * fd. Returns 0, or -ENOMEM if memory is exhausted.
 */
int weft__fd_reserve(int fd);

/* Return a number that is higher than all numbers that have a counter. */
FOR_POSIX unsigned weft__fd_numbers(void);

#endif
