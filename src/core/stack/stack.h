/*
 * The stack cache of a cord: map, guard, cache and trim stacks. Only the thread of the cord uses
 * the cache.
 *
 * Each size class (a power of two) has its own mappings, which consist of slots. A slot is a guard
 * and a stack of that size above the guard. Carving a slot means to install its guard and to add
 * its stack to the cache. The guard remains until the slot is unmapped.
 *
 * The cache stores no data in the stacks. A free stack is an entry in the cache of its class.
 * Therefore a fiber can release the stack on which it runs, and the fast paths touch no page of the
 * stack.
 *
 * A guard detects overflows by frames that are smaller than the guard. A larger frame (a large
 * array or alloca) can skip the guard and reach the neighbouring stack. Code that is compiled with
 * -fstack-clash-protection touches every page of a large frame. For this code, a guard of one page
 * is enough. Other code needs a larger guard.
 */
#ifndef WEFT_CORE_STACK_STACK_H
#define WEFT_CORE_STACK_STACK_H

#include "base/compiler.h"
#include "base/list.h"
#include "core/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stack, free or in use. After the slot is carved, only is_deep changes. */
typedef struct weft__stack {
    char *low;         /* lowest usable byte, directly above the guard; NULL: no stack */
    uint32_t bytes;    /* usable bytes; the top is in the last page, aligned to 64 bytes */
    uint8_t index;     /* index of the class; NULL low: index of the last stack's class */
    bool is_deep;      /* pages below the top WEFT__STACK_TOP_BYTES were found resident */
    bool is_unguarded; /* the stack has no guard */
    bool is_protected; /* mprotect made the guard; meaningful only for large stacks */
} weft__stack;

#define WEFT__STACK_CLASSES 17  /* 16 KiB to 1 GiB */
#define WEFT__STACK_BITS_MIN 14 /* log2 of WEFT__STACK_BYTES_MIN */

/*
 * One size class of a cache. A free stack is warm while it keeps its pages, otherwise cold. See
 * sched/trim.h for periods.
 */
typedef struct weft__stack_class {
    weft__stack *cache;   /* free stacks: cold stacks first, the last released stack last */
    size_t count;         /* free stacks in cache */
    size_t cold;          /* cold stacks, at the start of cache; <= count */
    size_t until_slow;    /* releases until the next weft__stack_release_slow; >= 1 */
    size_t slow_interval; /* the last initial value of until_slow */
    size_t until_sample;  /* releases until the next check of depth, as of the last slow release */
    size_t sample_every;  /* releases between two checks of depth */
    size_t deep_found;    /* stacks marked deep since the last class_sweep */
    size_t unused;        /* leading entries of cache that were not acquired in this period */
    size_t to_cool;       /* leading entries of cache that weft__stack_trim_step must empty */
    size_t mapped;        /* carved stacks that still exist */
    size_t slots;         /* slots of all mappings, carved or not */
    size_t capacity;      /* capacity of cache; >= slots, so that a release cannot fail */
    weft__list chunks;    /* list of weft__stack_chunk; only the last may have slots to carve */
} weft__stack_class;

/* The stacks of one cord. */
typedef struct weft__stack_cache {
    size_t mapped;       /* stacks that exist */
    size_t mapped_bytes; /* of these stacks, with their guards */
    size_t cached;       /* free stacks */
    size_t unguarded;    /* stacks without a guard */
    uint32_t excess;     /* bit i: class i exceeded WEFT__STACK_WARM_MIN and _PART */
    bool can_trim;       /* a class may have more than WEFT__STACK_WARM_IDLE warm free stacks */
    unsigned index_min;  /* smallest class in use; above 0 if pages are larger than 4 KiB */
    weft__stack_class classes[WEFT__STACK_CLASSES];
} weft__stack_cache;

void weft__stack_cache_init(weft__stack_cache *cache);

/*
 * Unmap all stacks. No stack of the cache may be in use. The caller must not run on a stack of the
 * cache.
 */
void weft__stack_cache_close(weft__stack_cache *cache);

/*
 * The slow path of weft__stack_acquire. Add new stacks to the cache of a class. The cache of the
 * class must be empty.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__stack_fill(weft__stack_cache *cache, unsigned index);

/*
 * The slow path of weft__stack_release. Check whether the last stack in the cache is deep, and trim
 * the class.
 */
void weft__stack_release_slow(weft__stack_cache *cache, unsigned index);

/*
 * Discard the pages of a few free stacks. The thread must be idle, and cache->excess must not be 0.
 */
void weft__stack_trim_excess(weft__stack_cache *cache);

