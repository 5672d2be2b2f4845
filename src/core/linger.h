/*
 * Lingering: before a thread goes to sleep it looks for a while whether another one sends
 * something, if that has paid lately. To sleep and to be woken takes both sides tens of
 * microseconds, an answer from a thread that is awake less than one.
 */
#ifndef WEFT_CORE_LINGER_H
#define WEFT_CORE_LINGER_H

#include "core/cord.h"

/* Set before any thread runs fibers: nobody lingers. For what measures sleeping and waking. */
extern bool weft__linger_is_off;

/* Is it worth it? */
static inline bool weft__linger_pays(const weft__cord *c)
{
    return UNLIKELY(c->linger_credit > 0);
}

/* Wait a little for a letter. True: there is one. */
bool weft__linger(weft__cord *c);

/* A sleep of so long is over, and whether a letter ended it. */
void weft__linger_learn(weft__cord *c, int64_t slept_ns, bool was_for_letter);

#endif
