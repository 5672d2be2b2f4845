/*
 * Who holds a lock alone, a mutex or a lock to write: handed on directly, and broken when a fiber
 * ends with it.
 *
 * The lock is among the holder's claims only while someone waits for it. So a fiber may end with
 * one that nobody else wants, and whose memory has gone with the function that held it; if someone
 * asks for it later, the number of the run tells that its holder has ended. (The record may be
 * another fiber's by then, with another number.)
 */
#ifndef WEFT_SYNC_OWNER_H
#define WEFT_SYNC_OWNER_H

#include "core/sched.h"

/* The owner of a lock that a fiber has ended with: nobody can have it any more. */
#define WEFT__OWNER_DEAD ((weft__fiber *)-1)

typedef struct weft__owner {
    weft__fiber *fiber; /* NULL: nobody */
    weft__claim claim;  /* its; made while someone waits */
    uint32_t run;       /* its claim_run when it got the lock */
} weft__owner;

/* The one that holds it; NULL: nobody; or WEFT__OWNER_DEAD. */
static inline weft__fiber *weft__owner_now(const weft__owner *o)
{
    weft__fiber *f = o->fiber;
    bool is_one = f != NULL && f != WEFT__OWNER_DEAD;
    return is_one && UNLIKELY(f->claim_run != o->run) ? WEFT__OWNER_DEAD : f;
}

static inline void weft__owner_set(weft__owner *o, weft__fiber *f)
{
    o->fiber = f;
    o->run = f->claim_run;
}

/* Why the lock cannot be had at once, by this fiber. */
static inline int weft__owner_why_not(const weft__owner *o, const weft__fiber *f)
{
    const weft__fiber *owner = weft__owner_now(o);
    if (UNLIKELY(owner == WEFT__OWNER_DEAD))
        return -EOWNERDEAD;
    return LIKELY(owner != f) ? -EBUSY : -EDEADLK;
}

/* After each change of the owner or of the line: those who wait are to be told of its end. */
static inline void weft__owner_note(weft__owner *o, const weft__line *waiters,
                                    void (*lapse)(weft__claim *own))
{
    bool is_claimed = o->claim.at != NULL;
    bool is_wanted = o->fiber != NULL && !weft__line_is_empty(waiters);
    if (is_wanted && !is_claimed)
        weft__claim_make(&o->fiber->life->claims, &o->claim, lapse);
    else if (!is_wanted && is_claimed)
        weft__claim_drop(&o->claim);
}

/* The owner lets go of it. */
static inline void weft__owner_clear(weft__owner *o)
{
    if (UNLIKELY(o->claim.at != NULL))
        weft__claim_drop(&o->claim);
    o->fiber = NULL;
}

#endif
