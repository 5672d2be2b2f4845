/*
 * A bounded FIFO of items, with a wait queue of senders and a wait queue of receivers. Mailboxes,
 * channels and queues are built on FIFOs. They differ in the limit, that is, the number of stored
 * items at which senders wait. A FIFO with the limit 0 is a rendezvous. Each sender then waits for
 * a receiver.
 *
 * Invariants between calls:
 *   - If a receiver waits, the FIFO is empty and no sender waits. There is one exception: a fiber
 *     in a select may wait on both sides of a rendezvous.
 *   - If a sender waits, the FIFO holds at least `limit` items.
 *   - No fiber waits on a closed FIFO.
 *   - The ring has space for the stored items and for the reserved slots.
 *
 * Therefore storing the item of a waiting sender needs no new memory. The item that was taken
 * before has left a free slot.
 */
#ifndef WEFT_CORE_SCHED_FIFO_H
#define WEFT_CORE_SCHED_FIFO_H

#include "core/sched/sched.h"

#include <string.h>

/* The limit of an unbounded FIFO. */
#define WEFT__UNLIMITED SIZE_MAX

typedef struct weft__fifo {
    /*
     * In the waiter of a receiver, `data` points to the destination of the item. If `data` is NULL,
     * the item is a weft_value, and the receiver resumes with this value. In the waiter of a
     * sender, `data` points to the item, and `how` is the end of the FIFO for the item, a
     * weft__queue_end.
     */
    weft__waitq receivers;
    weft__waitq senders;
    char *ring;        /* NULL: not allocated yet */
    size_t capacity;   /* capacity of the ring in items, a power of two; 0: no ring yet */
    size_t head;       /* index of the next item to take; free-running */
    size_t count;      /* stored items */
    size_t limit;      /* senders wait while count >= limit; 0: a rendezvous */
    size_t reserved;   /* free slots that are reserved for later items */
    size_t item_bytes; /* size of an item; sizeof(weft_value): the FIFO holds values */
    bool is_closed;
} weft__fifo;

static inline void weft__fifo_init(weft__fifo *p, size_t item_bytes, size_t limit)
{
    *p = (weft__fifo){.limit = limit, .item_bytes = item_bytes};
}

/*
 * Grow the ring for `items` more items, in addition to the reserved slots.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__fifo_make_room(weft__fifo *p, size_t items);

/*
 * Change the limit. Store the items of senders that no longer have to wait, and wake these senders.
 * On failure, nothing has changed.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__fifo_set_limit(weft__cord *c, weft__fifo *p, size_t limit);

/*
 * Discard all items. Then store the items of senders that no longer have to wait, and wake these
 * senders.
 */
void weft__fifo_clear(weft__cord *c, weft__fifo *p);

/*
 * Close the FIFO. Waiting fibers fail with -EPIPE. Later puts fail with -EPIPE. Later takes fail
 * with -EPIPE when the FIFO is empty.
 */
void weft__fifo_close(weft__cord *c, weft__fifo *p);

/* Free the ring. No fiber may be waiting. */
void weft__fifo_free(weft__fifo *p);

/*
 * Take at most n items. Then store the items of senders that no longer have to wait, and wake these
 * senders. Returns the number of items taken.
 */
size_t weft__fifo_take_all(weft__cord *c, weft__fifo *p, void *out, size_t n);

static inline void weft__fifo_copy(const weft__fifo *p, void *to, const void *from)
{
    if (LIKELY(p->item_bytes == sizeof(weft_value)))
        memcpy(to, from, sizeof(weft_value));
    else
        memcpy(to, from, p->item_bytes);
}

/*
 * Return a pointer to the i-th value from the head. This function and all functions with a
 * weft_value argument or result require a FIFO that holds values. These functions do not test
 * item_bytes.
 */
static inline weft_value *weft__fifo_value_at(const weft__fifo *p, size_t i)
{
    return (weft_value *)(void *)p->ring + ((p->head + i) & (p->capacity - 1));
}

/* Return a pointer to the i-th item from the head. */
static inline void *weft__fifo_at(const weft__fifo *p, size_t i)
{
    return p->ring + ((p->head + i) & (p->capacity - 1)) * p->item_bytes;
}

