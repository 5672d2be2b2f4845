/*
 * Resource pools: expensive resources, each used by one fiber at a time.
 *
 * A resource is, for example, a connection to a database. The pool creates resources on demand, up
 * to a limit. When the limit is reached, fibers wait for a release, in FIFO order.
 *
 * A fiber that holds a resource and acquires again gets the same resource. A function that uses the
 * pool may therefore call another function that uses the pool. The fiber must release the resource
 * as often as the fiber has acquired the resource.
 *
 * If a fiber ends while it holds a resource, the pool destroys the resource. The state of such a
 * resource is unknown. A pool belongs to the fibers of one thread.
 */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include <weft/base.h>

WEFT_BEGIN

typedef struct weft_pool weft_pool;

/* Functions and limit of a pool. */
typedef struct weft_pool_options {
    size_t limit; /* maximum number of resources; at least 1 */
    /*
     * Create a resource. If make returns an error, weft_pool_acquire returns the error. make runs
     * in the acquiring fiber and may block. While make blocks, other waiting fibers get the
     * resources that are released.
     */
    weft_value (*make)(void *arg);
    void (*destroy)(weft_value resource, void *arg); /* NULL: none */
    void *arg;                                       /* passed to make and destroy */
} weft_pool_options;

/**
 * Create an empty pool.
 *
 * Returns the pool. On failure, returns NULL and records for weft_error():
 * -EINVAL if limit is 0
 * -EINVAL if make is NULL
 * -EINVAL if options is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_pool *weft_pool_new(const weft_pool_options *options) WEFT_MUST_CHECK;

/**
 * Destroy the resources of a pool and free the pool.
 *
 * If pool is NULL, the call does nothing. If the call fails, nothing has changed.
 *
 * Returns 0, or:
 * -EBUSY if a fiber holds a resource
 * -EBUSY if a fiber waits for a resource
 * -EBUSY if a resource is being created or destroyed
 */
WEFT_API int weft_pool_free(weft_pool *pool);

/**
 * Acquire a resource.
 *
 * The call takes the free resource that was released first. If no resource is free, the call
 * creates a resource. If the limit is reached, the call waits for a release. If make fails, the
 * resource does not count towards the limit.
 *
 * Returns the resource, the error that make returned, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT weft_value weft_pool_acquire(weft_pool *pool);

/**
 * Like weft_pool_acquire, but without waiting for a release.
 *
 * make may still block. Errors in addition to those of weft_pool_acquire:
 * -EAGAIN if no resource is free, and the limit is reached
 */
WEFT_SWITCHPOINT weft_value weft_pool_try_acquire(weft_pool *pool) WEFT_MUST_CHECK;

/**
 * Release a resource.
 *
 * A fiber may release a resource that another fiber holds. Do not release a resource twice, because
 * another fiber may already hold the resource.
 *
 * Returns 0, or:
 * -EINVAL if no fiber holds the resource
 */
WEFT_API int weft_pool_release(weft_pool *pool, weft_value resource);

/**
 * Release a broken resource and destroy the resource.
 *
 * One call suffices, even if the fiber has acquired the resource several times. The pool may then
 * create another resource.
 *
 * Returns 0, or:
 * -EINVAL if no fiber holds the resource
 */
WEFT_API int weft_pool_discard(weft_pool *pool, weft_value resource);

/** Return the number of held and free resources. */
WEFT_API size_t weft_pool_size(const weft_pool *pool);

/** Return the number of free resources. */
WEFT_API size_t weft_pool_available(const weft_pool *pool);

/** Return the number of fibers that wait for a resource. */
WEFT_API size_t weft_pool_waiting(const weft_pool *pool);

WEFT_END

#endif
