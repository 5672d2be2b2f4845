/*
 * Operations of the backend for which a fiber waits: single operations, chains, multishot
 * operations.
 */
#ifndef WEFT_CORE_OP_OP_H
#define WEFT_CORE_OP_OP_H

#include "core/sched/sched.h"

/*
 * Submit op and wait until op is done. The caller must have set code, fd and the arguments. Returns
 * the result of op, or the error of a cancellation, interrupt or raised error. After the call,
 * neither the backend nor the kernel uses op or its buffer.
 */
intptr_t weft__op_run(weft__op *op);

/*
 * Return whether the last operation of the current fiber was interrupted. An interrupted operation
 * returns the error of a cancellation, interrupt or raised error instead of its own result. A wait
 * without an operation, for example for a mutex, sets the result if the wait is interrupted, and
 * does not clear it.
 */
static inline bool weft__was_interrupted(void)
{
    return weft__cord_self != NULL && weft__cord_self->current->was_interrupted;
}

/*
 * Begin or end the wait of a fiber for an operation. These functions count the operations of fibers
 * that are not daemons, because weft_suspend in the main fiber waits for these operations.
 */
static inline void weft__hold_op(weft__cord *c, const weft__fiber *f)
{
    c->held_ops += !f->is_daemon;
}

static inline void weft__unhold_op(weft__cord *c, const weft__fiber *f)
{
    c->held_ops -= !f->is_daemon;
}

/* Return a number that changes when weft closes fd, and that differs in a forked child. */
FOR_POSIX uint32_t weft__fd_generation_here(int fd);

/*
 * Discard all cached state of a descriptor number. Call this function after a system call outside
 * of the backend has created fd.
 */
FOR_POSIX void weft__fd_created(int fd);

/*
 * Return the result of an operation that did not wait. After WEFT__OPS_IN_A_ROW_MAX consecutive
 * operations that did not wait, yield first. Without the yield, the time of the cord would not
 * advance, and the deadlines of the fiber would have no effect.
 */
intptr_t weft__op_finish_now(weft__cord *c, intptr_t result);

/* The wait until the kernel releases a cancelled operation. */
extern const weft__wait_kind weft__waits_release;

/* An operation of a chain, with its result. */
typedef struct weft__chain_op {
    weft__op op;
    intptr_t result;
} weft__chain_op;

/*
 * Submit a chain of operations, and wait until all are done. Each operation starts after the
 * previous operation has succeeded. An operation that was not started has the result -ECANCELED.
 * Returns 0, or the error of a cancellation, interrupt or raised error. (chain.c)
 *
 * If no operation was submitted, the call sets *is_submitted to false. If the call also returns 0,
 * the caller must run the operations one by one.
 */
intptr_t weft__chain_run(weft__chain_op *links, size_t count, bool *is_submitted);

/*
 * Multishot operations (backend/backend.h). The current fiber takes the results one by one.
 * (multishot.c)
 *
 * weft__multishot_open starts the operation. It returns 0, or an error. If it returns -EOPNOTSUPP,
 * the caller must use single operations instead. weft__multishot_next waits for a result, and may
 * fail like any blocking call. It returns -EIO if the backend was replaced since
 * weft__multishot_open. weft__multishot_close waits until the kernel has released the operation.
 */
int weft__multishot_open(weft__multishot *m, weft__opcode code, int fd);
intptr_t weft__multishot_next(weft__multishot *m, const void **data);
void weft__multishot_close(weft__multishot *m);

#endif
