/*
 * Queue, submit and cancel the operations of a ring. complete.c handles their results. uring.c
 * explains the queues.
 */
#include "backend/uring/uring.h"

#include "backend/syscall/call.h"
#include "backend/syscall/count.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>

/* Queues. */

weft__uring_direction weft__uring_direction_of(const weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
        return op->u.buffer.offset < 0 ? WEFT__DIRECTION_IN : WEFT__DIRECTION_ANY;
    case WEFT__OP_READV:
        return op->u.vector.offset < 0 ? WEFT__DIRECTION_IN : WEFT__DIRECTION_ANY;
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_ACCEPT:
        return WEFT__DIRECTION_IN;
    case WEFT__OP_WRITE:
        return op->u.buffer.offset < 0 ? WEFT__DIRECTION_OUT : WEFT__DIRECTION_ANY;
    case WEFT__OP_WRITEV:
        return op->u.vector.offset < 0 ? WEFT__DIRECTION_OUT : WEFT__DIRECTION_ANY;
    case WEFT__OP_SEND:
    case WEFT__OP_SENDMSG:
        return WEFT__DIRECTION_OUT;
    default:
        return WEFT__DIRECTION_ANY;
    }
}

/*
 * Use the leftover of a descriptor for an operation. Returns whether the operation has completed. A
 * multishot operation takes over the leftover, but does not complete.
 */
static bool op_use_leftover(weft__uring *b, weft__uring_fd *f, weft__op *op)
{
    if (weft__uring_is_multishot(op)) {
        weft__uring_multishot_resume(CONTAINER_OF(op, weft__multishot, op), f);
        return false;
    }
    intptr_t result = weft__uring_take_leftover(b, f, op);
    if (result == WEFT__OP_PENDING)
        return false;
    weft__list_remove(&op->link);
    weft__uring_pending_dec(b, op);
    op->done(op, result);
    return true;
}

/*
 * Drop stale state of fd. Return the first operation of a queue, or NULL if that operation cannot
 * start.
 */
static weft__op *queue_prepare_next(weft__uring *b, int fd, weft__uring_direction direction)
{
    if (UNLIKELY(weft__ready_is_stale_fd(&b->ready, fd)))
        weft__uring_fd_forget(b, fd); /* ends the queued operations with -EBADF */
    weft__uring_fd *f = direction != WEFT__DIRECTION_ANY ? weft__uring_fd_find(b, fd) : NULL;
    if (f == NULL || f->descriptor->is_closing || weft__list_is_empty(&f->queues[direction]))
        return NULL;
    weft__op *next = weft__uring_queue_first(&f->queues[direction]);
    return next->progress & WEFT__STARTED || !weft__list_is_empty(&next->secondary_link) ? NULL
                                                                                         : next;
}

bool weft__uring_has_queued(weft__uring *b, int fd, weft__uring_direction direction)
{
    const weft__uring_fd *f = weft__uring_fd_find(b, fd);
    return f != NULL && f->queues[direction].next != f->queues[direction].prev;
}

void weft__uring_start_next(weft__uring *b, int fd, weft__uring_direction direction)
{
    weft__op *next;
    while ((next = queue_prepare_next(b, fd, direction)) != NULL) {
        weft__uring_fd *f = weft__uring_fd_find(b, fd);
        if (f->leftover == NULL || !op_use_leftover(b, f, next)) {
            weft__uring_op_start(b, next);
            return;
        }
    }
}

void weft__uring_op_dequeue(weft__uring *b, weft__op *op)
{
    weft__list_remove(&op->link);
    weft__uring_start_next(b, op->fd, weft__uring_direction_of(op));
}

/* Starting and cancelling. */

static void op_fill_sqe(weft__uring *b, struct io_uring_sqe *sqe, weft__op *op)
{
    op->progress |= WEFT__STARTED;
    if (weft__uring_is_multishot(op)) {
        weft__uring_prep_multishot(sqe, op);
        return;
    }
    weft__uring_prep(b, sqe, op, weft__uring_fd_find(b, op->fd));
    if (op->progress & WEFT__LINKED) {
        sqe->flags |= IOSQE_IO_LINK;
        /* Without MSG_WAITALL, a partial send does not break the chain. */
        if (sqe->opcode == IORING_OP_SEND)
            sqe->msg_flags |= MSG_WAITALL;
    }
}

