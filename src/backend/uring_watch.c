/*
 * Readiness on a ring, for what io_uring cannot do as a whole: ready.c wants to be told when a
 * descriptor is ready, and an operation of our own waits for that. It tells once, and is set again
 * while someone still waits.
 */
#include "backend/uring.h"

#include "backend/call.h"

#include <errno.h>
#include <stdlib.h>

static int watch_for_waiters(weft__uring *b, int fd, weft__flight *f);

static void free_watch(weft__watch *w)
{
    weft__list_remove(&w->all);
    free(w);
}

/* A watch tells once; it is set again while someone still waits. */
static void watch_done(weft__op *op, intptr_t result)
{
    weft__watch *w = CONTAINER_OF(op, weft__watch, op);
    weft__uring *b = w->uring;
    weft__flight *f = w->flight;
    w->is_armed = false;
    if (f == NULL) {
        free_watch(w);
        return;
    }
    int fd = op->fd;
    weft__ready_event(&b->ready, fd, f->descriptor, result < 0 ? POLLERR : (int)result);
    if (!f->descriptor->is_closing)
        watch_for_waiters(b, fd, f);
}

static weft__watch *make_watch(weft__uring *b, weft__flight *f)
{
    weft__watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->uring = b;
    w->flight = f;
    weft__list_insert(&b->watches, &w->all);
    return w;
}

static int watch_one(weft__uring *b, int fd, weft__flight *f, int index, int events)
{
    weft__watch *w = f->watches[index];
    if (w == NULL)
        w = f->watches[index] = make_watch(b, f);
    if (w == NULL)
        return -ENOMEM;
    if (w->is_armed)
        return 0;
    w->is_armed = true;
    w->op = (weft__op){
        .code = WEFT__OP_WAIT, .fd = fd, .u.events = events, .done = watch_done, .is_own = true};
    weft__list_init(&w->op.link);
    weft__list_init(&w->op.turn);
    weft__uring_launch(b, f, &w->op, WEFT__KEY_OP);
    return 0;
}

static int watch_for_waiters(weft__uring *b, int fd, weft__flight *f)
{
    const weft__waiters *waiters = &f->descriptor->waiters;
    bool has_either = !weft__list_is_empty(&waiters->either);
    int rc = 0;
    if (has_either || !weft__list_is_empty(&waiters->readers))
        rc = watch_one(b, fd, f, 0, POLLIN | POLLRDHUP);
    if (rc == 0 && (has_either || !weft__list_is_empty(&waiters->writers)))
        rc = watch_one(b, fd, f, 1, POLLOUT);
    return rc;
}

int weft__uring_watch(weft__backend *base, int fd, weft__descriptor *d)
{
    weft__uring *b = weft__uring_of(base);
    int rc = d->generation == 0 ? weft__call_check_waitable(fd) : 0;
    if (rc < 0)
        return rc;
    weft__flight *f = d->watcher != NULL ? d->watcher : weft__uring_make_flight(b, d);
    if (f == NULL)
        return -ENOMEM;
    if (d->generation == 0)
        d->generation = ++b->generation != 0 ? b->generation : ++b->generation;
    return watch_for_waiters(b, fd, f);
}

/* A watch that the kernel has is freed when it comes back. */
void weft__uring_unwatch(weft__backend *base, int fd, weft__descriptor *d)
{
    (void)fd;
    d->generation = 0;
    weft__flight *f = d->watcher;
    for (int i = 0; f != NULL && i < 2; i++) {
        weft__watch *w = f->watches[i];
        f->watches[i] = NULL;
        if (w == NULL)
            continue;
        w->flight = NULL;
        if (!w->is_armed || weft__uring_cancel(base, &w->op))
            free_watch(w);
    }
}

void weft__uring_watches_free(weft__uring *b)
{
    while (!weft__list_is_empty(&b->watches))
        free_watch(CONTAINER_OF(b->watches.next, weft__watch, all));
}
