/*
 * Pools of resources that are costly to make and can serve one fiber at a time: connections to a
 * database, say. They are made on demand, up to a limit; beyond that, fibers wait for one to be
 * released, in the order in which they came.
 *
 * A fiber that holds one and acquires again gets the same one, so that a function may use the pool
 * and call another that does; it is released as often. A fiber that ends without having released
 * what it holds loses it: it is discarded, as nobody knows what state it is in. A pool belongs to
 * the fibers of one thread.
 */
#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include <weft/base.h>

WEFT_BEGIN

typedef struct weft_pool weft_pool;

typedef struct weft_pool_options {
    size_t limit; /* resources at once; at least 1 */
    /*
     * Make one: a value, or an error, which acquire then returns. Runs in the fiber that wants it
     * and may block; others that wait go on when one is released meanwhile.
     */
    weft_value (*make)(void *arg);
    void (*destroy)(weft_value resource, void *arg); /* NULL: nothing to do */
    void *arg;                                       /* for both */
} weft_pool_options;

/** A new, empty pool. NULL: no memory, or options that make no sense (weft_error() says which). */
WEFT_API weft_pool *weft_pool_new(const weft_pool_options *options) WEFT_MUST_CHECK;

/**
 * Destroy what is in the pool and free it. -EBUSY if something is still held, or someone waits;
 * nothing has changed then. NULL is fine.
 */
WEFT_API int weft_pool_free(weft_pool *pool);

/**
 * A resource: the one that was released first of those that are free, else a new one, else the next
 * that is released. Returns it, or the error of make; a failed make leaves the limit as it was.
 * -ENOMEM.
 */
WEFT_SWITCHPOINT weft_value weft_pool_acquire(weft_pool *pool);

/** The same without waiting for a release: -EAGAIN. (make may still block.) */
WEFT_SWITCHPOINT weft_value weft_pool_try_acquire(weft_pool *pool) WEFT_MUST_CHECK;

/**
 * Give it back. -EINVAL if it is not held. Any fiber may give it back: given back twice, it may be
 * somebody else's by then.
 */
WEFT_API int weft_pool_release(weft_pool *pool, weft_value resource);

/**
 * Give it back broken: it is destroyed, however often it was acquired, and another may be made in
 * its place. -EINVAL if it is not held.
 */
WEFT_API int weft_pool_discard(weft_pool *pool, weft_value resource);

/** Resources that there are, held or free. */
WEFT_API size_t weft_pool_size(const weft_pool *pool);

/** Resources that are free. */
WEFT_API size_t weft_pool_available(const weft_pool *pool);

/** Fibers that wait for one. */
WEFT_API size_t weft_pool_waiting(const weft_pool *pool);

WEFT_END

#endif
