/* An operation of the backend as something that a fiber waits for. */
#ifndef WEFT_CORE_OP_H
#define WEFT_CORE_OP_H

#include "core/sched.h"

/*
 * Submit op and wait until it is done; returns its result, or why it was not to be. The caller has
 * filled in code, fd and arguments. When this returns, nobody holds op or its buffer any more.
 */
intptr_t weft__op_run(weft__op *op);

/*
 * Did the operation that just returned, of the current fiber, return why it was not to be (it was
 * cancelled, interrupted, an error was raised) instead of a result of its own?
 */
static inline bool weft__was_struck(void)
{
    return weft__cord_self != NULL && weft__cord_self->current->was_struck;
}

/* The fiber waits in an operation, or no longer: that is something main's suspend waits for. */
static inline void weft__hold_op(weft__cord *c, const weft__fiber *f)
{
    c->held_ops += !f->is_daemon;
}

static inline void weft__unhold_op(weft__cord *c, const weft__fiber *f)
{
    c->held_ops -= !f->is_daemon;
}

/* A number that is another one once fd has been closed with weft. */
uint32_t weft__fd_life(int fd);

/* A plain call has just made this descriptor: nothing that is known of its number holds. */
void weft__fd_made(int fd);

/*
 * The result of an operation that did not have to wait. A fiber that never has to must let the
 * others run too, and the clock, once in a while: its deadlines would not strike otherwise. The
 * result waits with it.
 */
intptr_t weft__finish_at_once(weft__cord *c, intptr_t result);

/* The wait for the kernel to let go of what was given up. */
extern const weft__wait_kind weft__waits_release;

/* An operation of a chain, and what became of it. */
typedef struct weft__link {
    weft__op op;
    intptr_t result;
} weft__link;

/*
 * Submit several operations as one, each to be begun when the one before it has succeeded, and wait
 * until all are done: the results are there, -ECANCELED for what was not begun. 0, or what it was
 * struck by. *is_submitted: if not, nothing was begun; they have to be run one by one, or it was
 * struck before.
 */
intptr_t weft__links_run(weft__link *links, size_t count, bool *is_submitted);

/*
 * An operation with many results (see backend.h) as something that the current fiber asks for one
 * after the other. open: -EOPNOTSUPP if it has to be done by single operations. next waits for a
 * result, and may fail as any blocking call. close waits until the kernel has let go.
 */
int weft__many_open(weft__many *m, weft__opcode code, int fd);
intptr_t weft__many_next(weft__many *m, const void **data);
void weft__many_close(weft__many *m);

#endif
