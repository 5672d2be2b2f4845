/*
 * Readiness for a hosted backend (is_hosted in backend.h). No cached state is used. Each wait
 * registers the descriptor again, because the number may belong to another file than at the last
 * wait. A WAIT makes no system call except the registration: the registration reports existing
 * readiness, and the reported events are the result.
 */
#include "backend/ready/ready.h"
#include "backend/syscall/call.h"

#include <errno.h>

intptr_t weft__ready_try_hosted(weft__ready *r, weft__op *op)
{
    weft__fd_kind unknown = {.is_not_socket = false};
    intptr_t result = weft__call_try(op, &unknown);
    if (op->code == WEFT__OP_WAIT)
        op->wait_fd = WEFT__WAIT_RETRY; /* see wait_by_retry */
    weft__ready_note_created(r, op, result);
    return result;
}

/*
 * Wait for urgent data by retries, if arm does not support it. Each retry calls poll(2).
 */
static intptr_t wait_by_retry(weft__ready *r, weft__op *op)
{
    int rc = weft__call_check_waitable(op->fd);
    if (rc < 0)
        return rc;
    if (weft__list_is_empty(&r->retries))
        r->retry_ns = 0;
    op->wait_fd = WEFT__WAIT_RETRY;
    weft__waiters_add(r->backend, &r->retries, op);
    return WEFT__OP_PENDING;
}

static intptr_t wait_by_event(weft__ready *r, weft__op *op, weft__descriptor *d)
{
    weft__waiters_add(r->backend, &d->waiters.either, op);
    d->needs_rearm = true;
    int rc = r->arm(r->backend, op->fd, d);
    if (rc == 0)
        return WEFT__OP_PENDING;
    weft__waiters_remove(r->backend, op);
    return rc;
}

/* A closed number may be large. The table must not grow for it. */
static weft__descriptor *state_of_open(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    return d != NULL || weft__call_is_open(fd) ? weft__ready_ensure(r, fd) : NULL;
}

/* Regular files and directories have no readiness (-EPERM), and are always ready. */
intptr_t weft__ready_wait(weft__ready *r, weft__op *op)
{
    if (op->fd < 0)
        return -EBADF;
    weft__descriptor *d = state_of_open(r, op->fd);
    if (d == NULL)
        return weft__call_is_open(op->fd) ? -ENOMEM : -EBADF;
    bool is_retried = r->lacks_priority && op->u.events & POLLPRI;
    intptr_t result = is_retried ? wait_by_retry(r, op) : wait_by_event(r, op, d);
    return result == -EPERM ? op->u.events & (POLLIN | POLLOUT) : result;
}

void weft__ready_end_waits(weft__ready *r, weft__descriptor *d, int events)
{
    weft__list *queue = &d->waiters.either;
    for (weft__list *node = queue->next, *next; node != queue; node = next) {
        next = node->next;
        weft__op *op = CONTAINER_OF(node, weft__op, link);
        int occurred = events & (op->u.events | POLLERR | POLLHUP);
        if (occurred != 0)
            weft__waiters_end(r->backend, op, occurred);
    }
}
