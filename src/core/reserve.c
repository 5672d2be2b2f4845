/*
 * The reserve of a cord: ids, with free records, for fibers that other threads make. A sender takes
 * an id under the lock; the cord puts records back when the fibers arrive.
 */
#include "core/cord.h"

#include <stdlib.h>

/* Make room for so many ids. The lock is held. False: no memory. */
static bool reserve_widen(weft__reserve *r, unsigned room)
{
    if (room <= r->room)
        return true;
    weft_fiber *ids = realloc(r->ids, room * sizeof *ids);
    if (ids == NULL)
        return false;
    r->ids = ids;
    r->room = room;
    return true;
}

/* Add a chunk of new records. The lock is held. */
COLD static int reserve_fill(weft__cord *c)
{
    weft__fiber *chunk;
    c->reserve.is_short = c->reserve.room > 0;
    if (!reserve_widen(&c->reserve, WEFT__CHUNK_FIBERS))
        return -ENOMEM;
    int rc = weft__cord_new_chunk(c, &chunk);
    for (uint32_t i = 0; rc == 0 && i < WEFT__CHUNK_FIBERS; i++)
        c->reserve.ids[c->reserve.count++] = weft__id_new(&chunk[i]);
    return rc;
}

int weft__reserve_take(weft__cord *c, weft_fiber *out)
{
    pthread_mutex_lock(&c->reserve.lock);
    int rc = c->reserve.count == 0 ? reserve_fill(c) : 0;
    if (rc == 0) {
        *out = c->reserve.ids[--c->reserve.count];
        atomic_fetch_add(&c->reserve.under_way, 1);
    }
    pthread_mutex_unlock(&c->reserve.lock);
    return rc;
}

/*
 * Add a record for the one that was used. If senders found the reserve empty, make it larger and
 * add many: otherwise senders would create new records while free ones pile up here. If no record
 * is free, the next sender creates some.
 */
void weft__reserve_refill(weft__cord *c)
{
    if (weft__list_is_empty(&c->bare))
        return;
    weft__reserve *r = &c->reserve;
    pthread_mutex_lock(&r->lock);
    if (r->is_short && r->room < WEFT__REMOTE_PENDING_MAX)
        (void)reserve_widen(r, 4 * r->room); /* without memory it stays as it is */
    r->is_short = false;
    unsigned more = r->room > WEFT__CHUNK_FIBERS ? WEFT__CHUNK_FIBERS : 1;
    for (; more > 0 && r->count < r->room && !weft__list_is_empty(&c->bare); more--)
        r->ids[r->count++] = weft__id_new(weft__fiber_of_sibling(weft__list_pop(&c->bare)));
    pthread_mutex_unlock(&r->lock);
}
