/*
 * Threads for what can only be done by a call that blocks: files that are not in memory, names that
 * have to be looked up. One pool for the process; it grows as it is used, up to a limit, and its
 * idle threads end after a while. It knows operations and the backends that they come from, and
 * nothing of fibers.
 */
#ifndef WEFT_BACKEND_POOL_H
#define WEFT_BACKEND_POOL_H

#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weft__op;
struct weft__backend;

/* The head of every backend has one: operations that the pool is done with. */
typedef struct weft__finished {
    weft__list jobs;  /* under the pool's lock */
    atomic_bool some; /* there may be any; read without the lock */
} weft__finished;

void weft__finished_init(weft__finished *f);

/*
 * Have op's call made by a thread of the pool: fn of a CALL, weft__call_block for any other. When
 * it is over, b is woken, and op is done in its next weft__pool_collect. Counts op as pending; op's
 * link is the caller's to use. WEFT__OP_PENDING, or -errno: -ENOMEM, -EAGAIN if there is no thread
 * and none can be made.
 */
intptr_t weft__pool_submit(struct weft__backend *b, struct weft__op *op);

/*
 * Give op up, as a backend's cancel: true if it had not been begun, or has a drop. Takes it from
 * the list that its link is on, and no longer counts it as pending, if true.
 */
bool weft__pool_cancel(struct weft__backend *b, struct weft__op *op);

/* For poll: call done for what is finished, each taken from the list that its link is on. */
void weft__pool_collect(struct weft__backend *b);

/* Is there something to collect? For poll, before it waits; wake makes it return, too. */
static inline bool weft__finished_is_some(weft__finished *f)
{
    return atomic_load_explicit(&f->some, memory_order_acquire);
}

/* Threads that run now, to be told from those that could send something to a fiber. */
unsigned weft__pool_threads(void);

#endif
