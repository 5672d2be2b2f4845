/*
 * Shared channels. Items are transferred under the lock. Fibers are woken after the lock is
 * released. See chan_shared.h.
 */
#include "sync/chan_shared.h"

#include "core/cord/fork.h"
#include "core/cord/inbox.h"
#include "core/lifetime/cancel.h"

#include <stdlib.h>

/* A waiting send or receive call, on the heap. chan_shared.h explains why. */
typedef struct chan_waiter {
    weft__chan_wake wake;
    weft__chan_shared *shared;
    weft__waiter waiter;
    weft_value value; /* the received value if the caller passed no buffer; else 0 */
} chan_waiter;

weft__chan_shared *weft__chan_shared_new(size_t item_bytes, size_t cap)
{
    weft__chan_shared *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    weft__fifo_init(&s->fifo, item_bytes, cap);
    if (weft__fifo_make_room(&s->fifo, cap) < 0 || pthread_mutex_init(&s->lock, NULL) != 0) {
        weft__fifo_free(&s->fifo);
        free(s);
        return NULL;
    }
    s->fork_depth = weft__fork_depth;
    atomic_init(&s->refs, 1);
    return s;
}

/*
 * Return whether a parent process created the channel before weft_fork. A thread of the parent may
 * have held the lock during the fork. The lock would then remain locked forever in the child. The
 * child may therefore read only constant fields.
 */
static inline bool is_inherited(const weft__chan_shared *s)
{
    return UNLIKELY(s->fork_depth != weft__fork_depth);
}

void weft__chan_shared_unref(weft__chan_shared *s)
{
    if (is_inherited(s))
        return;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_destroy(&s->lock);
    weft__fifo_free(&s->fifo);
    free(s);
}

/* Waking waiters, under the lock. */

static weft__chan_wake *wake_of(const weft__waiter *w)
{
    return w->has_token ? ((weft__select_token *)w->value)->wake : (weft__chan_wake *)w->value;
}

/* Pop the first waiter that no other thread has claimed. Returns NULL if there is none. */
static weft__waiter *waiter_pop(weft__waitq *waitq)
{
    weft__waiter *w;
    while ((w = weft__waitq_pop(waitq)) != NULL)
        if (!w->has_token || weft__select_token_claim((weft__select_token *)w->value))
            return w;
    return NULL;
}

/*
 * Complete a wait. Push its wake-up onto the stack *wakes. The caller must deliver the wake-ups
 * after it has released the lock.
 */
static void waiter_complete(weft__waiter *w, int result, weft__remote_msg **wakes)
{
    weft__chan_wake *wake = wake_of(w);
    wake->woken = w;
    wake->msg.value = result;
    wake->msg.next = *wakes;
    *wakes = &wake->msg;
}

static int shared_put(weft__fifo *fifo, const void *item, weft__remote_msg **wakes)
{
    if (fifo->is_closed)
        return -EPIPE;
    weft__waiter *w = waiter_pop(&fifo->receivers);
    if (w != NULL) {
        weft__fifo_copy(fifo, w->data, item);
        waiter_complete(w, 0, wakes);
        return 0;
    }
    if (fifo->count >= fifo->limit)
        return -EAGAIN;
    weft__fifo_store(fifo, item, WEFT__TAIL);
    return 0;
}

static int shared_take(weft__fifo *fifo, void *out, weft__remote_msg **wakes)
{
    bool is_stored = fifo->count > 0;
    if (is_stored) {
        weft__fifo_copy(fifo, out, weft__fifo_at(fifo, 0));
        fifo->head++;
        fifo->count--;
    }
    weft__waiter *w = waiter_pop(&fifo->senders);
    if (w != NULL) {
        if (is_stored)
            weft__fifo_store(fifo, w->data, WEFT__TAIL);
        else
            weft__fifo_copy(fifo, out, w->data);
        waiter_complete(w, 0, wakes);
        return 0;
    }
    if (is_stored)
        return 0;
    return fifo->is_closed ? -EPIPE : -EAGAIN;
}

/* Delivering wake-ups, without the lock. */

