/*
 * Readiness on a ring, for operations that io_uring does not support. For each direction with
 * waiters, an internal operation (IORING_OP_POLL_ADD) waits for readiness. The internal operation
 * reports readiness once. The backend arms it again while operations wait.
 */
#include "backend/uring/uring.h"

#include "backend/syscall/call.h"

#include <errno.h>
#include <stdlib.h>

static int polls_arm(weft__uring *b, int fd, weft__uring_fd *f);

static void poll_free(weft__uring_poll *p)
{
    weft__list_remove(&p->all_link);
    free(p);
}

static void poll_done(weft__op *op, intptr_t result)
{
    weft__uring_poll *p = CONTAINER_OF(op, weft__uring_poll, op);
    weft__uring *b = p->uring;
    weft__uring_fd *f = p->fd_state;
    p->is_armed = false;
    if (f == NULL) {
        poll_free(p);
        return;
    }
    int fd = op->fd;
    weft__ready_event(&b->ready, fd, f->descriptor, result < 0 ? POLLERR : (int)result);
    if (!f->descriptor->is_closing)
        polls_arm(b, fd, f);
}

static weft__uring_poll *poll_new(weft__uring *b, weft__uring_fd *f)
{
    weft__uring_poll *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->uring = b;
    p->fd_state = f;
    weft__list_insert(&b->polls, &p->all_link);
    return p;
}

static int poll_arm(weft__uring *b, int fd, weft__uring_fd *f, int index, int events)
{
    weft__uring_poll *p = f->polls[index];
    if (p == NULL)
        p = f->polls[index] = poll_new(b, f);
    if (p == NULL)
        return -ENOMEM;
    if (p->is_armed)
        return 0;
    p->is_armed = true;
    p->op = (weft__op){.code = WEFT__OP_WAIT,
                       .fd = fd,
                       .u.events = events,
                       .done = poll_done,
                       .is_internal = true};
    weft__list_init(&p->op.link);
    weft__list_init(&p->op.secondary_link);
    weft__uring_enqueue(b, f, &p->op, WEFT__KEY_OP);
    return 0;
}

static int polls_arm(weft__uring *b, int fd, weft__uring_fd *f)
{
    int events = weft__waiters_events(&f->descriptor->waiters), rc = 0;
    if (events & POLLIN)
        rc = poll_arm(b, fd, f, 0, POLLIN | POLLRDHUP);
    if (rc == 0 && events & POLLOUT)
        rc = poll_arm(b, fd, f, 1, POLLOUT);
    return rc;
}

int weft__uring_poll_add(weft__backend *base, int fd, weft__descriptor *d)
{
    weft__uring *b = weft__uring_of(base);
    int rc = d->generation == 0 ? weft__call_check_waitable(fd) : 0;
    if (rc < 0)
        return rc;
    weft__uring_fd *f = d->backend_data != NULL ? d->backend_data : weft__uring_fd_new(b, d);
    if (f == NULL)
        return -ENOMEM;
    if (d->generation == 0)
        d->generation = ++b->generation != 0 ? b->generation : ++b->generation;
    return polls_arm(b, fd, f);
}

/* A poll that is already submitted is freed when it completes. */
void weft__uring_poll_remove(weft__backend *base, int fd, weft__descriptor *d)
{
    (void)fd;
    d->generation = 0;
    weft__uring_fd *f = d->backend_data;
    for (int i = 0; f != NULL && i < 2; i++) {
        weft__uring_poll *p = f->polls[i];
        f->polls[i] = NULL;
        if (p == NULL)
            continue;
        p->fd_state = NULL;
        if (!p->is_armed || weft__uring_cancel(base, &p->op))
            poll_free(p);
    }
}

void weft__uring_polls_free(weft__uring *b)
{
    while (!weft__list_is_empty(&b->polls))
        poll_free(CONTAINER_OF(b->polls.next, weft__uring_poll, all_link));
}