void weft__uring_op_start(weft__uring *b, weft__op *op)
{
    struct io_uring_sqe *sqe = weft__list_is_empty(&b->backlog) ? weft__uring_get_sqe(b) : NULL;
    if (sqe != NULL)
        op_fill_sqe(b, sqe, op);
    else
        weft__list_insert(&b->backlog, &op->secondary_link);
}

static void cancel_fill_sqe(weft__uring *b, struct io_uring_sqe *sqe, weft__op *op)
{
    io_uring_prep_cancel64(sqe, op->key, 0);
    sqe->user_data = WEFT__KEY_CANCEL;
    weft__list_insert(&b->cancelling, &op->secondary_link);
}

void weft__uring_request_cancel(weft__uring *b, weft__op *op)
{
    if (!weft__list_is_empty(&op->secondary_link))
        return; /* a request was already sent, or is in the backlog */
    struct io_uring_sqe *sqe =
        weft__list_is_empty(&b->cancel_backlog) ? weft__uring_get_sqe(b) : NULL;
    if (sqe != NULL)
        cancel_fill_sqe(b, sqe, op);
    else
        weft__list_insert(&b->cancel_backlog, &op->secondary_link);
}

/*
 * A cancel request does not find an operation that moves between lists of the kernel (-ENOENT). An
 * operation moves if it must wait again after its descriptor was ready. An operation also moves if
 * a kernel thread takes it over. Send the request again until the operation ends.
 */
void weft__uring_retry_cancels(weft__uring *b)
{
    b->must_retry_cancels = false;
    weft__list_splice(&b->cancel_backlog, &b->cancelling);
}

void weft__uring_submit_backlog(weft__uring *b)
{
    struct io_uring_sqe *sqe;
    /* Submit cancel requests before other operations, because cancel requests end operations. */
    while (!weft__list_is_empty(&b->cancel_backlog) && (sqe = weft__uring_get_sqe(b)) != NULL) {
        weft__op *op = CONTAINER_OF(b->cancel_backlog.next, weft__op, secondary_link);
        weft__list_remove(&op->secondary_link);
        cancel_fill_sqe(b, sqe, op);
    }
    while (!weft__list_is_empty(&b->backlog) && (sqe = weft__uring_get_sqe(b)) != NULL) {
        weft__op *op = CONTAINER_OF(b->backlog.next, weft__op, secondary_link);
        weft__list_remove(&op->secondary_link);
        op_fill_sqe(b, sqe, op);
    }
}

/* Submitting. */

void weft__uring_enqueue(weft__uring *b, weft__uring_fd *f, weft__op *op, weft__key_kind kind)
{
    weft__uring_direction direction = weft__uring_direction_of(op);
    weft__list *queue = f != NULL ? &f->queues[direction] : NULL;
    bool is_next = queue == NULL || direction == WEFT__DIRECTION_ANY || weft__list_is_empty(queue);
    if (queue != NULL)
        weft__list_insert(queue, &op->link);
    op->fd_state = f;
    b->base.pending += !op->is_internal;
    op->key = weft__key_make(b, op, kind);
    if (is_next)
        weft__uring_op_start(b, op);
}

void weft__uring_multishot_cancel_for(weft__uring *b, weft__uring_fd *f, const weft__op *op)
{
    const weft__list *queue = &f->queues[WEFT__DIRECTION_IN];
    if (LIKELY(weft__list_is_empty(queue)) ||
        !weft__uring_is_multishot(weft__uring_queue_first(queue)))
        return;
    weft__multishot *m = CONTAINER_OF(weft__uring_queue_first(queue), weft__multishot, op);
    if (m->op.owner != op->owner || m->is_cancelled)
        return;
    m->is_cancelled = true;
    weft__uring_request_cancel(b, &m->op);
}

