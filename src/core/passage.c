/* The rarer parts of a passage: its ring grows, its limit changes, it is cleared and closed. */
#include "core/passage.h"

#include <stdlib.h>

/* Items in the first ring: a cache line of values. */
#define ROOM_MIN 8

static size_t room_for(size_t items)
{
    size_t room = ROOM_MIN;
    while (room < items && room <= SIZE_MAX / 4)
        room *= 2;
    return room;
}

int weft__passage_make_room(weft__passage *p, size_t items)
{
    size_t wanted, bytes;
    if (__builtin_add_overflow(p->count + p->reserved, items, &wanted))
        return -ENOMEM;
    if (wanted <= p->room)
        return 0;
    size_t room = room_for(wanted);
    if (room < wanted || __builtin_mul_overflow(room, p->item_bytes, &bytes))
        return -ENOMEM;
    char *ring = malloc(bytes);
    if (ring == NULL)
        return -ENOMEM;
    /* In one piece or two: up to the end of the old ring, and from its beginning. */
    size_t at = p->room > 0 ? p->head & (p->room - 1) : 0;
    size_t first = p->count < p->room - at ? p->count : p->room - at;
    if (p->count > 0) {
        memcpy(ring, p->ring + at * p->item_bytes, first * p->item_bytes);
        memcpy(ring + first * p->item_bytes, p->ring, (p->count - first) * p->item_bytes);
    }
    free(p->ring);
    p->ring = ring;
    p->room = room;
    p->head = 0;
    return 0;
}

void weft__passage_admit(weft__cord *c, weft__passage *p)
{
    while (p->senders.first != NULL && p->count < p->limit) {
        weft__waiter *w = p->senders.first;
        if (UNLIKELY(p->count + p->reserved >= p->room) && weft__passage_make_room(p, 1) < 0)
            return; /* it waits on, until there is room or memory */
        weft__passage_store(p, w->data, w->how);
        weft__serve(c, w, 0);
    }
}

int weft__passage_force(weft__cord *c, weft__passage *p, const void *item)
{
    if (p->receivers.first != NULL) {
        weft__passage_deliver(c, p, p->receivers.first, item);
        return 0;
    }
    int rc = weft__passage_make_room(p, 1);
    if (rc == 0)
        weft__passage_store(p, item, WEFT__BACK);
    return rc;
}

int weft__passage_set_limit(weft__cord *c, weft__passage *p, size_t limit)
{
    size_t waiting = 0;
    for (const weft__waiter *w = p->senders.first; w != NULL; w = weft__line_after(w))
        waiting++;
    size_t open = limit > p->count ? limit - p->count : 0;
    int rc = weft__passage_make_room(p, waiting < open ? waiting : open);
    if (rc < 0)
        return rc;
    p->limit = limit;
    weft__passage_admit(c, p);
    return 0;
}

void weft__passage_clear(weft__cord *c, weft__passage *p)
{
    p->count = 0;
    weft__passage_admit(c, p);
}

void weft__passage_close(weft__cord *c, weft__passage *p)
{
    p->is_closed = true;
    weft__serve_all(c, &p->senders, -EPIPE);
    weft__serve_all(c, &p->receivers, -EPIPE);
}

void weft__passage_free(weft__passage *p)
{
    free(p->ring);
    p->ring = NULL;
    p->room = p->count = 0;
}

void weft__passage_delete(weft__cord *c, weft__passage *p, size_t i)
{
    for (; i > 0; i--)
        weft__passage_copy(p, weft__passage_at(p, i), weft__passage_at(p, i - 1));
    p->head++;
    p->count--;
    weft__passage_admit(c, p);
}