/* Pass an item to a waiting receiver, and wake the receiver. */
static inline void weft__fifo_deliver(weft__cord *c, const weft__fifo *p, weft__waiter *w,
                                      const void *item)
{
    weft_value value = 0;
    if (w->data == NULL)
        memcpy(&value, item, sizeof value);
    else
        weft__fifo_copy(p, w->data, item);
    weft__waitq_wake(c, w, value);
}

/* Store an item at one end of the ring. The ring must have space. */
static inline void weft__fifo_store(weft__fifo *p, const void *item, weft__queue_end end)
{
    if (end == WEFT__FRONT)
        p->head--;
    weft__fifo_copy(p, weft__fifo_at(p, end == WEFT__FRONT ? 0 : p->count), item);
    p->count++;
}

/*
 * Fast paths of put and take, for a FIFO of values. Both functions handle only the common case, in
 * which the call does not wait, and the woken fiber waits in this queue only. In all other cases,
 * both functions return false and change nothing. Without the fast paths: buffered +23 %
 * instructions (docs/adr/0051).
 */
static inline bool weft__fifo_put_fast(weft__cord *c, weft__fifo *p, weft_value value)
{
    weft__waiter *w = p->receivers.first;
    if (w != NULL) { /* so the FIFO is open; if data is NULL, the receiver resumes with the value */
        if (UNLIKELY(((uintptr_t)w->on_wake | (uintptr_t)w->data) != 0))
            return false;
        weft__waitq_wake(c, w, value);
        return true;
    }
    if (p->count >= p->limit || UNLIKELY(p->count >= p->capacity || p->is_closed))
        return false;
    *weft__fifo_value_at(p, p->count) = value;
    p->count++;
    return true;
}

static inline bool weft__fifo_take_fast(weft__cord *c, weft__fifo *p, weft_value *out)
{
    weft__waiter *w = p->senders.first;
    if (w != NULL) { /* a rendezvous if count is 0 */
        if (UNLIKELY((p->count | (uintptr_t)w->on_wake) != 0))
            return false;
        memcpy(out, w->data, sizeof *out);
        weft__waitq_wake(c, w, 0);
        return true;
    }
    if (p->count == 0)
        return false;
    *out = *weft__fifo_value_at(p, 0);
    p->head++;
    p->count--;
    return true;
}

/*
 * Put an item, if possible without waiting.
 *
 * Returns 0, or:
 * -EAGAIN if the FIFO is full
 * -ENOMEM if memory is exhausted
 * -EPIPE if the FIFO is closed
 */
static inline int weft__fifo_put(weft__cord *c, weft__fifo *p, const void *item,
                                 weft__queue_end end)
{
    if (UNLIKELY(p->is_closed))
        return -EPIPE;
    weft__waiter *w = weft__waitq_next(&p->receivers);
    if (w != NULL) {
        weft__fifo_deliver(c, p, w, item);
        return 0;
    }
    if (p->count >= p->limit)
        return -EAGAIN;
    if (UNLIKELY(p->count + p->reserved >= p->capacity)) {
        int rc = weft__fifo_make_room(p, 1);
        if (rc < 0)
            return rc;
    }
    weft__fifo_store(p, item, end);
    return 0;
}

/*
 * Grow the ring, and store a value at the tail.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__fifo_grow_and_store(weft__fifo *p, weft_value value);

/*
 * Like weft__fifo_put, but with a value at the tail. The first receiver must not have a token.
 * Without the functions for values: mailbox-stream +33 % instructions (docs/adr/0051).
 */
static inline int weft__fifo_put_value(weft__cord *c, weft__fifo *p, weft_value value)
{
    if (UNLIKELY(p->is_closed))
        return -EPIPE;
    weft__waiter *w = p->receivers.first;
    if (w != NULL) {
        if (UNLIKELY(w->data != NULL)) {
            memcpy(w->data, &value, sizeof value);
            value = 0;
        }
        weft__waitq_wake(c, w, value);
        return 0;
    }
    if (p->count >= p->limit)
        return -EAGAIN;
    if (UNLIKELY(p->count + p->reserved >= p->capacity))
        return weft__fifo_grow_and_store(p, value);
    *weft__fifo_value_at(p, p->count++) = value;
    return 0;
}

