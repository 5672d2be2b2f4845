/* Barriers: so many fibers wait for each other, again and again. */
#include "core/alarm.h"

#include <weft/sync.h>

typedef struct barrier {
    weft__line waiters;
    size_t fibers;  /* that it takes; 0: not open */
    size_t waiting; /* fewer than that */
} barrier;

_Static_assert(sizeof(barrier) <= sizeof(weft_barrier), "weft_barrier is too small");

static barrier *private_of(weft_barrier *handle)
{
    return (barrier *)(void *)handle;
}

static bool leave(weft__fiber *f)
{
    ((barrier *)f->wait_object)->waiting--;
    return weft__leave_line(f);
}

static const weft__wait_kind waits_others = {"the others at a barrier", .leave = leave,
                                             .forget = leave};

int weft_barrier_open(weft_barrier *handle, size_t fibers)
{
    if (fibers == 0)
        return weft_fail(-EINVAL, "a barrier for no fibers");
    *private_of(handle) = (barrier){.fibers = fibers};
    return 0;
}

int weft_barrier_wait(weft_barrier *handle)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    barrier *b = private_of(handle);
    if (UNLIKELY(b->fibers == 0))
        return weft_fail(-EINVAL, "the barrier is not open");
    if (b->waiting + 1 == b->fibers) {
        b->waiting = 0;
        weft__serve_all(c, &b->waiters, 0);
        return 1;
    }
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    b->waiting++;
    return weft__line_wait_int(c, &b->waiters, &waits_others, b);
}
