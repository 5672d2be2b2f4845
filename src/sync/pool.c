/*
 * Pools of resources. What counts against the limit is a place: it is empty while someone makes the
 * resource that will be in it, then it is held by a fiber or free. Whoever empties one, because the
 * resource is discarded or could not be made, gives it to the next who waits, who makes another. So
 * as long as anyone waits, nothing is free and no place is unused.
 */
#include "core/alarm.h"

#include <weft/error.h>
#include <weft/pool.h>

#include <stdlib.h>

/* Where one resource is, or will be. It does not move: the claims of the holder lead here. */
typedef struct place {
    weft__list node; /* in held or free of its pool; empty ones are in neither */
    weft_pool *pool;
    weft_value resource; /* meaningless while it is empty */
    weft__fiber *holder; /* meaningless unless it is held; so are the next two */
    size_t depth;        /* how often the holder has acquired it */
    weft__claim claim;   /* of the holder */
} place;

struct weft_pool {
    weft_pool_options options;
    weft__list held;
    weft__list free;  /* the one that was released first is the first */
    weft__line line;  /* for a resource, or for a place to make one in */
    size_t places;    /* of all kinds, at most the limit */
    size_t empty;     /* whose resource is being made, or is about to be */
    size_t available; /* in free */
    size_t waiting;   /* in line */
};

static bool leave_pool(weft__fiber *f)
{
    weft_pool *pool = f->wait_object;
    pool->waiting--;
    return weft__leave_line(f);
}

static const weft__wait_kind waits_resource = {"a resource of a pool", .leave = leave_pool,
                                               .forget = leave_pool};

static void lapse(weft__claim *own);

static place *place_of(weft__list *node)
{
    return CONTAINER_OF(node, place, node);
}

/* The place is the fiber's from now on. */
static void hold(place *p, weft__fiber *f)
{
    p->holder = f;
    p->depth = 1;
    weft__list_insert(&p->pool->held, &p->node);
    weft__claim_make(&f->life->claims, &p->claim, lapse);
}

/* The first who waits, out of line; NULL if nobody does. It is to be served. */
static weft__waiter *next_in_line(weft_pool *pool)
{
    weft__waiter *w = weft__line_pop(&pool->line);
    pool->waiting -= w != NULL;
    return w;
}

/* A place that is held no longer is the next one's, or free. */
static void pass_on(place *p)
{
    weft_pool *pool = p->pool;
    weft__list_remove(&p->node);
    weft__waiter *w = next_in_line(pool);
    if (w == NULL) {
        pool->available++;
        weft__list_insert(&pool->free, &p->node);
        return;
    }
    hold(p, w->fiber);
    weft__serve(weft__cord_self, w, p->resource);
}

/* The same for an empty one: the next makes a resource in it, or it is not needed. */
static void pass_on_empty(place *p)
{
    weft_pool *pool = p->pool;
    weft__waiter *w = next_in_line(pool);
    if (w == NULL) {
        pool->empty--;
        pool->places--;
        free(p);
        return;
    }
    w->data = p;
    weft__serve(weft__cord_self, w, 0);
}

static void destroy(weft_pool *pool, weft_value resource)
{
    if (pool->options.destroy != NULL)
        pool->options.destroy(resource, pool->options.arg);
}

/* Destroy what is in a place that is held no longer. Its place counts until that is done. */
static void empty_out(place *p)
{
    weft__list_remove(&p->node);
    p->pool->empty++;
    destroy(p->pool, p->resource);
    pass_on_empty(p);
}

/* The holder has ended: nobody knows what state the resource is in. */
static void lapse(weft__claim *own)
{
    empty_out(CONTAINER_OF(own, place, claim));
}

/*
 * The place that the fiber holds; NULL: none. It is among the fiber's claims and among what is held
 * of the pool: either may be long, but when the shorter one is through it is in neither.
 */
static place *place_held_by(const weft_pool *pool, const weft__fiber *f)
{
    weft__list *node = pool->held.next;
    for (weft__claim *claim = f->life->claims; claim != NULL && node != &pool->held;
         claim = claim->next, node = node->next) {
        place *p = CONTAINER_OF(claim, place, claim);
        if (claim->lapse == lapse && p->pool == pool)
            return p;
        if (place_of(node)->holder == f)
            return place_of(node);
    }
    return NULL;
}

/*
 * The place in which this resource is held; NULL: none. Of several with the same value it is the
 * caller's.
 */
