/*
 * Multishot operations: accept, and receive into provided buffers. The backend queues results until
 * the caller takes them. If too many results are queued, the backend cancels the operation.
 * multishot_next submits the operation again after the caller has taken all results.
 *
 * When the caller closes an operation, connections or data may remain. The descriptor keeps them
 * for the next accept or read.
 */
#include "backend/uring/leftover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The number of queued results at which the backend cancels an operation. Otherwise a caller that
 * blocks could hold all buffers.
 */
#define QUEUED_MAX 16

/* Return whether results are queued. */
static bool has_results(const weft__multishot *m)
{
    return m->first != WEFT__URING_NO_BUFFER || !weft__conns_are_empty(m->conns);
}

/* Return whether any thread has closed the descriptor since multishot_open. */
static bool is_fd_stale(const weft__multishot *m)
{
    return weft__fd_generation(m->op.fd) != m->fd_generation;
}

/* Leftovers. */

/*
 * Append the results of m to an older leftover of the descriptor. Returns false if memory is
 * exhausted.
 */
static bool leftover_append(weft__uring *b, weft__uring_leftover *left, weft__multishot *m)
{
    if (m->skip > 0) {
        weft__uring_buffer_info *info = &b->buffers.infos[m->first];
        info->bytes -= (unsigned)m->skip;
        memmove(weft__uring_buffer_data(b, m->first),
                weft__uring_buffer_data(b, m->first) + m->skip, info->bytes);
    }
    while (m->first != WEFT__URING_NO_BUFFER)
        weft__uring_buffer_append(b, &left->first, &left->last,
                                  weft__uring_buffer_pop(b, &m->first));
    if (left->conns == NULL) {
        left->conns = m->conns;
        return true;
    }
    for (; !weft__conns_are_empty(m->conns); m->conns->first++)
        if (!weft__conns_append(&left->conns, m->conns->fd[m->conns->first]))
            return false;
    free(m->conns);
    return true;
}

/*
 * Return an error that the caller has not received yet, or 0. The kernel reports such an error only
 * once.
 */
static int multishot_error(const weft__multishot *m)
{
    return m->has_end_result && m->end_result < 0 && m->end_result != -ENOBUFS && !m->is_fd_closed
               ? m->end_result
               : 0;
}

static bool leftover_try_store(weft__uring *b, weft__multishot *m)
{
    weft__uring_fd *f = m->is_fd_closed ? NULL : weft__uring_fd_ensure(b, m->op.fd);
    if (f == NULL)
        return false;
    if (f->leftover != NULL)
        return leftover_append(b, f->leftover, m);
    /* The leftover is a member of f. Therefore results are not lost if memory is exhausted. */
    f->leftover = &f->leftover_own;
    *f->leftover = (weft__uring_leftover){.first = m->first,
                                          .last = m->last,
                                          .used = (uint32_t)m->skip,
                                          .error = multishot_error(m),
                                          .conns = m->conns};
    return true;
}

/*
 * Keep the remaining results for the next operations on the descriptor. If the descriptor was
 * closed, discard the results.
 */
static void leftover_store(weft__uring *b, weft__multishot *m)
{
    m->is_fd_closed |= is_fd_stale(m);
    bool is_any = has_results(m);
    is_any |= m->is_closing && m->op.code == WEFT__OP_RECV && multishot_error(m) != 0;
    if (!is_any || !leftover_try_store(b, m)) {
        while (m->first != WEFT__URING_NO_BUFFER)
            weft__uring_buffer_recycle(b, weft__uring_buffer_pop(b, &m->first));
        weft__conns_close(m->conns);
    }
    m->first = WEFT__URING_NO_BUFFER;
    m->conns = NULL;
    m->count = 0;
    m->skip = 0;
}

/* Operations. */

