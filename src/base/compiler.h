/* Words for the compiler, and container_of. */
#ifndef WEFT_BASE_COMPILER_H
#define WEFT_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Rarely run: kept out of line, so that it does not crowd the hot path around its call. */
#define COLD __attribute__((noinline, cold))

#define CACHE_LINE_BYTES 64

/*
 * A function that does nothing but fetch: GCC takes it for one without any effect, and drops the
 * calls of it, unless it is inlined before it looks.
 */
#define FETCHER static inline __attribute__((always_inline))

/* Fetch so many cache lines from here on: they will be needed soon. Any address will do. */
FETCHER void weft__fetch(const void *from, int lines)
{
    for (int i = 0; i < lines; i++)
        __builtin_prefetch((const void *)((uintptr_t)from + (unsigned)i * CACHE_LINE_BYTES));
}

/* The struct of which `pointer` is the field `member`. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