static place *find_held(const weft_pool *pool, weft_value resource)
{
    const weft__cord *c = weft__cord_self;
    place *own = c != NULL ? place_held_by(pool, c->current) : NULL;
    if (LIKELY(own != NULL && own->resource == resource))
        return own;
    WEFT__LIST_FOR(node, &pool->held)
        if (place_of(node)->resource == resource)
            return place_of(node);
    return NULL;
}

weft_pool *weft_pool_new(const weft_pool_options *options)
{
    if (options == NULL || options->limit == 0 || options->make == NULL) {
        weft_fail(-EINVAL, "a pool needs a limit of at least 1, and a function that makes one");
        return NULL;
    }
    weft_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        weft_fail(-ENOMEM, "no memory for a pool");
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
    if (pool->places > pool->available)
        return weft_fail(-EBUSY, "a pool of which %zu are in use and %zu are waited for",
                         pool->places - pool->available, pool->waiting);
    weft__list *node;
    while ((node = weft__list_pop(&pool->free)) != NULL) {
        destroy(pool, place_of(node)->resource);
        free(place_of(node));
    }
    free(pool);
    return 0;
}

/* The free place that was released first is the caller's; there is one. */
static weft_value take_free(weft__cord *c, weft_pool *pool)
{
    place *p = place_of(weft__list_pop(&pool->free));
    pool->available--;
    hold(p, c->current);
    return p->resource;
}

/* Make a resource in an empty place, which is the caller's. */
static weft_value make_in(weft__cord *c, place *p)
{
    weft_pool *pool = p->pool;
    weft_value resource = pool->options.make(pool->options.arg);
    if (UNLIKELY(weft_is_error(resource))) {
        pass_on_empty(p);
        return resource;
    }
    pool->empty--;
    p->resource = resource;
    hold(p, c->current);
    return resource;
}

/* Make one in a place that there was not yet. */
static weft_value make_new(weft__cord *c, weft_pool *pool)
{
    place *p = calloc(1, sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    weft__list_init(&p->node);
    p->pool = pool;
    pool->places++;
    pool->empty++;
    return make_in(c, p);
}

/* Wait in line; returns the resource, or makes one if all that is to be had is a place. */
static weft_value wait_for_one(weft__cord *c, weft_pool *pool)
{
    weft__waiter *w = &c->current->life->waiter;
    w->data = NULL;
    pool->waiting++;
    weft_value value = weft__line_wait(c, &pool->line, &waits_resource, pool);
    place *p = w->data;
    if (LIKELY(p == NULL))
        return value; /* also why it was not served */
    if (pool->available == 0)
        return make_in(c, p);
    pass_on_empty(p); /* one was released before this fiber came to run */
    return take_free(c, pool);
}

/* Acquire without waiting for a release; false: that is what it takes. */
static inline bool acquire_now(weft__cord *c, weft_pool *pool, weft_value *out)
{
    place *own = place_held_by(pool, c->current);
    if (own != NULL) {
        own->depth++;
        *out = own->resource;
        return true;
    }
    if (LIKELY(pool->available > 0)) {
        *out = take_free(c, pool);
        return true;
    }
    if (pool->places == pool->options.limit)
        return false;
    *out = make_new(c, pool);
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
    if (UNLIKELY(c->current->alarm))
        return weft__refuse(c);
    return wait_for_one(c, pool);
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
    if (weft__is_refused(weft__cord_self))
        return weft__no_cord();
    place *p = find_held(pool, resource);
    if (UNLIKELY(p == NULL))
        return weft_fail(-EINVAL, "a resource is released that nobody holds");
    if (--p->depth > 0)
        return 0;
    weft__claim_drop(&p->claim);
    pass_on(p);
    return 0;
}

int weft_pool_discard(weft_pool *pool, weft_value resource)
{
    if (weft__is_refused(weft__cord_self))
        return weft__no_cord();
    place *p = find_held(pool, resource);
    if (UNLIKELY(p == NULL))
        return weft_fail(-EINVAL, "a resource is discarded that nobody holds");
    weft__claim_drop(&p->claim);
    empty_out(p);
    return 0;
}

size_t weft_pool_size(const weft_pool *pool)
{
    return pool->places - pool->empty;
}

size_t weft_pool_available(const weft_pool *pool)
{
    return pool->available;
}

size_t weft_pool_waiting(const weft_pool *pool)
{
    return pool->waiting;
}
