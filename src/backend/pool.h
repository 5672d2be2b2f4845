/*
 * Operations that can only be done by a call that blocks, made by the threads of the lanes
 * (lane.h): files that are not in memory, names that have to be looked up, functions of the
 * program's. It knows operations and the backends that they come from, and nothing of fibers.
 */
#ifndef WEFT_BACKEND_POOL_H
#define WEFT_BACKEND_POOL_H

#include "backend/lane.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weft__op;
struct weft__backend;
struct weft__job;

/*
 * The head of every backend has one: operations that the pool is done with. A backend that takes
 * the place of another takes over what that had.
 */
typedef struct weft__finished {
    _Atomic(struct weft__backend *) backend; /* whose it is, and who is woken */
    _Atomic(struct weft__job *) newest;      /* NULL: none */
    atomic_bool is_waiting;                  /* the backend is to be woken for the next one */
    atomic_uint arriving;                    /* threads that are here, or in the backend's wake */
    unsigned process;                        /* it was made in */
    /* Called in place of an operation's done, which it is to call; NULL: done itself is. */
    void (*end)(void *owner, struct weft__op *op, intptr_t result);
    void *owner;
} weft__finished;

/* For a new backend. */
void weft__finished_init(struct weft__backend *b);

/* Before a backend is closed: no thread may be about to wake it. No operation is pending. */
void weft__finished_close(struct weft__backend *b);

/*
 * Operations that the pool has for one backend are the other's, a new one's, from now on; so is its
 * count of pending ones, in which there are no others. The old one's memory has to stay.
 */
void weft__finished_hand_over(struct weft__backend *from, struct weft__backend *to);

/*
 * Before poll waits: true if there is something to collect, and it must not. Until the next
 * weft__pool_collect the backend is woken when there is.
 */
static inline bool weft__finished_before_wait(weft__finished *f)
{
    atomic_store(&f->is_waiting, true); /* first: whoever comes now either is seen, or sees it */
    return atomic_load(&f->newest) != NULL;
}

/*
 * Have op's call made by a thread: fn of a CALL, weft__call_block for any other. When it is over, b
 * is woken if it waits, and op is done in its next weft__pool_collect. Counts op as pending; op's
 * link is the caller's to use. WEFT__OP_PENDING, or -errno: -ENOMEM, -EAGAIN if there is no thread
 * and none can be made.
 */
intptr_t weft__pool_submit(struct weft__backend *b, struct weft__op *op);

/* Have fn(arg) called by a thread; nobody waits for it. 0, -ENOMEM, -EAGAIN. From any thread. */
int weft__pool_cast(weft__lane lane, intptr_t (*fn)(void *arg), void *arg);

/*
 * Give op up, as a backend's cancel. True if it had not been begun, and if nothing that it does
 * matters to anyone: a CALL with a drop, an OPEN that makes no file and empties none, for which a
 * thread may wait as long as nobody opens a FIFO's other end. False for a read or write of which a
 * part is done: it ends with that part and the rest. Takes it from the list that its link
 * is on, and no longer counts it as pending, if true.
 */
bool weft__pool_cancel(struct weft__backend *b, struct weft__op *op);

/* For poll: call done for what is finished, each taken from the list that its link is on. */
void weft__pool_collect(struct weft__backend *b);

#endif
