/* The internal interface of mailboxes. */
#ifndef WEFT_CORE_FIBER_MAILBOX_H
#define WEFT_CORE_FIBER_MAILBOX_H

#include "core/fiber/mailbox_bound.h"

/* The mailbox of a fiber, allocated on first use. */
typedef struct weft__mailbox {
    weft__fifo fifo;
    weft__mailbox_bound bound; /* the bound, for senders in other threads */
    size_t delayed;            /* remote messages that wait in fifo.senders (remote_tell.c) */
} weft__mailbox;

/*
 * Return the mailbox of a fiber. The first call allocates the mailbox. Return NULL if memory is
 * exhausted.
 */
weft__mailbox *weft__mailbox_of(weft__fiber *f);

/*
 * Put a value into the mailbox of a living fiber, even if the mailbox is full.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__mailbox_force(weft__cord *c, weft__fiber *f, weft_value value);

/*
 * Discard the messages after the function of the fiber has returned. If the fiber restarts, waiting
 * senders then put their messages. Otherwise, waiting senders fail with -ESRCH.
 */
void weft__mailbox_empty(weft__cord *c, weft__fiber *f);

/*
 * Remove the waiting senders in a child of weft_fork, and publish the bound again. The places of
 * remote messages that will not arrive become free.
 */
void weft__mailbox_renew(weft__fiber *f);

/* Free the mailbox of an ended fiber. Waiting senders fail with -ESRCH. */
void weft__mailbox_free(weft__cord *c, weft__fiber *f);

#endif
