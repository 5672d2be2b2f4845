/*
 * Forget a descriptor (ready.h): it is closed here, its number has become another file's, or
 * another thread takes it over.
 */
#include "backend/ready.h"

#include "backend/call.h"

#include <errno.h>

void weft__ready_unlearn(weft__ready *r, int fd, weft__descriptor *d)
{
    if (d->generation != 0 || d->watcher != NULL)
        r->unwatch(r->backend, fd, d);
    d->is_not_socket = d->is_on_disk = d->is_tcp = d->is_drained = d->has_more = false;
}

void weft__ready_close_kept(weft__ready *r)
{
    weft__list *node = r->closing.next;
    while (node != &r->closing) {
        weft__descriptor *d = CONTAINER_OF(node, weft__descriptor, closing);
        node = node->next;
        if (!weft__list_is_empty(&d->pooled) || !weft__list_is_empty(&d->also))
            continue;
        weft__list_remove(&d->closing);
        d->is_closing = false;
        int fd = weft__ready_number(r, d);
        weft__fd_advance(fd); /* other cords could still use it until now */
        weft__call_close(fd);
    }
}

static bool is_on(const weft__op *op, int fd)
{
    return op->fd == fd || weft__ready_other_fd(op) == fd;
}

static bool has_retries_on(const weft__ready *r, int fd)
{
    WEFT__LIST_FOR(node, &r->retries)
        if (is_on(CONTAINER_OF(node, weft__op, link), fd))
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
            if (is_on(op, fd)) {
                is_found = true;
                weft__waiters_end(r->backend, op, -EBADF);
                break; /* done may have changed the list */
            }
        }
    } while (is_found);
}

/* End an operation with -EBADF. False: a pool thread works on it, and must finish first. */
static bool end_for_close(weft__ready *r, weft__op *op)
{
    if (op->job == NULL) {
        weft__waiters_end(r->backend, op, -EBADF);
        return true;
    }
    /* A function that could be given up would still be at work on the descriptor. */
    bool has_drop = op->code == WEFT__OP_CALL && op->u.call.drop != NULL;
    if (has_drop || !weft__pool_cancel(r->backend, op))
        return false;
    weft__list_remove(&op->turn);
    op->done(op, -EBADF);
    return true;
}

/* End the operations on a list, linked at node_offset; those that cannot be ended stay. */
static void end_list(weft__ready *r, weft__list *list, size_t node_offset)
{
    weft__list kept;
    weft__list_init(&kept);
    while (!weft__list_is_empty(list)) {
        weft__list *node = list->next;
        weft__op *op = (weft__op *)((char *)node - node_offset);
        if (!end_for_close(r, op)) {
            weft__list_remove(node);
            weft__list_insert(&kept, node);
        }
    }
    weft__list_splice(list, &kept);
}

void weft__ready_forget(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    if (d == NULL)
        return;
    d->fd_generation = atomic_load_explicit(d->fd_counter, memory_order_relaxed);
    weft__ready_unlearn(r, fd, d);
    weft__waiters_end_each(r->backend, &d->waiters, -EBADF);
    if (!weft__list_is_empty(&r->retries))
        end_retries_on(r, fd);
    end_list(r, &d->also, offsetof(weft__op, turn));
    end_list(r, &d->pooled, offsetof(weft__op, link));
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
    weft__ready_forget(r, fd);
    if (!weft__list_is_empty(&d->pooled) || !weft__list_is_empty(&d->also)) {
        weft__list_insert(&r->closing, &d->closing);
        return 0;
    }
    d->is_closing = false;
    /* On Linux the descriptor is gone also after EINTR; a second close could hit another file. */
    return weft__call_close(fd);
}

int weft__ready_release_fd(weft__ready *r, int fd)
{
    weft__descriptor *d = fd >= 0 ? weft__ready_current(r, fd) : NULL;
    if ((d != NULL && d->is_closing) || !weft__call_is_open(fd))
        return -EBADF;
    if (d == NULL)
        return 0;
    if (!weft__waiters_is_empty(&d->waiters) || !weft__list_is_empty(&d->pooled) ||
        !weft__list_is_empty(&d->also) || has_retries_on(r, fd))
        return -EBUSY;
    weft__ready_unlearn(r, fd, d);
    return 0;
}
