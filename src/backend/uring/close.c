/*
 * Discard the state of a descriptor on a ring when this thread closes or releases the descriptor,
 * or when the number belongs to another file.
 */
#include "backend/uring/uring.h"

#include <errno.h>

/*
 * Return the operation to cancel in place of op. For a link, this is the running link of its chain.
 * A cancel request does not find a link that has not started, because the link is in no list of the
 * kernel. Cancelling the running link also ends the following links.
 */
static weft__op *first_of_chain(weft__op *op)
{
    while (op->progress & WEFT__CHAINED && op->before != NULL)
        op = op->before;
    return op;
}

/*
 * Cancel the started operations of a queue, and remove them from the queue. Returns whether there
 * were any.
 */
static bool queue_cancel(weft__uring *b, weft__list *queue)
{
    bool is_any_started = false;
    weft__list *node = queue->next;
    while (node != queue) {
        weft__op *op = CONTAINER_OF(node, weft__op, link);
        node = node->next;
        if (!(op->progress & WEFT__STARTED))
            continue;
        is_any_started = true;
        weft__list_remove(&op->link);
        if (!(op->progress & WEFT__CANCELLED))
            weft__uring_request_cancel(b, first_of_chain(op));
        op->progress |= WEFT__CLOSED | WEFT__CANCELLED;
        if (weft__uring_is_multishot(op))
            CONTAINER_OF(op, weft__multishot, op)->is_fd_closed = true;
    }
    return is_any_started;
}

/* End the operations of a queue that have not started. */
static void queue_end(weft__uring *b, weft__list *queue)
{
    while (!weft__list_is_empty(queue)) {
        weft__op *op = weft__uring_queue_first(queue);
        weft__list_remove(&op->link);
        weft__list_remove(&op->secondary_link);
        weft__uring_pending_dec(b, op);
        if (weft__uring_is_multishot(op))
            weft__uring_multishot_fd_closed(CONTAINER_OF(op, weft__multishot, op));
        else
            op->done(op, op->moved > 0 ? (intptr_t)op->moved : -EBADF);
    }
}

/*
 * End all operations on a descriptor, and discard its state. If must_flush is true, submit the
 * cancel requests at once.
 */
static void fd_state_clear(weft__uring *b, weft__uring_fd *f, bool must_flush)
{
    f->descriptor->is_closing = true;
    bool is_any_started = false;
    for (int i = 0; i < WEFT__DIRECTIONS; i++)
        is_any_started |= queue_cancel(b, &f->queues[i]);
    if (is_any_started && must_flush)
        weft__uring_flush(b);
    for (int i = 0; i < WEFT__DIRECTIONS; i++)
        queue_end(b, &f->queues[i]);
    weft__uring_drop_leftover(b, f);
    f->is_probed = f->is_stream = false;
    f->descriptor->is_closing = false;
}

/*
 * The kernel resolves a descriptor number when it starts an operation. A link starts when the
 * previous link has ended. Therefore all operations on the number must be started or cancelled
 * before the number can belong to another file.
 */
int weft__uring_close_fd(weft__backend *base, int fd)
{
    weft__uring *b = weft__uring_of(base);
    weft__uring_fd *f = weft__uring_fd_find(b, fd);
    if (f != NULL) {
        if (f->descriptor->is_closing)
            return -EBADF;
        fd_state_clear(b, f, true);
    }
    return weft__ready_close_fd(&b->ready, fd);
}

/* Return whether a descriptor has no leftover, and no operations except internal operations. */
static bool fd_state_is_idle(const weft__uring_fd *f)
{
    for (int i = 0; i < WEFT__DIRECTIONS; i++)
        WEFT__LIST_FOR(node, &f->queues[i])
            if (!CONTAINER_OF(node, weft__op, link)->is_internal)
                return false;
    return f->leftover == NULL;
}

int weft__uring_release_fd(weft__backend *base, int fd)
{
    weft__uring *b = weft__uring_of(base);
    weft__descriptor *d = fd >= 0 ? weft__ready_current(&b->ready, fd) : NULL;
    weft__uring_fd *f = d != NULL ? d->backend_data : NULL;
    if (f != NULL && !fd_state_is_idle(f))
        return -EBUSY;
    int rc = weft__ready_release_fd(&b->ready, fd);
    if (rc == 0 && f != NULL)
        f->is_probed = f->is_stream = f->is_drained = false;
    return rc;
}

int weft__uring_fd_forget(weft__uring *b, int fd)
{
    weft__uring_fd *f = weft__uring_fd_find(b, fd);
    if (f != NULL)
        fd_state_clear(b, f, false);
    return weft__ready_forget(&b->ready, fd);
}

/*
 * Return whether the descriptor of an operation was closed. Its number may belong to another file.
 */
static bool is_sqe_stale(const weft__op *op)
{
    const weft__uring_fd *f = op->fd_state;
    return op->progress & WEFT__CLOSED || (f != NULL && weft__ready_is_stale(f->descriptor));
}

void weft__uring_fail_stale_sqes(weft__uring *b)
{
    b->fd_advances = atomic_load_explicit(&weft__fd_advances, memory_order_relaxed);
    const struct io_uring_sq *sq = &b->ring.sq;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
        weft__key_kind kind = sqe->user_data & WEFT__KEY_KIND_MASK;
        if ((kind == WEFT__KEY_OP || kind == WEFT__KEY_MULTISHOT) &&
            is_sqe_stale(weft__key_object(sqe->user_data)))
            sqe->fd = -1;
    }
}
