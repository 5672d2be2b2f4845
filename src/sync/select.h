/* Between the two halves of select: what can happen at once (select.c), and waiting. */
#ifndef WEFT_SYNC_SELECT_H
#define WEFT_SYNC_SELECT_H

#include "core/mailbox.h"
#include "sync/chan.h"
#include "sync/queue.h"

#include <weft/select.h>

/* What a clause takes from or puts into; NULL: nothing, or a mailbox that is not there yet. */
static inline weft__passage *weft__clause_passage(const weft__cord *c, const weft_clause *clause)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SEND:
        return clause->of.chan != NULL ? &clause->of.chan->passage : NULL;
    case WEFT_CLAUSE_SHIFT:
        return clause->of.queue != NULL ? &clause->of.queue->passage : NULL;
    case WEFT_CLAUSE_MESSAGE:
        return c->current->mailbox != NULL ? &c->current->mailbox->passage : NULL;
    default:
        return NULL;
    }
}

/* Wait for the descriptor of a clause; op is filled in but for done and owner. As submit. */
intptr_t weft__clause_submit(weft__cord *c, const weft_clause *clause, weft__op *op);

/*
 * Of several that are equal, the count-th has been found now: is it the one? Asked for each in
 * turn, the last yes counts, and all have had the same chance.
 */
bool weft__lot_falls(weft__cord *c, uint32_t count);

/* Among the bits for kinds: there is a shared channel. */
#define WEFT__KINDS_SHARED (1u << 31)

/*
 * The current fiber, whose alarm is not set, waits for one of the clauses: they make sense, and
 * none can happen at once; kinds has a bit for each kind among them. The index of the one that has
 * happened; -ENOMEM, or what it was struck by. *is_news: nothing of that, another thread has done
 * something meanwhile; they are to be looked at again.
 */
int weft__select_wait(weft__cord *c, weft_clause *clauses, size_t n, unsigned kinds, bool *is_news);

#endif
