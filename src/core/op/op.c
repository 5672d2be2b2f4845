/* Operations of the backend: submit an operation, wait for its result, cancel the operation. */
#include "core/op/op.h"

#include "backend/fd_generation.h"
#include "backend/syscall/call.h"
#include "core/cord/fork.h"
#include "core/lifetime/cancel.h"
#include "core/trace/trace.h"

#include <weft/debug.h>

const weft__wait_kind weft__waits_release = {.name = "the kernel to release its buffer",
                                             .is_release = true};

/*
 * Cancel the operation of a fiber. If the kernel still uses the operation, the fiber waits until
 * the kernel releases the operation. This wait cannot be interrupted. A later cancellation or
 * interrupt takes effect at the next call.
 */
static bool leave_op(weft__fiber *f)
{
    weft__cord *c = weft__cord_self;
    if (!c->backend->type->cancel(c->backend, f->wait_object)) {
        f->waits_in = &weft__waits_release;
        return false;
    }
    weft__unhold_op(c, f);
    return true;
}

static const weft__wait_kind waits_op[] = {
#define WAIT_KIND(name, wait)                                                                      \
    [WEFT__OP_##name] = {wait, .is_accept = WEFT__OP_##name == WEFT__OP_ACCEPT, .leave = leave_op, \
                         .fd_at = WEFT__WAIT_AT(weft__op, fd)},
    WEFT__OPCODES(WAIT_KIND)
#undef WAIT_KIND
};

/* The slow path of op_done: the operation was cancelled, or the fiber is parked or traced. */
COLD static void op_done_slow(weft__cord *c, weft__op *op, intptr_t result)
{
    weft__fiber *f = op->owner;
    if (c->trace != NULL)
        weft__trace_complete(c, f, waits_op[op->code].name, op, result);
    weft__wake(c, f, weft__cancel_resolve(f, result), WEFT__TAIL);
}

static void op_done(weft__op *op, intptr_t result)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = op->owner;
    weft__unhold_op(c, f);
    if (UNLIKELY(result == -ECANCELED || f->wake_flags != 0)) {
        op_done_slow(c, op, result);
        return;
    }
    f->was_interrupted = f->is_interrupted = false; /* as in weft__cancel_resolve */
    f->waits_in = NULL;
    f->value = result;
    weft__runqueue_push(&c->runqueue, &f->queued);
}

intptr_t weft__op_finish_now(weft__cord *c, intptr_t result)
{
    if (LIKELY(++c->ops_in_a_row < WEFT__OPS_IN_A_ROW_MAX))
        return result;
    c->ops_in_a_row = 0;
    weft__tick_set(c, 1);
    return weft__yield(c, result);
}

COLD static void op_begin_traced(weft__cord *c, const weft__op *op)
{
    if (c->trace != NULL)
        weft__trace_submit(c, waits_op[op->code].name, op);
}

intptr_t weft__op_run(weft__op *op)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (UNLIKELY(f->op_flags != 0)) {
        if (f->pending)
            return weft__call_refuse(c);
        op_begin_traced(c, op);
    }
    f->was_interrupted = false;
    op->done = op_done;
    op->owner = f;
    weft__list_init(&op->link);
    c->ops++;
    weft__backend *b = weft__cord_backend(c);
    intptr_t result = b->type->submit(b, op);
    if (result != WEFT__OP_PENDING)
        return weft__op_finish_now(c, result);
    weft__hold_op(c, f);
    return weft__wait(c, &waits_op[op->code], op);
}

void weft__fd_created(int fd)
{
    weft__cord *c = weft__cord_here();
    weft__fd_advance(fd);
    if (c != NULL && c->backend->type->forget_fd != NULL)
        c->backend->type->forget_fd(c->backend, fd);
}

uint32_t weft__fd_generation_here(int fd)
{
    uint32_t fork_bits = weft__fork_depth << 24; /* a loop must not continue in a forked child */
    /*
     * Do not grow the table for a number that is not an open descriptor, because the number may be
     * huge.
     */
    if (weft__fd_counter(fd) == NULL && weft__call_is_open(fd))
        (void)weft__fd_reserve(fd);
    return fork_bits ^ weft__fd_generation(fd);
}