intptr_t weft__uring_submit(weft__backend *base, weft__op *op)
{
    weft__uring *b = weft__uring_of(base);
    if (UNLIKELY(base->is_hosted))
        return weft__uring_submit_hosted(b, op);
    if (LIKELY(weft__uring_submit_fast(b, op)))
        return WEFT__OP_PENDING;
    weft__uring_op_reset(op);
    weft__uring_fd *f = NULL;
    if (op->fd >= 0) {
        f = weft__uring_fd_ensure(b, op->fd);
        if (f == NULL)
            return WEFT__COUNTED(fcntl(op->fd, F_GETFD)) < 0 ? -EBADF : -ENOMEM;
        if (f->descriptor->is_closing)
            return -EBADF;
        if (UNLIKELY(f->leftover != NULL)) {
            intptr_t result = weft__uring_take_leftover(b, f, op);
            if (result != WEFT__OP_PENDING)
                return result;
        }
    }
    if (!weft__uring_is_native(b, op, f))
        return weft__ready_submit(&b->ready, op);
    if (f != NULL && weft__uring_direction_of(op) == WEFT__DIRECTION_IN)
        weft__uring_multishot_cancel_for(b, f, op);
    if (op->code == WEFT__OP_WAIT) { /* report existing readiness at once */
        weft__fd_kind ignored = {0};
        intptr_t result = weft__call_try(op, &ignored);
        if (result != WEFT__OP_PENDING)
            return result;
    }
    weft__uring_enqueue(b, f, op, WEFT__KEY_OP);
    return WEFT__OP_PENDING;
}

/* Drop stale state of the descriptor. Return whether the kernel can start the operation at once. */
static bool can_start_now(weft__uring *b, const weft__op *op)
{
    weft__uring_fd *f = weft__uring_fd_ensure(b, op->fd);
    return f != NULL && !f->descriptor->is_closing && f->leftover == NULL &&
           weft__list_is_empty(&f->queues[weft__uring_direction_of(op)]) &&
           weft__uring_is_native(b, op, f);
}

int weft__uring_submit_linked(weft__backend *base, weft__op *const *ops, size_t count)
{
    weft__uring *b = weft__uring_of(base);
    for (size_t i = 0; i < count; i++)
        if (!can_start_now(b, ops[i]))
            return -EOPNOTSUPP;
    /*
     * The kernel ends a chain at the end of a submission. Therefore all links must fit into the
     * queue.
     */
    if (!weft__list_is_empty(&b->backlog) || io_uring_sq_space_left(&b->ring) < count)
        return -EAGAIN;
    for (size_t i = 0; i < count; i++) {
        weft__op *op = ops[i];
        op->progress = WEFT__CHAINED | (i + 1 < count ? WEFT__LINKED : 0);
        op->before = i > 0 ? ops[i - 1] : NULL;
        op->after = i + 1 < count ? ops[i + 1] : NULL;
        op->moved = 0;
        op->job = NULL;
        weft__list_init(&op->secondary_link);
        weft__uring_fd *f = weft__uring_fd_ensure(b, op->fd);
        weft__list_init(&op->link);
        weft__list_insert(&f->queues[WEFT__DIRECTION_ANY], &op->link);
        op->fd_state = f;
        op->key = weft__key_make(b, op, WEFT__KEY_OP);
        b->base.pending++;
        weft__uring_op_start(b, op);
    }
    return 0;
}

bool weft__uring_cancel(weft__backend *base, weft__op *op)
{
    weft__uring *b = weft__uring_of(base);
    if (op->key == 0)
        return weft__uring_cancel_ready(b, op);
    if (op->progress & WEFT__STARTED && !weft__uring_revoke(b, op)) {
        if (!(op->progress & (WEFT__CANCELLED | WEFT__CLOSED)))
            weft__uring_request_cancel(b, op);
        op->progress |= WEFT__CANCELLED;
        return false;
    }
    if (op->moved > 0) { /* the operation continues, and returns the transferred bytes */
        op->progress |= WEFT__CANCELLED;
        return false;
    }
    weft__list_remove(&op->secondary_link);
    weft__uring_op_dequeue(b, op);
    weft__uring_pending_dec(b, op);
    return true;
}

/* Multishot operations. */

void weft__uring_multishot_enqueue(weft__uring *b, weft__multishot *m)
{
    m->op.progress = 0;
    weft__uring_enqueue(b, weft__uring_fd_find(b, m->op.fd), &m->op, WEFT__KEY_MULTISHOT);
}

void weft__uring_multishot_dequeue(weft__uring *b, weft__multishot *m)
{
    weft__list_remove(&m->op.secondary_link);
    weft__uring_op_dequeue(b, &m->op);
    b->base.pending--;
}

bool weft__uring_multishot_cancel(weft__uring *b, weft__multishot *m)
{
    if (m->is_cancelled && m->op.progress & WEFT__STARTED)
        return false; /* a cancel request was already sent */
    m->is_cancelled = true;
    return weft__uring_cancel(&b->base, &m->op);
}
