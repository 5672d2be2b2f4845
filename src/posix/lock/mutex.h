/* Mutexes, for conditions. */
#ifndef WEFT_POSIX_LOCK_MUTEX_H
#define WEFT_POSIX_LOCK_MUTEX_H

#include <pthread.h>

/* Lock a mutex in a cord, as the hook does. */
int weft__mutex_lock(pthread_mutex_t *mutex);

/* Unlock a mutex in a cord, as the hook does. */
int weft__mutex_unlock(pthread_mutex_t *mutex);

#endif
