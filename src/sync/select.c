/*
 * Select performs exactly one of several clauses.
 *
 * A select first checks all clauses. If clauses are ready, the select performs one of them, chosen
 * at random. Otherwise select_wait.c waits for all clauses.
 */
#include "sync/select.h"

#include "core/fiber/mailbox.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/tree.h"
#include "core/op/op.h"
#include "sync/chan.h"
#include "sync/clause.h"
#include "sync/queue.h"
#include "sync/select_shared.h"

#include <weft/error.h>

#include <limits.h>
#include <poll.h>

/* Results of clause_check in addition to the readiness. */
typedef struct check_info {
    weft_value events; /* the ready events of a descriptor, or an error */
    const char *fault; /* why the clause is invalid; NULL: the clause is valid */
} check_info;

/* Readiness of a clause. Errors are negative. */
enum { NOT_READY, READY, NOT_READY_SHARED };

COLD static int clause_refuse(check_info *info, const char *fault)
{
    info->fault = fault;
    return -EINVAL;
}

/*
 * Check whether a fiber can be awaited. Returns 1 if the fiber has ended, 0 if the fiber has not
 * ended, or the error that weft_await would return.
 */
static int check_fiber(const weft__cord *c, weft_fiber fiber)
{
    const weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL && weft__unawaited_find(c, fiber) != NULL)
        return 1;
    if (f == NULL)
        return weft__fiber_find_error(c, fiber);
    if (f->phase == WEFT__ENDED)
        return 1;
    return weft__tree_is_ancestor(f, c->current) ? -EDEADLK : 0;
}

bool weft__random_pick(weft__cord *c, uint32_t count)
{
    if (LIKELY(count == 1))
        return true;
    return (weft__cord_random(c) >> 32) * count >> 32 == 0;
}

intptr_t weft__clause_submit(weft__cord *c, const weft_clause *clause, weft__op *op)
{
    weft__backend *b = weft__cord_backend(c);
    op->code = WEFT__OP_WAIT;
    op->fd = clause->of.fd;
    op->u.events |= clause->events & (POLLIN | POLLOUT);
    c->ops++;
    return b->type->submit(b, op);
}

static int check_fd(weft__cord *c, const weft_clause *clause, check_info *info)
{
    if (!(clause->events & (POLLIN | POLLOUT)))
        return clause_refuse(info, "events has neither POLLIN nor POLLOUT");
    weft__op poll_op = {.u.events = WEFT__EVENTS_NOWAIT};
    info->events = weft__clause_submit(c, clause, &poll_op);
    return info->events != -EAGAIN;
}

/*
 * The slow path of clause_check. It handles channels that are NULL, typed or shared, and values
 * that are error codes. Without the fast path: select 10 +45 % instructions (docs/adr/0051).
 */
COLD static int check_fifo_slow(const weft_clause *clause, const weft__fifo *fifo, check_info *info)
{
    if (fifo == NULL)
        return clause_refuse(info, "the channel or queue is NULL");
    weft__chan_shared *s = weft__clause_shared(clause);
    size_t item_bytes = s != NULL ? s->fifo.item_bytes : fifo->item_bytes;
    bool is_send = clause->kind == WEFT_CLAUSE_SEND;
    if (clause->item == NULL && item_bytes != sizeof clause->value)
        return clause_refuse(info, "item is NULL, but the items of the channel are not values");
    if (clause->item == NULL && is_send && weft_is_error(clause->value))
        return clause_refuse(info, "value is an error code");
    if (s == NULL)
        return is_send ? weft__fifo_can_put(fifo) : weft__fifo_can_take(fifo);
    bool can = is_send ? weft__chan_shared_can_put(s) : weft__chan_shared_can_take(s);
    return can ? READY : NOT_READY_SHARED;
}

/* Check a clause of a kind that clause_check does not know. */
COLD static int check_object(const weft_clause *clause, check_info *info)
{
    const weft__clause_ops *ops = weft__clause_ops_of(clause);
    if (ops == NULL)
        return clause_refuse(info, "kind is unknown");
    if (clause->of.sem == NULL) /* all objects are pointers */
        return clause_refuse(info, "the semaphore, the event or the set is NULL");
    return ops->check(clause, &info->fault);
}

static inline bool is_of_values(const weft__fifo *fifo)
{
    return LIKELY(fifo != NULL) && LIKELY(fifo->item_bytes == sizeof(weft_value));
}

/* Check whether a clause is ready. Returns the readiness, or an error if the clause is invalid. */
static int clause_check(weft__cord *c, const weft_clause *clause, check_info *info)
{
    const weft__fifo *fifo = weft__clause_fifo(c, clause);
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SHIFT:
        return is_of_values(fifo) ? weft__fifo_can_take(fifo) : check_fifo_slow(clause, fifo, info);
    case WEFT_CLAUSE_SEND:
        if (!is_of_values(fifo) || UNLIKELY(weft_is_error(clause->value)))
            return check_fifo_slow(clause, fifo, info);
        return weft__fifo_can_put(fifo);
    case WEFT_CLAUSE_MESSAGE:
        return fifo != NULL && weft__fifo_can_take(fifo);
    case WEFT_CLAUSE_ENDED:
        return check_fiber(c, clause->of.fiber);
    case WEFT_CLAUSE_FD:
        return check_fd(c, clause, info);
    case WEFT_CLAUSE_TIME:
        if (!(clause->of.seconds >= 0))
            return clause_refuse(info, "seconds is negative or NaN");
        return clause->of.seconds == 0;
    case WEFT_CLAUSE_NEVER:
        return 0;
    default:
        return check_object(clause, info);
    }
}

