/*
 * The run queue: a growable ring of fibers, first in first out, with a way to the front.
 *
 * A fiber is on it at most once and knows its place, so it can be moved or taken out in O(1): the
 * place is emptied and skipped later. Room is made when fibers are made (reserve), so pushing
 * cannot fail. The value that a fiber is resumed with is kept in the fiber.
 */
#ifndef WEFT_CORE_RUNQUEUE_H
#define WEFT_CORE_RUNQUEUE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the queue keeps in each of its entries' owners; embedded in a fiber. */
typedef struct weft__runnable {
    uint32_t place; /* 1 + index in the ring; 0: not queued */
} weft__runnable;

typedef struct weft__runqueue {
    weft__runnable **ring; /* NULL entries were taken out; capacity is a power of two */
    uint32_t head;         /* of the next to run; free-running */
    uint32_t mask;         /* capacity - 1; between the two, or gcc makes a slow vector of them */
    uint32_t tail;         /* of the next free entry; free-running. tail - head <= capacity */
    uint32_t holes;        /* empty entries between head and tail; at most half of the ring */
    uint32_t count_max;    /* the most fibers there were since it was reset */
} weft__runqueue;

/* Returns 0 or -ENOMEM. */
int weft__runqueue_init(weft__runqueue *q);
void weft__runqueue_close(weft__runqueue *q);

/*
 * Make sure that `fibers` fibers can be queued at once. Returns 0 or -ENOMEM; nothing has changed
 * then.
 */
int weft__runqueue_reserve(weft__runqueue *q, size_t fibers);

/* Take an entry out of the middle. It must be queued. */
void weft__runqueue_remove(weft__runqueue *q, weft__runnable *r);

/* Move a random entry to the head; random is any number. For sim. The queue must not be empty. */
void weft__runqueue_shuffle(weft__runqueue *q, uint64_t random);

/* How many fibers are queued. */
static inline uint32_t weft__runqueue_count(const weft__runqueue *q)
{
    return q->tail - q->head - q->holes;
}

/* Without a branch, as all on the way to a switch (sched.c). */
static inline void weft__runqueue_note(weft__runqueue *q)
{
    uint32_t count = weft__runqueue_count(q);
    q->count_max = count > q->count_max ? count : q->count_max;
}

/* Queue at the tail. Returns the place, which the caller puts into r. */
static inline uint32_t weft__runqueue_add(weft__runqueue *q, weft__runnable *r)
{
    uint32_t at = q->tail++ & q->mask;
    q->ring[at] = r;
    weft__runqueue_note(q);
    return at + 1;
}

/* Queue at the tail. It must not be queued. */
static inline void weft__runqueue_push(weft__runqueue *q, weft__runnable *r)
{
    r->place = weft__runqueue_add(q, r);
}

/* Queue at the head. It must not be queued. */
static inline void weft__runqueue_push_front(weft__runqueue *q, weft__runnable *r)
{
    uint32_t at = --q->head & q->mask;
    q->ring[at] = r;
    r->place = at + 1;
    weft__runqueue_note(q);
}

/* The next to run, taken out; NULL if there is none. */
static inline weft__runnable *weft__runqueue_pop(weft__runqueue *q)
{
    while (LIKELY(q->head != q->tail)) {
        weft__runnable *r = q->ring[q->head++ & q->mask];
        if (LIKELY(r != NULL)) {
            r->place = 0;
            return r;
        }
        q->holes--;
    }
    return NULL;
}

/* The next to run; NULL: none, or that would have to be looked for. Without a branch. */
static inline weft__runnable *weft__runqueue_first(const weft__runqueue *q)
{
    uintptr_t is_any = q->head != q->tail;
    return (weft__runnable *)((uintptr_t)q->ring[q->head & q->mask] & -is_any);
}

/* Take out the first, r. */
static inline void weft__runqueue_take_first(weft__runqueue *q, weft__runnable *r)
{
    q->head++;
    r->place = 0;
}

/*
 * Take out the first, r, and queue the running fiber at the tail. There is room: for it, and for
 * all that are reserved beside the holes.
 */
static inline void weft__runqueue_rotate(weft__runqueue *q, weft__runnable *self, weft__runnable *r)
{
    uint32_t at = q->tail & q->mask;
    weft__runnable **ring = q->ring;
    q->head++;
    q->tail++;
    ring[at] = self;
    self->place = at + 1;
    r->place = 0;
}

static inline bool weft__runnable_is_queued(const weft__runnable *r)
{
    return r->place != 0;
}

#endif
