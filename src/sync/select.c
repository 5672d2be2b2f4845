/*
 * Select: the first of several things that happens, and only that one.
 *
 * Every clause is looked at first, and if some can happen at once, one of them does, chosen by lot.
 * Else all of them are waited for: select_wait.c.
 */
#include "sync/select.h"

#include "core/alarm.h"
#include "core/end.h"
#include "core/mailbox.h"
#include "core/op.h"
#include "core/tree.h"
#include "sync/chan.h"
#include "sync/queue.h"
#include "sync/tour.h"

#include <weft/error.h>

#include <limits.h>
#include <poll.h>

/* Sense. */

/* What is seen of a clause besides whether it can happen. */
typedef struct sight {
    weft_value events; /* of a descriptor: those that are there, or an error */
    const char *fault; /* why it makes no sense, if it is -EINVAL; NULL: it is not */
} sight;

/* What looking at a clause says, besides errors. */
enum { CANNOT, CAN, CANNOT_SHARED };

COLD static int refuse(sight *seen, const char *fault)
{
    seen->fault = fault;
    return -EINVAL;
}

/* As for weft_await: negative if it cannot be awaited; 1 if it has ended. */
static int look_at_fiber(const weft__cord *c, weft_fiber fiber)
{
    const weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL && weft__ended_find(c, fiber) != NULL)
        return 1;
    if (f == NULL)
        return weft__fiber_missing(c, fiber);
    if (f->phase == WEFT__ENDED)
        return 1;
    return weft__tree_is_above(f, c->current) ? -EDEADLK : 0;
}

/* At once. */

bool weft__lot_falls(weft__cord *c, uint32_t count)
{
    if (LIKELY(count == 1))
        return true;
    /* Knuth's MMIX: any state will do to begin with, and the upper half of it is good. */
    c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (c->random >> 32) * count >> 32 == 0;
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

static int look_at_fd(weft__cord *c, const weft_clause *clause, sight *seen)
{
    if (!(clause->events & (POLLIN | POLLOUT)))
        return refuse(seen, "waiting for no event");
    weft__op look = {.u.events = WEFT__LOOK_ONLY};
    seen->events = weft__clause_submit(c, clause, &look);
    return seen->events != -EAGAIN;
}

/* The same for a channel or a queue that may be of anything else than values, or not be at all. */
COLD static int look_at_other(const weft_clause *clause, const weft__passage *p, sight *seen)
{
    if (p == NULL)
        return refuse(seen, "there is no channel, or no queue");
    weft__shared *s = weft__clause_shared(clause);
    size_t item_bytes = s != NULL ? s->passage.item_bytes : p->item_bytes;
    bool is_send = clause->kind == WEFT_CLAUSE_SEND;
    if (clause->item == NULL && item_bytes != sizeof clause->value)
        return refuse(seen, "items of this size are no values");
    if (clause->item == NULL && is_send && weft_is_error(clause->value))
        return refuse(seen, "an error code cannot be sent");
    if (s == NULL)
        return is_send ? weft__passage_can_put(p) : weft__passage_can_take(p);
    bool can = is_send ? weft__shared_can_put(s) : weft__shared_can_take(s);
    return can ? CAN : CANNOT_SHARED;
}

static inline bool is_of_values(const weft__passage *p)
{
    return LIKELY(p != NULL) && LIKELY(p->item_bytes == sizeof(weft_value));
}

/* Can it happen at once? Negative: it never can, because it makes no sense. */
__attribute__((always_inline)) static inline int look_at(weft__cord *c, const weft_clause *clause,
                                                         sight *seen)
{
    const weft__passage *p = weft__clause_passage(c, clause);
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SHIFT:
        return is_of_values(p) ? weft__passage_can_take(p) : look_at_other(clause, p, seen);
    case WEFT_CLAUSE_SEND:
        if (!is_of_values(p) || UNLIKELY(weft_is_error(clause->value)))
            return look_at_other(clause, p, seen);
        return weft__passage_can_put(p);
    case WEFT_CLAUSE_MESSAGE:
        return p != NULL && weft__passage_can_take(p);
    case WEFT_CLAUSE_ENDED:
        return look_at_fiber(c, clause->of.fiber);
    case WEFT_CLAUSE_FD:
        return look_at_fd(c, clause, seen);
    case WEFT_CLAUSE_TIME:
        if (!(clause->of.seconds >= 0))
            return refuse(seen, "a negative time, or none");
        return clause->of.seconds == 0;
    case WEFT_CLAUSE_NEVER:
        return 0;
    default:
        return refuse(seen, "there is no such kind");
    }
}