/*
 * Take an item from a shared channel, or put an item into a shared channel.
 *
 * Returns 0, or:
 * -EAGAIN if the call would wait
 * -EAGAIN if the channel is not shared
 * -EPIPE if the channel is closed
 */
COLD static int clause_take_shared(const weft_clause *clause, void *out)
{
    weft__chan_shared *s = weft__clause_shared(clause);
    return s != NULL ? weft__chan_shared_take(s, out) : -EAGAIN;
}

COLD static int clause_put_shared(const weft_clause *clause, const void *item)
{
    weft__chan_shared *s = weft__clause_shared(clause);
    return s != NULL ? weft__chan_shared_put(s, item) : -EAGAIN;
}

static inline bool clause_take(weft__cord *c, weft_clause *clause)
{
    void *out = clause->item != NULL ? clause->item : &clause->value;
    int rc = weft__fifo_take(c, weft__clause_fifo(c, clause), out);
    if (UNLIKELY(rc == -EAGAIN) && (rc = clause_take_shared(clause, out)) == -EAGAIN)
        return false;
    if (rc < 0 || clause->item != NULL)
        clause->value = rc;
    return true;
}

static inline bool clause_put(weft__cord *c, weft_clause *clause)
{
    const void *item = clause->item != NULL ? clause->item : &clause->value;
    int rc = weft__fifo_put(c, weft__clause_fifo(c, clause), item, WEFT__TAIL);
    if (UNLIKELY(rc == -EAGAIN) && (rc = clause_put_shared(clause, item)) == -EAGAIN)
        return false;
    clause->value = rc;
    return true;
}

/*
 * Perform a ready clause. Returns false if another thread has changed the object of the clause and
 * the clause is no longer ready.
 */
static bool clause_execute(weft__cord *c, weft_clause *clause, weft_value events)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SHIFT:
    case WEFT_CLAUSE_MESSAGE:
        return clause_take(c, clause);
    case WEFT_CLAUSE_SEND:
        return clause_put(c, clause);
    case WEFT_CLAUSE_ENDED:
        clause->value = weft__fiber_collect_id(c, clause->of.fiber);
        break;
    case WEFT_CLAUSE_FD:
        clause->value = events;
        break;
    case WEFT_CLAUSE_SEM:
    case WEFT_CLAUSE_EVENT:
    case WEFT_CLAUSE_SIGNAL:
        return weft__clause_ops_of(clause)->take(clause);
    default:
        clause->value = 0;
    }
    return true;
}

/* The result of clause_choose if the chosen clause is no longer ready. */
#define TOO_LATE (-EINPROGRESS)

/* Like select_now, but returns TOO_LATE if the chosen clause is no longer ready. */
static int clause_choose(weft__cord *c, weft_clause *clauses, size_t n, unsigned *kinds)
{
    int chosen = -EAGAIN;
    weft_value chosen_events = 0;
    uint32_t count = 0;
    unsigned all_kinds = 0;
    if (clauses == NULL || n > INT_MAX)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        check_info info = {0, NULL};
        int rc = clause_check(c, &clauses[i], &info);
        if (UNLIKELY(info.fault != NULL))
            return weft_fail(rc, "weft_select: clause %zu: %s", i, info.fault);
        if (UNLIKELY((unsigned)rc > READY)) {
            if (rc < 0)
                return rc;
            all_kinds |= WEFT__KINDS_SHARED;
            rc = NOT_READY;
        }
        all_kinds |= 1u << clauses[i].kind;
        if (rc == NOT_READY || !weft__random_pick(c, ++count))
            continue;
        chosen = (int)i;
        chosen_events = info.events;
    }
    *kinds = all_kinds;
    if (count > 0)
        return LIKELY(clause_execute(c, &clauses[chosen], chosen_events)) ? chosen : TOO_LATE;
    if (UNLIKELY((all_kinds & ~(1u << WEFT_CLAUSE_NEVER)) == 0))
        return weft_fail(-EINVAL, "weft_select: clauses is NULL, n is 0 or above INT_MAX, "
                                  "or all clauses are WEFT_CLAUSE_NEVER");
    return -EAGAIN;
}

/*
 * Perform one clause that is ready. Store a bit for each kind of clause in *kinds.
 *
 * Returns the index of the clause, an error if a clause is invalid, or:
 * -EAGAIN if no clause is ready
 */
static int select_now(weft__cord *c, weft_clause *clauses, size_t n, unsigned *kinds)
{
    int rc;
    do
        rc = clause_choose(c, clauses, n, kinds);
    while (UNLIKELY(rc == TOO_LATE));
    return rc;
}

int weft_try_select(weft_clause *clauses, size_t n)
{
    weft__cord *c = weft__cord_here();
    unsigned kinds;
    return c != NULL ? select_now(c, clauses, n, &kinds) : weft__no_cord();
}

int weft_select(weft_clause *clauses, size_t n)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    bool must_retry = false;
    do {
        unsigned kinds = 0;
        int rc = select_now(c, clauses, n, &kinds);
        bool may_switch = !c->current->pending;
        if (rc != -EAGAIN) {
            bool is_op = rc >= 0 && clauses[rc].kind == WEFT_CLAUSE_FD;
            return is_op && may_switch ? (int)weft__op_finish_now(c, rc) : rc;
        }
        if (UNLIKELY(!may_switch))
            return (int)weft__call_refuse(c);
        rc = weft__select_wait(c, clauses, n, kinds, &must_retry);
        if (LIKELY(!must_retry))
            return rc;
    } while (true);
}
