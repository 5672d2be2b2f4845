/* Latches. Fibers wait until a count is 0. */
#include "core/lifetime/cancel.h"

#include <weft/sync.h>

/* Invariant between calls: if count is 0, no fiber waits. */
typedef struct latch {
    weft__waitq waiters;
    size_t count;
} latch;

_Static_assert(sizeof(latch) <= sizeof(weft_latch), "weft_latch is too small");

static const weft__wait_kind waits_latch = {"a latch", .leave = weft__waitq_abort_wait,
                                            .describe = weft__describe_object};

static latch *latch_of(weft_latch *handle)
{
    return (latch *)(void *)handle;
}

int weft_latch_add(weft_latch *handle, size_t n)
{
    latch *l = latch_of(handle);
    if (n > SIZE_MAX - l->count)
        return -EOVERFLOW;
    l->count += n;
    return 0;
}

int weft_latch_done(weft_latch *handle)
{
    latch *l = latch_of(handle);
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (UNLIKELY(l->count == 0))
        return weft_fail(-EINVAL, "weft_latch_done: the count is already 0");
    if (--l->count == 0)
        weft__waitq_wake_all(c, &l->waiters, 0);
    return 0;
}

int weft_latch_wait(weft_latch *handle)
{
    latch *l = latch_of(handle);
    if (LIKELY(l->count == 0))
        return 0;
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    return weft__waitq_wait_int(c, &l->waiters, &waits_latch, l);
}

size_t weft_latch_count(const weft_latch *handle)
{
    return ((const latch *)(const void *)handle)->count;
}
