/*
 * Stacks: where they come from, how they are guarded, cached and given back.
 *
 * Each size class (a power of two) has its own big mappings, cut into slots: a guard, and a stack
 * of that size above it. A pool belongs to one cord and takes no locks. A slot's guard is
 * installed once and survives everything that happens to the slot later.
 *
 * Nothing is ever kept in the stack memory itself: a free stack is an entry in its class's cache,
 * so a fiber may release the very stack that it still runs on, and the warm paths touch no page.
 *
 * A guard stops frames that are smaller than the guard. A bigger frame (a large array or alloca)
 * can step over it into the neighbour. -fstack-clash-protection makes the compiler touch every page
 * on the way down, so that one page of guard is enough; code compiled without it needs more.
 */
#ifndef WEFT_CORE_STACK_H
#define WEFT_CORE_STACK_H

#include "base/compiler.h"
#include "base/list.h"
#include "core/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stack, in use or not: a slot of a mapping. Fixed once carved, but for is_deep. */
typedef struct weft__stack {
    char *low;      /* the lowest usable byte, just above the guard; NULL: no stack */
    uint32_t bytes; /* usable, up to the top, which is aligned to 64 bytes and in the last page */
    uint8_t index;  /* of its class; that of the last one, if there is no stack */
    bool is_deep;   /* pages below the top WEFT__STACK_TOP_BYTES were seen resident */
    bool is_unguarded;
    bool is_protected; /* by mprotect; for one that has a mapping to itself */
} weft__stack;

#define WEFT__STACK_CLASSES 17  /* 16 KiB to 1 GiB */
#define WEFT__STACK_BITS_MIN 14 /* log2 of WEFT__STACK_BYTES_MIN */

/* One size class of a pool. */
typedef struct weft__stack_class {
    weft__stack *cache;  /* free stacks: `cold` ones without pages, then warm, warmest last */
    size_t count;        /* entries of cache */
    size_t cold;         /* <= count */
    size_t until_look;   /* releases until weft__stack_look; >= 1 */
    size_t look_span;    /* what until_look was set to */
    size_t until_sample; /* releases, at the last look, until one is examined for deep use */
    size_t sample_every; /* releases between samples; grows while nothing is found */
    size_t deep_found;   /* stacks marked deep since the last sweep */
    size_t unused;       /* entries of cache, the first, that nobody acquired in this period */
    size_t to_cool;      /* of those that nobody acquired in the last one, so many are to be cold */
    size_t mapped;       /* stacks carved so far, that still exist */
    size_t slots;        /* of all chunks, carved or not */
    size_t capacity;     /* of cache; >= slots, so that a release cannot fail */
    weft__list chunks;   /* of weft__stack_chunk; only the last may have slots to carve */
} weft__stack_class;

typedef struct weft__stack_pool {
    size_t mapped;      /* stacks that exist */
    size_t cached;      /* of these, free */
    size_t unguarded;   /* of `mapped`, without a guard */
    uint32_t excess;    /* bit i: in class i more free stacks have pages than in quiet times */
    bool is_rich;       /* more free stacks have pages than are kept at rest; seen at a look */
    unsigned index_min; /* the smallest class in use: above 0 where pages are bigger than 4 KiB */
    weft__stack_class classes[WEFT__STACK_CLASSES];
} weft__stack_pool;

void weft__stack_pool_init(weft__stack_pool *pool);

/* Unmap everything. No stack of the pool may be in use, nor run on. */
void weft__stack_pool_close(weft__stack_pool *pool);

/* The cold part of acquire: put new slots into the empty cache of a class. Returns 0 or -ENOMEM. */
int weft__stack_fill(weft__stack_pool *pool, unsigned index);

/* The rare part of release, of what is last in the cache: see to deep and superfluous stacks. */
void weft__stack_look(weft__stack_pool *pool, unsigned index);

/* For a thread with nothing to do and an excess: give the pages of a few stacks back. */
void weft__stack_relieve(weft__stack_pool *pool);

/*
 * Begin another period, and note which pages to give back: those of free stacks that were not used
 * in the last period, except a few.
 */
