/*
 * Chains. A fiber submits several operations to the backend with one call, and waits until all are
 * done. io/chain.c builds the operations. If the backend does not support chains, io/chain.c runs
 * the operations one by one.
 */
#include "core/lifetime/cancel.h"
#include "core/op/op.h"

#include <weft/debug.h>

typedef struct chain {
    weft__fiber *fiber;
    weft__chain_op *links;
    size_t count;
    size_t left; /* number of operations that are not done */
} chain;

/*
 * Cancel the operations that are not done, up to the first operation that the kernel still uses.
 * When the kernel releases that operation, the kernel also releases all later operations of the
 * chain. Returns false if the kernel uses no operation of the chain.
 */
static bool chain_cancel_next(chain *ch)
{
    weft__backend *b = weft__cord_self->backend;
    for (size_t i = 0; i < ch->count; i++) {
        weft__chain_op *link = &ch->links[i];
        if (link->op.owner == NULL)
            continue;
        if (!b->type->cancel(b, &link->op))
            return true;
        link->op.owner = NULL;
        link->result = -ECANCELED;
        ch->left--;
    }
    return false;
}

static bool leave_chain(weft__fiber *f)
{
    if (chain_cancel_next(f->wait_object)) {
        f->waits_in = &weft__waits_release;
        return false;
    }
    weft__unhold_op(weft__cord_self, f);
    return true;
}

/* The first operation that is not done has the descriptor. */
static void describe_chain(const weft__fiber *f, weft_info *out)
{
    const chain *ch = f->wait_object;
    for (size_t i = ch->count; i-- > 0;)
        if (ch->links[i].op.owner != NULL)
            out->fd = ch->links[i].op.fd;
}

static const weft__wait_kind waits_chain = {"a chain", .leave = leave_chain,
                                            .describe = describe_chain};

static bool chain_is_cancelled(const chain *ch)
{
    return ch->links[ch->count - 1].result == -ECANCELED;
}

static void link_done(weft__op *op, intptr_t result)
{
    chain *ch = op->owner;
    weft__fiber *f = ch->fiber;
    bool is_leaving = f->waits_in == &weft__waits_release;
    op->owner = NULL;
    CONTAINER_OF(op, weft__chain_op, op)->result = result;
    /*
     * An operation that succeeded despite its cancellation has started the next operation of the
     * chain. Cancel the next operation, too.
     */
    if (--ch->left > 0 && !(is_leaving && result >= 0 && !chain_cancel_next(ch)))
        return;
    weft__cord *c = weft__cord_self;
    weft_value value = 0;
    f->was_interrupted = is_leaving && chain_is_cancelled(ch) && (f->is_interrupted || f->pending);
    if (f->was_interrupted)
        value = f->is_interrupted ? f->live->interrupt_code : weft__cancel_take(f);
    f->is_interrupted = false;
    weft__unhold_op(c, f);
    weft__wake(c, f, value, WEFT__TAIL);
}

intptr_t weft__chain_run(weft__chain_op *links, size_t count, bool *is_submitted)
{
    *is_submitted = false;
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    c->current->was_interrupted = c->current->pending;
    if (c->current->pending)
        return weft__call_refuse(c);
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