/* Into, or out of, its shared channel, if it has one. */
COLD static int take_shared(const weft_clause *clause, void *out)
{
    weft__shared *s = weft__clause_shared(clause);
    return s != NULL ? weft__shared_take(s, out) : -EAGAIN;
}

COLD static int put_shared(const weft_clause *clause, const void *item)
{
    weft__shared *s = weft__clause_shared(clause);
    return s != NULL ? weft__shared_put(s, item) : -EAGAIN;
}

static inline bool take(weft__cord *c, weft_clause *clause)
{
    void *out = clause->item != NULL ? clause->item : &clause->value;
    int rc = weft__passage_take(c, weft__clause_passage(c, clause), out);
    if (UNLIKELY(rc == -EAGAIN) && (rc = take_shared(clause, out)) == -EAGAIN)
        return false;
    if (rc < 0 || clause->item != NULL)
        clause->value = rc;
    return true;
}

static inline bool put(weft__cord *c, weft_clause *clause)
{
    const void *item = clause->item != NULL ? clause->item : &clause->value;
    int rc = weft__passage_put(c, weft__clause_passage(c, clause), item, WEFT__TAIL);
    if (UNLIKELY(rc == -EAGAIN) && (rc = put_shared(clause, item)) == -EAGAIN)
        return false;
    clause->value = rc;
    return true;
}

/* False: another thread was faster, and it cannot any more. */
__attribute__((always_inline)) static inline bool let_happen(weft__cord *c, weft_clause *clause,
                                                             weft_value events)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SHIFT:
    case WEFT_CLAUSE_MESSAGE:
        return take(c, clause);
    case WEFT_CLAUSE_SEND:
        return put(c, clause);
    case WEFT_CLAUSE_ENDED:
        clause->value = weft__fiber_take(c, clause->of.fiber);
        break;
    case WEFT_CLAUSE_FD:
        clause->value = events;
        break;
    default:
        clause->value = 0;
    }
    return true;
}

/* The one that was chosen could not happen after all. */
#define TOO_LATE (-EINPROGRESS)

/* As below, or TOO_LATE. */
__attribute__((noinline)) static int choose(weft__cord *c, weft_clause *clauses, size_t n,
                                            unsigned *kinds)
{
    int chosen = -EAGAIN;
    weft_value chosen_events = 0;
    uint32_t count = 0;
    unsigned all_kinds = 0;
    if (clauses == NULL || n > INT_MAX)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        sight seen = {0, NULL};
        int rc = look_at(c, &clauses[i], &seen);
        if (UNLIKELY(seen.fault != NULL))
            return weft_fail(rc, "clause %zu: %s", i, seen.fault);
        if (UNLIKELY((unsigned)rc > CAN)) {
            if (rc < 0)
                return rc;
            all_kinds |= WEFT__KINDS_SHARED;
            rc = CANNOT;
        }
        all_kinds |= 1u << clauses[i].kind;
        if (rc == CANNOT || !weft__lot_falls(c, ++count))
            continue;
        chosen = (int)i;
        chosen_events = seen.events;
    }
    *kinds = all_kinds;
    if (count > 0)
        return LIKELY(let_happen(c, &clauses[chosen], chosen_events)) ? chosen : TOO_LATE;
    if (UNLIKELY((all_kinds & ~(1u << WEFT_CLAUSE_NEVER)) == 0))
        return weft_fail(-EINVAL, "there is nothing to select from");
    return -EAGAIN;
}

/*
 * The index of one that could happen at once, and has; -EAGAIN: none could; -EINVAL and others: one
 * makes no sense. *kinds: a bit for each kind that is there.
 */
static int select_at_once(weft__cord *c, weft_clause *clauses, size_t n, unsigned *kinds)
{
    int rc;
    do
        rc = choose(c, clauses, n, kinds);
    while (UNLIKELY(rc == TOO_LATE));
    return rc;
}

int weft_try_select(weft_clause *clauses, size_t n)
{
    weft__cord *c = weft__cord_here();
    unsigned kinds;
    return c != NULL ? select_at_once(c, clauses, n, &kinds) : weft__no_cord();
}

int weft_select(weft_clause *clauses, size_t n)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    bool is_news = false;
    do {
        unsigned kinds = 0;
        int rc = select_at_once(c, clauses, n, &kinds);
        bool may_switch = !c->current->alarm;
        if (rc != -EAGAIN) {
            bool is_op = rc >= 0 && clauses[rc].kind == WEFT_CLAUSE_FD;
            return is_op && may_switch ? (int)weft__finish_at_once(c, rc) : rc;
        }
        if (UNLIKELY(!may_switch))
            return (int)weft__refuse(c);
        rc = weft__select_wait(c, clauses, n, kinds, &is_news);
        if (LIKELY(!is_news))
            return rc;
    } while (true);
}