/* Deliver wake-ups. A fiber of the calling thread needs no remote message. */
static void deliver_wakes(weft__remote_msg *wakes)
{
    weft__cord *c = weft__cord_self;
    while (wakes != NULL) {
        weft__remote_msg *msg = wakes;
        wakes = msg->next;
        if (c != NULL && weft__fiber_cord(msg->fiber) == c->index)
            msg->deliver(c, msg);
        else if (weft__cord_post(msg) < 0)
            msg->deliver(NULL, msg); /* the thread of the fiber has ended */
    }
}

int weft__chan_shared_put(weft__chan_shared *s, const void *item)
{
    if (is_inherited(s))
        return -EPIPE;
    weft__remote_msg *wakes = NULL;
    pthread_mutex_lock(&s->lock);
    int rc = shared_put(&s->fifo, item, &wakes);
    pthread_mutex_unlock(&s->lock);
    deliver_wakes(wakes);
    return rc;
}

int weft__chan_shared_take(weft__chan_shared *s, void *out)
{
    if (is_inherited(s))
        return -EPIPE;
    weft__remote_msg *wakes = NULL;
    pthread_mutex_lock(&s->lock);
    int rc = shared_take(&s->fifo, out, &wakes);
    pthread_mutex_unlock(&s->lock);
    deliver_wakes(wakes);
    return rc;
}

/* Reverse a list of wake-ups, so that the oldest wake-up is first. */
static weft__remote_msg *wakes_reverse(weft__remote_msg *wakes)
{
    weft__remote_msg *first = NULL;
    while (wakes != NULL) {
        weft__remote_msg *next = wakes->next;
        wakes->next = first;
        first = wakes;
        wakes = next;
    }
    return first;
}

void weft__chan_shared_close(weft__chan_shared *s)
{
    if (is_inherited(s))
        return;
    weft__remote_msg *wakes = NULL;
    weft__waiter *w;
    pthread_mutex_lock(&s->lock);
    s->fifo.is_closed = true;
    while ((w = waiter_pop(&s->fifo.senders)) != NULL ||
           (w = waiter_pop(&s->fifo.receivers)) != NULL)
        waiter_complete(w, -EPIPE, &wakes);
    pthread_mutex_unlock(&s->lock);
    deliver_wakes(wakes_reverse(wakes));
}

/* Waiting. */

static void chan_waiter_free(chan_waiter *cw)
{
    weft__chan_shared_unref(cw->shared);
    free(cw);
}

/*
 * Stop waiting. Returns false if another thread has already completed the wait. The wake-up is then
 * in flight.
 */
static bool leave_shared_wait(weft__fiber *f)
{
    chan_waiter *cw = f->wait_object;
    pthread_mutex_lock(&cw->shared->lock);
    bool is_queued = cw->waiter.waitq != NULL;
    weft__waitq_leave(&cw->waiter);
    pthread_mutex_unlock(&cw->shared->lock);
    if (is_queued)
        chan_waiter_free(cw);
    return is_queued;
}

/* The address of a shared channel is not known. Its shared part identifies the channel. */
static void describe_shared(const weft__fiber *f, weft_info *out)
{
    out->waits_on = ((const chan_waiter *)f->wait_object)->shared;
}

static const weft__wait_kind waits_put = {"space in a shared channel", .leave = leave_shared_wait,
                                          .describe = describe_shared};
static const weft__wait_kind waits_take = {"an item from a shared channel",
                                           .leave = leave_shared_wait, .describe = describe_shared};

static void deliver_wake(weft__cord *c, weft__remote_msg *msg)
{
    chan_waiter *cw = CONTAINER_OF(msg, chan_waiter, wake.msg);
    weft__fiber *f = weft__fiber_waiting(c, msg->fiber, cw);
    if (f != NULL)
        weft__wake(c, f, weft__cancel_resolve(f, msg->value < 0 ? msg->value : cw->value),
                   WEFT__TAIL);
    chan_waiter_free(cw);
}

