/*
 * Operations with many results: multishot accept, and multishot receive into buffers that the
 * kernel picks from a ring. What comes waits here until the loop asks for it; when too much waits,
 * the kernel is told to stop until the loop has caught up.
 *
 * When a loop ends, the kernel may have accepted or received what nobody took. It is kept for the
 * descriptor, and is what the next accept or read gets.
 */
#include "backend/uring_kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Results of one operation that may wait before the kernel is stopped: a loop whose callee blocks
 * must not hold all of the buffers. */
#define WAITING_MAX 16
/* Is there anything that the loop has not taken? */
static bool has_waiting(const weft__many *m)
{
    return m->first != WEFT__NO_BUFFER || !weft__conns_are_empty(m->conns);
}

/* Was the descriptor closed since, by whichever thread? */
static bool is_fd_reused(const weft__many *m)
{
    return weft__fd_generation(m->op.fd) != m->fd_generation;
}

/* What was kept. */

/* Behind what another loop on the same descriptor has left. False: no memory. */
static bool keep_behind(weft__uring *b, weft__kept *k, weft__many *m)
{
    if (m->skip > 0) {
        weft__buffer_note *note = &b->buffers.notes[m->first];
        note->bytes -= (unsigned)m->skip;
        memmove(weft__buffer_data(b, m->first), weft__buffer_data(b, m->first) + m->skip,
                note->bytes);
    }
    while (m->first != WEFT__NO_BUFFER)
        weft__buffer_append(b, &k->first, &k->final, weft__buffer_pop(b, &m->first));
    if (k->conns == NULL) {
        k->conns = m->conns;
        return true;
    }
    for (; !weft__conns_are_empty(m->conns); m->conns->first++)
        if (!weft__conns_append(&k->conns, m->conns->fd[m->conns->first]))
            return false;
    free(m->conns);
    return true;
}

/* What the descriptor has told once, and nobody has heard; 0: nothing. */
static int error_of(const weft__many *m)
{
    return m->has_last && m->last < 0 && m->last != -ENOBUFS && !m->is_shut ? m->last : 0;
}

static bool try_keep(weft__uring *b, weft__many *m)
{
    weft__flight *f = m->is_shut ? NULL : weft__uring_note(b, m->op.fd);
    if (f == NULL)
        return false;
    if (f->kept != NULL)
        return keep_behind(b, f->kept, m);
    f->kept = &f->kept_room; /* it takes no memory: what has come must not be lost for want of it */
    *f->kept = (weft__kept){m->first, m->final, m->skip, m->conns, error_of(m)};
    return true;
}

/* What the loop did not take is for who comes next. */
static void keep(weft__uring *b, weft__many *m)
{
    m->is_shut |= is_fd_reused(m);
    bool is_any = has_waiting(m);
    is_any |= m->is_closing && m->op.code == WEFT__OP_RECV && error_of(m) != 0;
    if (!is_any || !try_keep(b, m)) {
        while (m->first != WEFT__NO_BUFFER)
            weft__buffer_give_back(b, weft__buffer_pop(b, &m->first));
        weft__conns_close(m->conns);
    }
    m->first = WEFT__NO_BUFFER;
    m->conns = NULL;
    m->count = 0;
    m->skip = 0;
}

/* The operation itself. */

