/*
 * The internals of shared channels. A shared channel is a fifo with a lock. Its wait queues hold
 * waiters of all threads.
 *
 * A thread that wakes a waiter holds the lock, unlinks the waiter and copies the item. The item may
 * be in the stack frame of the waiting fiber. The fiber remains in this frame until the wake-up
 * arrives. A cancelled fiber takes the lock before it leaves the frame.
 *
 * The waking thread wakes the fiber after it has released the lock. A remote message wakes a fiber
 * of another thread. If that thread ends, the message may outlive the stack frame. weft__chan_wake
 * is therefore allocated on the heap.
 */
#ifndef WEFT_SYNC_CHAN_SHARED_H
#define WEFT_SYNC_CHAN_SHARED_H

#include "core/sched/fifo.h"

#include <pthread.h>

typedef struct weft__chan_shared {
    pthread_mutex_t lock; /* guards the fifo; never held while a fiber switches or is woken */
    uint32_t fork_depth;  /* of the creating process; in a child, the channel is closed and empty */
    atomic_uint refs; /* 1 for the channel until it is freed, 1 for each weft__chan_wake in use */
    /*
     * The value field of a waiter points to the waiter's weft__chan_wake. If has_token of the
     * waiter is set, the value field points to the weft__select_token of the select.
     */
    weft__fifo fifo;
} weft__chan_shared;

/* The wake-up of a waiting fiber. The waking thread sets msg.value and woken. */
typedef struct weft__chan_wake {
    weft__remote_msg msg; /* to the fiber; value is 0 or -EPIPE */
    weft__waiter *woken;  /* the woken waiter; valid only while its fiber still waits */
} weft__chan_wake;

/* Create a shared channel with one reference. Returns NULL if memory is exhausted. */
weft__chan_shared *weft__chan_shared_new(size_t item_bytes, size_t cap);

/* Drop a reference. The call that drops the last reference frees the channel. */
void weft__chan_shared_unref(weft__chan_shared *s);

/* Close a channel. Wake its waiters with -EPIPE. */
void weft__chan_shared_close(weft__chan_shared *s);

/*
 * Put an item into a channel, or take an item from a channel, without waiting.
 *
 * Returns 0, or:
 * -EAGAIN if the call would wait
 * -EPIPE if put finds the channel closed
 * -EPIPE if take finds the channel closed and empty
 */
int weft__chan_shared_put(weft__chan_shared *s, const void *item);
int weft__chan_shared_take(weft__chan_shared *s, void *out);

/*
 * Send an item to a channel, or receive an item from a channel. Wait if necessary. If the call
 * fails, no item was transferred. If out is NULL, the items must be values, and
 * weft__chan_shared_recv returns the value.
 *
 * Returns 0, the received value, the error that interrupted the wait, or:
 * -ENOMEM if memory is exhausted
 * -EPIPE if send finds the channel closed
 * -EPIPE if recv finds the channel closed and empty
 */
int weft__chan_shared_send(weft__cord *c, weft__chan_shared *s, const void *item);
weft_value weft__chan_shared_recv(weft__cord *c, weft__chan_shared *s, void *out);

static inline size_t weft__chan_shared_cap(const weft__chan_shared *s)
{
    return s->fifo.limit; /* constant, so no lock is needed */
}

/*
 * Return the current state of a channel. Another thread may change the state before the call
 * returns.
 */
bool weft__chan_shared_can_put(weft__chan_shared *s);
bool weft__chan_shared_can_take(weft__chan_shared *s);
size_t weft__chan_shared_count(weft__chan_shared *s);
bool weft__chan_shared_is_closed(weft__chan_shared *s);
bool weft__chan_shared_has_senders(weft__chan_shared *s);
bool weft__chan_shared_has_receivers(weft__chan_shared *s);

#endif
