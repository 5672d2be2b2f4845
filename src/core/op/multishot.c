/*
 * Multishot operations. A multishot operation is one operation of the backend with many results. A
 * fiber takes the results one by one.
 */
#include "core/lifetime/cancel.h"
#include "core/op/op.h"

#include <weft/debug.h>

static bool leave_multishot(weft__fiber *f)
{
    weft__multishot *m = f->wait_object;
    m->is_waited_for = false;
    weft__unhold_op(weft__cord_self, f);
    return true;
}

static const weft__wait_kind waits_multishot[WEFT__OP_COUNT] = {
    [WEFT__OP_ACCEPT] = {"accept", .is_accept = true, .leave = leave_multishot,
                         .fd_at = WEFT__WAIT_AT(weft__multishot, op.fd)},
    [WEFT__OP_RECV] = {"recv", .leave = leave_multishot,
                       .fd_at = WEFT__WAIT_AT(weft__multishot, op.fd)},
};

/*
 * Wake the fiber, because a result is available or the kernel has released the operation. The value
 * WEFT__OP_PENDING differs from every result of an operation.
 */
static void multishot_done(weft__op *op, intptr_t ignored)
{
    (void)ignored;
    weft__cord *c = weft__cord_self;
    weft__fiber *f = op->owner;
    weft__unhold_op(c, f);
    weft__wake(c, f, WEFT__OP_PENDING, WEFT__TAIL);
}

/* Return whether b is the current backend of the cord, or a backend that the cord has replaced. */
static bool cord_has_backend(const weft__cord *c, const weft__backend *b)
{
    if (LIKELY(c->backend == b))
        return true;
    const weft__backend *retired = c->retired;
    while (retired != NULL && retired != b)
        retired = retired->retired;
    return retired != NULL;
}

int weft__multishot_open(weft__multishot *m, weft__opcode code, int fd)
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    if (b == NULL || b->type->multishot_open == NULL)
        return -EOPNOTSUPP;
    m->op = (weft__op){.code = code, .fd = fd, .done = multishot_done, .owner = c->current};
    int rc = b->type->multishot_open(b, m);
    m->backend = b;
    return rc;
}

intptr_t weft__multishot_next(weft__multishot *m, const void **data)
{
    weft__cord *c = weft__cord_self;
    if (UNLIKELY(c == NULL))
        return weft__no_cord(); /* this process is a child that a callback of the loop has forked */
    weft__fiber *f = c->current;
    intptr_t result;
    do {
        if (UNLIKELY(f->pending))
            return weft__call_refuse(c);
        f->was_interrupted = false;
        if (UNLIKELY(c->backend != m->backend))
            return -EIO; /* the backend was replaced */
        result = c->backend->type->multishot_next(c->backend, m, data);
        if (result != WEFT__OP_PENDING)
            return weft__op_finish_now(c, result);
        c->ops++;
        weft__hold_op(c, f);
        result = weft__wait(c, &waits_multishot[m->op.code], m);
    } while (result == WEFT__OP_PENDING);
    return result;
}

void weft__multishot_close(weft__multishot *m)
{
    weft__cord *c = weft__cord_self;
    if (c == NULL || !cord_has_backend(c, m->backend))
        return; /* this process is a forked child of the process that opened m */
    if (m->backend->type->multishot_close(m->backend, m))
        return;
    weft__hold_op(c, c->current);
    weft__wait(c, &weft__waits_release, m);
}
