/* Lingering: busy polling (base/busy_poll.h) of a cord for letters, before it sleeps. */
#ifndef WEFT_CORE_LINGER_H
#define WEFT_CORE_LINGER_H

#include "core/cord.h"

/* Set before any thread runs fibers: nobody lingers. For what measures sleeping and waking. */
extern bool weft__linger_is_off;

/* Is it worth it? */
static inline bool weft__linger_pays(const weft__cord *c)
{
    return UNLIKELY(weft__busy_poll_pays(&c->linger));
}

/* Wait a little for a letter. True: there is one. */
bool weft__linger(weft__cord *c);

/* A sleep of so long is over, and whether a letter ended it. */
void weft__linger_learn(weft__cord *c, int64_t slept_ns, bool was_for_letter);

#endif
