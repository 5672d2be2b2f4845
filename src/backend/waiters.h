/*
 * The operations that wait on one descriptor, for backends that know readiness: first come, first
 * served for each direction. If the first of a queue cannot go on, none behind it can.
 */
#ifndef WEFT_BACKEND_WAITERS_H
#define WEFT_BACKEND_WAITERS_H

#include "backend/backend.h"

#include <poll.h>

typedef struct weft__waiters {
    weft__list readers; /* READ, ACCEPT, WAIT for POLLIN */
    weft__list writers; /* WRITE, CONNECT, WAIT for POLLOUT */
    weft__list either;  /* WAIT for both */
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

/* Where an operation queues. */
static inline weft__list *weft__waiters_queue(weft__waiters *w, const weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_ACCEPT:
        return &w->readers;
    case WEFT__OP_WRITE:
    case WEFT__OP_CONNECT:
        return &w->writers;
    default:
        break;
    }
    if (!(op->u.events & POLLOUT))
        return &w->readers;
    return op->u.events & POLLIN ? &w->either : &w->writers;
}

static inline weft__op *weft__waiters_first(const weft__list *queue)
{
    return CONTAINER_OF(queue->next, weft__op, link);
}

/* The operation is over: nothing here points to it when its owner hears of it. */
static inline void weft__waiters_end(weft__backend *b, weft__op *op, intptr_t result)
{
    weft__list_remove(&op->link);
    b->pending--;
    op->done(op, result);
}

/* End a whole queue with one result. */
static inline void weft__waiters_end_all(weft__backend *b, weft__list *queue, intptr_t result)
{
    while (!weft__list_is_empty(queue))
        weft__waiters_end(b, weft__waiters_first(queue), result);
}

#endif
