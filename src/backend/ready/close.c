/*
 * Discard the state of a descriptor (ready.h) when this thread closes or releases the descriptor,
 * or when the number belongs to another file.
 */
#include "backend/ready/ready.h"

#include "backend/syscall/call.h"

#include <errno.h>

void weft__ready_invalidate(weft__ready *r, int fd, weft__descriptor *d)
{
    if (d->generation != 0 || d->backend_data != NULL)
        r->disarm(r->backend, fd, d);
    d->is_not_socket = d->is_on_disk = d->is_tcp = d->is_drained = d->never_drained = false;
}

static bool is_used_by_worker(const weft__descriptor *d)
{
    return !weft__list_is_empty(&d->worker_ops) || !weft__list_is_empty(&d->secondary_ops);
}

void weft__ready_close_deferred(weft__ready *r)
{
    weft__list *node = r->closing.next;
    while (node != &r->closing) {
        weft__descriptor *d = CONTAINER_OF(node, weft__descriptor, closing_link);
        node = node->next;
        if (is_used_by_worker(d))
            continue;
        weft__list_remove(&d->closing_link);
        d->is_closing = false;
        int fd = weft__ready_fd_of(r, d);
        weft__fd_advance(fd); /* until now, other cords could use the descriptor */
        weft__call_close(fd);
    }
}

static bool op_is_on(const weft__op *op, int fd)
{
    return op->fd == fd || weft__ready_other_fd(op) == fd;
}

static bool has_retries_on(const weft__ready *r, int fd)
{
    WEFT__LIST_FOR(node, &r->retries)
        if (op_is_on(CONTAINER_OF(node, weft__op, link), fd))
            return true;
    return false;
}

static void end_retries_on(weft__ready *r, int fd)
{
    bool is_found;
    do {
        is_found = false;
        WEFT__LIST_FOR(node, &r->retries) {
            weft__op *op = CONTAINER_OF(node, weft__op, link);
            if (op_is_on(op, fd)) {
                is_found = true;
                weft__waiters_end(r->backend, op, -EBADF);
                break; /* done may have changed the list */
            }
        }
    } while (is_found);
}

/*
 * End an operation with -EBADF. Returns false if a worker thread runs the operation and must finish
 * first.
 */
static bool end_op_for_close(weft__ready *r, weft__op *op)
{
    if (op->job == NULL) {
        weft__waiters_end(r->backend, op, -EBADF);
        return true;
    }
    /* A detached function would continue to use the descriptor. */
    bool has_drop = op->code == WEFT__OP_CALL && op->u.call.drop != NULL;
    if (has_drop || !weft__job_cancel(r->backend, op))
        return false;
    weft__list_remove(&op->secondary_link);
    op->done(op, -EBADF);
    return true;
}

/*
 * End the operations of a list. node_offset is the offset of the list node in weft__op. Operations
 * that worker threads run remain in the list.
 */
static void end_ops(weft__ready *r, weft__list *list, size_t node_offset)
{
    weft__list remaining;
    weft__list_init(&remaining);
    while (!weft__list_is_empty(list)) {
        weft__list *node = list->next;
        weft__op *op = (weft__op *)((char *)node - node_offset);
        if (!end_op_for_close(r, op)) {
            weft__list_remove(node);
            weft__list_insert(&remaining, node);
        }
    }
    weft__list_splice(list, &remaining);
}

int weft__ready_forget(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    if (d == NULL)
        return 0;
    d->fd_generation = atomic_load_explicit(d->fd_counter, memory_order_relaxed);
    weft__ready_invalidate(r, fd, d);
    weft__waiters_end_all(r->backend, &d->waiters, -EBADF);
    if (!weft__list_is_empty(&r->retries))
        end_retries_on(r, fd);
    end_ops(r, &d->secondary_ops, offsetof(weft__op, secondary_link));
    end_ops(r, &d->worker_ops, offsetof(weft__op, link));
    return is_used_by_worker(d) ? -EBUSY : 0;
}

COLD void weft__ready_refresh(weft__ready *r, int fd, weft__descriptor *d)
{
    if (!d->is_closing)
        r->backend->type->forget_fd(r->backend, fd);
}

int weft__ready_close_fd(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    if (d == NULL)
        return weft__call_close(fd);
    if (d->is_closing)
        return -EBADF;
    d->is_closing = true;
    if (weft__ready_forget(r, fd) == -EBUSY) {
        weft__list_insert(&r->closing, &d->closing_link);
        return 0;
    }
    d->is_closing = false;
    /*
     * On Linux, the descriptor is closed even after EINTR. A second close could close another file.
     */
    return weft__call_close(fd);
}

int weft__ready_release_fd(weft__ready *r, int fd)
{
    weft__descriptor *d = fd >= 0 ? weft__ready_current(r, fd) : NULL;
    if ((d != NULL && d->is_closing) || !weft__call_is_open(fd))
        return -EBADF;
    if (d == NULL)
        return 0;
    if (!weft__waiters_is_empty(&d->waiters) || is_used_by_worker(d) || has_retries_on(r, fd))
        return -EBUSY;
    weft__ready_invalidate(r, fd, d);
    return 0;
}
