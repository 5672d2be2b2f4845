/*
 * Waits for locks that can be tried without blocking: mutexes, rwlocks, semaphores. A wait cannot
 * be cancelled, because most callers of lock functions ignore errors.
 */
#ifndef WEFT_POSIX_LOCK_GATE_H
#define WEFT_POSIX_LOCK_GATE_H

#include "posix/lock/waiters.h"

#include <time.h>

/* A point in time until which a function waits. */
typedef struct weft__time_limit {
    clockid_t clock;
    const struct timespec *at; /* NULL: no limit */
} weft__time_limit;

#define WEFT__NO_LIMIT (&(const weft__time_limit){0, NULL})

/* Return whether libc can wait until a time of this clock. If not, its functions fail at once. */
static inline bool weft__clock_is_valid(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/* Return 0, or EINVAL as the functions of libc do for a wrong time. */
int weft__time_limit_check(const weft__time_limit *limit);

/* Return the seconds until the limit. INFINITY: no limit; 0: the limit has passed. */
double weft__time_left(const weft__time_limit *limit);

/* A way to get a lock. */
typedef struct weft__gate {
    const weft__wait_kind *kind;
    /* Try to get the lock. Return EBUSY if the caller must wait, else the result of the call. */
    int (*attempt)(void *lock);
    bool is_shared;        /* after one waiter, the next waiter may get the lock as well */
    bool is_interruptible; /* a signal handler without SA_RESTART ends the wait */
} weft__gate;

/*
 * Wait until an attempt to get the lock does not return EBUSY. The hook must be on. Preserve errno.
 * Return the result of the attempt, or:
 * EINTR if is_interruptible is true, and a signal handler has run
 * EINVAL if the time of the limit is wrong
 * ETIMEDOUT if the limit has passed
 */
int weft__gate_wait(const weft__gate *gate, void *lock, const weft__time_limit *limit);

#endif
