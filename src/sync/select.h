/*
 * The interface between the two parts of select. select.c performs a clause that is ready.
 * select_wait.c waits until a clause is ready.
 */
#ifndef WEFT_SYNC_SELECT_H
#define WEFT_SYNC_SELECT_H

#include "core/fiber/mailbox.h"
#include "sync/chan.h"
#include "sync/queue.h"

#include <weft/select.h>

/*
 * Return the fifo of a clause. Returns NULL if the clause has no fifo, or if the mailbox does not
 * exist yet.
 */
static inline weft__fifo *weft__clause_fifo(const weft__cord *c, const weft_clause *clause)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SEND:
        return clause->of.chan != NULL ? &clause->of.chan->fifo : NULL;
    case WEFT_CLAUSE_SHIFT:
        return clause->of.queue != NULL ? &clause->of.queue->fifo : NULL;
    case WEFT_CLAUSE_MESSAGE:
        return c->current->mailbox != NULL ? &c->current->mailbox->fifo : NULL;
    default:
        return NULL;
    }
}

/*
 * Submit a poll of the descriptor of a clause. The caller must set op->done and op->owner, or must
 * set op->u.events to WEFT__EVENTS_NOWAIT. Returns the result of the backend's submit function.
 */
intptr_t weft__clause_submit(weft__cord *c, const weft_clause *clause, weft__op *op);

/*
 * Pick one of several candidates at random, with equal chances. Call this function once per
 * candidate, with count 1, 2, 3 and so on. The picked candidate is the last candidate for which the
 * function returns true.
 */
bool weft__random_pick(weft__cord *c, uint32_t count);

/* This bit in kinds means that at least one channel is shared. */
#define WEFT__KINDS_SHARED (1u << 31)

/*
 * Wait for one of n clauses.
 *
 * The clauses must be valid, and no clause may be ready. The current fiber must not have a pending
 * cancellation. kinds must have a bit for each kind of clause. If another thread has changed a
 * shared channel, the call may set *must_retry before a clause has happened. The caller must then
 * check the clauses again.
 *
 * Returns the index of the clause that has happened, the error that interrupted the wait, or:
 * -ENOMEM if memory is exhausted
 */
int weft__select_wait(weft__cord *c, weft_clause *clauses, size_t n, unsigned kinds,
                      bool *must_retry);

#endif
