/*
 * The definition of struct weft__mutex, for mutex.c and cond.c. weft_cond_signal moves a waiter
 * from the wait queue of a condition variable to the wait queue of a mutex.
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include "sync/owner.h"

#include <weft/sync.h>

/*
 * Invariant between calls: the wait queue is empty while no living fiber owns the mutex. Each
 * waiter is the waiter that is embedded in its fiber. When a fiber becomes the owner, its waiter is
 * woken with 0.
 */
typedef struct weft__mutex {
    weft__waitq waiters;
    weft__owner owner;
} weft__mutex;

_Static_assert(sizeof(weft__mutex) <= sizeof(weft_mutex), "weft_mutex is too small");
_Static_assert(_Alignof(weft__mutex) <= _Alignof(weft_mutex), "weft_mutex is aligned too little");

/*
 * Add a waiter to the wait queue, or remove a waiter from the wait queue. Removing a woken waiter
 * has no effect.
 */
void weft__mutex_join(weft__mutex *m, weft__waiter *w);
void weft__mutex_leave(weft__mutex *m, weft__waiter *w);

/*
 * Make the first waiter the owner. This is the slow path of weft__mutex_release. The wait queue
 * must not be empty.
 */
void weft__mutex_hand_over(weft__cord *c, weft__mutex *m);

/*
 * Lock a mutex for f without waiting.
 *
 * Returns 0, or:
 * -EBUSY if another fiber owns the mutex
 * -EDEADLK if f owns the mutex
 * -EOWNERDEAD if the owner has ended
 */
static inline int weft__mutex_try_lock(weft__mutex *m, weft__fiber *f)
{
    if (UNLIKELY(m->owner.fiber != NULL))
        return weft__owner_conflict(&m->owner, f);
    weft__owner_set(&m->owner, f);
    return 0;
}

/* Unlock a mutex. If fibers wait, the first waiting fiber becomes the owner before it runs. */
static inline void weft__mutex_release(weft__cord *c, weft__mutex *m)
{
    weft__owner_clear(&m->owner);
    if (UNLIKELY(!weft__waitq_is_empty(&m->waiters)))
        weft__mutex_hand_over(c, m);
}

#endif
