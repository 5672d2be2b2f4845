/*
 * A tour: the turn of a select that waits in shared channels, which are locked all at once: so
 * either something can happen in one of them, or it is in the lines of all before that changes.
 */
#ifndef WEFT_SYNC_TOUR_H
#define WEFT_SYNC_TOUR_H

#include "sync/shared.h"

#include <weft/select.h>

typedef struct weft__tour {
    weft__turn turn;
    size_t count;
    weft__shared *shared[]; /* each once, by address: the order in which they are locked */
} weft__tour;

/* The shared channel of a clause; NULL: it has none. Not to be asked once its channel may be freed.
 */
weft__shared *weft__clause_shared(const weft_clause *clause);

/* For the current fiber. NULL: no memory. */
weft__tour *weft__tour_new(weft__cord *c, const weft_clause *clauses, size_t n,
                           void (*deliver)(weft__cord *c, weft__letter *l));

void weft__tour_free(weft__tour *t);

/* Is it a line of one of its channels? The tour may be NULL. */
bool weft__tour_has(const weft__tour *t, const weft__line *line);

void weft__tour_lock(weft__tour *t);
void weft__tour_unlock(weft__tour *t);

#endif
