/* The rarer parts of a passage: its ring grows, its limit changes, it is cleared and closed. */
#include "core/passage.h"

#include <stdlib.h>

/* The first ring is a cache line of values; of items that are larger, at least that many bytes. */
#define ROOM_MIN 8
#define BYTES_MIN (ROOM_MIN * sizeof(weft_value))

static size_t room_for(size_t items, size_t item_bytes)
{
    size_t room = 1;
    while (room < ROOM_MIN && room * item_bytes < BYTES_MIN)
        room *= 2;
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
    size_t room = room_for(wanted, p->item_bytes);
    if (room < wanted || __builtin_mul_overflow(room, p->item_bytes, &bytes))
        return -ENOMEM;
    char *ring = malloc(bytes != 0 ? bytes : 1);
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
    weft__waiter *w;
    while (p->count < p->limit && (w = weft__line_next(&p->senders)) != NULL) {
        weft__passage_store(p, w->data, w->how);
        weft__serve(c, w, 0);
    }
}

int weft__passage_grow_for(weft__passage *p, weft_value value)
{
    int rc = weft__passage_make_room(p, 1);
    if (rc == 0)
        weft__passage_store(p, &value, WEFT__TAIL);
    return rc;
}

weft_value weft__passage_take_and_admit(weft__cord *c, weft__passage *p)
{
    weft_value value;
    int rc = weft__passage_take(c, p, &value);
    return rc == 0 ? value : rc;
}

int weft__passage_force(weft__cord *c, weft__passage *p, const void *item)
{
    weft__waiter *w = weft__line_next(&p->receivers);
    if (w != NULL) {
        weft__passage_deliver(c, p, w, item);
        return 0;
    }
    int rc = weft__passage_make_room(p, 1);
    if (rc == 0)
        weft__passage_store(p, item, WEFT__TAIL);
    return rc;
}

int weft__passage_set_limit(weft__cord *c, weft__passage *p, size_t limit)
{
    size_t open = limit > p->count ? limit - p->count : 0, admitted = 0;
    const weft__waiter *w = p->senders.first;
    for (; w != NULL && admitted < open; w = weft__line_after(w))
        admitted++;
    int rc = weft__passage_make_room(p, admitted);
    if (rc < 0)
        return rc;
    p->limit = limit;
    weft__passage_update(p);
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
    weft__passage_update(p);
    weft__serve_all(c, &p->senders, -EPIPE);
    weft__serve_all(c, &p->receivers, -EPIPE);
}

void weft__passage_free(weft__passage *p)
{
    free(p->ring);
    p->ring = NULL;
    p->room = p->count = 0;
}

size_t weft__passage_take_all(weft__cord *c, weft__passage *p, void *out, size_t n)
{
    if (n > p->count)
        n = p->count;
    for (size_t i = 0; i < n; i++)
        weft__passage_copy(p, (char *)out + i * p->item_bytes, weft__passage_at(p, i));
    p->head += n;
    p->count -= n;
    weft__passage_admit(c, p);
    return n;
}
