/*
 * A table of objects with keys. The lowest bits of a key are a slot of the table. The other bits
 * are a serial number, so that a key is used once: the key of a removed object finds no other
 * object.
 */
#ifndef WEFT_HUB_CLIENT_SLOTS_H
#define WEFT_HUB_CLIENT_SLOTS_H

#include "base/compiler.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define WEFT__SLOT_BITS 24
#define WEFT__SLOT_NONE UINT32_MAX
#define WEFT__SLOTS_MIN 16

typedef struct weft__slot {
    void *object; /* NULL: free */
    uint64_t key; /* of a free slot: the next free slot, or WEFT__SLOT_NONE */
} weft__slot;

/* All-zero is empty. */
typedef struct weft__slots {
    weft__slot *slots;
    uint32_t capacity;
    uint32_t first_free; /* valid if capacity is not 0; WEFT__SLOT_NONE: the table is full */
    uint32_t count;
    uint64_t serial; /* of the last key */
} weft__slots;

static inline uint32_t weft__slot_of_key(uint64_t key)
{
    return (uint32_t)(key & ((1u << WEFT__SLOT_BITS) - 1));
}

/* Double a full table. Returns 0 or -ENOMEM. */
static inline int weft__slots_grow(weft__slots *t)
{
    uint32_t capacity = t->capacity > 0 ? 2 * t->capacity : WEFT__SLOTS_MIN;
    if (capacity > 1u << WEFT__SLOT_BITS)
        return -ENOMEM;
    weft__slot *slots = realloc(t->slots, capacity * sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    for (uint32_t i = t->capacity; i < capacity; i++)
        slots[i] = (weft__slot){NULL, i + 1 < capacity ? i + 1 : WEFT__SLOT_NONE};
    t->first_free = t->capacity;
    t->slots = slots;
    t->capacity = capacity;
    return 0;
}

/* Add an object. Returns its key, which is not 0, or 0 if memory is exhausted. */
static inline uint64_t weft__slots_add(weft__slots *t, void *object)
{
    if (UNLIKELY(t->capacity == 0 || t->first_free == WEFT__SLOT_NONE) && weft__slots_grow(t) < 0)
        return 0;
    uint32_t slot = t->first_free;
    uint64_t key = ++t->serial << WEFT__SLOT_BITS | slot;
    t->first_free = (uint32_t)t->slots[slot].key;
    t->slots[slot] = (weft__slot){object, key};
    t->count++;
    return key;
}

/* Return the object with a key, or NULL. */
static inline void *weft__slots_find(const weft__slots *t, uint64_t key)
{
    uint32_t slot = weft__slot_of_key(key);
    if (UNLIKELY(slot >= t->capacity) || t->slots[slot].key != key)
        return NULL;
    return t->slots[slot].object; /* NULL if the slot is free */
}

/* Remove the object with a key, which must be in the table. */
static inline void weft__slots_remove(weft__slots *t, uint64_t key)
{
    uint32_t slot = weft__slot_of_key(key);
    t->slots[slot] = (weft__slot){NULL, t->first_free};
    t->first_free = slot;
    t->count--;
}

/* Free the memory of the table, but not the objects. */
static inline void weft__slots_free(weft__slots *t)
{
    free(t->slots);
    *t = (weft__slots){0};
}

#endif
