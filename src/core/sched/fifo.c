/*
 * The slow operations of a FIFO: grow, change the limit, clear, close. The fast operations are in
 * fifo.h.
 */
#include "core/sched/fifo.h"

#include <stdlib.h>

/*
 * The first ring holds 8 items. If the items are larger than a weft_value, the first ring holds
 * fewer items in at least BYTES_MIN bytes.
 */
#define CAPACITY_MIN 8
#define BYTES_MIN (CAPACITY_MIN * sizeof(weft_value))

static size_t capacity_for(size_t items, size_t item_bytes)
{
    size_t capacity = 1;
    while (capacity < CAPACITY_MIN && capacity * item_bytes < BYTES_MIN)
        capacity *= 2;
    while (capacity < items && capacity <= SIZE_MAX / 4)
        capacity *= 2;
    return capacity;
}

int weft__fifo_make_room(weft__fifo *p, size_t items)
{
    size_t wanted, bytes;
    if (__builtin_add_overflow(p->count + p->reserved, items, &wanted))
        return -ENOMEM;
    if (wanted <= p->capacity)
        return 0;
    size_t capacity = capacity_for(wanted, p->item_bytes);
    if (capacity < wanted || __builtin_mul_overflow(capacity, p->item_bytes, &bytes))
        return -ENOMEM;
    char *ring = malloc(bytes != 0 ? bytes : 1);
    if (ring == NULL)
        return -ENOMEM;
    /* The items may wrap around at the end of the old ring, so copy them in two parts. */
    size_t at = p->capacity > 0 ? p->head & (p->capacity - 1) : 0;
    size_t first = p->count < p->capacity - at ? p->count : p->capacity - at;
    if (p->count > 0) {
        memcpy(ring, p->ring + at * p->item_bytes, first * p->item_bytes);
        memcpy(ring + first * p->item_bytes, p->ring, (p->count - first) * p->item_bytes);
    }
    free(p->ring);
    p->ring = ring;
    p->capacity = capacity;
    p->head = 0;
    return 0;
}

void weft__fifo_admit(weft__cord *c, weft__fifo *p)
{
    weft__waiter *w;
    while (p->count < p->limit && (w = weft__waitq_next(&p->senders)) != NULL) {
        weft__fifo_store(p, w->data, w->how);
        weft__waitq_wake(c, w, 0);
    }
}

int weft__fifo_grow_and_store(weft__fifo *p, weft_value value)
{
    int rc = weft__fifo_make_room(p, 1);
    if (rc == 0)
        weft__fifo_store(p, &value, WEFT__TAIL);
    return rc;
}

weft_value weft__fifo_take_and_admit(weft__cord *c, weft__fifo *p)
{
    weft_value value;
    int rc = weft__fifo_take(c, p, &value);
    return rc == 0 ? value : rc;
}

int weft__fifo_force(weft__cord *c, weft__fifo *p, const void *item)
{
    weft__waiter *w = weft__waitq_next(&p->receivers);
    if (w != NULL) {
        weft__fifo_deliver(c, p, w, item);
        return 0;
    }
    int rc = weft__fifo_make_room(p, 1);
    if (rc == 0)
        weft__fifo_store(p, item, WEFT__TAIL);
    return rc;
}

int weft__fifo_set_limit(weft__cord *c, weft__fifo *p, size_t limit)
{
    size_t slots_free = limit > p->count ? limit - p->count : 0, admitted = 0;
    const weft__waiter *w = p->senders.first;
    for (; w != NULL && admitted < slots_free; w = weft__waitq_after(w))
        admitted++;
    int rc = weft__fifo_make_room(p, admitted);
    if (rc < 0)
        return rc;
    p->limit = limit;
    weft__fifo_admit(c, p);
    return 0;
}

void weft__fifo_clear(weft__cord *c, weft__fifo *p)
{
    p->count = 0;
    weft__fifo_admit(c, p);
}

void weft__fifo_close(weft__cord *c, weft__fifo *p)
{
    p->is_closed = true;
    weft__waitq_wake_all(c, &p->senders, -EPIPE);
    weft__waitq_wake_all(c, &p->receivers, -EPIPE);
}

void weft__fifo_free(weft__fifo *p)
{
    free(p->ring);
    p->ring = NULL;
    p->capacity = p->count = 0;
}

size_t weft__fifo_take_all(weft__cord *c, weft__fifo *p, void *out, size_t n)
{
    if (n > p->count)
        n = p->count;
    for (size_t i = 0; i < n; i++)
        weft__fifo_copy(p, (char *)out + i * p->item_bytes, weft__fifo_at(p, i));
    p->head += n;
    p->count -= n;
    weft__fifo_admit(c, p);
    return n;
}