/*
 * Put an item at the tail, even if the FIFO is full. The FIFO must be open.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__fifo_force(weft__cord *c, weft__fifo *p, const void *item);

/* Store the items of waiting senders while the FIFO is not full, and wake these senders. */
void weft__fifo_admit(weft__cord *c, weft__fifo *p);

/*
 * Take an item, if possible without waiting.
 *
 * Returns 0, or:
 * -EAGAIN if the FIFO is empty and open
 * -EPIPE if the FIFO is empty and closed
 */
static inline int weft__fifo_take(weft__cord *c, weft__fifo *p, void *out)
{
    if (LIKELY(p->count > 0)) {
        weft__fifo_copy(p, out, weft__fifo_at(p, 0));
        p->head++;
        p->count--;
        if (UNLIKELY(p->senders.first != NULL))
            weft__fifo_admit(c, p);
        return 0;
    }
    weft__waiter *sender = weft__waitq_next(&p->senders);
    if (sender != NULL) { /* a rendezvous */
        weft__fifo_copy(p, out, sender->data);
        weft__waitq_wake(c, sender, 0);
        return 0;
    }
    return p->is_closed ? -EPIPE : -EAGAIN;
}

/* Take a value, and admit waiting senders (weft__fifo_admit). The FIFO must not be empty. */
weft_value weft__fifo_take_and_admit(weft__cord *c, weft__fifo *p);

/*
 * Like weft__fifo_take, but with a FIFO of values. The first sender must not have a token. Returns
 * the value or the error.
 */
static inline weft_value weft__fifo_take_value(weft__cord *c, weft__fifo *p)
{
    weft__waiter *sender = p->senders.first;
    if (LIKELY(p->count > 0)) {
        if (UNLIKELY(sender != NULL))
            return weft__fifo_take_and_admit(c, p);
        p->count--;
        return ((weft_value *)(void *)p->ring)[p->head++ & (p->capacity - 1)];
    }
    if (sender != NULL) { /* a rendezvous */
        weft_value value;
        memcpy(&value, sender->data, sizeof value);
        weft__waitq_wake(c, sender, 0);
        return value;
    }
    return p->is_closed ? -EPIPE : -EAGAIN;
}

/*
 * Return whether a put, or a take, is possible without waiting. If waiters have tokens, other
 * threads may claim the tokens first. The call may then have to wait.
 */
static inline bool weft__fifo_can_put(const weft__fifo *p)
{
    return p->is_closed || p->receivers.first != NULL || p->count < p->limit;
}

static inline bool weft__fifo_can_take(const weft__fifo *p)
{
    return p->is_closed || p->count > 0 || p->senders.first != NULL;
}

/*
 * Wait in the current fiber until the item is sent. The item must remain valid during the wait. The
 * caller must have checked f->pending.
 */
static inline int weft__fifo_wait_put_item(weft__cord *c, weft__fifo *p, const void *item,
                                           weft__queue_end end, const weft__wait_kind *kind)
{
    weft__waiter *w = &c->current->live->waiter;
    w->data = (void *)(uintptr_t)item; /* only read */
    w->how = end;
    return weft__waitq_wait_int(c, &p->senders, kind, p);
}

/* Like weft__fifo_wait_put_item, but with a value. The call stores the value in the waiter. */
static inline int weft__fifo_wait_put(weft__cord *c, weft__fifo *p, weft_value value,
                                      weft__queue_end end, const weft__wait_kind *kind)
{
    weft__waiter *w = &c->current->live->waiter;
    w->value = value;
    return weft__fifo_wait_put_item(c, p, &w->value, end, kind);
}

/* Wait in the current fiber until an item is received. The caller must have checked f->pending. */
static inline int weft__fifo_wait_take_item(weft__cord *c, weft__fifo *p, void *out,
                                            const weft__wait_kind *kind)
{
    c->current->live->waiter.data = out;
    return weft__waitq_wait_int(c, &p->receivers, kind, p);
}

/* Like weft__fifo_wait_take_item, but return a value. */
static inline weft_value weft__fifo_wait_take(weft__cord *c, weft__fifo *p,
                                              const weft__wait_kind *kind)
{
    c->current->live->waiter.data = NULL;
    return weft__waitq_wait(c, &p->receivers, kind, p);
}

#endif
