/*
 * The bounds of mailboxes, for senders in other threads. A table maps the id of a fiber with a
 * bounded mailbox to its bound. A sender reserves a place in the mailbox before it sends a message,
 * so that weft_try_tell can fail without waiting (docs/adr/0048).
 *
 * A place is free if the bound exceeds the messages in the mailbox plus the reserved places. The
 * thread of the mailbox does not respect reservations. A message that has a place and finds the
 * mailbox full waits in the queue of senders.
 */
#ifndef WEFT_CORE_FIBER_MAILBOX_BOUND_H
#define WEFT_CORE_FIBER_MAILBOX_BOUND_H

#include "core/sched/fifo.h"

/* A bound, in its mailbox. The lock of the table protects all fields. */
typedef struct weft__mailbox_bound {
    struct weft__mailbox_bound *next; /* in a bucket of the table */
    weft_fiber fiber;                 /* 0: unbounded, not in the table */
    size_t limit;
    size_t reserved;        /* messages of weft_try_tell from other threads, not stored yet */
    const weft__fifo *fifo; /* the mailbox, which belongs to another thread */
} weft__mailbox_bound;

/* Publish the bound of a mailbox. If limit is WEFT__UNLIMITED, remove the bound. */
void weft__mailbox_bound_set(weft__mailbox_bound *b, weft_fiber fiber, const weft__fifo *fifo,
                             size_t limit);

typedef enum weft__reservation {
    WEFT__UNBOUNDED, /* no place needed */
    WEFT__RESERVED,
    WEFT__NO_PLACE,
} weft__reservation;

/* Reserve a place in the mailbox of a fiber of any thread. */
weft__reservation weft__mailbox_bound_reserve(weft_fiber fiber);

/*
 * Put a value that has a place into the mailbox, and release the place. If the mailbox is full,
 * return -EAGAIN, and do not release the place. The results are those of weft__fifo_put.
 */
int weft__mailbox_bound_put(weft__cord *c, weft__mailbox_bound *b, weft__fifo *fifo,
                            weft_value value);

/* Release a place. */
void weft__mailbox_bound_release(weft__mailbox_bound *b);

/* Empty the table in a child of fork. Other threads may have held the lock. */
void weft__mailbox_bounds_reset(void);

#endif
