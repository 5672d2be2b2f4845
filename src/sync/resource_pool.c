/*
 * Resource pools. A pool has one slot per resource, and at most options.limit slots. A slot is held
 * by a fiber, free, or empty. A slot is empty while its resource is being created or destroyed. If
 * a resource is discarded or cannot be created, its empty slot passes to the first waiter. The
 * first waiter then creates another resource.
 *
 * Invariant: while a fiber waits, no slot is free and the number of slots equals the limit.
 */
#include "core/lifetime/cancel.h"

#include <weft/error.h>
#include <weft/pool.h>

#include <stdlib.h>

/*
 * The slot of one resource. A slot must not move, because the exit hooks of its holder point to it.
 */
typedef struct pool_slot {
    weft__list node; /* in held or free of its pool; an empty slot is in neither */
    weft_pool *pool;
    weft_value resource; /* undefined while the slot is empty */
    weft__fiber *holder; /* holder, depth and exit_hook are undefined unless the slot is held */
    size_t depth;        /* number of acquires by the holder */
    weft__exit_hook exit_hook; /* registered with the holder */
} pool_slot;

struct weft_pool {
    weft_pool_options options;
    weft__list held;
    weft__list free;     /* in the order of release, the oldest first */
    weft__waitq waiters; /* fibers that wait for a resource or for an empty slot */
    size_t slots;        /* held, free and empty; at most options.limit */
    size_t empty;        /* slots without a resource, or with one that is being destroyed */
    size_t available;    /* length of free */
    size_t waiting;      /* length of waiters */
};

static bool leave_pool_wait(weft__fiber *f)
{
    weft_pool *pool = f->wait_object;
    pool->waiting--;
    return weft__waitq_abort_wait(f);
}

static const weft__wait_kind waits_resource = {"a resource of a pool", .leave = leave_pool_wait,
                                               .forget = leave_pool_wait,
                                               .describe = weft__describe_object};

static void slot_holder_exited(weft__exit_hook *hook);

static pool_slot *slot_of(weft__list *node)
{
    return CONTAINER_OF(node, pool_slot, node);
}

/* Give a slot to a fiber. */
static void slot_hold(pool_slot *slot, weft__fiber *f)
{
    slot->holder = f;
    slot->depth = 1;
    weft__list_insert(&slot->pool->held, &slot->node);
    weft__exit_hook_add(&f->live->exit_hooks, &slot->exit_hook, slot_holder_exited);
}

/*
 * Remove and return the first waiter. The caller must wake the waiter. Returns NULL if no fiber
 * waits.
 */
static weft__waiter *waiters_pop(weft_pool *pool)
{
    weft__waiter *w = weft__waitq_pop(&pool->waiters);
    pool->waiting -= w != NULL;
    return w;
}

/* Pass a released slot to the first waiter. If no fiber waits, make the slot free. */
static void slot_pass_on(pool_slot *slot)
{
    weft_pool *pool = slot->pool;
    weft__list_remove(&slot->node);
    weft__waiter *w = waiters_pop(pool);
    if (w == NULL) {
        pool->available++;
        weft__list_insert(&pool->free, &slot->node);
        return;
    }
    slot_hold(slot, w->fiber);
    weft__waitq_wake(weft__cord_self, w, slot->resource);
}

/*
 * Pass an empty slot to the first waiter, which creates a resource. If no fiber waits, delete the
 * slot.
 */
static void slot_pass_on_empty(pool_slot *slot)
{
    weft_pool *pool = slot->pool;
    weft__waiter *w = waiters_pop(pool);
    if (w == NULL) {
        pool->empty--;
        pool->slots--;
        free(slot);
        return;
    }
    w->data = slot;
    weft__waitq_wake(weft__cord_self, w, 0);
}

static void resource_destroy(weft_pool *pool, weft_value resource)
{
    if (pool->options.destroy != NULL)
        pool->options.destroy(resource, pool->options.arg);
}

/*
 * Destroy the resource of a released slot. The slot counts against the limit until destroy returns.
 */
static void slot_discard(pool_slot *slot)
{
    weft__list_remove(&slot->node);
    slot->pool->empty++;
    resource_destroy(slot->pool, slot->resource);
    slot_pass_on_empty(slot);
}

/* Discard the resource of a holder that has ended, because the state of the resource is unknown. */
static void slot_holder_exited(weft__exit_hook *hook)
{
    slot_discard(CONTAINER_OF(hook, pool_slot, exit_hook));
}

/*
 * Return the slot that a fiber holds. Returns NULL if the fiber holds no slot. A held slot is in
 * the exit hooks of its fiber and in the held list. Search both lists in parallel, so that the
 * search ends with the shorter list.
 */
static pool_slot *slot_held_by(const weft_pool *pool, const weft__fiber *f)
{
    weft__list *node = pool->held.next;
    for (weft__exit_hook *exit_hook = f->live->exit_hooks; exit_hook != NULL && node != &pool->held;
         exit_hook = exit_hook->next, node = node->next) {
        pool_slot *slot = CONTAINER_OF(exit_hook, pool_slot, exit_hook);
        if (exit_hook->on_exit == slot_holder_exited && slot->pool == pool)
            return slot;
        if (slot_of(node)->holder == f)
            return slot_of(node);
    }
    return NULL;
}

/*
 * Return the held slot of a resource. Returns NULL if no fiber holds the resource. If several slots
 * have the same resource, prefer the slot of the calling fiber.
 */
