/*
 * Shared channels from the inside: a passage behind a lock, whose lines hold waiters of all
 * threads.
 *
 * Whoever serves a waiter does so under the lock: takes it out of its line and moves its item. So
 * the item may be in the frame of the one who waits, who takes the lock before leaving it. What is
 * left to do is to wake the fiber, by a letter if it is another thread's. That letter may still be
 * under way when the frame is gone (its thread ends), so it is in memory of its own: the turn.
 */
#ifndef WEFT_SYNC_SHARED_H
#define WEFT_SYNC_SHARED_H

#include "core/passage.h"

#include <pthread.h>

typedef struct weft__shared {
    pthread_mutex_t lock; /* of all below; never held while a fiber switches or is woken */
    uint32_t fork_depth;  /* of the process that made it; in its children it is closed and empty */
    atomic_uint refs;     /* the channel, until it is freed, and turns that have to do with it */
    /* The waiters' value points to the turn; if they are contested, to the contest. */
    weft__passage passage;
} weft__shared;

/* How the one who waits learns of it, filled in by the one who serves. */
typedef struct weft__turn {
    weft__letter letter; /* to the fiber; its value: 0 or -EPIPE */
    weft__waiter *by;    /* the one of its waiters that was served; only to be compared */
} weft__turn;

/* NULL: no memory. */
weft__shared *weft__shared_new(size_t item_bytes, size_t cap);

/* One reference less. */
void weft__shared_drop(weft__shared *s);

/* Closed, and those who wait are told. */
void weft__shared_close(weft__shared *s);

/* Put an item in, take one out, if that can be done at once. 0; -EAGAIN: it cannot; -EPIPE. */
int weft__shared_put(weft__shared *s, const void *item);
int weft__shared_take(weft__shared *s, void *out);

/*
 * The same, waiting. -ENOMEM, or what the current fiber was struck by: nothing has happened. What
 * is received is returned if out is NULL: then it is a value.
 */
int weft__shared_send(weft__cord *c, weft__shared *s, const void *item);
weft_value weft__shared_recv(weft__cord *c, weft__shared *s, void *out);

static inline size_t weft__shared_cap(const weft__shared *s)
{
    return s->passage.limit; /* it never changes */
}

/* What is so at this moment. */
bool weft__shared_can_put(weft__shared *s);
bool weft__shared_can_take(weft__shared *s);
size_t weft__shared_count(weft__shared *s);
bool weft__shared_is_closed(weft__shared *s);
bool weft__shared_has_senders(weft__shared *s);
bool weft__shared_has_receivers(weft__shared *s);

#endif
