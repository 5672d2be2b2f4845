/*
 * Submit and cancel operations of a hosted backend (is_hosted in backend.h). No cached state of a
 * descriptor is used, unless an earlier operation is pending on the descriptor.
 *
 * A transfer is first tried as a system call. A host resumes its fibers slowly, so a result at once
 * is cheaper than a completion. If the call would block, the file type is known from the call or
 * from a new probe, and the operation goes to the ring. WAIT, ACCEPT and CONNECT go to the ring
 * directly. accept(2) and connect(2) would need O_NONBLOCK. WAIT thus costs no system call.
 */
#include "backend/uring/uring.h"

#include "backend/syscall/call.h"

#include <errno.h>

/* Return the state of a descriptor, unprobed if it is new. NULL: closed, or no memory. */
static weft__uring_fd *fd_state_unprobed(weft__uring *b, int fd)
{
    if (fd < 0 || (weft__ready_find(&b->ready, fd) == NULL && !weft__call_is_open(fd)))
        return NULL;
    weft__descriptor *d = weft__ready_ensure(&b->ready, fd);
    if (d == NULL || d->backend_data != NULL)
        return d != NULL ? d->backend_data : NULL;
    return weft__uring_fd_new(b, d);
}

/* Return whether an operation is tried as a system call first. */
static bool is_transfer(const weft__op *op)
{
    return op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE || op->code == WEFT__OP_RECV ||
           op->code == WEFT__OP_SEND;
}

/* Return whether an earlier operation of the same direction is pending. */
static bool is_behind(weft__uring_fd *f, const weft__op *op)
{
    weft__uring_direction direction = weft__uring_direction_of(op);
    weft__waiters *w = &f->descriptor->waiters;
    return direction != WEFT__DIRECTION_ANY &&
           (!weft__list_is_empty(&f->queues[direction]) ||
            !weft__list_is_empty(direction == WEFT__DIRECTION_IN ? &w->readers : &w->writers));
}

/* Set the state of a socket without data. Only sends depend on the type of the socket. */
static void set_empty_socket(weft__uring_fd *f)
{
    f->is_terminal = false;
    f->is_drained = true;
    f->descriptor->is_not_socket = f->descriptor->is_on_disk = false;
}

/* Try a transfer. If the call would block, bring the state of the descriptor up to date. */
static intptr_t try_transfer(weft__uring_fd *f, weft__op *op)
{
    weft__fd_kind kind = {.is_not_socket = false};
    intptr_t result = weft__call_try(op, &kind);
    if (result != WEFT__OP_PENDING)
        return result;
    op->moved = (size_t)op->progress; /* bytes of a file that were in memory */
    op->progress = 0;
    if (!kind.is_not_socket && weft__uring_direction_of(op) == WEFT__DIRECTION_IN)
        set_empty_socket(f);
    else
        weft__uring_fd_probe(f, op->fd);
    return WEFT__OP_PENDING;
}

/* Submit by readiness, or on a worker thread. */
static intptr_t submit_to_ready(weft__uring *b, weft__op *op)
{
    op->key = 0;
    return weft__ready_submit(&b->ready, op);
}

intptr_t weft__uring_submit_hosted(weft__uring *b, weft__op *op)
{
    weft__uring_op_reset(op);
    if (op->code == WEFT__OP_CALL)
        return submit_to_ready(b, op);
    weft__uring_fd *f = fd_state_unprobed(b, op->fd);
    if (f == NULL)
        return weft__call_is_open(op->fd) ? -ENOMEM : -EBADF;
    if (f->descriptor->is_closing)
        return -EBADF;
    if (is_transfer(op) && !is_behind(f, op)) {
        intptr_t result = try_transfer(f, op);
        if (result != WEFT__OP_PENDING)
            return result;
    }
    /* A poll entry for POLLPRI alone never completes (Linux 6.18). */
    bool is_urgent = op->code == WEFT__OP_WAIT && op->u.events & POLLPRI;
    if (is_urgent || !weft__uring_is_native(b, op, f))
        return op->moved > 0 ? (intptr_t)op->moved : submit_to_ready(b, op);
    weft__uring_enqueue(b, f, op, WEFT__KEY_OP);
    return WEFT__OP_PENDING;
}

/*
 * Without this function, the kernel would look up the descriptor number after the host has closed
 * the descriptor, and a read could take data of another file.
 */
bool weft__uring_revoke(weft__uring *b, weft__op *op)
{
    if (!b->base.is_hosted || op->progress & WEFT__CANCELLED || op->moved > 0)
        return false;
    const struct io_uring_sq *sq = &b->ring.sq;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
        if (sqe->user_data != op->key)
            continue;
        io_uring_prep_nop(sqe);
        sqe->user_data = WEFT__KEY_CANCEL;
        op->progress &= ~WEFT__STARTED;
        return true;
    }
    return false;
}

/*
 * If hosted, remove the poll entries with the last waiter. They would remain on a file that the
 * host closes, and would not report the next file with the same number.
 */
bool weft__uring_cancel_ready(weft__uring *b, weft__op *op)
{
    bool is_ended = weft__ready_cancel(&b->ready, op);
    weft__descriptor *d =
        b->base.is_hosted && op->fd >= 0 ? weft__ready_find(&b->ready, op->fd) : NULL;
    if (d != NULL && weft__waiters_is_empty(&d->waiters))
        weft__uring_poll_remove(&b->base, op->fd, d);
    return is_ended;
}
