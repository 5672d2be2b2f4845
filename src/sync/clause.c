/*
 * Joining and leaving of objects, see clause.h. The operations of clauses that wait for signals.
 * sem.c and event.c have the operations of the other clauses.
 */
#include "sync/clause.h"

#include "core/signal/signal.h"
#include "core/signal/signal_mask.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(((weft_clause *)NULL)->weft__private) ==
                   sizeof(void *) + WEFT__CLAUSE_RECORD_BYTES,
               "the record of a clause has another size");

const weft__clause_ops *weft__clause_ops_of(const weft_clause *clause)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_SEM:
        return &weft__clause_sem;
    case WEFT_CLAUSE_EVENT:
        return &weft__clause_event;
    case WEFT_CLAUSE_SIGNAL:
        return &weft__clause_signal;
    default:
        return NULL;
    }
}

/* Return the operations of a clause with join, else NULL. */
static const weft__clause_ops *joined_ops(const weft_clause *clause)
{
    return WEFT__KINDS_JOINED & 1u << clause->kind ? weft__clause_ops_of(clause) : NULL;
}

int weft__clauses_join(weft__cord *c, weft_clause *clauses, size_t n, void *owner, int *performed)
{
    for (size_t i = 0; i < n; i++) {
        if (joined_ops(&clauses[i]) == NULL)
            continue;
        memset(clauses[i].weft__private, 0, sizeof clauses[i].weft__private);
        clauses[i].weft__private[0] = (uintptr_t)owner;
    }
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const weft__clause_ops *ops = joined_ops(&clauses[i]);
        rc = ops != NULL ? ops->join(c, &clauses[i]) : 0;
        if (rc > 0)
            *performed = (int)i;
    }
    return rc;
}

size_t weft__clauses_leave(weft_clause *clauses, size_t n)
{
    size_t in_flight = 0;
    for (size_t i = 0; i < n; i++) {
        const weft__clause_ops *ops = joined_ops(&clauses[i]);
        in_flight += ops != NULL && !ops->leave(&clauses[i]);
    }
    return in_flight;
}

void weft__clauses_forget(weft_clause *clauses, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const weft__clause_ops *ops = joined_ops(&clauses[i]);
        if (ops != NULL && ops->forget != NULL)
            ops->forget(&clauses[i]);
    }
}

/* Signals. */

/* Return the mask of a clause. check has refused invalid sets. */
static uint64_t clause_mask(const weft_clause *clause)
{
    uint64_t mask;
    (void)weft__signal_mask(clause->of.signals, &mask);
    return mask;
}

/* Replace -EAGAIN, which has another meaning in weft_try_select. */
static int without_eagain(int rc)
{
    return rc == -EAGAIN ? -ENOMEM : rc;
}

static int signal_clause_check(const weft_clause *clause, const char **fault)
{
    uint64_t mask;
    if (weft__signal_mask(clause->of.signals, &mask) < 0) {
        *fault = mask == 0 ? "the set is empty" : "the set contains a signal that cannot be caught";
        return -EINVAL;
    }
    int rc = without_eagain(weft__signal_poll(mask, false));
    return rc > 0 ? 1 : rc;
}

static bool signal_clause_take(weft_clause *clause)
{
    clause->value = weft__signal_poll(clause_mask(clause), true);
    return clause->value > 0;
}

/* Return the record of a clause. NULL in the record: the clause does not wait. */
static weft__signal_waiter **signal_record(weft_clause *clause)
{
    return weft__clause_record(clause);
}

static bool signal_clause_offer(void *owner, int sig)
{
    weft_clause *clause = owner;
    *signal_record(clause) = NULL;
    return weft__clause_offer(clause, sig);
}

static int signal_clause_join(weft__cord *c, weft_clause *clause)
{
    int rc = without_eagain(weft__signal_begin(c, clause_mask(clause), signal_clause_offer, clause,
                                               signal_record(clause)));
    if (rc <= 0)
        return rc;
    clause->value = rc;
    return 1;
}

static bool signal_clause_leave(weft_clause *clause)
{
    if (*signal_record(clause) != NULL)
        weft__signal_end(*signal_record(clause));
    *signal_record(clause) = NULL;
    return true;
}

const weft__clause_ops weft__clause_signal = {.check = signal_clause_check,
                                              .take = signal_clause_take,
                                              .join = signal_clause_join,
                                              .leave = signal_clause_leave};
