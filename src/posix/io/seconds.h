/* Times in seconds, and the structs of libc. libweft-posix does not need the library libm. */
#ifndef WEFT_POSIX_IO_SECONDS_H
#define WEFT_POSIX_IO_SECONDS_H

#include <math.h>
#include <stdbool.h>
#include <sys/time.h>
#include <time.h>

static inline double weft__seconds_min(double a, double b)
{
    return a < b ? a : b;
}

/* Return the time from now to end, or 0 if end has passed. */
static inline double weft__seconds_left(double end, double now)
{
    return end > now ? end - now : 0;
}

/* A negative time becomes 0. */
static inline struct timespec weft__timespec_of_seconds(double seconds)
{
    if (!(seconds > 0))
        return (struct timespec){0};
    time_t whole = (time_t)seconds;
    return (struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
}

static inline struct timeval weft__timeval_of_seconds(double seconds)
{
    struct timespec t = weft__timespec_of_seconds(seconds);
    return (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
}

/* Return whether libc accepts the time as a timeout. */
static inline bool weft__timespec_is_valid(const struct timespec *t)
{
    return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec <= 999999999;
}

#endif
