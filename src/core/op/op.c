/* Operations: from the fiber to the backend and back. */
#include "core/op.h"

#include "backend/call.h"
#include "backend/fd_generation.h"
#include "core/alarm.h"
#include "core/fork.h"

const weft__wait_kind weft__waits_release = {.name = "the kernel to let go of its buffer"};

/*
 * An operation that the kernel holds is on its way out from here on: nothing can hurry it, and what
 * strikes meanwhile strikes at the next call.
 */
static bool leave_op(weft__fiber *f)
{
    weft__cord *c = weft__cord_self;
    if (!c->backend->type->cancel(c->backend, f->wait_object)) {
        f->waits_in = &weft__waits_release;
        return false;
    }
    weft__unhold_op(c, f);
    f->was_struck = true;
    return true;
}

static const weft__wait_kind waits_op[] = {
#define WAIT_KIND(name, wait) \
    [WEFT__OP_##name] = {wait, .is_accept = WEFT__OP_##name == WEFT__OP_ACCEPT, .leave = leave_op},
    WEFT__OPCODES(WAIT_KIND)
#undef WAIT_KIND
};

static void op_done(weft__op *op, intptr_t result)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = op->owner;
    weft__unhold_op(c, f);
    if (UNLIKELY(result == -ECANCELED))
        result = weft__settle(f, result);
    else
        f->was_struck = f->is_interrupted = false; /* as weft__settle has it */
    weft__wake(c, f, result, WEFT__TAIL);
}

intptr_t weft__finish_at_once(weft__cord *c, intptr_t result)
{
    if (LIKELY(++c->ops_in_a_row < WEFT__OPS_IN_A_ROW_MAX))
        return result;
    c->ops_in_a_row = 0;
    weft__set_turn(c, 1);
    return weft__yield(c, result);
}

intptr_t weft__op_run(weft__op *op)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    f->was_struck = f->alarm;
    if (f->alarm)
        return weft__refuse(c);
    op->done = op_done;
    op->owner = f;
    weft__list_init(&op->link);
    c->ops++;
    weft__backend *b = weft__cord_backend(c);
    intptr_t result = b->type->submit(b, op);
    if (result != WEFT__OP_PENDING)
        return weft__finish_at_once(c, result);
    weft__hold_op(c, f);
    return weft__wait(c, &waits_op[op->code], op);
}

void weft__fd_made(int fd)
{
    weft__cord *c = weft__cord_here();
    weft__fd_advance(fd);
    if (c != NULL && c->backend->type->forget_fd != NULL)
        c->backend->type->forget_fd(c->backend, fd);
}

uint32_t weft__fd_life(int fd)
{
    uint32_t here = weft__fork_depth << 24; /* a loop is not gone on with in a child */
    if (weft__fd_counter(fd) == NULL && weft__call_is_open(fd)) /* a stray number: a huge table */
        (void)weft__fd_reserve(fd);
    return here ^ weft__fd_generation(fd);
}
