/*
 * Operations that wait for readiness, when the descriptor that reports it was closed or replaced
 * (ready.h): watch again, or end them.
 */
#include "backend/call.h"
#include "backend/ready.h"

#include <errno.h>

typedef void fd_visitor(weft__ready *r, int fd, weft__descriptor *d, int error);

/* Visit each number that the cord knows something about. */
static void visit_all(weft__ready *r, fd_visitor *visit, int error)
{
    for (size_t i = 0; i < r->chunk_count * WEFT__CHUNK_DESCRIPTORS; i++) {
        weft__descriptor *d = weft__ready_find(r, (int)i);
        if (d != NULL)
            visit(r, (int)i, d, error);
    }
}

static void end_waiters(weft__ready *r, int fd, weft__descriptor *d, int error)
{
    (void)fd;
    weft__waiters_end_each(r->backend, &d->waiters, error);
}

static void rewatch(weft__ready *r, int fd, weft__descriptor *d, int error)
{
    (void)error;
    d->generation = d->watched = 0;
    d->is_drained = false; /* an event may have been lost */
    if (weft__waiters_is_empty(&d->waiters))
        return;
    int rc = weft__call_is_open(fd) ? r->watch(r->backend, fd, d) : -EBADF;
    if (rc < 0)
        end_waiters(r, fd, d, rc);
}

void weft__ready_rewatch(weft__ready *r)
{
    visit_all(r, rewatch, 0);
}

static void forget_closed(weft__ready *r, int fd, weft__descriptor *d, int error)
{
    (void)d, (void)error;
    if (!weft__call_is_open(fd))
        r->backend->type->forget_fd(r->backend, fd);
}

void weft__ready_forget_closed(weft__ready *r)
{
    visit_all(r, forget_closed, 0);
}

void weft__ready_give_up(weft__ready *r, int error)
{
    visit_all(r, end_waiters, error);
    weft__waiters_end_all(r->backend, &r->retries, error);
}
