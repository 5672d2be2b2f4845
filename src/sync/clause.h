/*
 * Clauses of objects: select knows these kinds of clauses only through the operations below. The
 * object of a clause is a semaphore, an event or a set of signals.
 */
#ifndef WEFT_SYNC_CLAUSE_H
#define WEFT_SYNC_CLAUSE_H

#include "core/cord/cord.h"

#include <weft/select.h>

/* The operations of a kind of clause. No operation switches. The object is not NULL. */
typedef struct weft__clause_ops {
    /*
     * Check whether the clause is ready. Returns 1, 0, or an error. With -EINVAL, the function sets
     * *fault to the reason.
     */
    int (*check)(const weft_clause *clause, const char **fault);
    /*
     * Perform a ready clause, and set its value. Returns false if another thread has been faster.
     */
    bool (*take)(weft_clause *clause);
    /* Return the wait queue of the object. NULL: use join, leave and forget. */
    weft__waitq *(*waitq)(const weft_clause *clause);
    /*
     * Begin to wait. The object then calls weft__clause_offer, in the same thread. Returns 0, an
     * error, or 1 if the function has performed the clause instead.
     */
    int (*join)(weft__cord *c, weft_clause *clause);
    /*
     * Stop waiting. Do nothing if the clause does not wait. Returns false if a wake-up from another
     * thread is in flight. The object then still calls weft__clause_offer, and select waits for
     * this call.
     */
    bool (*leave)(weft_clause *clause);
    /* Stop waiting in a child of weft_fork. The result is ignored. NULL: nothing to do. */
    bool (*forget)(weft_clause *clause);
} weft__clause_ops;

extern const weft__clause_ops weft__clause_sem, weft__clause_event, weft__clause_signal;

/* The kinds with join, as bits. */
#define WEFT__KINDS_JOINED (1u << WEFT_CLAUSE_EVENT | 1u << WEFT_CLAUSE_SIGNAL)

/* Return the operations of a clause. Returns NULL if its kind has none. */
const weft__clause_ops *weft__clause_ops_of(const weft_clause *clause);

/* The size of the record of a clause, in bytes. */
#define WEFT__CLAUSE_RECORD_BYTES ((size_t)56)

/*
 * Return the record of a clause with join: memory that join may use while the clause waits. The
 * record is all-zero before join. The first word of the private part belongs to select.
 */
static inline void *weft__clause_record(weft_clause *clause)
{
    return &clause->weft__private[1];
}

/*
 * Offer the event of a waiting clause. The record of the clause must no longer be in use. Returns
 * true if the select performs the clause with value. Returns false if the select performs another
 * clause, or is cancelled.
 */
bool weft__clause_offer(weft_clause *clause, weft_value value);

/*
 * Return the clauses of the select in which a fiber waits or begins to wait, and their number.
 * Returns NULL if the fiber is in another wait.
 */
weft_clause *weft__select_clauses(const weft__fiber *f, size_t *n);

/*
 * Join the objects of all clauses with join. owner is the select. Returns 0, an error, or 1 if the
 * clause with the index *performed was performed.
 */
int weft__clauses_join(weft__cord *c, weft_clause *clauses, size_t n, void *owner, int *performed);

/* Leave the objects of all clauses with join. Returns the number of wake-ups in flight. */
size_t weft__clauses_leave(weft_clause *clauses, size_t n);

/* Leave the objects in a child of weft_fork. */
void weft__clauses_forget(weft_clause *clauses, size_t n);

#endif
