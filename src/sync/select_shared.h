/*
 * The shared channels of a waiting select. A select locks all its shared channels together, and
 * checks their clauses. If no clause is ready, the select joins all wait queues before it releases
 * the locks. A select therefore misses no event.
 */
#ifndef WEFT_SYNC_SELECT_SHARED_H
#define WEFT_SYNC_SELECT_SHARED_H

#include "sync/chan_shared.h"

#include <weft/select.h>

typedef struct weft__select_shared {
    weft__chan_wake wake;
    size_t count;
    weft__chan_shared *shared[]; /* each channel once, sorted by address: the locking order */
} weft__select_shared;

/*
 * Return the shared channel of a clause. Returns NULL if the clause has no shared channel. Call
 * this function only while the channel cannot be freed.
 */
weft__chan_shared *weft__clause_shared(const weft_clause *clause);

/*
 * Create the set for the current fiber. deliver receives the wake-up. Returns NULL if memory is
 * exhausted.
 */
weft__select_shared *weft__select_shared_new(weft__cord *c, const weft_clause *clauses, size_t n,
                                             void (*deliver)(weft__cord *c, weft__remote_msg *msg));

void weft__select_shared_free(weft__select_shared *set);

/* Return whether waitq belongs to a channel of the set. set may be NULL. */
bool weft__select_shared_has(const weft__select_shared *set, const weft__waitq *waitq);

void weft__select_shared_lock(weft__select_shared *set);
void weft__select_shared_unlock(weft__select_shared *set);

#endif