void weft__uring_prep_many(struct io_uring_sqe *sqe, const weft__op *op)
{
    if (op->code == WEFT__OP_ACCEPT) {
        io_uring_prep_multishot_accept(sqe, op->fd, NULL, NULL, SOCK_CLOEXEC);
    } else {
        io_uring_prep_recv_multishot(sqe, op->fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = WEFT__BUFFER_GROUP;
    }
    sqe->user_data = op->key;
}

/* What a loop before this one left is what this one begins with. */
static void inherit(weft__many *m, weft__flight *f)
{
    weft__kept *k = f->kept;
    if (k == NULL || has_waiting(m))
        return;
    f->kept = NULL;
    m->first = k->first;
    m->final = k->final;
    m->skip = k->used;
    if (k->conns != NULL) {
        free(m->conns);
        m->conns = k->conns;
    }
    if (k->error != 0) {
        m->has_last = true;
        m->last = k->error;
    }
}

int weft__uring_many_open(weft__backend *base, weft__many *m)
{
    weft__uring *b = weft__uring_of(base);
    const weft__uring_abilities *a = &b->abilities;
    bool is_accept = m->op.code == WEFT__OP_ACCEPT;
    if (!(is_accept ? a->has_multishot_accept : a->has_multishot_recv))
        return -EOPNOTSUPP;
    weft__flight *f = weft__uring_note(b, m->op.fd);
    if (f == NULL || f->descriptor->is_closing || f->descriptor->is_not_socket || f->has_messages)
        return -EOPNOTSUPP; /* a message may be larger than a buffer */
    weft__conns *conns = is_accept ? weft__conns_make() : NULL;
    if (is_accept ? conns == NULL : weft__buffers_make(b) < 0)
        return -EOPNOTSUPP;
    weft__op op = m->op;
    *m = (weft__many){.op = op, .held = WEFT__NO_BUFFER, .first = WEFT__NO_BUFFER, .conns = conns};
    m->fd_generation = weft__fd_generation(m->op.fd);
    weft__list_init(&m->op.link);
    weft__list_init(&m->op.turn);
    inherit(m, f);
    return 0;
}

static void release_held(weft__uring *b, weft__many *m)
{
    if (m->held != WEFT__NO_BUFFER)
        weft__buffer_give_back(b, m->held);
    m->held = WEFT__NO_BUFFER;
}

static intptr_t take_result(weft__uring *b, weft__many *m, const void **data)
{
    m->count -= m->count > 0;
    if (m->op.code == WEFT__OP_ACCEPT) {
        int fd = m->conns->fd[m->conns->first++];
        weft__ready_made(&b->ready, fd);
        weft__uring_adopt(b, fd, false);
        return fd;
    }
    m->held = weft__buffer_pop(b, &m->first);
    *data = weft__buffer_data(b, m->held) + m->skip;
    intptr_t bytes = (intptr_t)(b->buffers.notes[m->held].bytes - m->skip);
    m->skip = 0;
    return bytes;
}

intptr_t weft__uring_many_next(weft__backend *base, weft__many *m, const void **data)
{
    weft__uring *b = weft__uring_of(base);
    release_held(b, m);
    if (has_waiting(m))
        return take_result(b, m, data);
    if (m->has_last) {
        m->has_last = false;
        return m->last;
    }
    if (m->is_shut || (!m->is_armed && is_fd_reused(m)))
        return -EBADF;
    if (!m->is_armed) {
        weft__flight *f = weft__uring_flight(b, m->op.fd);
        inherit(m, f); /* from a reader inside the loop, to whom it had to give way */
        if (has_waiting(m))
            return take_result(b, m, data);
        m->is_armed = true;
        m->is_cancelled = false;
        weft__uring_make_way(b, f, &m->op);
        weft__uring_launch_many(b, m);
    }
    m->is_waited_for = true;
    return WEFT__OP_PENDING;
}

static void add_result(weft__uring *b, weft__many *m, const weft__completion *c)
{
    m->count++;
    if (m->op.code == WEFT__OP_ACCEPT) {
        if (weft__conns_append(&m->conns, c->result))
            return;
        close(c->result); /* more than ever wait at once, and no memory: the loop says so */
        m->has_last = true;
        m->last = -ENOMEM;
        return;
    }
    int buffer = (int)(c->flags >> IORING_CQE_BUFFER_SHIFT);
    b->buffers.notes[buffer].bytes = (unsigned)c->result;
    weft__buffer_append(b, &m->first, &m->final, buffer);
}

/* Bytes, or a connection; else it is how the operation ended. */
static bool is_result(const weft__many *m, int result)
{
    return result > 0 || (result == 0 && m->op.code == WEFT__OP_ACCEPT);
}

/* The kernel has let go of it: told to, or because of this result. */
static void note_end(weft__many *m, int result)
{
    m->is_armed = false;
    if (is_result(m, result))
        return; /* it only wants to be started again */
    if (result == -ECANCELED && (m->is_cancelled || m->is_shut))
        return;
    m->has_last = true;
    m->last = result;
}

static void tell(weft__many *m)
{
    m->is_waited_for = false;
    m->op.done(&m->op, 0);
}

void weft__uring_many_completed(weft__uring *b, weft__many *m, const weft__completion *c)
{
    if (is_result(m, c->result))
        add_result(b, m, c);
    else if (c->flags & IORING_CQE_F_BUFFER) /* the end of the input may come with one */
        weft__buffer_give_back(b, (int)(c->flags >> IORING_CQE_BUFFER_SHIFT));
    if (!(c->flags & IORING_CQE_F_MORE)) {
        note_end(m, c->result);
        /* Before others on the descriptor have their turn. */
        if (m->is_closing || weft__uring_has_next(b, m->op.fd, WEFT__WAY_IN))
            keep(b, m);
        weft__uring_land_many(b, m);
        if (m->is_closing) {
            m->op.done(&m->op, 0);
            return;
        }
    } else if (m->count >= WAITING_MAX && !m->is_cancelled) {
        m->is_cancelled = true;
        weft__uring_ask_back(b, &m->op);
    }
    if (m->is_waited_for)
        tell(m);
}

void weft__uring_many_turn(weft__many *m, weft__flight *f)
{
    inherit(m, f);
    if (m->is_waited_for && has_waiting(m))
        tell(m);
}

void weft__uring_many_shut(weft__many *m)
{
    m->is_shut = true;
    m->is_armed = false;
    if (m->is_waited_for)
        tell(m);
}

void weft__uring_many_fail(weft__many *m, int error)
{
    m->is_armed = false;
    m->has_last = true;
    m->last = error;
    if (m->is_closing)
        m->op.done(&m->op, 0);
    else if (m->is_waited_for)
        tell(m);
}

bool weft__uring_many_close(weft__backend *base, weft__many *m)
{
    weft__uring *b = weft__uring_of(base);
    release_held(b, m);
    m->is_waited_for = false;
    m->is_closing = true;
    if (m->is_armed && m->op.progress & WEFT__STARTED) {
        weft__uring_recall_many(b, m);
        return false;
    }
    keep(b, m); /* before the next one has its turn */
    if (m->is_armed)
        weft__uring_recall_many(b, m);
    weft__uring_start_next(b, m->op.fd, WEFT__WAY_IN);
    return true;
}
