/* Memory and copies of the rings of traced cords. See ring.h. */
#include "core/trace/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

weft__trace_ring *weft__trace_ring_new(size_t records)
{
    weft__trace_ring *ring = calloc(1, sizeof *ring);
    if (ring == NULL)
        return NULL;
    size_t capacity = 1;
    while (capacity < records)
        capacity *= 2;
    /* Not calloc: the kernel allocates pages only when the cord writes to them. */
    ring->records = malloc(capacity * sizeof *ring->records);
    if (ring->records == NULL) {
        free(ring);
        return NULL;
    }
    ring->mask = capacity - 1;
    atomic_init(&ring->refs, 1);
    return ring;
}

void weft__trace_ring_ref(weft__trace_ring *ring)
{
    atomic_fetch_add_explicit(&ring->refs, 1, memory_order_relaxed);
}

void weft__trace_ring_unref(weft__trace_ring *ring)
{
    if (atomic_fetch_sub_explicit(&ring->refs, 1, memory_order_acq_rel) > 1)
        return;
    free(ring->records);
    free(ring->names);
    free(ring);
}

uint64_t weft__trace_ring_dropped(weft__trace_ring *ring)
{
    uint64_t count = atomic_load_explicit(&ring->count, memory_order_acquire);
    return count > ring->mask + 1 ? count - ring->mask - 1 : 0;
}

ssize_t weft__trace_ring_copy(weft__trace_ring *ring, bool is_done, weft__trace_record **out)
{
    uint64_t end = atomic_load_explicit(&ring->count, memory_order_acquire);
    uint64_t capacity = ring->mask + 1, begin = end > capacity ? end - capacity : 0;
    weft__trace_record *copy = malloc((size_t)(end - begin + 1) * sizeof *copy);
    if (copy == NULL)
        return -ENOMEM;
    for (uint64_t i = begin; i < end; i++)
        for (int j = 0; j < WEFT__TRACE_WORDS; j++)
            copy[i - begin].words[j] =
                __atomic_load_n(&ring->records[i & ring->mask].words[j], __ATOMIC_RELAXED);
    *out = copy;
    if (is_done)
        return (ssize_t)(end - begin);
    atomic_thread_fence(memory_order_acquire);
    /* Record `now` may be half written, in the place of record now - capacity. */
    uint64_t now = atomic_load_explicit(&ring->count, memory_order_relaxed);
    uint64_t valid = now >= capacity ? now - capacity + 1 : 0;
    valid = valid < begin ? begin : valid > end ? end : valid;
    memmove(copy, copy + (valid - begin), (size_t)(end - valid) * sizeof *copy);
    return (ssize_t)(end - valid);
}

size_t weft__trace_ring_shrink(weft__trace_ring *ring)
{
    size_t used = (size_t)atomic_load_explicit(&ring->count, memory_order_relaxed);
    size_t capacity = (size_t)ring->mask + 1;
    if (used < capacity) {
        while (capacity / 2 >= used && capacity > 1)
            capacity /= 2;
        weft__trace_record *records = realloc(ring->records, capacity * sizeof *ring->records);
        if (records != NULL) {
            ring->records = records;
            ring->mask = capacity - 1;
        }
    }
    return ((size_t)ring->mask + 1) * sizeof *ring->records + sizeof *ring;
}
