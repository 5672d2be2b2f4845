/*
 * Closing a descriptor on which operations are under way on a ring, forgetting one whose number has
 * become another file's, and handing one to another thread.
 */
#include "backend/uring.h"

#include <errno.h>

/*
 * A link that has not begun is in none of the kernel's lists, and a cancel does not find it; the
 * one that is under way takes those behind it along.
 */
static weft__op *first_of_chain(weft__op *op)
{
    while (op->progress & WEFT__CHAINED && op->before != NULL)
        op = op->before;
    return op;
}

/* What the kernel has is asked back. True: there is such. */
static bool recall_line(weft__uring *b, weft__list *line)
{
    bool is_any_started = false;
    weft__list *node = line->next;
    while (node != line) {
        weft__op *op = CONTAINER_OF(node, weft__op, link);
        node = node->next;
        if (!(op->progress & WEFT__STARTED))
            continue;
        is_any_started = true;
        weft__list_remove(&op->link);
        if (!(op->progress & WEFT__CANCELLED))
            weft__uring_ask_back(b, first_of_chain(op));
        op->progress |= WEFT__CLOSED | WEFT__CANCELLED;
        if (weft__uring_is_many(op))
            CONTAINER_OF(op, weft__many, op)->is_shut = true;
    }
    return is_any_started;
}

/* What waited for its turn ends. */
static void end_line(weft__uring *b, weft__list *line)
{
    while (!weft__list_is_empty(line)) {
        weft__op *op = weft__uring_first(line);
        weft__list_remove(&op->link);
        weft__list_remove(&op->turn);
        weft__uring_uncount(b, op);
        if (weft__uring_is_many(op))
            weft__uring_many_shut(CONTAINER_OF(op, weft__many, op));
        else
            op->done(op, op->moved > 0 ? (intptr_t)op->moved : -EBADF);
    }
}

/* End everything that is under way on a descriptor, and forget what is known of it. */
static void clear(weft__uring *b, weft__flight *f, bool must_flush)
{
    f->descriptor->is_closing = true;
    bool is_any_started = false;
    for (int i = 0; i < WEFT__WAYS; i++)
        is_any_started |= recall_line(b, &f->lines[i]);
    if (is_any_started && must_flush)
        weft__uring_flush(b);
    for (int i = 0; i < WEFT__WAYS; i++)
        end_line(b, &f->lines[i]);
    weft__uring_drop_kept(b, f);
    f->is_known = f->is_stream = false;
    f->descriptor->is_closing = false;
}

/*
 * The kernel looks a number up when it begins an operation, a link when the one before it is over:
 * everything that names this one has to be begun or severed before the number can belong to another
 * file.
 */
int weft__uring_close_fd(weft__backend *base, int fd)
{
    weft__uring *b = weft__uring_of(base);
    weft__flight *f = weft__uring_flight(b, fd);
    if (f != NULL) {
        if (f->descriptor->is_closing)
            return -EBADF;
        clear(b, f, true);
    }
    return weft__ready_close_fd(&b->ready, fd);
}

/* Only our own operations are left in its lines: they wait for a readiness. */
static bool is_idle(const weft__flight *f)
{
    for (int i = 0; i < WEFT__WAYS; i++)
        WEFT__LIST_FOR(node, &f->lines[i])
            if (!CONTAINER_OF(node, weft__op, link)->is_own)
                return false;
    return f->kept == NULL;
}

int weft__uring_release_fd(weft__backend *base, int fd)
{
    weft__uring *b = weft__uring_of(base);
    weft__descriptor *d = fd >= 0 ? weft__ready_current(&b->ready, fd) : NULL;
    weft__flight *f = d != NULL ? d->watcher : NULL;
    if (f != NULL && !is_idle(f))
        return -EBUSY;
    int rc = weft__ready_release_fd(&b->ready, fd);
    if (rc == 0 && f != NULL)
        f->is_known = f->is_stream = f->is_drained = false;
    return rc;
}

void weft__uring_forget(weft__uring *b, int fd)
{
    weft__flight *f = weft__uring_flight(b, fd);
    if (f != NULL)
        clear(b, f, false);
    weft__ready_forget(&b->ready, fd);
}

/* Has it a number that is another file's by now, or was that closed under it? */
static bool is_severed(const weft__op *op)
{
    const weft__flight *f = op->place;
    return op->progress & WEFT__CLOSED || (f != NULL && weft__ready_is_stale(f->descriptor));
}

void weft__uring_sever_stale(weft__uring *b)
{
    b->fd_advances = atomic_load_explicit(&weft__fd_advances, memory_order_relaxed);
    const struct io_uring_sq *sq = &b->ring.sq;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
        weft__key_kind kind = sqe->user_data & WEFT__KEY_KIND_MASK;
        if ((kind == WEFT__KEY_OP || kind == WEFT__KEY_MANY) &&
            is_severed(weft__key_object(sqe->user_data)))
            sqe->fd = -1;
    }
}

void weft__uring_adopt(weft__uring *b, int fd, bool has_messages)
{
    weft__descriptor *d = weft__ready_note(&b->ready, fd);
    weft__flight *f = d != NULL ? d->watcher : NULL;
    if (d != NULL && f == NULL)
        f = weft__uring_make_flight(b, d);
    if (f == NULL)
        return; /* who uses it finds out, and says so */
    f->is_known = true;
    f->has_messages = has_messages;
    f->is_stream = !has_messages;
    f->is_terminal = f->is_drained = false;
    d->is_not_socket = d->is_on_disk = d->is_drained = false;
}