/*
 * Begin a new period. Mark the free stacks that were not used in the last period, except a few.
 * weft__stack_trim_step discards the pages of the marked stacks.
 */
void weft__stack_trim_begin(weft__stack_cache *cache);

/* Discard the pages of some marked stacks. Return false if no stack is marked. */
bool weft__stack_trim_step(weft__stack_cache *cache);

/* Recompute cache->can_trim. */
void weft__stack_update_can_trim(weft__stack_cache *cache);

/* Discard the pages below the top WEFT__STACK_TOP_BYTES of free stacks. */
void weft__stack_trim_deep(weft__stack *const *stacks, size_t count);

/*
 * Acquire a stack of the smallest class with at least `bytes`. A colour of less than 1 KiB is
 * subtracted from the size of the class, and may make the stack smaller than `bytes`. The guard is
 * not part of this size. The content of the stack is undefined.
 *
 * Returns 0, or:
 * -EINVAL if bytes is out of range
 * -ENOMEM if memory is exhausted
 */
static inline int weft__stack_acquire(weft__stack_cache *cache, size_t bytes, weft__stack *out)
{
    if (UNLIKELY(bytes - WEFT__STACK_BYTES_MIN > WEFT__STACK_BYTES_MAX - WEFT__STACK_BYTES_MIN))
        return -EINVAL;
    unsigned index = 64u - (unsigned)__builtin_clzll(bytes - 1) - WEFT__STACK_BITS_MIN;
    if (UNLIKELY(index < cache->index_min))
        index = cache->index_min;
    weft__stack_class *class = &cache->classes[index];
    if (UNLIKELY(class->count == 0)) {
        int rc = weft__stack_fill(cache, index);
        if (rc < 0)
            return rc;
    }
    *out = class->cache[--class->count];
    if (class->cold > class->count)
        class->cold = class->count;
    if (class->unused > class->count)
        class->unused = class->count;
    cache->cached--;
    return 0;
}

/*
 * Return a stack to the cache, and set stack->low to NULL. The caller may run on the stack. The
 * frames on the stack remain valid until the stack is acquired again.
 */
static inline void weft__stack_release(weft__stack_cache *cache, weft__stack *stack)
{
    weft__stack_class *class = &cache->classes[stack->index];
    class->cache[class->count++] = *stack;
    cache->cached++;
    cache->can_trim |= class->count - class->cold > WEFT__STACK_WARM_IDLE;
    stack->low = NULL;
    if (UNLIKELY(--class->until_slow == 0))
        weft__stack_release_slow(cache, stack->index);
}

/*
 * Discard the pages of all free stacks, except the `keep` most recently released stacks of each
 * class. Unmap large stacks instead. If the caller runs on a free stack, its frames remain valid.
 */
void weft__stack_trim(weft__stack_cache *cache, size_t keep);

/* Discard the pages below `sp` of a stack in use. `sp` must be in the lowest frame of the stack. */
void weft__stack_trim_below(const weft__stack *stack, const void *sp);

/*
 * Return the high-water mark of a stack in bytes, rounded up to whole pages, but at most
 * stack->bytes. The mark includes earlier fibers on the stack, unless the pages have been discarded
 * since. Swapped-out pages do not count. Return 0 on failure.
 */
size_t weft__stack_used(const weft__stack *stack);

/*
 * Return the size of the stack's class, even after the release of the stack. weft__stack_acquire
 * with this size returns a stack of the same class.
 */
static inline size_t weft__stack_slot_bytes(const weft__stack *stack)
{
    return WEFT__STACK_BYTES_MIN << stack->index;
}

/*
 * Return the default size of a stack: WEFT_STACK in the environment, or WEFT__STACK_BYTES_DEFAULT.
 *
 * WEFT_STACK is a number of bytes, with an optional suffix K, M or G. The call clamps a value that
 * is out of range, and ignores a value that is not a size. In both cases, the first call prints a
 * warning to stderr.
 */
size_t weft__stack_bytes_default(void);

/*
 * Return the size of all guards in the process, an odd number of pages. weft_set_guard or
 * WEFT_GUARD in the environment sets the size. The default is one page. After the first call, the
 * size cannot change.
 */
size_t weft__stack_guard_bytes(void);

/* Return the requested size, or the default size if requested is 0. */
static inline size_t weft__stack_bytes(size_t requested)
{
    return requested != 0 ? requested : weft__stack_bytes_default();
}

/*
 * Return true if the address is in the guard of the stack. Memory below the guard belongs to
 * another stack. A signal handler may call this function.
 */
bool weft__stack_guard_contains(const weft__stack *stack, const void *address);

#endif
