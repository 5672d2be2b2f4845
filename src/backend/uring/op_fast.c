/*
 * The fast path of common operations: a read or write on a stream socket without queued operations.
 * The fast path has the same effect as op.c and complete.c, but omits checks that cannot apply.
 * With thousands of connections, most memory accesses miss the cache. Therefore the fast path uses
 * few cache lines. All other operations take the slow path, at submission or at completion.
 */
#include "backend/uring/uring.h"

#define FAST_OPCODES (UINT64_C(1) << IORING_OP_RECV | UINT64_C(1) << IORING_OP_SEND)

static bool is_fast_op(const weft__uring *b, const weft__op *op)
{
    bool is_buffer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
    return is_buffer && op->fd >= 0 && op->u.buffer.offset < 0 && op->u.buffer.bytes > 0 &&
           op->u.buffer.bytes <= INT32_MAX && (b->abilities.opcodes & FAST_OPCODES) == FAST_OPCODES;
}

static void fast_fill_sqe(const weft__uring *b, const weft__uring_fd *f, struct io_uring_sqe *sqe,
                          const weft__op *op)
{
    bool is_read = op->code == WEFT__OP_READ;
    io_uring_prep_rw(is_read ? IORING_OP_RECV : IORING_OP_SEND, sqe, op->fd, op->u.buffer.data,
                     (unsigned)op->u.buffer.bytes, 0);
    sqe->user_data = op->key;
    if (!is_read)
        sqe->msg_flags = MSG_NOSIGNAL;
    else if (f->is_drained && b->abilities.has_poll_first)
        sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
}

bool weft__uring_submit_fast(weft__uring *b, weft__op *op)
{
    if (UNLIKELY(!is_fast_op(b, op)))
        return false;
    const weft__descriptor *d = weft__ready_find(&b->ready, op->fd);
    weft__uring_fd *f = d != NULL ? d->backend_data : NULL;
    if (UNLIKELY(f == NULL || !f->is_stream || d->is_closing || f->leftover != NULL ||
                 weft__ready_is_stale(d)))
        return false;
    weft__list *queue =
        &f->queues[op->code == WEFT__OP_READ ? WEFT__DIRECTION_IN : WEFT__DIRECTION_OUT];
    if (UNLIKELY(!weft__list_is_empty(queue) || !weft__list_is_empty(&b->backlog)))
        return false;
    struct io_uring_sqe *sqe = weft__uring_get_sqe(b);
    if (UNLIKELY(sqe == NULL))
        return false;
    op->progress = WEFT__STARTED | WEFT__FAST_PATH;
    op->moved = 0;
    op->job = NULL;
    op->fd_state = f;
    weft__list_init(&op->secondary_link);
    weft__list_insert(queue, &op->link);
    op->key = weft__key_make(b, op, WEFT__KEY_OP);
    b->base.pending += !op->is_internal;
    fast_fill_sqe(b, f, sqe, op);
    return true;
}

bool weft__uring_complete_fast(weft__uring *b, weft__op *op, int result, unsigned flags)
{
    /*
     * Use the slow path if the operation was cancelled, its descriptor was closed, or its result
     * may need another step.
     */
    if (UNLIKELY(op->progress != (WEFT__STARTED | WEFT__FAST_PATH) || result <= 0))
        return false;
    bool is_read = op->code == WEFT__OP_READ;
    int fd = op->fd;
    bool is_alone = op->link.next == op->link.prev;
    if (is_read)
        ((weft__uring_fd *)op->fd_state)->is_drained = !(flags & IORING_CQE_F_SOCK_NONEMPTY);
    weft__list_remove(&op->link);
    weft__uring_pending_dec(b, op);
    op->done(op, result); /* before the next operation: done may close the descriptor */
    if (UNLIKELY(!is_alone))
        weft__uring_start_next(b, fd, is_read ? WEFT__DIRECTION_IN : WEFT__DIRECTION_OUT);
    return true;
}
