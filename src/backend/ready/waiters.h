/*
 * The wait queues of one descriptor: operations in FIFO order per direction. If the first operation
 * of a queue cannot continue, no other operation of the queue can continue.
 */
#ifndef WEFT_BACKEND_READY_WAITERS_H
#define WEFT_BACKEND_READY_WAITERS_H

#include "backend/backend.h"

#include <poll.h>

typedef struct weft__waiters {
    weft__list readers; /* operations that wait for POLLIN */
    weft__list writers; /* operations that wait for POLLOUT */
    weft__list either;  /* operations that wait for either event; if hosted: all WAIT operations */
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

/* Return the events that the waiting operations need, as flags of poll(2). */
static inline int weft__waiters_events(const weft__waiters *w)
{
    int events = weft__list_is_empty(&w->readers) ? 0 : POLLIN;
    if (!weft__list_is_empty(&w->writers))
        events |= POLLOUT;
    WEFT__LIST_FOR(node, &w->either)
        events |= CONTAINER_OF(node, weft__op, link)->wait_events;
    return events;
}

/* Return the queue for the wait_events of an operation. */
static inline weft__list *weft__waiters_queue(weft__waiters *w, const weft__op *op)
{
    if (!(op->wait_events & POLLOUT))
        return &w->readers;
    return op->wait_events & POLLIN ? &w->either : &w->writers;
}

static inline void weft__waiters_add(weft__backend *b, weft__list *queue, weft__op *op)
{
    weft__list_insert(queue, &op->link);
    b->pending++;
}

static inline weft__op *weft__waiters_first(const weft__list *queue)
{
    return CONTAINER_OF(queue->next, weft__op, link);
}

static inline void weft__waiters_remove(weft__backend *b, weft__op *op)
{
    weft__list_remove(&op->link);
    weft__list_remove(&op->secondary_link);
    b->pending--;
}

/* Remove an operation from all lists. Then report its result. */
static inline void weft__waiters_end(weft__backend *b, weft__op *op, intptr_t result)
{
    weft__waiters_remove(b, op);
    op->done(op, result);
}

/* End all operations of a queue with a result. */
static inline void weft__waiters_end_queue(weft__backend *b, weft__list *queue, intptr_t result)
{
    while (!weft__list_is_empty(queue))
        weft__waiters_end(b, weft__waiters_first(queue), result);
}

/* End the operations of all queues with a result. */
static inline void weft__waiters_end_all(weft__backend *b, weft__waiters *w, intptr_t result)
{
    weft__waiters_end_queue(b, &w->readers, result);
    weft__waiters_end_queue(b, &w->writers, result);
    weft__waiters_end_queue(b, &w->either, result);
}

#endif
