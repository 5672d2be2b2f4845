/* Compiler hints and CONTAINER_OF. */
#ifndef WEFT_BASE_COMPILER_H
#define WEFT_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* For a function that rarely runs. The compiler places the function away from the fast path. */
#define COLD __attribute__((noinline, cold))

#define CACHE_LINE_BYTES 64

/* The struct of type `type` with the field `member` at the address `pointer`. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Export a function of libweft to libweft-posix only. src/weft.map lists these functions apart. */
#define FOR_POSIX __attribute__((visibility("default")))

#endif
