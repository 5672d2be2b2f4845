/*
 * The slow operations of the run queue: reserve space, remove entries, move entries.
 *
 * The capacity of the ring is at least twice the number of reserved fibers. At most half of the
 * entries are holes, so a push always finds a free entry. If a removal exceeds this limit, the
 * removal compacts the ring. Compaction is rare, so a removal takes amortised O(1) time.
 */
#include "core/sched/runqueue.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Entries of a new ring. The ring then has four cache lines, which is enough for a thread with a
 * few fibers.
 */
#define CAPACITY_MIN 32
/*
 * The limit of queue indexes, which have 32 bits and start at 1, and of the free-running counters.
 */
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
 * Write all entries except holes to `ring`, starting at index `to`. `ring` may be the ring of the
 * queue if `to` is the head of the queue. In this case, no entry is overwritten before it is read.
 */
static void ring_pack(weft__runqueue *q, weft__runnable **ring, uint32_t mask, uint32_t to)
{
    uint32_t head = to;
    for (uint32_t from = q->head; from != q->tail; from++) {
        weft__runnable *r = q->ring[from & q->mask];
        if (r == NULL)
            continue;
        ring[to & mask] = r;
        r->queue_index = (to & mask) + 1;
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
    ring_pack(q, ring, (uint32_t)(capacity - 1), 0);
    free(q->ring);
    q->ring = ring;
    q->mask = (uint32_t)(capacity - 1);
    return 0;
}

static void ring_compact(weft__runqueue *q)
{
    ring_pack(q, q->ring, q->mask, q->head);
}

void weft__runqueue_remove(weft__runqueue *q, weft__runnable *r)
{
    q->ring[r->queue_index - 1] = NULL;
    r->queue_index = 0;
    if (++q->holes > q->mask / 2)
        ring_compact(q);
}

void weft__runqueue_shuffle(weft__runqueue *q, uint64_t random)
{
    if (q->holes > 0)
        ring_compact(q);
    /*
     * Swap the chosen entry with the head. This changes the order of the other entries, which is
     * irrelevant because every choice is random.
     */
    uint32_t head = q->head & q->mask;
    uint32_t chosen = (q->head + (uint32_t)(random % (q->tail - q->head))) & q->mask;
    weft__runnable *r = q->ring[chosen];
    q->ring[chosen] = q->ring[head];
    q->ring[chosen]->queue_index = chosen + 1;
    q->ring[head] = r;
    r->queue_index = head + 1;
}
