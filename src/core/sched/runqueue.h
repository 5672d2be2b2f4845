/*
 * The run queue: a growable ring of runnable fibers, in FIFO order. A fiber can also be queued at
 * the head.
 *
 * A fiber is queued at most once and stores its index. Therefore removing or moving a fiber takes
 * O(1) time. A removal leaves a hole, which a later pop skips. Creating a fiber reserves an entry
 * for the fiber, so a push cannot fail. The record of a fiber stores the value with which the fiber
 * resumes.
 */
#ifndef WEFT_CORE_SCHED_RUNQUEUE_H
#define WEFT_CORE_SCHED_RUNQUEUE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The data of the run queue in each fiber. */
typedef struct weft__runnable {
    uint32_t queue_index; /* 1 + index in the ring; 0: not queued */
} weft__runnable;

typedef struct weft__runqueue {
    weft__runnable **ring; /* a NULL entry is a hole; the capacity is a power of two */
    uint32_t mask;         /* capacity - 1 */
    uint32_t head;         /* index of the next fiber to run; free-running */
    uint32_t tail;         /* index of the next free entry; free-running; tail - head <= capacity */
    uint32_t holes;        /* holes between head and tail; at most half of the ring */
    uint32_t count_max;    /* maximal number of queued fibers so far */
} weft__runqueue;

/*
 * Allocate the first ring.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__runqueue_init(weft__runqueue *q);
void weft__runqueue_close(weft__runqueue *q);

/*
 * Reserve space for `fibers` queued fibers. On failure, nothing has changed.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__runqueue_reserve(weft__runqueue *q, size_t fibers);

/* Remove a queued entry, at any position. */
void weft__runqueue_remove(weft__runqueue *q, weft__runnable *r);

/*
 * Move a random entry to the head, for the sim backend. `random` may be any number. The queue must
 * not be empty.
 */
void weft__runqueue_shuffle(weft__runqueue *q, uint64_t random);

/* Return the number of queued fibers. */
static inline uint32_t weft__runqueue_count(const weft__runqueue *q)
{
    return q->tail - q->head - q->holes;
}

static inline void weft__runqueue_update_max(weft__runqueue *q)
{
    uint32_t count = weft__runqueue_count(q);
    q->count_max = count > q->count_max ? count : q->count_max;
}

/*
 * Queue an entry at the tail. The entry must not be queued. Without the forced inlining: snooze 1
 * +5 % instructions (docs/adr/0070).
 */
__attribute__((always_inline)) static inline void weft__runqueue_push(weft__runqueue *q,
                                                                      weft__runnable *r)
{
    uint32_t index = q->tail++ & q->mask;
    q->ring[index] = r;
    r->queue_index = index + 1;
    weft__runqueue_update_max(q);
}

/* Queue an entry at the head. The entry must not be queued. */
static inline void weft__runqueue_push_front(weft__runqueue *q, weft__runnable *r)
{
    uint32_t index = --q->head & q->mask;
    q->ring[index] = r;
    r->queue_index = index + 1;
    weft__runqueue_update_max(q);
}

/* Remove and return the next entry to run. Return NULL if the queue is empty. */
static inline weft__runnable *weft__runqueue_pop(weft__runqueue *q)
{
    while (LIKELY(q->head != q->tail)) {
        weft__runnable *r = q->ring[q->head++ & q->mask];
        if (LIKELY(r != NULL)) {
            r->queue_index = 0;
            return r;
        }
        q->holes--;
    }
    return NULL;
}

/* Return the next entry to run. Return NULL if the queue is empty or begins with a hole. */
static inline weft__runnable *weft__runqueue_first(const weft__runqueue *q)
{
    return q->head != q->tail ? q->ring[q->head & q->mask] : NULL;
}

/* Remove r, which must be the first entry. */
static inline void weft__runqueue_take_first(weft__runqueue *q, weft__runnable *r)
{
    q->head++;
    r->queue_index = 0;
}

/*
 * Remove r, and queue self at the tail. r must be the first entry. self must be the running fiber
 * or a waiting fiber, so an entry is reserved for self.
 */
static inline void weft__runqueue_rotate(weft__runqueue *q, weft__runnable *self, weft__runnable *r)
{
    uint32_t index = q->tail & q->mask;
    weft__runnable **ring = q->ring;
    q->head++;
    q->tail++;
    ring[index] = self;
    self->queue_index = index + 1;
    r->queue_index = 0;
}

static inline bool weft__runnable_is_queued(const weft__runnable *r)
{
    return r->queue_index != 0;
}

#endif
