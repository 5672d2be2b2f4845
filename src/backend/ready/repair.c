/*
 * Repair readiness (ready.h) after the backend's descriptor was lost: register the descriptors
 * again, or end the waiting operations.
 */
#include "backend/ready/ready.h"
#include "backend/syscall/call.h"

#include <errno.h>

typedef void fd_callback(weft__ready *r, int fd, weft__descriptor *d, int error);

/* Call a function for each number that has a state. */
static void for_each_fd(weft__ready *r, fd_callback *callback, int error)
{
    for (size_t i = 0; i < r->chunk_count * WEFT__CHUNK_DESCRIPTORS; i++) {
        weft__descriptor *d = weft__ready_find(r, (int)i);
        if (d != NULL)
            callback(r, (int)i, d, error);
    }
}

static void end_waiters(weft__ready *r, int fd, weft__descriptor *d, int error)
{
    (void)fd;
    weft__waiters_end_all(r->backend, &d->waiters, error);
}

static void rearm_fd(weft__ready *r, int fd, weft__descriptor *d, int error)
{
    (void)error;
    d->generation = d->armed = 0;
    d->is_drained = false; /* an event may have been lost */
    if (weft__waiters_is_empty(&d->waiters))
        return;
    int rc = weft__call_is_open(fd) ? r->arm(r->backend, fd, d) : -EBADF;
    if (rc < 0)
        end_waiters(r, fd, d, rc);
}

void weft__ready_rearm(weft__ready *r)
{
    for_each_fd(r, rearm_fd, 0);
}

static void forget_if_closed(weft__ready *r, int fd, weft__descriptor *d, int error)
{
    (void)d, (void)error;
    if (!weft__call_is_open(fd))
        r->backend->type->forget_fd(r->backend, fd);
}

void weft__ready_forget_closed(weft__ready *r)
{
    for_each_fd(r, forget_if_closed, 0);
}

void weft__ready_give_up(weft__ready *r, int error)
{
    for_each_fd(r, end_waiters, error);
    weft__waiters_end_queue(r->backend, &r->retries, error);
}