static pool_slot *slot_find_held(const weft_pool *pool, weft_value resource)
{
    const weft__cord *c = weft__cord_self;
    pool_slot *held = c != NULL ? slot_held_by(pool, c->current) : NULL;
    if (LIKELY(held != NULL && held->resource == resource))
        return held;
    WEFT__LIST_FOR(node, &pool->held)
        if (slot_of(node)->resource == resource)
            return slot_of(node);
    return NULL;
}

weft_pool *weft_pool_new(const weft_pool_options *options)
{
    if (options == NULL || options->limit == 0 || options->make == NULL) {
        weft_fail(-EINVAL, "weft_pool_new: options is NULL, limit is 0 or make is NULL");
        return NULL;
    }
    weft_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        weft_fail(-ENOMEM, "weft_pool_new: memory is exhausted");
        return NULL;
    }
    pool->options = *options;
    weft__list_init(&pool->held);
    weft__list_init(&pool->free);
    return pool;
}

int weft_pool_free(weft_pool *pool)
{
    if (pool == NULL)
        return 0;
    if (pool->slots > pool->available)
        return weft_fail(-EBUSY, "weft_pool_free: %zu resources are in use, %zu fibers wait",
                         pool->slots - pool->available, pool->waiting);
    weft__list *node;
    while ((node = weft__list_pop(&pool->free)) != NULL) {
        resource_destroy(pool, slot_of(node)->resource);
        free(slot_of(node));
    }
    free(pool);
    return 0;
}

/* Acquire the free slot that was released first. The pool must have a free slot. */
static weft_value slot_take_free(weft__cord *c, weft_pool *pool)
{
    pool_slot *slot = slot_of(weft__list_pop(&pool->free));
    pool->available--;
    slot_hold(slot, c->current);
    return slot->resource;
}

/*
 * Create a resource in an empty slot that the caller owns. If make fails, pass the slot on and
 * return the error.
 */
static weft_value slot_make_resource(weft__cord *c, pool_slot *slot)
{
    weft_pool *pool = slot->pool;
    weft_value resource = pool->options.make(pool->options.arg);
    if (UNLIKELY(weft_is_error(resource))) {
        slot_pass_on_empty(slot);
        return resource;
    }
    pool->empty--;
    slot->resource = resource;
    slot_hold(slot, c->current);
    return resource;
}

/* Create a slot and its resource. */
static weft_value slot_new(weft__cord *c, weft_pool *pool)
{
    pool_slot *slot = calloc(1, sizeof *slot);
    if (slot == NULL)
        return -ENOMEM;
    weft__list_init(&slot->node);
    slot->pool = pool;
    pool->slots++;
    pool->empty++;
    return slot_make_resource(c, slot);
}

/* Wait for a resource. If the waiter receives an empty slot, create a resource. */
static weft_value wait_for_slot(weft__cord *c, weft_pool *pool)
{
    weft__waiter *w = &c->current->live->waiter;
    w->data = NULL;
    pool->waiting++;
    weft_value value = weft__waitq_wait(c, &pool->waiters, &waits_resource, pool);
    pool_slot *slot = w->data;
    if (LIKELY(slot == NULL))
        return value; /* the resource, or the error that interrupted the wait */
    if (pool->available == 0)
        return slot_make_resource(c, slot);
    slot_pass_on_empty(slot); /* a resource was released before this fiber ran */
    return slot_take_free(c, pool);
}

/* Acquire a resource without waiting for a release. Returns false if the call would wait. */
static inline bool acquire_now(weft__cord *c, weft_pool *pool, weft_value *out)
{
    pool_slot *held = slot_held_by(pool, c->current);
    if (held != NULL) {
        held->depth++;
        *out = held->resource;
        return true;
    }
    if (LIKELY(pool->available > 0)) {
        *out = slot_take_free(c, pool);
        return true;
    }
    if (pool->slots == pool->options.limit)
        return false;
    *out = slot_new(c, pool);
    return true;
}

weft_value weft_pool_acquire(weft_pool *pool)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft_value resource;
    if (LIKELY(acquire_now(c, pool, &resource)))
        return resource;
    if (UNLIKELY(c->current->pending))
        return weft__call_refuse(c);
    return wait_for_slot(c, pool);
}

weft_value weft_pool_try_acquire(weft_pool *pool)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft_value resource;
    return acquire_now(c, pool, &resource) ? resource : -EAGAIN;
}

int weft_pool_release(weft_pool *pool, weft_value resource)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    pool_slot *slot = slot_find_held(pool, resource);
    if (UNLIKELY(slot == NULL))
        return weft_fail(-EINVAL, "weft_pool_release: no fiber holds the resource");
    if (--slot->depth > 0)
        return 0;
    weft__exit_hook_remove(&slot->exit_hook);
    slot_pass_on(slot);
    return 0;
}

int weft_pool_discard(weft_pool *pool, weft_value resource)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    pool_slot *slot = slot_find_held(pool, resource);
    if (UNLIKELY(slot == NULL))
        return weft_fail(-EINVAL, "weft_pool_discard: no fiber holds the resource");
    weft__exit_hook_remove(&slot->exit_hook);
    slot_discard(slot);
    return 0;
}

size_t weft_pool_size(const weft_pool *pool)
{
    return pool->slots - pool->empty;
}

size_t weft_pool_available(const weft_pool *pool)
{
    return pool->available;
}

size_t weft_pool_waiting(const weft_pool *pool)
{
    return pool->waiting;
}
