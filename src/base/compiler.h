/* Compiler hints, prefetching and CONTAINER_OF. */
#ifndef WEFT_BASE_COMPILER_H
#define WEFT_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* For a function that rarely runs. The compiler places the function away from the fast path. */
#define COLD __attribute__((noinline, cold))

#define CACHE_LINE_BYTES 64

/*
 * For a function that only prefetches. GCC assumes that such a function has no effect, and removes
 * calls of the function unless the function is inlined early.
 */
#define PREFETCHER static inline __attribute__((always_inline))

/*
 * Prefetch `lines` cache lines, starting at `from`. `from` may be any address, even an invalid
 * address.
 */
PREFETCHER void weft__prefetch(const void *from, int lines)
{
    for (int i = 0; i < lines; i++)
        __builtin_prefetch((const void *)((uintptr_t)from + (unsigned)i * CACHE_LINE_BYTES));
}

/* The struct of type `type` with the field `member` at the address `pointer`. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