void weft__stack_rest_begin(weft__stack_pool *pool);

/* Give some of these pages back. False: none are left. */
bool weft__stack_rest(weft__stack_pool *pool);

/* Work out is_rich. */
void weft__stack_look_rich(weft__stack_pool *pool);

/* Give back the pages below the top part of these free stacks. */
void weft__stack_shorten(weft__stack *const *stacks, size_t count);

/*
 * A stack of `bytes` rounded up to the class, less a colour of under 1 KiB; the guard is beside it.
 * What it holds is undefined. Returns 0, -EINVAL if bytes is out of range, -ENOMEM.
 */
static inline int weft__stack_acquire(weft__stack_pool *pool, size_t bytes, weft__stack *out)
{
    if (UNLIKELY(bytes - WEFT__STACK_BYTES_MIN > WEFT__STACK_BYTES_MAX - WEFT__STACK_BYTES_MIN))
        return -EINVAL;
    unsigned index = 64u - (unsigned)__builtin_clzll(bytes - 1) - WEFT__STACK_BITS_MIN;
    if (UNLIKELY(index < pool->index_min))
        index = pool->index_min;
    weft__stack_class *class = &pool->classes[index];
    if (UNLIKELY(class->count == 0)) {
        int rc = weft__stack_fill(pool, index);
        if (rc < 0)
            return rc;
    }
    *out = class->cache[--class->count];
    if (class->cold > class->count)
        class->cold = class->count;
    if (class->unused > class->count)
        class->unused = class->count;
    pool->cached--;
    return 0;
}

/*
 * Give a stack back to the cache; stack->low is NULL then. It may be the one that the caller runs
 * on: its frames stay as they are until someone else acquires the stack.
 */
static inline void weft__stack_release(weft__stack_pool *pool, weft__stack *stack)
{
    weft__stack_class *class = &pool->classes[stack->index];
    class->cache[class->count++] = *stack;
    pool->cached++;
    stack->low = NULL;
    if (UNLIKELY(--class->until_look == 0))
        weft__stack_look(pool, stack->index);
}

/*
 * Give the pages of all cached stacks back to the system, keeping the `keep` warmest of each class.
 * Stacks over WEFT__STACK_ALONE_BYTES are unmapped. If the caller runs on a cached one, its frames
 * stay.
 */
void weft__stack_trim(weft__stack_pool *pool, size_t keep);

/* Give back the pages of a stack in use that lie below its lowest frame, which is at `sp`. */
void weft__stack_trim_below(const weft__stack *stack, const void *sp);

/*
 * How far down the stack has been used since its pages were last given back, in whole pages (at
 * most stack->bytes): by whoever had it, for pages outlive a fiber. Swapped-out pages do not count.
 */
size_t weft__stack_used(const weft__stack *stack);

/*
 * The size of the stack's class: what has to be asked for to get one like it, also after its
 * release.
 */
static inline size_t weft__stack_slot_bytes(const weft__stack *stack)
{
    return WEFT__STACK_BYTES_MIN << stack->index;
}

/*
 * The default size: WEFT_STACK from the environment (bytes, or with K, M or G behind the number) if
 * it is sane, else WEFT__STACK_BYTES_DEFAULT. A value out of range is clamped, anything else
 * ignored, and either is said on stderr once.
 */
size_t weft__stack_bytes_default(void);

/*
 * The size of every guard of the process: what weft_guard_set said, else WEFT_GUARD from the
 * environment, else a page. Does not change after the first call. An odd number of pages.
 */
size_t weft__stack_guard_bytes(void);

/* The size to acquire when so many bytes were asked for; 0 asks for the default. */
static inline size_t weft__stack_bytes(size_t asked)
{
    return asked != 0 ? asked : weft__stack_bytes_default();
}

/*
 * Is this address in the guard of the stack? Exactly there: what lies below belongs to another
 * stack and does not fault. Safe in a signal handler.
 */
bool weft__stack_guards(const weft__stack *stack, const void *address);

#endif
