/*
 * The fast path of weft__uring_submit: a read or write on a stream socket without queued
 * operations. The fast path has the same effect as op.c, but omits checks that cannot apply. All
 * other operations take the slow path. Without the fast path: echo +18 % instructions
 * (docs/adr/0051). tests/backend/test_stream_alike.c compares both paths.
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
    op->progress = WEFT__STARTED;
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
