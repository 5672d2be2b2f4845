/*
 * Wait queues: the waiters for one event, in FIFO order. A fiber that waits for another fiber joins
 * a wait queue, for example to wait for the end of a fiber, for a lock or for a message.
 *
 * One rule applies to all wait queues. The waker removes the waiter from its queue and completes
 * the awaited operation in the same step. Therefore a waiter that its waker has removed has its
 * result. A later cancellation or interrupt takes effect at the next blocking call of the fiber. An
 * earlier cancellation or timeout removes the waiter, and the operation is not performed. Therefore
 * no signal, token or message can be lost.
 */
#ifndef WEFT_CORE_SCHED_WAITQ_H
#define WEFT_CORE_SCHED_WAITQ_H

#include "base/compiler.h"

#include <weft/base.h>

#include <stdatomic.h>

/*
 * The shared state of a wait in several queues, some of which belong to other threads. The first
 * thread that claims the token wakes the waiter. Other threads then skip the waiter.
 */
typedef struct weft__select_token {
    atomic_bool is_claimed;
    void *wake; /* the weft__chan_wake that a waker in another thread sends */
} weft__select_token;

static inline bool weft__select_token_claim(weft__select_token *token)
{
    return !atomic_exchange(&token->is_claimed, true);
}

/*
 * A waiter in a wait queue. Each fiber has one waiter, for waits in one queue. A wait in several
 * queues allocates a waiter for each queue.
 */
typedef struct weft__waiter {
    struct weft__waiter *next, *prev; /* the neighbours in the queue, which is circular */
    struct weft__waitq *waitq;        /* NULL: in no queue */
    struct weft__fiber *fiber;        /* the waiting fiber; NULL: not a fiber of this thread */
    /*
     * The waker calls this function after it has removed the waiter from the queue. If on_wake is
     * NULL, the fiber waits in this queue only, and resumes with the value.
     */
    void (*on_wake)(struct weft__waiter *w, weft_value value);
    weft_value value; /* depends on the queue */
    void *data;       /* depends on the queue */
    int how;          /* depends on the queue */
    /*
     * If true, value points to a weft__select_token, which the waker must claim first. on_wake is
     * then not NULL.
     */
    bool has_token;
} weft__waiter;

/* All-zero is an empty queue. An empty queue may be moved. */
typedef struct weft__waitq {
    weft__waiter *first; /* NULL: empty */
} weft__waitq;

static inline bool weft__waitq_is_empty(const weft__waitq *waitq)
{
    return waitq->first == NULL;
}

/* Append a waiter. The waiter must not be in a queue. */
static inline void weft__waitq_join(weft__waitq *waitq, weft__waiter *w)
{
    weft__waiter *first = waitq->first;
    w->waitq = waitq;
    if (LIKELY(first == NULL)) {
        waitq->first = w->next = w->prev = w;
        return;
    }
    w->next = first;
    w->prev = first->prev;
    first->prev->next = w;
    first->prev = w;
}

/* Remove a waiter from the given queue. The waiter must be in this queue. */
static inline void weft__waitq_unlink(weft__waitq *waitq, weft__waiter *w)
{
    w->waitq = NULL;
    if (LIKELY(w->next == w)) {
        waitq->first = NULL;
        return;
    }
    w->next->prev = w->prev;
    w->prev->next = w->next;
    if (waitq->first == w)
        waitq->first = w->next;
}

/* Remove a waiter from its queue, if it is in one. */
static inline void weft__waitq_leave(weft__waiter *w)
{
    if (w->waitq != NULL)
        weft__waitq_unlink(w->waitq, w);
}

/* Remove and return the first waiter. Return NULL if the queue is empty. */
static inline weft__waiter *weft__waitq_pop(weft__waitq *waitq)
{
    weft__waiter *w = waitq->first;
    if (w != NULL)
        weft__waitq_leave(w);
    return w;
}

/* Return whether the first waiter has a token. If so, the waker must claim the token first. */
static inline bool weft__waitq_first_has_token(const weft__waitq *waitq)
{
    const weft__waiter *w = waitq->first;
    return w != NULL && UNLIKELY(w->on_wake != NULL) && w->has_token;
}

/*
 * Return the first waiter that the caller may wake, after claiming its token. Remove waiters with
 * tokens that other threads have claimed. The caller must wake the returned waiter at once. Return
 * NULL if no waiter remains.
 */
weft__waiter *weft__waitq_claim(weft__waitq *waitq);

/* Like weft__waitq_claim, but with a fast path for waiters without a token. */
static inline weft__waiter *weft__waitq_next(weft__waitq *waitq)
{
    return UNLIKELY(weft__waitq_first_has_token(waitq)) ? weft__waitq_claim(waitq) : waitq->first;
}

/* Return the waiter after w, or NULL if w is the last waiter. */
static inline weft__waiter *weft__waitq_after(const weft__waiter *w)
{
    return w->next != w->waitq->first ? w->next : NULL;
}

#endif
