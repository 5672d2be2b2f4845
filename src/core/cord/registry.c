/* The registry of cords. See registry.h. */
#include "core/cord/registry.h"

#include "core/cord/inbox.h"
#include "core/debug/layout.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define SLOTS_MAX (1u << WEFT__CORDS_BITS)

/* Each slot has its own cache line, to avoid false sharing. */
typedef struct registry_slot {
    _Atomic(weft__cord *) cord; /* NULL: no published cord */
    atomic_uint refs;           /* threads that have acquired the slot or are acquiring it */
    bool is_taken;              /* protected by lock; reserved for a cord, which may have ended */
    uint32_t serial;            /* protected by lock; the highest serial of an id of this slot */
} __attribute__((aligned(64))) registry_slot;

static registry_slot registry[SLOTS_MAX];

/* Protects is_taken, serial and registry_end. Cords are published under this lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t registry_end; /* slots with this index and higher were never taken */

const weft__registry_view weft__registry_view_here = {
    .slots = registry,
    .end = &registry_end,
    .slot_bytes = sizeof(registry_slot),
    .cord_at = offsetof(registry_slot, cord),
    .layout = &weft__debug_layout,
};

/*
 * Minimum number of unused serials per fiber slot of a new cord. Prefer registry slots with at
 * least this many. If all free slots have fewer, the serial of one slot restarts at 0.
 */
#define SERIALS_MIN (UINT32_MAX / 2)

/*
 * Return a free slot with enough serials, or SLOTS_MAX if there is none. The caller must hold the
 * lock.
 */
static uint32_t slot_find_with_serials(void)
{
    uint32_t i = 0;
    while (i < SLOTS_MAX && (registry[i].is_taken || registry[i].serial > UINT32_MAX - SERIALS_MIN))
        i++;
    return i;
}

/* Return a free slot, or SLOTS_MAX if there is none. The caller must hold the lock. */
static uint32_t slot_find_free(void)
{
    uint32_t i = slot_find_with_serials();
    if (i < SLOTS_MAX)
        return i;
    for (i = 0; i < SLOTS_MAX && registry[i].is_taken;)
        i++;
    if (i < SLOTS_MAX)
        registry[i].serial = 0;
    return i;
}

int weft__registry_reserve(weft__cord *c)
{
    pthread_mutex_lock(&lock);
    uint32_t i = slot_find_free();
    if (i < SLOTS_MAX) {
        if (i >= registry_end)
            registry_end = i + 1;
        registry[i].is_taken = true;
        c->index = i;
        c->serial_base = registry[i].serial;
    }
    pthread_mutex_unlock(&lock);
    return i < SLOTS_MAX ? 0 : -EAGAIN;
}

void weft__registry_publish(weft__cord *c)
{
    pthread_mutex_lock(&lock);
    atomic_store(&registry[c->index].cord, c);
    pthread_mutex_unlock(&lock);
}

void weft__registry_unpublish(weft__cord *c)
{
    registry_slot *p = &registry[c->index];
    pthread_mutex_lock(&lock);
    if (atomic_exchange(&p->cord, NULL) != NULL)
        weft__stats_add_ended(c);
    pthread_mutex_unlock(&lock);
    while (atomic_load(&p->refs) > 0)
        sched_yield();
}

void weft__registry_remove(weft__cord *c, bool keeps_slot)
{
    registry_slot *p = &registry[c->index];
    weft__registry_unpublish(c);
    uint32_t serial = weft__cord_serial_max(c);
    pthread_mutex_lock(&lock);
    p->is_taken = keeps_slot;
    p->serial = serial;
    pthread_mutex_unlock(&lock);
}

void weft__registry_free_slot(uint32_t index)
{
    pthread_mutex_lock(&lock);
    registry[index].is_taken = false;
    pthread_mutex_unlock(&lock);
}

weft__cord *weft__registry_acquire(uint32_t index)
{
    /*
     * Both accesses are sequentially consistent, as in weft__registry_unpublish. So either this
     * thread reads NULL, or the ending thread reads refs > 0.
     */
    atomic_fetch_add(&registry[index].refs, 1);
    weft__cord *c = atomic_load(&registry[index].cord);
    if (c == NULL)
        weft__registry_release(index);
    return c;
}

void weft__registry_release(uint32_t index)
{
    atomic_fetch_sub_explicit(&registry[index].refs, 1, memory_order_release);
}

void weft__registry_lock(void)
{
    pthread_mutex_lock(&lock);
}

void weft__registry_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void weft__registry_each_locked(void (*fn)(weft__cord *c, void *context), void *context)
{
    for (uint32_t i = 0; i < registry_end; i++) {
        weft__cord *c = weft__registry_acquire(i);
        if (c == NULL)
            continue;
        fn(c, context);
        weft__registry_release(i);
    }
}

void weft__registry_each(void (*fn)(weft__cord *c, void *context), void *context)
{
    weft__registry_lock();
    weft__registry_each_locked(fn, context);
    weft__registry_unlock();
}

void weft__registry_wake(uint32_t index)
{
    weft__cord *c = weft__registry_acquire(index);
    if (c == NULL)
        return;
    weft__cord_wake(c);
    weft__registry_release(index);
}

static void slot_abandon(registry_slot *p, void (*on_remove)(weft__cord *other))
{
    weft__cord *other = atomic_load(&p->cord);
    if (other != NULL) {
        p->serial = weft__cord_serial_max(other); /* later cords must not reuse its ids */
        if (on_remove != NULL)
            on_remove(other);
    }
    atomic_store(&p->cord, NULL);
    p->is_taken = false;
}

void weft__registry_reset(weft__cord *c, void (*on_remove)(weft__cord *other))
{
    /* Another thread may have held the lock during fork(2). */
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (uint32_t i = 0; i < registry_end; i++) {
        atomic_store(&registry[i].refs, 0);
        if (c == NULL || i != c->index)
            slot_abandon(&registry[i], on_remove);
    }
}
