/*
 * The cold half of the run queue: room, and what touches entries in the middle.
 *
 * The ring has at least twice as many entries as fibers were reserved, and at most half of them
 * are holes: so there is always room to push. When a removal makes the holes too many they are
 * squeezed out, which the removals before it pay for: O(1) each.
 */
#include "core/runqueue.h"

#include <errno.h>
#include <stdlib.h>

/* Entries of a new ring: four cache lines, enough for a thread with a handful of fibers. */
#define CAPACITY_MIN 32
/* What places (32 bits, from 1) and the free-running counters can tell apart. */
#define CAPACITY_MAX ((size_t)1 << 31)

int weft__runqueue_init(weft__runqueue *q)
{
    *q = (weft__runqueue){.ring = calloc(CAPACITY_MIN, sizeof *q->ring), .mask = CAPACITY_MIN - 1};
    return q->ring != NULL ? 0 : -ENOMEM;
}

void weft__runqueue_close(weft__runqueue *q)
{
    free(q->ring);
    *q = (weft__runqueue){0};
}

/*
 * Write the entries that are not empty to `ring`, one after the other from `to` on. The ring may be
 * the queue's own, if `to` is its head: no entry is written over before it was read.
 */
static void pack(weft__runqueue *q, weft__runnable **ring, uint32_t mask, uint32_t to)
{
    uint32_t head = to;
    for (uint32_t from = q->head; from != q->tail; from++) {
        weft__runnable *r = q->ring[from & q->mask];
        if (r == NULL)
            continue;
        ring[to & mask] = r;
        r->place = (to & mask) + 1;
        to++;
    }
    q->head = head;
    q->tail = to;
    q->holes = 0;
}

int weft__runqueue_reserve(weft__runqueue *q, size_t fibers)
{
    size_t capacity = (size_t)q->mask + 1;
    if (fibers <= capacity / 2)
        return 0;
    if (fibers > CAPACITY_MAX / 2)
        return -ENOMEM;
    while (capacity / 2 < fibers)
        capacity *= 2;
    weft__runnable **ring = calloc(capacity, sizeof *ring);
    if (ring == NULL)
        return -ENOMEM;
    pack(q, ring, (uint32_t)(capacity - 1), 0);
    free(q->ring);
    q->ring = ring;
    q->mask = (uint32_t)(capacity - 1);
    return 0;
}

static void compact(weft__runqueue *q)
{
    pack(q, q->ring, q->mask, q->head);
}

void weft__runqueue_remove(weft__runqueue *q, weft__runnable *r)
{
    q->ring[r->place - 1] = NULL;
    r->place = 0;
    if (++q->holes > q->mask / 2)
        compact(q);
}

void weft__runqueue_shuffle(weft__runqueue *q, uint64_t random)
{
    if (q->holes > 0)
        compact(q);
    /* The old head takes the chosen one's place: with random choices any order will do. */
    uint32_t head = q->head & q->mask;
    uint32_t chosen = (q->head + (uint32_t)(random % (q->tail - q->head))) & q->mask;
    weft__runnable *r = q->ring[chosen];
    q->ring[chosen] = q->ring[head];
    q->ring[chosen]->place = chosen + 1;
    q->ring[head] = r;
    r->place = head + 1;
}
