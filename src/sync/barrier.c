/* Barriers. A fixed number of fibers wait for each other, repeatedly. */
#include "core/lifetime/cancel.h"

#include <weft/sync.h>

typedef struct barrier {
    weft__waitq waiters;
    size_t fibers;  /* fibers per round; 0: not open */
    size_t waiting; /* number of waiters; less than fibers */
} barrier;

_Static_assert(sizeof(barrier) <= sizeof(weft_barrier), "weft_barrier is too small");

static barrier *barrier_of(weft_barrier *handle)
{
    return (barrier *)(void *)handle;
}

static bool barrier_leave(weft__fiber *f)
{
    ((barrier *)f->wait_object)->waiting--;
    return weft__waitq_abort_wait(f);
}

static const weft__wait_kind waits_barrier = {"a barrier", .leave = barrier_leave,
                                              .forget = barrier_leave,
                                              .describe = weft__describe_object};

int weft_barrier_open(weft_barrier *handle, size_t fibers)
{
    if (fibers == 0)
        return weft_fail(-EINVAL, "weft_barrier_open: fibers is 0");
    *barrier_of(handle) = (barrier){.fibers = fibers};
    return 0;
}

int weft_barrier_wait(weft_barrier *handle)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    barrier *b = barrier_of(handle);
    if (UNLIKELY(b->fibers == 0))
        return weft_fail(-EINVAL, "weft_barrier_wait: the barrier is not open");
    if (b->waiting + 1 == b->fibers) {
        b->waiting = 0;
        weft__waitq_wake_all(c, &b->waiters, 0);
        return 1;
    }
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    b->waiting++;
    return weft__waitq_wait_int(c, &b->waiters, &waits_barrier, b);
}
