/* The id reserve of a cord. See id_reserve.h. */
#include "core/cord/cord.h"

#include <stdlib.h>

/*
 * Grow the array to `capacity` ids. The caller must hold the lock. Return false if memory is
 * exhausted.
 */
static bool id_reserve_widen(weft__id_reserve *r, unsigned capacity)
{
    if (capacity <= r->room)
        return true;
    weft_fiber *ids = realloc(r->ids, capacity * sizeof *ids);
    if (ids == NULL)
        return false;
    r->ids = ids;
    r->room = capacity;
    return true;
}

/*
 * Add the ids of a chunk of new records to the reserve. The reserve must be empty, and the caller
 * must hold the lock.
 */
COLD static int id_reserve_fill(weft__cord *c)
{
    weft__fiber *chunk;
    c->id_reserve.was_empty = c->id_reserve.room > 0;
    if (!id_reserve_widen(&c->id_reserve, WEFT__CHUNK_FIBERS))
        return -ENOMEM;
    int rc = weft__cord_new_chunk(c, &chunk);
    for (uint32_t i = 0; rc == 0 && i < WEFT__CHUNK_FIBERS; i++)
        c->id_reserve.ids[c->id_reserve.count++] = weft__id_new(&chunk[i]);
    return rc;
}

int weft__id_reserve_take(weft__cord *c, weft_fiber *out)
{
    pthread_mutex_lock(&c->id_reserve.lock);
    int rc = c->id_reserve.count == 0 ? id_reserve_fill(c) : 0;
    if (rc == 0) {
        *out = c->id_reserve.ids[--c->id_reserve.count];
        atomic_fetch_add(&c->id_reserve.in_flight, 1);
    }
    pthread_mutex_unlock(&c->id_reserve.lock);
    return rc;
}

/*
 * Replace the id that a sender took. If a sender found the reserve empty, enlarge the reserve and
 * add the ids of many free records. Otherwise, senders would create new records although the cord
 * has many free records. If the cord has no free record, the next sender creates a chunk.
 */
void weft__id_reserve_refill(weft__cord *c)
{
    if (weft__list_is_empty(&c->uncached))
        return;
    weft__id_reserve *r = &c->id_reserve;
    pthread_mutex_lock(&r->lock);
    if (r->was_empty && r->room < WEFT__REMOTE_PENDING_MAX)
        (void)id_reserve_widen(r, 4 * r->room); /* on failure, the size does not change */
    r->was_empty = false;
    unsigned more = r->room > WEFT__CHUNK_FIBERS ? WEFT__CHUNK_FIBERS : 1;
    for (; more > 0 && r->count < r->room && !weft__list_is_empty(&c->uncached); more--)
        r->ids[r->count++] = weft__id_new(weft__fiber_of_sibling(weft__list_pop(&c->uncached)));
    pthread_mutex_unlock(&r->lock);
}
