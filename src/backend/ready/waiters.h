/*
 * The operations that wait on one descriptor, for backends that know readiness: first come, first
 * served for each direction. If the first of a queue cannot go on, none behind it can.
 */
#ifndef WEFT_BACKEND_WAITERS_H
#define WEFT_BACKEND_WAITERS_H

#include "backend/backend.h"

#include <poll.h>

typedef struct weft__waiters {
    weft__list readers; /* those who wait for POLLIN */
    weft__list writers; /* for POLLOUT */
    weft__list either;  /* for both */
} weft__waiters;

static inline void weft__waiters_init(weft__waiters *w)
{
    weft__list_init(&w->readers);
    weft__list_init(&w->writers);
    weft__list_init(&w->either);
}

static inline bool weft__waiters_is_empty(const weft__waiters *w)
{
    return weft__list_is_empty(&w->readers) && weft__list_is_empty(&w->writers) &&
           weft__list_is_empty(&w->either);
}

/* Where an operation queues, by its wait_events. */
static inline weft__list *weft__waiters_queue(weft__waiters *w, const weft__op *op)
{
    if (!(op->wait_events & POLLOUT))
        return &w->readers;
    return op->wait_events & POLLIN ? &w->either : &w->writers;
}

/* Put it there. */
static inline void weft__waiters_add(weft__backend *b, weft__list *queue, weft__op *op)
{
    weft__list_insert(queue, &op->link);
    b->pending++;
}

static inline weft__op *weft__waiters_first(const weft__list *queue)
{
    return CONTAINER_OF(queue->next, weft__op, link);
}

/* It waits no longer. */
static inline void weft__waiters_take(weft__backend *b, weft__op *op)
{
    weft__list_remove(&op->link);
    weft__list_remove(&op->turn);
    b->pending--;
}

/* The operation is over: nothing here points to it when its owner hears of it. */
static inline void weft__waiters_end(weft__backend *b, weft__op *op, intptr_t result)
{
    weft__waiters_take(b, op);
    op->done(op, result);
}

/* End a whole queue with one result. */
static inline void weft__waiters_end_all(weft__backend *b, weft__list *queue, intptr_t result)
{
    while (!weft__list_is_empty(queue))
        weft__waiters_end(b, weft__waiters_first(queue), result);
}

/* End all operations that wait on a descriptor. */
static inline void weft__waiters_end_each(weft__backend *b, weft__waiters *w, intptr_t result)
{
    weft__waiters_end_all(b, &w->readers, result);
    weft__waiters_end_all(b, &w->writers, result);
    weft__waiters_end_all(b, &w->either, result);
}

#endif
