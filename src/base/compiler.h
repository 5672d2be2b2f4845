/* Words for the compiler, and container_of. */
#ifndef WEFT_BASE_COMPILER_H
#define WEFT_BASE_COMPILER_H

#include <stddef.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Rarely run: kept out of line, so that it does not crowd the hot path around its call. */
#define COLD __attribute__((noinline, cold))

/* The struct of which `pointer` is the field `member`. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
