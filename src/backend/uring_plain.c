/*
 * The short way for what most operations are: a read or a write on a stream socket on which nobody
 * waits before it. It does what uring_op.c does, without the questions that do not arise here, and
 * touches little memory: with thousands of connections none of it is in the cache. Whatever is not
 * as usual goes the long way, from the beginning or from the middle.
 */
#include "backend/uring.h"

#define OPCODES (UINT64_C(1) << IORING_OP_RECV | UINT64_C(1) << IORING_OP_SEND)

static bool is_plain(const weft__uring *b, const weft__op *op)
{
    bool is_buffer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
    return is_buffer && op->fd >= 0 && op->u.buffer.offset < 0 && op->u.buffer.bytes > 0 &&
           op->u.buffer.bytes <= INT32_MAX && (b->abilities.opcodes & OPCODES) == OPCODES;
}

static void enter(const weft__uring *b, const weft__flight *f, struct io_uring_sqe *sqe,
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

bool weft__uring_submit_plain(weft__uring *b, weft__op *op)
{
    if (UNLIKELY(!is_plain(b, op)))
        return false;
    const weft__descriptor *d = weft__ready_find(&b->ready, op->fd);
    weft__flight *f = d != NULL ? d->watcher : NULL;
    if (UNLIKELY(f == NULL || !f->is_stream || d->is_closing || f->kept != NULL ||
                 weft__ready_is_stale(d)))
        return false;
    weft__list *line = &f->lines[op->code == WEFT__OP_READ ? WEFT__WAY_IN : WEFT__WAY_OUT];
    if (UNLIKELY(!weft__list_is_empty(line) || !weft__list_is_empty(&b->starts)))
        return false;
    struct io_uring_sqe *sqe = weft__uring_entry(b);
    if (UNLIKELY(sqe == NULL))
        return false;
    op->progress = WEFT__STARTED | WEFT__PLAIN;
    op->moved = 0;
    op->job = NULL;
    op->place = f;
    weft__list_init(&op->turn);
    weft__list_insert(line, &op->link);
    op->key = weft__key_make(b, op, WEFT__KEY_OP);
    b->base.pending += !op->is_own;
    enter(b, f, sqe, op);
    return true;
}

bool weft__uring_complete_plain(weft__uring *b, weft__op *op, int result, unsigned flags)
{
    /* Neither cancelled nor closed meanwhile, and no error that may mean something else. */
    if (UNLIKELY(op->progress != (WEFT__STARTED | WEFT__PLAIN) || result <= 0))
        return false;
    bool is_read = op->code == WEFT__OP_READ;
    int fd = op->fd;
    bool is_alone = op->link.next == op->link.prev;
    if (is_read)
        ((weft__flight *)op->place)->is_drained = !(flags & IORING_CQE_F_SOCK_NONEMPTY);
    weft__list_remove(&op->link);
    weft__uring_uncount(b, op);
    op->done(op, result); /* first: it may close the descriptor under those that wait */
    if (UNLIKELY(!is_alone))
        weft__uring_start_next(b, fd, is_read ? WEFT__WAY_IN : WEFT__WAY_OUT);
    return true;
}
