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

/* Enough for a disk to have its queue full, and for some that wait for something else. */
#define WEFT__POOL_THREADS_MAX 64

struct weft__op;
struct weft__backend;

/* The head of every backend has one: operations that the pool is done with. */
typedef struct weft__finished {
    weft__list jobs;  /* under the pool's lock */
    atomic_bool some; /* there may be any; read without the lock */
    /* Called in place of an operation's done, which it is to call; NULL: done itself is. */
    void (*end)(void *owner, struct weft__op *op, intptr_t result);
    void *owner;
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
 * Give op up, as a backend's cancel. True if it had not been begun, and if nothing that it does
 * matters to anyone: a CALL with a drop, an OPEN that makes no file and empties none, for which a
 * thread may wait as long as nobody opens a FIFO's other end. Takes it from the list that its link
 * is on, and no longer counts it as pending, if true.
 */
bool weft__pool_cancel(struct weft__backend *b, struct weft__op *op);

/* For poll: call done for what is finished, each taken from the list that its link is on. */
void weft__pool_collect(struct weft__backend *b);

/* Is there something to collect? For poll, before it waits; wake makes it return, too. */
static inline bool weft__finished_is_some(weft__finished *f)
{
    return atomic_load_explicit(&f->some, memory_order_acquire);
}

/*
 * How many threads of the pool cannot send anything to a fiber: all but those in the fn of a CALL.
 * So many are there at least, and stay as they are until weft__pool_thaw.
 */
unsigned weft__pool_freeze(void);
void weft__pool_thaw(void);

#endif
