/*
 * What is behind a weft_mutex, for those who take it and hand it on: the mutex itself, and a
 * condition, whose waiters go from its line to that of their mutex.
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include "sync/owner.h"

#include <weft/sync.h>

/*
 * Between calls: if nobody owns it, or its owner is dead, nobody waits. Each waiter is a fiber's
 * own, woken with 0 when it owns the mutex.
 */
typedef struct weft__mutex {
    weft__line waiters;
    weft__owner owner;
} weft__mutex;

_Static_assert(sizeof(weft__mutex) <= sizeof(weft_mutex), "weft_mutex is too small");
_Static_assert(_Alignof(weft__mutex) <= _Alignof(weft_mutex), "weft_mutex is aligned too little");

/* A waiter joins, or leaves without having been served. */
void weft__mutex_join(weft__mutex *m, weft__waiter *w);
void weft__mutex_leave(weft__mutex *m, weft__waiter *w);

/* The rest of weft__mutex_pass_on. */
void weft__mutex_hand_over(weft__cord *c, weft__mutex *m);

/* Take it, if that does not take waiting. 0; -EBUSY: it does. -EDEADLK, -EOWNERDEAD. */
static inline int weft__mutex_take(weft__mutex *m, weft__fiber *f)
{
    if (UNLIKELY(m->owner.fiber != NULL))
        return weft__owner_why_not(&m->owner, f);
    weft__owner_set(&m->owner, f);
    return 0;
}

/* Its owner lets go of it: it is the next one's before that one runs. */
static inline void weft__mutex_pass_on(weft__cord *c, weft__mutex *m)
{
    weft__owner_clear(&m->owner);
    if (UNLIKELY(!weft__line_is_empty(&m->waiters)))
        weft__mutex_hand_over(c, m);
}

#endif
