/*
 * What is behind a weft_mutex, for those who take it and hand it on: the mutex itself, and a
 * condition, whose waiters go from its line to that of their mutex.
 *
 * The owner is a fiber's record, not its id: a record can be another fiber's one day, but the claim
 * lapses at the end of each run, long before that.
 */
#ifndef WEFT_SYNC_MUTEX_H
#define WEFT_SYNC_MUTEX_H

#include "core/sched.h"

#include <weft/sync.h>

/* The owner of a lock that a fiber has ended with: nobody can have it any more. */
#define WEFT__OWNER_DEAD ((weft__fiber *)-1)

/*
 * Between calls: if nobody owns it, or its owner is dead, nobody waits. Each waiter is a fiber's
 * own, woken with 0 when it owns the mutex.
 */
typedef struct weft__mutex {
    weft__line waiters;
    weft__fiber *owner; /* NULL: nobody */
    weft__claim claim;  /* the owner's */
} weft__mutex;

_Static_assert(sizeof(weft__mutex) <= sizeof(weft_mutex), "weft_mutex is too small");
_Static_assert(_Alignof(weft__mutex) <= _Alignof(weft_mutex), "weft_mutex is aligned too little");

/* The owner ends: so says the mutex from then on, to all. */
void weft__mutex_lapse(weft__claim *own);

static inline void weft__mutex_give(weft__mutex *m, weft__fiber *f)
{
    m->owner = f;
    weft__claim_make(&f->claims, &m->claim, weft__mutex_lapse);
}

/* Take it, if that does not take waiting. 0; -EBUSY: it does. -EDEADLK, -EOWNERDEAD. */
static inline int weft__mutex_take(weft__mutex *m, weft__fiber *f)
{
    if (LIKELY(m->owner == NULL)) {
        weft__mutex_give(m, f);
        return 0;
    }
    if (UNLIKELY(m->owner == WEFT__OWNER_DEAD))
        return -EOWNERDEAD;
    return LIKELY(m->owner != f) ? -EBUSY : -EDEADLK;
}

/* Its owner lets go of it: it is the next one's before that one runs. */
static inline void weft__mutex_pass_on(weft__cord *c, weft__mutex *m)
{
    weft__claim_drop(&m->claim);
    m->owner = NULL;
    weft__waiter *w = m->waiters.first;
    if (LIKELY(w == NULL))
        return;
    weft__mutex_give(m, w->fiber);
    weft__serve(c, w, 0);
}

#endif
