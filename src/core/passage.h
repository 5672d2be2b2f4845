/*
 * A passage: items go in at one end and come out at the other, and fibers wait on both sides when
 * they must. It is what mailboxes, channels and queues are made of; they differ in how many items a
 * passage holds before senders have to wait.
 *
 * Between calls:
 *   - if a receiver waits, the passage holds nothing and no sender waits, but for one fiber that
 *     selects on both sides of a rendezvous;
 *   - if a sender waits, the passage is full: it holds at least `limit` items;
 *   - nobody waits on a passage that is closed;
 *   - the ring has room for what it holds and what is reserved.
 * So one who waits to send needs no memory to be let in: what made room for it was in its place.
 */
#ifndef WEFT_CORE_PASSAGE_H
#define WEFT_CORE_PASSAGE_H

#include "core/sched.h"

#include <string.h>

/* A limit that is none. */
#define WEFT__UNLIMITED SIZE_MAX

typedef struct weft__passage {
    /*
     * A receiver's waiter has in data where its item goes; NULL: the item is a weft_value, and it
     * is woken with it. A sender's has in data where its item is, and in how the end that it goes
     * to, a weft__where.
     */
    weft__line receivers;
    weft__line senders;
    char *ring;        /* NULL: none yet */
    size_t room;       /* items in the ring, a power of two; 0: none yet */
    size_t head;       /* of the next to come out; free-running */
    size_t count;      /* items that it holds */
    size_t limit;      /* senders wait while it holds so many; 0: always, until someone receives */
    size_t open_limit; /* the same while it is open and of values; else 0 */
    size_t reserved;   /* places in the ring beside those taken that are spoken for */
    size_t item_bytes; /* sizeof(weft_value): items are values */
    bool is_closed;
} weft__passage;

/* What follows from the rest. */
static inline void weft__passage_update(weft__passage *p)
{
    bool is_open = !p->is_closed && p->item_bytes == sizeof(weft_value);
    p->open_limit = is_open ? p->limit : 0;
}

static inline void weft__passage_init(weft__passage *p, size_t item_bytes, size_t limit)
{
    *p = (weft__passage){.limit = limit, .item_bytes = item_bytes};
    weft__passage_update(p);
}

/* See to it that so many more items fit the ring, beside those reserved. 0 or -ENOMEM. */
int weft__passage_make_room(weft__passage *p, size_t items);

/* Change the limit; senders that have room now are served. -ENOMEM: nothing has changed. */
int weft__passage_set_limit(weft__cord *c, weft__passage *p, size_t limit);

/* Forget all items; senders that wait are served. */
void weft__passage_clear(weft__cord *c, weft__passage *p);

/* No item goes in any more: senders fail with -EPIPE, and receivers once it is empty. */
void weft__passage_close(weft__cord *c, weft__passage *p);

/* Free the ring. Nobody waits. */
void weft__passage_free(weft__passage *p);

/* Take out what is there, at most n items; then senders are served. How many. */
size_t weft__passage_take_all(weft__cord *c, weft__passage *p, void *out, size_t n);

static inline void weft__passage_copy(const weft__passage *p, void *to, const void *from)
{
    if (LIKELY(p->item_bytes == sizeof(weft_value)))
        memcpy(to, from, sizeof(weft_value));
    else
        memcpy(to, from, p->item_bytes);
}

/*
 * This and the other functions of values are for a passage of values: the value stays in a
 * register, and a mailbox does not ask each time how large it is.
 */
static inline weft_value *weft__passage_value_at(const weft__passage *p, size_t i)
{
    return (weft_value *)(void *)p->ring + ((p->head + i) & (p->room - 1));
}

/* Where the i-th item from the head is. */
static inline void *weft__passage_at(const weft__passage *p, size_t i)
{
    return p->ring + ((p->head + i) & (p->room - 1)) * p->item_bytes;
}

/* Hand an item to a receiver that waits. */
static inline void weft__passage_deliver(weft__cord *c, const weft__passage *p, weft__waiter *w,
                                         const void *item)
{
    weft_value value = 0;
    if (w->data == NULL)
        memcpy(&value, item, sizeof value);
    else
        weft__passage_copy(p, w->data, item);
    weft__serve(c, w, value);
}

/* Into the ring, where there is room. */
static inline void weft__passage_store(weft__passage *p, const void *item, weft__where end)
{
    if (end == WEFT__FRONT)
        p->head--;
    weft__passage_copy(p, weft__passage_at(p, end == WEFT__FRONT ? 0 : p->count), item);
    p->count++;
}

/*
 * The commonest cases, for a passage of values: nobody has to wait, nobody waits but for this, and
 * all is as it should be. False: it is another case, and nothing was done.
 */
static inline bool weft__passage_put_simply(weft__cord *c, weft__passage *p, weft_value value)
{
    weft__waiter *w = p->receivers.first;
    if (w != NULL) { /* so it is open; who has no data waits for a value */
        if (UNLIKELY(((uintptr_t)w->served | (uintptr_t)w->data) != 0))
            return false;
        weft__serve_plainly(c, w, value);
        return true;
    }
    if (p->count >= p->open_limit || UNLIKELY(p->count >= p->room))
        return false;
    *weft__passage_value_at(p, p->count) = value;
    p->count++;
    return true;
}

static inline bool weft__passage_take_simply(weft__cord *c, weft__passage *p, weft_value *out)
{
    weft__waiter *w = p->senders.first;
    if (w != NULL) { /* a rendezvous, if there is nothing */
        if (UNLIKELY((p->count | (uintptr_t)w->served) != 0))
            return false;
        memcpy(out, w->data, sizeof *out);
        weft__serve_plainly(c, w, 0);
        return true;
    }
    if (p->count == 0)
        return false;
    *out = *weft__passage_value_at(p, 0);
    p->head++;
    p->count--;
    return true;
}

