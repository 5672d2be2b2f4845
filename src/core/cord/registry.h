/*
 * The registry of cords. Each cord has a slot, and the index of the slot is the index of the cord.
 * The id of a fiber contains the index of its cord.
 *
 * A thread must acquire a slot before it uses the cord of another thread. A cord that ends waits
 * until all threads have released its slot. Acquiring and releasing take no lock (docs/adr/0022).
 */
#ifndef WEFT_CORE_CORD_REGISTRY_H
#define WEFT_CORE_CORD_REGISTRY_H

#include "core/cord/cord.h"

/* The table of slots, for debuggers (core/debug/layout.h). */
typedef struct weft__registry_view {
    const void *slots;
    const uint32_t *end; /* slots with this index and higher are empty */
    uint32_t slot_bytes;
    uint32_t cord_at;   /* the offset of the pointer to the cord in a slot */
    const void *layout; /* so that programs with the static library contain the layout */
} weft__registry_view;

extern const weft__registry_view weft__registry_view_here;

/*
 * Reserve a slot for a cord. Set the index of the cord. Set serial_base so that the cord does not
 * reuse ids of earlier cords in the slot.
 *
 * Returns 0, or:
 * -EAGAIN if all slots are taken
 */
int weft__registry_reserve(weft__cord *c);

/*
 * Publish a cord in its reserved slot. After the call, weft__registry_acquire returns the cord. Ids
 * of earlier cords in this slot then lead to this cord too.
 */
void weft__registry_publish(weft__cord *c);

/*
 * Remove a cord, and wait until all threads have released its slot. If keeps_slot is true, the slot
 * remains reserved until weft__registry_free_slot.
 */
void weft__registry_remove(weft__cord *c, bool keeps_slot);

/*
 * Make a cord unreachable, add its counters to the totals of ended cords, and wait until all
 * threads have released its slot. The slot remains reserved. A thread that ends the process calls
 * this function, and continues to use its cord.
 */
void weft__registry_unpublish(weft__cord *c);

/* Free a reserved slot. */
void weft__registry_free_slot(uint32_t index);

/*
 * Return the published cord with this index, or NULL if there is none. The cord exists until
 * weft__registry_release. The caller must not wait before that call.
 */
weft__cord *weft__registry_acquire(uint32_t index);
void weft__registry_release(uint32_t index);

/*
 * Call fn for every published cord. The call holds the lock of the registry, so no cord is
 * published or freed meanwhile.
 */
void weft__registry_each(void (*fn)(weft__cord *c, void *context), void *context);

/* Like weft__registry_each, but the caller must hold the lock. */
void weft__registry_each_locked(void (*fn)(weft__cord *c, void *context), void *context);
void weft__registry_lock(void);
void weft__registry_unlock(void);

/*
 * Wake the published cord with this index, if there is one. Backends call this function after a
 * wake-up was lost.
 */
void weft__registry_wake(uint32_t index);

/*
 * Remove all cords except c in a child of fork(2). The threads of these cords do not exist in the
 * child. If c is NULL, remove all cords. Call on_remove for each removed cord, unless on_remove is
 * NULL.
 */
void weft__registry_reset(weft__cord *c, void (*on_remove)(weft__cord *other));

#endif
