/*
 * The reserve of a cord: ids, with free records, for fibers that other threads make. A sender takes
 * an id under the lock; the cord puts records back when the fibers arrive.
 */
#include "core/cord.h"

#include <stdlib.h>

/* Room for so many ids. The lock is held. False: no memory. */
static bool widen(weft__reserve *r, unsigned room)
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

/* New records are the reserve. */
COLD static int fill(weft__cord *c)
{
    weft__fiber *chunk;
    c->reserve.is_short = c->reserve.room > 0;
    if (!widen(&c->reserve, WEFT__CHUNK_FIBERS))
        return -ENOMEM;
    int rc = weft__cord_new_chunk(c, &chunk);
    for (uint32_t i = 0; rc == 0 && i < WEFT__CHUNK_FIBERS; i++)
        c->reserve.ids[c->reserve.count++] = weft__id_new(&chunk[i]);
    return rc;
}

int weft__reserve_take(weft__cord *c, weft_fiber *out)
{
    pthread_mutex_lock(&c->reserve.lock);
    int rc = c->reserve.count == 0 ? fill(c) : 0;
    if (rc == 0) {
        *out = c->reserve.ids[--c->reserve.count];
        atomic_fetch_add(&c->reserve.under_way, 1);
    }
    pthread_mutex_unlock(&c->reserve.lock);
    return rc;
}

/*
 * Put in one record for the one that was used. If senders have used up all of them, keep more from
 * now on, and put in many: else a sender that finds none would add new records, while those that
 * are free here pile up. Without a free record it is left to the next sender.
 */
void weft__reserve_refill(weft__cord *c)
{
    if (weft__list_is_empty(&c->bare))
        return;
    weft__reserve *r = &c->reserve;
    pthread_mutex_lock(&r->lock);
    if (r->is_short && r->room < WEFT__REMOTE_PENDING_MAX)
        (void)widen(r, 4 * r->room); /* without memory it stays as it is */
    r->is_short = false;
    unsigned more = r->room > WEFT__CHUNK_FIBERS ? WEFT__CHUNK_FIBERS : 1;
    for (; more > 0 && r->count < r->room && !weft__list_is_empty(&c->bare); more--)
        r->ids[r->count++] = weft__id_new(weft__fiber_of_sibling(weft__list_pop(&c->bare)));
    pthread_mutex_unlock(&r->lock);
}
