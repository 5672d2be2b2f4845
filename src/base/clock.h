/* The monotonic clock, in nanoseconds. */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEFT__NS_PER_S 1000000000

static inline int64_t weft__clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * WEFT__NS_PER_S + t.tv_nsec;
}

/* Convert a time or a duration to the struct that system calls take. ns must not be negative. */
static inline struct timespec weft__clock_spec(int64_t ns)
{
    return (struct timespec){ns / WEFT__NS_PER_S, ns % WEFT__NS_PER_S};
}

#endif
