/* Operations that are more than one: chains, and those with many results. */
#include "core/alarm.h"
#include "core/op.h"

/* Chains. */

typedef struct chain {
    weft__fiber *fiber;
    weft__link *links;
    size_t count;
    size_t left; /* not done yet */
} chain;

/*
 * The first that is not over, and that is not out at once: when the kernel lets go of it, it lets
 * go of those behind it, too. False: there is none left.
 */
static bool cancel_next(chain *ch)
{
    weft__backend *b = weft__cord_self->backend;
    for (size_t i = 0; i < ch->count; i++) {
        weft__link *l = &ch->links[i];
        if (l->op.owner == NULL)
            continue;
        if (!b->type->cancel(b, &l->op))
            return true;
        l->op.owner = NULL;
        l->result = -ECANCELED;
        ch->left--;
    }
    return false;
}

static bool leave_chain(weft__fiber *f)
{
    if (cancel_next(f->wait_object)) {
        f->waits_in = &weft__waits_release;
        return false;
    }
    weft__unhold_op(weft__cord_self, f);
    f->was_struck = true;
    return true;
}

static const weft__wait_kind waits_chain = {"a chain", .leave = leave_chain};

static bool is_cut_short(const chain *ch)
{
    return ch->links[ch->count - 1].result == -ECANCELED;
}

static void link_done(weft__op *op, intptr_t result)
{
    chain *ch = op->owner;
    weft__fiber *f = ch->fiber;
    bool is_leaving = f->waits_in == &weft__waits_release;
    op->owner = NULL;
    CONTAINER_OF(op, weft__link, op)->result = result;
    /* One that was done in spite of it has let the next one begin. */
    if (--ch->left > 0 && !(is_leaving && result >= 0 && !cancel_next(ch)))
        return;
    weft__cord *c = weft__cord_self;
    weft_value value = 0;
    f->was_struck = is_leaving && is_cut_short(ch) && (f->is_interrupted || f->alarm);
    if (f->was_struck)
        value = f->is_interrupted ? f->life->interrupt_code : weft__alarm_take(f);
    f->is_interrupted = false;
    weft__unhold_op(c, f);
    weft__wake(c, f, value, WEFT__TAIL);
}

intptr_t weft__links_run(weft__link *links, size_t count, bool *is_submitted)
{
    *is_submitted = false;
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    c->current->was_struck = c->current->alarm;
    if (c->current->alarm)
        return weft__refuse(c);
    weft__backend *b = weft__cord_backend(c);
    if (b->type->submit_linked == NULL || count > WEFT__LINKS_MAX)
        return 0;
    chain ch = {c->current, links, count, count};
    weft__op *ops[WEFT__LINKS_MAX];
    for (size_t i = 0; i < count; i++) {
        ops[i] = &links[i].op;
        ops[i]->done = link_done;
        ops[i]->owner = &ch;
    }
    if (b->type->submit_linked(b, ops, count) < 0)
        return 0;
    *is_submitted = true;
    c->ops += count;
    weft__hold_op(c, c->current);
    return weft__wait(c, &waits_chain, &ch);
}

/* Many results. */

static bool leave_many(weft__fiber *f)
{
    weft__many *m = f->wait_object;
    m->is_waited_for = false;
    weft__unhold_op(weft__cord_self, f);
    f->was_struck = true;
    return true;
}

static const weft__wait_kind waits_many[WEFT__OP_COUNT] = {
    [WEFT__OP_ACCEPT] = {"accept", .is_accept = true, .leave = leave_many},
    [WEFT__OP_RECV] = {"recv", .leave = leave_many},
};

/* There is something, or the kernel has let go: no result has this value. */
static void many_done(weft__op *op, intptr_t ignored)
{
    (void)ignored;
    weft__cord *c = weft__cord_self;
    weft__fiber *f = op->owner;
    weft__unhold_op(c, f);
    weft__wake(c, f, WEFT__OP_PENDING, WEFT__TAIL);
}

/* Is it the cord's, or was it until it was given up? */
static bool has_backend(const weft__cord *c, const weft__backend *b)
{
    if (LIKELY(c->backend == b))
        return true;
    const weft__backend *retired = c->retired;
    while (retired != NULL && retired != b)
        retired = retired->retired;
    return retired != NULL;
}

int weft__many_open(weft__many *m, weft__opcode code, int fd)
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    if (b == NULL || b->type->many_open == NULL)
        return -EOPNOTSUPP;
    m->op = (weft__op){.code = code, .fd = fd, .done = many_done, .owner = c->current};
    int rc = b->type->many_open(b, m);
    m->backend = b;
    return rc;
}

intptr_t weft__many_next(weft__many *m, const void **data)
{
    weft__cord *c = weft__cord_self;
    if (UNLIKELY(c == NULL))
        return weft__no_cord(); /* the callee has called fork */
    weft__fiber *f = c->current;
    intptr_t result;
    do {
        f->was_struck = f->alarm;
        if (f->alarm)
            return weft__refuse(c);
        if (UNLIKELY(c->backend != m->backend))
            return -EIO; /* the backend was given up */
        result = c->backend->type->many_next(c->backend, m, data);
        if (result != WEFT__OP_PENDING)
            return weft__finish_at_once(c, result);
        c->ops++;
        weft__hold_op(c, f);
        result = weft__wait(c, &waits_many[m->op.code], m);
    } while (result == WEFT__OP_PENDING);
    return result;
}

void weft__many_close(weft__many *m)
{
    weft__cord *c = weft__cord_self;
    if (c == NULL || !has_backend(c, m->backend))
        return; /* this is a child of the process that opened it */
    if (m->backend->type->many_close(m->backend, m))
        return;
    weft__hold_op(c, c->current);
    weft__wait(c, &weft__waits_release, m);
}
