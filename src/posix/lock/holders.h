/*
 * The fibers that hold locks of the calling thread, by the address of the lock. glibc knows only
 * which thread holds a lock. The fiber matters for recursive and error-checking mutexes, and for
 * guards of static variables in C++.
 */
#ifndef WEFT_POSIX_LOCK_HOLDERS_H
#define WEFT_POSIX_LOCK_HOLDERS_H

#include <weft/base.h>

#include <sys/types.h>

/* Return the fiber that holds the lock, or 0 if the fiber is not known. */
weft_fiber weft__holder_get(const void *lock);

/* Note the fiber that holds a lock. If memory is exhausted, the holder remains unknown. */
void weft__holder_set(const void *lock, weft_fiber fiber);

void weft__holder_remove(const void *lock);

/* Return gettid(), without a system call. */
pid_t weft__thread_id(void);

#endif
