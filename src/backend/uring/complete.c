/*
 * Handle the completions of operations on a ring. A completion ends the operation, starts it again,
 * or moves it to ready.c.
 */
#include "backend/uring/uring.h"

#include "backend/syscall/call.h"

#include <errno.h>

/*
 * Internal errors of the kernel for calls that restart after a signal. An interrupted kernel thread
 * can return these errors.
 */
#define ERESTART_FIRST (-512)
#define ERESTART_LAST (-516)

/*
 * Set the state of an accepted connection according to its listener. Do nothing if the listener was
 * closed meanwhile.
 */
static COLD void set_accepted_state(weft__uring *b, const weft__op *op, int fd)
{
    const weft__uring_fd *listener = weft__uring_fd_find(b, op->fd);
    if (listener != NULL && listener->is_probed && !(op->progress & WEFT__CLOSED))
        weft__uring_fd_set_accepted(b, fd, listener->has_messages);
}

/* Remove an operation that the kernel has released, and report its result. */
static void op_finish(weft__uring *b, weft__op *op, intptr_t result)
{
    int fd = op->fd;
    weft__uring_direction direction = weft__uring_direction_of(op);
    bool is_alone = op->link.next == op->link.prev; /* no other operation is in the queue */
    if (op->progress & WEFT__CHAINED && op->after != NULL)
        op->after->before = NULL;
    weft__list_remove(&op->secondary_link); /* drops a cancel request in the backlog */
    weft__list_remove(&op->link);
    weft__uring_pending_dec(b, op);
    weft__ready_note_created(&b->ready, op, result);
    if (UNLIKELY(op->code == WEFT__OP_ACCEPT) && result >= 0)
        set_accepted_state(b, op, (int)result);
    op->done(op, result); /* before the next operation: done may close the descriptor */
    if (!is_alone)
        weft__uring_start_next(b, fd, direction);
}

/* Continue an operation in ready.c. */
static void op_hand_to_ready(weft__uring *b, weft__op *op)
{
    if (weft__ready_is_stale_fd(&b->ready, op->fd)) {
        op_finish(b, op, -EBADF);
        return;
    }
    weft__uring_op_dequeue(b, op);
    b->base.pending--;
    op->key = 0;
    intptr_t result = weft__ready_submit(&b->ready, op);
    if (result != WEFT__OP_PENDING)
        op->done(op, result);
}

static bool is_on_disk(weft__uring *b, const weft__op *op)
{
    return weft__ready_find(&b->ready, op->fd)->is_on_disk;
}

typedef enum next_step { STEP_FINISH, STEP_RESTART, STEP_BY_READINESS } next_step;

/* Return the next step after an error. Only STEP_FINISH reports the error to the caller. */
static next_step classify_result(weft__uring *b, const weft__op *op, int result)
{
    bool is_buffer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
    bool is_write = op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
    switch (result) {
    case -ECANCELED: /* no kernel thread was available, or a previous link has failed */
        return op->progress & WEFT__CHAINED ? STEP_FINISH : STEP_BY_READINESS;
    case -EINTR:
        return STEP_RESTART; /* a signal interrupted a kernel thread */
    case -ENOTSOCK:          /* at the probe, the number belonged to another file */
        if (!is_buffer)
            return STEP_FINISH;
        weft__uring_fd_probe(weft__uring_fd_find(b, op->fd), op->fd);
        return weft__uring_is_native(b, op, weft__uring_fd_find(b, op->fd)) ? STEP_RESTART
                                                                            : STEP_BY_READINESS;
    case -EOPNOTSUPP: /* before Linux 6.18, RWF_NOSIGNAL is not supported */
        if (!is_write || is_on_disk(b, op))
            return STEP_FINISH;
        b->lacks_nosignal = true;
        return STEP_BY_READINESS;
    case -EAGAIN: /* O_NONBLOCK is set, and the kernel does not wait */
        return op->code != WEFT__OP_FSYNC ? STEP_BY_READINESS : STEP_FINISH;
    case -EALREADY:
    case -EINPROGRESS: /* an earlier connect was cancelled, but is still in progress */
        return op->code == WEFT__OP_CONNECT ? STEP_BY_READINESS : STEP_FINISH;
    default:
        return STEP_FINISH;
    }
}

/* Return the result of a cancelled operation. An operation that has completed keeps its result. */
static intptr_t cancelled_result(const weft__op *op, int result)
{
    bool had_no_effect = result == -ECANCELED || result == -EINTR || result == -EAGAIN ||
                         result == -ENOTSOCK || result == -EALREADY || result == -EINPROGRESS;
    if (!had_no_effect)
        return result;
    return op->progress & WEFT__CLOSED ? -EBADF : -ECANCELED;
}

/*
 * Return whether a read of a file may have returned only the data in the page cache. The operation
 * must then continue, because callers interpret a short read as the end of the file.
 */
static bool is_cut_short(weft__uring *b, const weft__op *op, int result)
{
    if (op->code != WEFT__OP_READ || op->progress & (WEFT__CANCELLED | WEFT__CLOSED | WEFT__LINKED))
        return false;
    weft__uring_fd *f = weft__uring_fd_find(b, op->fd);
    size_t wanted = op->u.buffer.bytes;
    if (wanted > WEFT__RW_BYTES_MAX)
        wanted = WEFT__RW_BYTES_MAX;
    if (!f->descriptor->is_on_disk || op->moved + (size_t)result >= wanted)
        return false;
    weft__uring_fd_probe(f, op->fd); /* close(2) by the program does not advance the generation */
    return f->descriptor->is_on_disk;
}

/* Start an operation again if the number still belongs to its file. Otherwise end the operation. */
static void op_restart(weft__uring *b, weft__op *op)
{
    if (weft__ready_is_stale_fd(&b->ready, op->fd)) {
        op_finish(b, op, op->moved > 0 ? (intptr_t)op->moved : -EBADF);
        return;
    }
    op->progress &= ~(WEFT__STARTED | WEFT__LINKED);
    weft__uring_op_start(b, op);
}

/* Record whether the last receive emptied the stream. */
static void note_drained(weft__uring *b, const weft__op *op, unsigned flags)
{
    if (op->code != WEFT__OP_READ && op->code != WEFT__OP_RECV)
        return;
    weft__uring_fd *f = weft__uring_fd_find(b, op->fd);
    if (f != NULL && !f->descriptor->is_not_socket)
        f->is_drained = !(flags & IORING_CQE_F_SOCK_NONEMPTY) && !f->has_messages;
}

void weft__uring_completed(weft__uring *b, weft__op *op, int result, unsigned flags)
{
    if (result > 0)
        note_drained(b, op, flags);
    if (result <= ERESTART_FIRST && result >= ERESTART_LAST)
        result = -EINTR;
    if (result > 0 && is_cut_short(b, op, result)) {
        op->moved += (size_t)result;
        op_restart(b, op);
        return;
    }
    if (op->moved > 0) { /* the next operation will return the error, if any */
        op_finish(b, op, (intptr_t)op->moved + (result > 0 ? result : 0));
        return;
    }
    if (op->progress & (WEFT__CANCELLED | WEFT__CLOSED)) {
        op_finish(b, op, cancelled_result(op, result));
        return;
    }
    switch (LIKELY(result >= 0) ? STEP_FINISH : classify_result(b, op, result)) {
    case STEP_FINISH:
        op_finish(b, op, result);
        break;
    case STEP_RESTART:
        op_restart(b, op);
        break;
    case STEP_BY_READINESS:
        op_hand_to_ready(b, op);
        break;
    }
}
