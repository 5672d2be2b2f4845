/*
 * Repair a ring that fails at run time. If the program has closed the ring's descriptor, the ring
 * continues to work, because the ring is registered with the thread. The backend then replaces only
 * the eventfd. If io_uring_enter starts to fail (for example because of seccomp), the backend gives
 * up the ring.
 */
#include "backend/uring/uring.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * The pause after closing a ring, in microseconds. During the pause, the kernel cancels the
 * operations of the ring. The kernel starts to cancel when no mapping or descriptor refers to the
 * ring. The kernel does not report the end of the cancellation.
 */
#define RELEASE_US 10000

int weft__uring_check(weft__backend *base)
{
    return weft__wake_fd_is_own(&weft__uring_of(base)->wake) ? 0 : -EBADF;
}

void weft__uring_forget_ring_fd(weft__uring *b)
{
    if (b->abilities.has_registered_ring)
        __atomic_store_n(&b->ring.ring_fd, -1, __ATOMIC_RELAXED);
}

void weft__uring_cancel_wake(weft__uring *b)
{
    struct io_uring_sqe *sqe = b->is_wake_armed ? weft__uring_get_sqe(b) : NULL;
    if (sqe == NULL)
        return;
    io_uring_prep_cancel64(sqe, WEFT__KEY_WAKE, 0);
    sqe->user_data = WEFT__KEY_CANCEL;
}

int weft__uring_repair(weft__backend *base)
{
    weft__uring *b = weft__uring_of(base);
    int rc = io_uring_get_events(&b->ring);
    if (rc < 0 && rc != -EINTR && rc != -EBUSY && rc != -EAGAIN)
        return rc;
    if (weft__uring_check(base) == 0)
        return 0;
    weft__uring_forget_ring_fd(b);
    weft__ready_forget_closed(&b->ready); /* before the new eventfd can receive a closed number */
    /*
     * The kernel reads from the old eventfd until the read is cancelled. The next read uses the new
     * eventfd.
     */
    rc = weft__wake_fd_renew(&b->wake, EFD_CLOEXEC);
    if (rc == 0)
        weft__uring_cancel_wake(b);
    return rc;
}

/*
 * End an operation with an error. Also end the following links that are in no queue, because their
 * file was closed.
 */
static void op_fail(weft__uring *b, weft__op *op, int error)
{
    weft__op *after = op->progress & WEFT__CHAINED ? op->after : NULL;
    if (after != NULL)
        after->before = NULL;
    weft__list_remove(&op->link);
    weft__list_remove(&op->secondary_link);
    weft__uring_pending_dec(b, op);
    if (weft__uring_is_multishot(op))
        weft__uring_multishot_fail(CONTAINER_OF(op, weft__multishot, op), error);
    else
        op->done(op, op->moved > 0 ? (intptr_t)op->moved : error);
    if (after != NULL && after->progress & WEFT__CLOSED &&
        weft__list_is_empty(&after->secondary_link))
        op_fail(b, after, error);
}

static void list_fail(weft__uring *b, weft__list *list, int error)
{
    while (!weft__list_is_empty(list))
        op_fail(b, CONTAINER_OF(list->next, weft__op, secondary_link), error);
}

/* Free the internal operations that wait for readiness. */
static void drop_polls(weft__uring *b)
{
    WEFT__LIST_FOR(node, &b->polls) {
        weft__uring_poll *p = CONTAINER_OF(node, weft__uring_poll, all_link);
        if (p->is_armed) {
            weft__list_remove(&p->op.link);
            weft__list_remove(&p->op.secondary_link);
        }
        if (p->fd_state != NULL)
            p->fd_state->polls[0] = p->fd_state->polls[1] = NULL;
    }
    weft__uring_polls_free(b);
}

/* Close the ring. The memory of the provided buffers remains allocated. */
static void release_ring(weft__uring *b)
{
    if (weft__uring_check(&b->base) < 0)
        weft__uring_forget_ring_fd(b);
    weft__uring_tear_down(&b->ring);
    weft__wake_fd_close(&b->wake);
    b->is_wake_armed = false;
    b->is_given_up = true;
    usleep(RELEASE_US);
}

/* End the operations on a descriptor. */
static void fd_fail(weft__uring *b, weft__uring_fd *f, int error)
{
    for (int i = 0; i < WEFT__DIRECTIONS; i++)
        while (!weft__list_is_empty(&f->queues[i]))
            op_fail(b, weft__uring_queue_first(&f->queues[i]), error);
}

void weft__uring_give_up(weft__backend *base, int error)
{
    weft__uring *b = weft__uring_of(base);
    release_ring(b);
    drop_polls(b);
    for (weft__uring_fd_slab *slab = b->fds; slab != NULL; slab = slab->next)
        for (unsigned i = 0; i < slab->used; i++)
            fd_fail(b, &slab->fds[i], error);
    list_fail(b, &b->backlog, error);
    list_fail(b, &b->cancel_backlog, error);
    list_fail(b, &b->cancelling, error);
    weft__ready_give_up(&b->ready, error);
}
