/*
 * A ring that fails at run time. If the program has closed its number, the ring goes on, because it
 * is registered with the thread: only the eventfd is replaced. If the kernel begins to refuse
 * io_uring_enter (a seccomp filter), the ring is given up.
 */
#include "backend/uring.h"
#include "backend/uring_kept.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * Time for the kernel to cancel the operations of a closed ring. It begins when nothing maps or
 * names the ring, and does not report the end.
 */
#define RELEASE_US 10000

int weft__uring_check(weft__backend *base)
{
    return weft__wake_fd_is_own(&weft__uring_of(base)->wake) ? 0 : -EBADF;
}

/* The ring's number was closed, and may be another file's: do not send to it or close it. */
void weft__uring_lose_number(weft__uring *b)
{
    if (b->abilities.has_registered_ring)
        __atomic_store_n(&b->ring.ring_fd, -1, __ATOMIC_RELAXED);
}

void weft__uring_recall_wake(weft__uring *b)
{
    struct io_uring_sqe *sqe = b->is_wake_armed ? weft__uring_entry(b) : NULL;
    if (sqe == NULL)
        return;
    io_uring_prep_cancel64(sqe, WEFT__KEY_WAKE, 0);
    sqe->user_data = WEFT__KEY_CANCEL;
}

int weft__uring_repair(weft__backend *base)
{
    weft__uring *b = weft__uring_of(base);
    int rc = io_uring_get_events(&b->ring);
    if (rc < 0 && rc != -EINTR && rc != -EBUSY && rc != -EAGAIN)
        return rc;
    if (weft__uring_check(base) == 0)
        return 0;
    weft__uring_lose_number(b);
    weft__ready_forget_closed(&b->ready); /* before their numbers are used again */
    /* The kernel reads from the old one until it is asked not to; then the new one is read. */
    rc = weft__wake_fd_renew(&b->wake, EFD_CLOEXEC);
    if (rc == 0)
        weft__uring_recall_wake(b);
    return rc;
}

/* End an operation, and those behind it in its chain that are in no line: their file was closed. */
static void end_op(weft__uring *b, weft__op *op, int error)
{
    weft__op *after = op->progress & WEFT__CHAINED ? op->after : NULL;
    if (after != NULL)
        after->before = NULL;
    weft__list_remove(&op->link);
    weft__list_remove(&op->turn);
    weft__uring_uncount(b, op);
    if (weft__uring_is_many(op))
        weft__uring_many_fail(CONTAINER_OF(op, weft__many, op), error);
    else
        op->done(op, op->moved > 0 ? (intptr_t)op->moved : error);
    if (after != NULL && after->progress & WEFT__CLOSED && weft__list_is_empty(&after->turn))
        end_op(b, after, error);
}

static void end_turns(weft__uring *b, weft__list *turns, int error)
{
    while (!weft__list_is_empty(turns))
        end_op(b, CONTAINER_OF(turns->next, weft__op, turn), error);
}

/* Stop waiting for readiness by the ring. */
static void drop_watches(weft__uring *b)
{
    WEFT__LIST_FOR(node, &b->watches) {
        weft__watch *w = CONTAINER_OF(node, weft__watch, all);
        if (w->is_armed) {
            weft__list_remove(&w->op.link);
            weft__list_remove(&w->op.turn);
        }
        if (w->flight != NULL)
            w->flight->watches[0] = w->flight->watches[1] = NULL;
    }
    weft__uring_watches_free(b);
}

/* Make the kernel release the ring. The memory that it received into stays. */
static void release_ring(weft__uring *b)
{
    if (weft__uring_check(&b->base) < 0)
        weft__uring_lose_number(b);
    weft__uring_tear_down(&b->ring);
    weft__wake_fd_close(&b->wake);
    b->is_wake_armed = false;
    b->is_given_up = true;
    usleep(RELEASE_US);
}

void weft__uring_give_up(weft__backend *base, int error)
{
    weft__uring *b = weft__uring_of(base);
    release_ring(b);
    drop_watches(b);
    WEFT__LIST_FOR(node, &b->flights) {
        weft__flight *f = CONTAINER_OF(node, weft__flight, all);
        for (int i = 0; i < WEFT__WAYS; i++)
            while (!weft__list_is_empty(&f->lines[i]))
                end_op(b, weft__uring_first(&f->lines[i]), error);
    }
    end_turns(b, &b->starts, error);
    end_turns(b, &b->cancels, error);
    end_turns(b, &b->leaving, error);
    weft__ready_give_up(&b->ready, error);
}
