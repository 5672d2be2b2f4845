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

#include <weft/error.h>

#include <limits.h>
#include <poll.h>

weft__passage *weft__clause_passage(const weft__cord *c, const weft_clause *clause)
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

/* Sense. */

static const char *find_fault_in_passage(const weft_clause *clause, const weft__passage *p)
{
    bool is_value = clause->item == NULL;
    if (p == NULL)
        return "there is no channel, or no queue";
    if (is_value && p->item_bytes != sizeof clause->value)
        return "items of this size are no values";
    if (is_value && clause->kind == WEFT_CLAUSE_SEND && weft_is_error(clause->value))
        return "an error code cannot be sent";
    return NULL;
}

/* What is wrong with a clause, but for fibers; NULL: nothing. */
static const char *find_fault(const weft__cord *c, const weft_clause *clause)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_NEVER:
    case WEFT_CLAUSE_ENDED:
    case WEFT_CLAUSE_MESSAGE:
        return NULL;
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SEND:
    case WEFT_CLAUSE_SHIFT:
        return find_fault_in_passage(clause, weft__clause_passage(c, clause));
    case WEFT_CLAUSE_FD:
        return clause->events & (POLLIN | POLLOUT) ? NULL : "waiting for no event";
    case WEFT_CLAUSE_TIME:
        return clause->of.seconds >= 0 ? NULL : "a negative time, or none";
    default:
        return "there is no such kind";
    }
}

/* As for weft_await. */
static int check_fiber(const weft__cord *c, weft_fiber fiber)
{
    const weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL)
        return weft__fiber_missing(c, fiber);
    return f->phase != WEFT__ENDED && weft__tree_is_above(f, c->current) ? -EDEADLK : 0;
}

static int check(const weft__cord *c, const weft_clause *clauses, size_t n)
{
    bool is_any = false;
    if (clauses == NULL || n > INT_MAX)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        const char *fault = find_fault(c, &clauses[i]);
        if (UNLIKELY(fault != NULL))
            return weft_fail(-EINVAL, "clause %zu: %s", i, fault);
        weft_clause_kind kind = clauses[i].kind;
        int rc = kind == WEFT_CLAUSE_ENDED ? check_fiber(c, clauses[i].of.fiber) : 0;
        if (UNLIKELY(rc < 0))
            return rc;
        is_any |= kind != WEFT_CLAUSE_NEVER;
    }
    return LIKELY(is_any) ? 0 : weft_fail(-EINVAL, "there is nothing to select from");
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

/* Can it happen at once? *events: of a descriptor, those that are there, or an error. */
static bool can_happen(weft__cord *c, const weft_clause *clause, weft_value *events)
{
    const weft__passage *p = weft__clause_passage(c, clause);
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SHIFT:
    case WEFT_CLAUSE_MESSAGE:
        return p != NULL && weft__passage_can_take(p);
    case WEFT_CLAUSE_SEND:
        return weft__passage_can_put(p);
    case WEFT_CLAUSE_ENDED:
        return weft__fiber_find(c, clause->of.fiber)->phase == WEFT__ENDED;
    case WEFT_CLAUSE_FD: {
        weft__op look = {.u.events = WEFT__LOOK_ONLY};
        *events = weft__clause_submit(c, clause, &look);
        return *events != -EAGAIN;
    }
    case WEFT_CLAUSE_TIME:
        return clause->of.seconds == 0;
    default:
        return false;
    }
}

static void take(weft__cord *c, weft_clause *clause)
{
    void *out = clause->item != NULL ? clause->item : &clause->value;
    int rc = weft__passage_take(c, weft__clause_passage(c, clause), out);
    if (rc < 0 || clause->item != NULL)
        clause->value = rc;
}

static void put(weft__cord *c, weft_clause *clause)
{
    const void *item = clause->item != NULL ? clause->item : &clause->value;
    clause->value = weft__passage_put(c, weft__clause_passage(c, clause), item, WEFT__BACK);
}

static void let_happen(weft__cord *c, weft_clause *clause, weft_value events)
{
    switch (clause->kind) {
    case WEFT_CLAUSE_RECV:
    case WEFT_CLAUSE_SHIFT:
    case WEFT_CLAUSE_MESSAGE:
        take(c, clause);
        break;
    case WEFT_CLAUSE_SEND:
        put(c, clause);
        break;
    case WEFT_CLAUSE_ENDED:
        clause->value = weft__fiber_collect(c, weft__fiber_find(c, clause->of.fiber));
        break;
    case WEFT_CLAUSE_FD:
        clause->value = events;
        break;
    default:
        clause->value = 0;
    }
}

/* The index of one that could happen at once, and has; -EAGAIN: none could. */
static int select_at_once(weft__cord *c, weft_clause *clauses, size_t n)
{
    int chosen = -EAGAIN;
    weft_value chosen_events = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        weft_value events = 0;
        if (!can_happen(c, &clauses[i], &events) || !weft__lot_falls(c, ++count))
            continue;
        chosen = (int)i;
        chosen_events = events;
    }
    if (count > 0)
        let_happen(c, &clauses[chosen], chosen_events);
    return chosen;
}

int weft_try_select(weft_clause *clauses, size_t n)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return -ENOMEM;
    int rc = check(c, clauses, n);
    return rc == 0 ? select_at_once(c, clauses, n) : rc;
}

int weft_select(weft_clause *clauses, size_t n)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return -ENOMEM;
    int rc = check(c, clauses, n);
    if (UNLIKELY(rc < 0))
        return rc;
    rc = select_at_once(c, clauses, n);
    bool may_switch = !c->current->alarm;
    if (rc < 0)
        return LIKELY(may_switch) ? weft__select_wait(c, clauses, n) : (int)weft__refuse(c);
    bool is_op = clauses[rc].kind == WEFT_CLAUSE_FD;
    return is_op && may_switch ? (int)weft__finish_at_once(c, rc) : rc;
}