/* Join a wait queue. The caller must hold the lock. */
static void chan_waiter_join(const weft__cord *c, chan_waiter *cw, weft__waitq *waitq, void *data)
{
    cw->wake.msg = (weft__remote_msg){NULL, deliver_wake, c->current->id, 0, 0};
    cw->waiter = (weft__waiter){.value = (weft_value)&cw->wake, .data = data};
    atomic_fetch_add_explicit(&cw->shared->refs, 1, memory_order_relaxed);
    weft__waitq_join(waitq, &cw->waiter);
}

/*
 * Allocate the waiter of the current fiber. If the fiber cannot wait, the call returns NULL and
 * stores the error in *error.
 */
static chan_waiter *chan_waiter_new(weft__cord *c, weft__chan_shared *s, int *error)
{
    if (UNLIKELY(c->current->pending)) {
        *error = (int)weft__call_refuse(c);
        return NULL;
    }
    chan_waiter *cw = malloc(sizeof *cw);
    if (cw == NULL) {
        *error = -ENOMEM;
        return NULL;
    }
    cw->shared = s;
    cw->value = 0;
    return cw;
}

int weft__chan_shared_send(weft__cord *c, weft__chan_shared *s, const void *item)
{
    int rc = weft__chan_shared_put(s, item);
    if (rc != -EAGAIN)
        return rc;
    chan_waiter *cw = chan_waiter_new(c, s, &rc);
    if (cw == NULL)
        return rc;
    weft__remote_msg *wakes = NULL;
    pthread_mutex_lock(&s->lock);
    rc = shared_put(&s->fifo, item, &wakes); /* the state may have changed since the first try */
    if (rc == -EAGAIN)
        chan_waiter_join(c, cw, &s->fifo.senders, (void *)(uintptr_t)item);
    pthread_mutex_unlock(&s->lock);
    if (rc == -EAGAIN)
        return weft__wait_int(c, &waits_put, cw);
    deliver_wakes(wakes);
    free(cw);
    return rc;
}

weft_value weft__chan_shared_recv(weft__cord *c, weft__chan_shared *s, void *out)
{
    weft_value value = 0;
    int rc = weft__chan_shared_take(s, out != NULL ? out : &value);
    if (rc != -EAGAIN)
        return rc < 0 ? rc : value;
    chan_waiter *cw = chan_waiter_new(c, s, &rc);
    if (cw == NULL)
        return rc;
    weft__remote_msg *wakes = NULL;
    pthread_mutex_lock(&s->lock);
    rc = shared_take(&s->fifo, out != NULL ? out : &value, &wakes);
    if (rc == -EAGAIN)
        chan_waiter_join(c, cw, &s->fifo.receivers, out != NULL ? out : &cw->value);
    pthread_mutex_unlock(&s->lock);
    if (rc == -EAGAIN)
        return weft__wait(c, &waits_take, cw);
    deliver_wakes(wakes);
    free(cw);
    return rc < 0 ? rc : value;
}

/* Getters. */

/* Return expr, evaluated under the lock. If the channel is inherited, return in_child. */
#define RETURN_LOCKED(s, expr, in_child)  \
    do {                                  \
        if (is_inherited(s))              \
            return in_child;              \
        pthread_mutex_lock(&(s)->lock);   \
        __typeof__(expr) result = (expr); \
        pthread_mutex_unlock(&(s)->lock); \
        return result;                    \
    } while (0)

bool weft__chan_shared_can_put(weft__chan_shared *s)
{
    RETURN_LOCKED(s, weft__fifo_can_put(&s->fifo), true);
}

bool weft__chan_shared_can_take(weft__chan_shared *s)
{
    RETURN_LOCKED(s, weft__fifo_can_take(&s->fifo), true);
}

size_t weft__chan_shared_count(weft__chan_shared *s)
{
    RETURN_LOCKED(s, s->fifo.count, 0);
}

bool weft__chan_shared_is_closed(weft__chan_shared *s)
{
    RETURN_LOCKED(s, s->fifo.is_closed, true);
}

bool weft__chan_shared_has_senders(weft__chan_shared *s)
{
    RETURN_LOCKED(s, !weft__waitq_is_empty(&s->fifo.senders), false);
}

bool weft__chan_shared_has_receivers(weft__chan_shared *s)
{
    RETURN_LOCKED(s, !weft__waitq_is_empty(&s->fifo.receivers), false);
}
