/* Latches: waiting until a count is zero. */
#include "core/alarm.h"

#include <weft/sync.h>

/* Between calls: at zero nobody waits. */
typedef struct latch {
    weft__line waiters;
    size_t count;
} latch;

_Static_assert(sizeof(latch) <= sizeof(weft_latch), "weft_latch is too small");

static const weft__wait_kind waits_zero = {"a latch", .leave = weft__leave_line};

static latch *private_of(weft_latch *handle)
{
    return (latch *)(void *)handle;
}

int weft_latch_add(weft_latch *handle, size_t n)
{
    latch *l = private_of(handle);
    if (n > SIZE_MAX - l->count)
        return -EOVERFLOW;
    l->count += n;
    return 0;
}

int weft_latch_done(weft_latch *handle)
{
    latch *l = private_of(handle);
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (UNLIKELY(l->count == 0))
        return weft_fail(-EINVAL, "the latch is at zero already");
    if (--l->count == 0)
        weft__serve_all(c, &l->waiters, 0);
    return 0;
}

int weft_latch_wait(weft_latch *handle)
{
    latch *l = private_of(handle);
    if (LIKELY(l->count == 0))
        return 0;
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return weft__line_wait_int(c, &l->waiters, &waits_zero, l);
}

size_t weft_latch_count(const weft_latch *handle)
{
    return ((const latch *)(const void *)handle)->count;
}