/* Put an item in, if nobody has to wait for that. 0; -EAGAIN: it is full; -EPIPE, -ENOMEM. */
static inline int weft__passage_put(weft__cord *c, weft__passage *p, const void *item,
                                    weft__where end)
{
    if (UNLIKELY(p->is_closed))
        return -EPIPE;
    weft__waiter *w = weft__line_next(&p->receivers);
    if (w != NULL) {
        weft__passage_deliver(c, p, w, item);
        return 0;
    }
    if (p->count >= p->limit)
        return -EAGAIN;
    if (UNLIKELY(p->count + p->reserved >= p->room)) {
        int rc = weft__passage_make_room(p, 1);
        if (rc < 0)
            return rc;
    }
    weft__passage_store(p, item, end);
    return 0;
}

/* Store a value for which the ring has no room. 0 or -ENOMEM. */
int weft__passage_grow_for(weft__passage *p, weft_value value);

/* The same with a value. The passage is one of values, its first receiver is not contested. */
__attribute__((always_inline)) static inline int
weft__passage_put_value(weft__cord *c, weft__passage *p, weft_value value)
{
    if (UNLIKELY(p->is_closed))
        return -EPIPE;
    weft__waiter *w = p->receivers.first;
    if (w != NULL) {
        if (UNLIKELY(w->data != NULL)) {
            memcpy(w->data, &value, sizeof value);
            value = 0;
        }
        weft__serve(c, w, value);
        return 0;
    }
    if (p->count >= p->limit)
        return -EAGAIN;
    if (UNLIKELY(p->count + p->reserved >= p->room))
        return weft__passage_grow_for(p, value);
    *weft__passage_value_at(p, p->count++) = value;
    return 0;
}

/* The same whatever the limit. 0 or -ENOMEM. The passage is not closed. */
int weft__passage_force(weft__cord *c, weft__passage *p, const void *item);

/* Those who wait to send, as far as there is room now. */
void weft__passage_admit(weft__cord *c, weft__passage *p);

/* Take an item out, if one is there. 0; -EAGAIN: it is empty; -EPIPE: and closed. */
static inline int weft__passage_take(weft__cord *c, weft__passage *p, void *out)
{
    if (LIKELY(p->count > 0)) {
        weft__passage_copy(p, out, weft__passage_at(p, 0));
        p->head++;
        p->count--;
        if (UNLIKELY(p->senders.first != NULL))
            weft__passage_admit(c, p);
        return 0;
    }
    weft__waiter *sender = weft__line_next(&p->senders);
    if (sender != NULL) { /* a rendezvous */
        weft__passage_copy(p, out, sender->data);
        weft__serve(c, sender, 0);
        return 0;
    }
    return p->is_closed ? -EPIPE : -EAGAIN;
}

/* Take a value out of a passage that holds some, and let those in who wait. */
weft_value weft__passage_take_and_admit(weft__cord *c, weft__passage *p);

/*
 * The same as take for a passage of values: returns the value or the error. The first sender is not
 * contested.
 */
static inline weft_value weft__passage_take_value(weft__cord *c, weft__passage *p)
{
    weft__waiter *sender = p->senders.first;
    if (LIKELY(p->count > 0)) {
        if (UNLIKELY(sender != NULL))
            return weft__passage_take_and_admit(c, p);
        p->count--;
        return ((weft_value *)(void *)p->ring)[p->head++ & (p->room - 1)];
    }
    if (sender != NULL) { /* a rendezvous */
        weft_value value;
        memcpy(&value, sender->data, sizeof value);
        weft__serve(c, sender, 0);
        return value;
    }
    return p->is_closed ? -EPIPE : -EAGAIN;
}

/*
 * Would put, or take, not have to wait? If those who wait are contested, it may turn out that they
 * would.
 */
static inline bool weft__passage_can_put(const weft__passage *p)
{
    return p->is_closed || p->receivers.first != NULL || p->count < p->limit;
}

static inline bool weft__passage_can_take(const weft__passage *p)
{
    return p->is_closed || p->count > 0 || p->senders.first != NULL;
}

/* The current fiber, whose alarm is not set, waits to send an item; what it is stays in place. */
static inline int weft__passage_wait_put_item(weft__cord *c, weft__passage *p, const void *item,
                                              weft__where end, const weft__wait_kind *kind)
{
    weft__waiter *w = &c->current->life->waiter;
    w->data = (void *)(uintptr_t)item; /* it is only read */
    w->how = end;
    return weft__line_wait_int(c, &p->senders, kind, p);
}

/* The same with a value, which is kept beside the waiter. */
static inline int weft__passage_wait_put(weft__cord *c, weft__passage *p, weft_value value,
                                         weft__where end, const weft__wait_kind *kind)
{
    weft__waiter *w = &c->current->life->waiter;
    w->value = value;
    return weft__passage_wait_put_item(c, p, &w->value, end, kind);
}

/* The current fiber, whose alarm is not set, waits to receive an item. */
static inline int weft__passage_wait_take_item(weft__cord *c, weft__passage *p, void *out,
                                               const weft__wait_kind *kind)
{
    c->current->life->waiter.data = out;
    return weft__line_wait_int(c, &p->receivers, kind, p);
}

/* The same for a value. */
static inline weft_value weft__passage_wait_take(weft__cord *c, weft__passage *p,
                                                 const weft__wait_kind *kind)
{
    c->current->life->waiter.data = NULL;
    return weft__line_wait(c, &p->receivers, kind, p);
}

#endif