void weft__uring_prep_multishot(struct io_uring_sqe *sqe, const weft__op *op)
{
    if (op->code == WEFT__OP_ACCEPT) {
        io_uring_prep_multishot_accept(sqe, op->fd, NULL, NULL, SOCK_CLOEXEC);
    } else {
        io_uring_prep_recv_multishot(sqe, op->fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = WEFT__URING_BUFFER_GROUP;
    }
    sqe->user_data = op->key;
}

/* Take over the leftover of an earlier operation on the descriptor, unless m has results. */
static void multishot_take_leftover(weft__multishot *m, weft__uring_fd *f)
{
    weft__uring_leftover *left = f->leftover;
    if (left == NULL || has_results(m))
        return;
    f->leftover = NULL;
    m->first = left->first;
    m->last = left->last;
    m->skip = left->used;
    if (left->conns != NULL) {
        free(m->conns);
        m->conns = left->conns;
    }
    if (left->error != 0) {
        m->has_end_result = true;
        m->end_result = left->error;
    }
}

int weft__uring_multishot_open(weft__backend *base, weft__multishot *m)
{
    weft__uring *b = weft__uring_of(base);
    const weft__uring_abilities *a = &b->abilities;
    bool is_accept = m->op.code == WEFT__OP_ACCEPT;
    if (!(is_accept ? a->has_multishot_accept : a->has_multishot_recv))
        return -EOPNOTSUPP;
    weft__uring_fd *f = weft__uring_fd_ensure(b, m->op.fd);
    if (f == NULL || f->descriptor->is_closing || f->descriptor->is_not_socket || f->has_messages)
        return -EOPNOTSUPP; /* a message may be larger than a buffer */
    weft__conns *conns = is_accept ? weft__conns_new() : NULL;
    if (is_accept ? conns == NULL : weft__uring_buffers_ensure(b) < 0)
        return -EOPNOTSUPP;
    weft__op op = m->op;
    *m = (weft__multishot){
        .op = op, .held = WEFT__URING_NO_BUFFER, .first = WEFT__URING_NO_BUFFER, .conns = conns};
    m->fd_generation = weft__fd_generation(m->op.fd);
    weft__list_init(&m->op.link);
    weft__list_init(&m->op.secondary_link);
    multishot_take_leftover(m, f);
    return 0;
}

static void multishot_release_held(weft__uring *b, weft__multishot *m)
{
    if (m->held != WEFT__URING_NO_BUFFER)
        weft__uring_buffer_recycle(b, m->held);
    m->held = WEFT__URING_NO_BUFFER;
}

static intptr_t multishot_take_result(weft__uring *b, weft__multishot *m, const void **data)
{
    m->count -= m->count > 0;
    if (m->op.code == WEFT__OP_ACCEPT) {
        int fd = m->conns->fd[m->conns->first++];
        weft__ready_fd_created(&b->ready, fd);
        weft__uring_fd_set_accepted(b, fd, false);
        return fd;
    }
    m->held = weft__uring_buffer_pop(b, &m->first);
    *data = weft__uring_buffer_data(b, m->held) + m->skip;
    intptr_t bytes = (intptr_t)(b->buffers.infos[m->held].bytes - m->skip);
    m->skip = 0;
    return bytes;
}

intptr_t weft__uring_multishot_next(weft__backend *base, weft__multishot *m, const void **data)
{
    weft__uring *b = weft__uring_of(base);
    multishot_release_held(b, m);
    if (has_results(m))
        return multishot_take_result(b, m, data);
    if (m->has_end_result) {
        m->has_end_result = false;
        return m->end_result;
    }
    if (m->is_fd_closed || (!m->is_armed && is_fd_stale(m)))
        return -EBADF;
    if (!m->is_armed) {
        weft__uring_fd *f = weft__uring_fd_find(b, m->op.fd);
        /*
         * A read inside the caller's loop may have cancelled the operation. The results are then in
         * the leftover.
         */
        multishot_take_leftover(m, f);
        if (has_results(m))
            return multishot_take_result(b, m, data);
        m->is_armed = true;
        m->is_cancelled = false;
        weft__uring_multishot_cancel_for(b, f, &m->op);
        weft__uring_multishot_enqueue(b, m);
    }
    m->is_waited_for = true;
    return WEFT__OP_PENDING;
}

static void multishot_add_result(weft__uring *b, weft__multishot *m, const weft__completion *c)
{
    m->count++;
    if (m->op.code == WEFT__OP_ACCEPT) {
        if (weft__conns_append(&m->conns, c->result))
            return;
        close(c->result); /* memory for the list is exhausted */
        m->has_end_result = true;
        m->end_result = -ENOMEM;
        return;
    }
    int buffer = (int)(c->flags >> IORING_CQE_BUFFER_SHIFT);
    b->buffers.infos[buffer].bytes = (unsigned)c->result;
    weft__uring_buffer_append(b, &m->first, &m->last, buffer);
}

/* Return whether the result is a connection or data. Any other result ends the operation. */
static bool is_result(const weft__multishot *m, int result)
{
    return result > 0 || (result == 0 && m->op.code == WEFT__OP_ACCEPT);
}

/* Record that the kernel has ended the operation. result is the last result. */
static void multishot_ended(weft__multishot *m, int result)
{
    m->is_armed = false;
    if (is_result(m, result))
        return; /* the next multishot_next submits the operation again */
    if (result == -ECANCELED && (m->is_cancelled || m->is_fd_closed))
        return;
    m->has_end_result = true;
    m->end_result = result;
}

static void multishot_notify(weft__multishot *m)
{
    m->is_waited_for = false;
    m->op.done(&m->op, 0);
}

void weft__uring_multishot_completed(weft__uring *b, weft__multishot *m, const weft__completion *c)
{
    if (is_result(m, c->result))
        multishot_add_result(b, m, c);
    else if (c->flags & IORING_CQE_F_BUFFER) /* the end of the input may have a buffer */
        weft__uring_buffer_recycle(b, (int)(c->flags >> IORING_CQE_BUFFER_SHIFT));
    if (!(c->flags & IORING_CQE_F_MORE)) {
        multishot_ended(m, c->result);
        /* Store the results before other operations on the descriptor start. */
        if (m->is_closing || weft__uring_has_queued(b, m->op.fd, WEFT__DIRECTION_IN))
            leftover_store(b, m);
        weft__uring_multishot_dequeue(b, m);
        if (m->is_closing) {
            m->op.done(&m->op, 0);
            return;
        }
    } else if (m->count >= QUEUED_MAX && !m->is_cancelled) {
        m->is_cancelled = true;
        weft__uring_request_cancel(b, &m->op);
    }
    if (m->is_waited_for)
        multishot_notify(m);
}

void weft__uring_multishot_resume(weft__multishot *m, weft__uring_fd *f)
{
    multishot_take_leftover(m, f);
    if (m->is_waited_for && has_results(m))
        multishot_notify(m);
}

void weft__uring_multishot_fd_closed(weft__multishot *m)
{
    m->is_fd_closed = true;
    m->is_armed = false;
    if (m->is_waited_for)
        multishot_notify(m);
}

void weft__uring_multishot_fail(weft__multishot *m, int error)
{
    m->is_armed = false;
    m->has_end_result = true;
    m->end_result = error;
    if (m->is_closing)
        m->op.done(&m->op, 0);
    else if (m->is_waited_for)
        multishot_notify(m);
}

bool weft__uring_multishot_close(weft__backend *base, weft__multishot *m)
{
    weft__uring *b = weft__uring_of(base);
    multishot_release_held(b, m);
    m->is_waited_for = false;
    m->is_closing = true;
    if (m->is_armed && m->op.progress & WEFT__STARTED) {
        weft__uring_multishot_cancel(b, m);
        return false;
    }
    leftover_store(b, m); /* before other operations on the descriptor start */
    if (m->is_armed)
        weft__uring_multishot_cancel(b, m);
    weft__uring_start_next(b, m->op.fd, WEFT__DIRECTION_IN);
    return true;
}
