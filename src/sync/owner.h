/*
 * The exclusive owner of a mutex or of a write lock. Unlocking passes ownership directly to the
 * first waiter. If a fiber ends while it owns the lock, the lock is dead.
 *
 * The exit hook is registered only while another fiber waits for the lock. An owner without waiters
 * may therefore end after the memory of the lock was freed. If the lock still exists, a later
 * attempt to lock detects the dead owner by its generation. The fiber record may then belong to a
 * new fiber with another generation.
 */
#ifndef WEFT_SYNC_OWNER_H
#define WEFT_SYNC_OWNER_H

#include "core/sched/sched.h"

/* The value of weft__owner.fiber after the owner has ended. Locking then fails with -EOWNERDEAD. */
#define WEFT__OWNER_DEAD ((weft__fiber *)-1)

typedef struct weft__owner {
    weft__fiber *fiber;        /* NULL: not locked */
    weft__exit_hook exit_hook; /* registered with fiber while another fiber waits */
    uint32_t generation;       /* fiber->owner_generation when fiber got the lock */
} weft__owner;

/* The offsets in a weft__wait_kind, for a lock with a field of type weft__owner. */
#define WEFT__WAITS_FOR_OWNER(type, field)        \
    .owner_at = WEFT__WAIT_AT(type, field.fiber), \
    .owner_generation_at = WEFT__WAIT_AT(type, field.generation)

/*
 * Return the fiber that owns the lock. Returns NULL if the lock is not held, and WEFT__OWNER_DEAD
 * if the owner has ended.
 */
static inline weft__fiber *weft__owner_current(const weft__owner *o)
{
    weft__fiber *f = o->fiber;
    bool is_fiber = f != NULL && f != WEFT__OWNER_DEAD;
    return is_fiber && UNLIKELY(f->owner_generation != o->generation) ? WEFT__OWNER_DEAD : f;
}

/* Return the id of the fiber that owns the lock, or 0. */
static inline weft_fiber weft__owner_id(const weft__owner *o)
{
    const weft__fiber *f = weft__owner_current(o);
    return f != NULL && f != WEFT__OWNER_DEAD ? f->id : 0;
}

static inline void weft__owner_set(weft__owner *o, weft__fiber *f)
{
    o->fiber = f;
    o->generation = f->owner_generation;
}

/*
 * Return the error for an attempt by f to lock a held lock:
 * -EBUSY if another fiber owns the lock
 * -EDEADLK if f owns the lock
 * -EOWNERDEAD if the owner has ended
 */
static inline int weft__owner_conflict(const weft__owner *o, const weft__fiber *f)
{
    const weft__fiber *owner = weft__owner_current(o);
    if (UNLIKELY(owner == WEFT__OWNER_DEAD))
        return -EOWNERDEAD;
    return LIKELY(owner != f) ? -EBUSY : -EDEADLK;
}

/*
 * Register or remove the exit hook. Call this function after each change of the owner or of the
 * wait queue.
 */
static inline void weft__owner_update_hook(weft__owner *o, const weft__waitq *waiters,
                                           void (*callback)(weft__exit_hook *hook))
{
    bool is_hooked = o->exit_hook.pprev != NULL;
    bool is_needed = o->fiber != NULL && !weft__waitq_is_empty(waiters);
    if (is_needed && !is_hooked)
        weft__exit_hook_add(&o->fiber->live->exit_hooks, &o->exit_hook, callback);
    else if (!is_needed && is_hooked)
        weft__exit_hook_remove(&o->exit_hook);
}

/* Remove the owner and its exit hook. */
static inline void weft__owner_clear(weft__owner *o)
{
    if (UNLIKELY(o->exit_hook.pprev != NULL))
        weft__exit_hook_remove(&o->exit_hook);
    o->fiber = NULL;
}

#endif
