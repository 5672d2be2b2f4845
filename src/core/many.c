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

static void release(weft__cord *c, const weft__fiber *f)
{
    c->held_ops -= !f->is_daemon;
}

/* All of them are with the kernel: none is out before it says so. */
static bool leave_chain(weft__fiber *f)
{
    weft__backend *b = weft__cord_self->backend;
    chain *ch = f->wait_object;
    f->waits_in = &weft__waits_release;
    for (size_t i = 0; i < ch->count; i++)
        if (ch->links[i].op.owner != NULL)
            b->type->cancel(b, &ch->links[i].op);
    return false;
}

static const weft__wait_kind waits_chain = {"a chain", .leave = leave_chain};

static bool is_cut_short(const chain *ch)
{
    return ch->links[ch->count - 1].result == -ECANCELED;
}

static void link_done(weft__op *op, intptr_t result)
{
    chain *ch = op->owner;
    op->owner = NULL;
    CONTAINER_OF(op, weft__link, op)->result = result;
    if (--ch->left > 0)
        return;
    weft__cord *c = weft__cord_self;
    weft__fiber *f = ch->fiber;
    bool was_left = f->waits_in == &weft__waits_release && is_cut_short(ch);
    weft_value value = 0;
    if (was_left && f->is_interrupted)
        value = f->interrupt_value;
    else if (was_left && f->alarm)
        value = weft__alarm_take(f);
    f->is_interrupted = false;
    release(c, f);
    weft__wake(c, f, value, WEFT__TAIL);
}

intptr_t weft__links_run(weft__link *links, size_t count)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return -ENOMEM;
    if (c->current->alarm)
        return weft__refuse(c);
    weft__backend *b = weft__cord_backend(c);
    if (b->type->submit_linked == NULL || count > WEFT__LINKS_MAX)
        return -EOPNOTSUPP;
    chain ch = {c->current, links, count, count};
    weft__op *ops[WEFT__LINKS_MAX];
    for (size_t i = 0; i < count; i++) {
        ops[i] = &links[i].op;
        ops[i]->done = link_done;
        ops[i]->owner = &ch;
    }
    if (b->type->submit_linked(b, ops, count) < 0)
        return -EOPNOTSUPP;
    c->ops += count;
    c->held_ops += !c->current->is_daemon;
    return weft__wait(c, &waits_chain, &ch);
}

/* Many results. */

static bool leave_many(weft__fiber *f)
{
    weft__many *m = f->wait_object;
    m->is_waited_for = false;
    release(weft__cord_self, f);
    return true;
}

static const weft__wait_kind waits_many[WEFT__OP_COUNT] = {
    [WEFT__OP_ACCEPT] = {"accept", .leave = leave_many},
    [WEFT__OP_RECV] = {"recv", .leave = leave_many},
};

/* There is something, or the kernel has let go: no result has this value. */
static void many_done(weft__op *op, intptr_t ignored)
{
    (void)ignored;
    weft__cord *c = weft__cord_self;
    weft__fiber *f = op->owner;
    release(c, f);
    weft__wake(c, f, WEFT__OP_PENDING, WEFT__TAIL);
}

int weft__many_open(weft__many *m, weft__opcode code, int fd)
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    if (b == NULL || b->type->many_open == NULL)
        return -EOPNOTSUPP;
    m->op = (weft__op){.code = code, .fd = fd, .done = many_done, .owner = c->current};
    return b->type->many_open(b, m);
}

intptr_t weft__many_next(weft__many *m, const void **data)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = c->current;
    intptr_t result;
    do {
        if (f->alarm)
            return weft__refuse(c);
        result = c->backend->type->many_next(c->backend, m, data);
        if (result != WEFT__OP_PENDING)
            return weft__finish_at_once(c, result);
        c->ops++;
        c->held_ops += !f->is_daemon;
        result = weft__wait(c, &waits_many[m->op.code], m);
    } while (result == WEFT__OP_PENDING);
    return result;
}

void weft__many_close(weft__many *m)
{
    weft__cord *c = weft__cord_self;
    if (c->backend->type->many_close(c->backend, m))
        return;
    c->held_ops += !c->current->is_daemon;
    weft__wait(c, &weft__waits_release, m);
}
