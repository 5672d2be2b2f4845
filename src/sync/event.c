/*
 * Events. One atomic word holds the state: clear, set, or the id of the leader.
 *
 * The fibers that wait for an event are a batch. The leader is the first fiber of the batch. A
 * batch belongs to one thread. Only that thread accesses the list of the batch. Other threads
 * access only the word.
 *
 * If fibers wait, weft_event_set removes the id from the word and leaves the event clear. If the
 * batch belongs to the calling thread, the call also wakes the batch. Otherwise the call sends a
 * remote message. The fibers remain in their waits until the message arrives, even if the fibers
 * are cancelled. The setting thread does not access the event after the change of the word, because
 * a woken fiber may free the event. Fibers that begin to wait meanwhile are another batch.
 *
 * If the leader leaves the batch before a set, it replaces its id in the word with the id of the
 * next fiber.
 *
 * If the leader has ended when the message arrives, the message is discarded. The thread of the
 * leader has then ended too, and the event may already be freed.
 */
#include "core/cord/inbox.h"
#include "core/lifetime/cancel.h"

#include <weft/sync.h>

#include <stdlib.h>

typedef _Atomic(uint64_t) event; /* CLEAR, IS_SET, or the id of the leader */

_Static_assert(sizeof(event) <= sizeof(weft_event), "weft_event is too small");
_Static_assert(_Alignof(event) <= _Alignof(weft_event), "weft_event is aligned too little");

/* States that are not ids. No fiber has the id 0 or 1. */
enum { CLEAR = 0, IS_SET = 1 };

/*
 * The wait of a cancelled fiber after another thread has set the event. The remote message is in
 * flight.
 */
static const weft__wait_kind waits_remote_wake = {.name = "the wake-up by an event"};

static event *event_of(weft_event *handle)
{
    return (event *)(void *)handle;
}

/*
 * Replace the value *from of the word with to, atomically. If the word has another value, store
 * that value in *from and return false. Use acq_rel even if both values are equal, because each set
 * must publish the preceding writes.
 */
static bool event_exchange(event *e, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(e, from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* The wait of a fiber, in the frame of weft_event_wait. The wait_object of the fiber. */
typedef struct event_wait {
    weft__list link; /* the batch in FIFO order: a circular list without a head */
    weft__fiber *fiber;
    event *event;
    uint64_t batch; /* the number of the batch, unique in the thread */
} event_wait;

static __thread uint64_t batches; /* the number of the last batch */

static event_wait *wait_of(weft__list *link)
{
    return CONTAINER_OF(link, event_wait, link);
}

static const weft__wait_kind waits_event;

/*
 * Return the wait of a fiber for an event. Return NULL if the fiber belongs to another thread or
 * does not wait for the event.
 */
static event_wait *wait_find(const weft__cord *c, weft_fiber fiber, const event *e)
{
    weft__fiber *f = weft__fiber_cord(fiber) == c->index ? weft__fiber_find(c, fiber) : NULL;
    if (f == NULL || (f->waits_in != &waits_event && f->waits_in != &waits_remote_wake))
        return NULL;
    event_wait *w = f->wait_object;
    return w->event == e ? w : NULL;
}

/*
 * Leave the batch. Return false if a thread has already set the event for the batch. A thread may
 * set the event after the check of the word. The set then wakes the rest of the batch.
 */
static bool event_leave(weft__fiber *f)
{
    event_wait *w = f->wait_object;
    uint64_t word = f->id;
    uint64_t next = weft__list_is_empty(&w->link) ? CLEAR : wait_of(w->link.next)->fiber->id;
    bool has_left = event_exchange(w->event, &word, next); /* true: the fiber was the leader */
    if (!has_left && word != CLEAR && word != IS_SET) {
        const event_wait *leader = wait_find(weft__cord_self, word, w->event);
        has_left = leader != NULL && leader->batch == w->batch;
    }
    if (UNLIKELY(!has_left)) {
        f->waits_in = &waits_remote_wake;
        return false;
    }
    weft__list_remove(&w->link);
    return true;
}

static const weft__wait_kind waits_event = {"an event", .leave = event_leave,
                                            .forget = event_leave};

/* Wake a batch, the leader first. The frames of woken fibers are valid until the fibers run. */
static void event_wake(weft__cord *c, weft_fiber leader, const event *e)
{
    event_wait *first = wait_find(c, leader, e), *w = first;
    if (first == NULL)
        return;
    do {
        event_wait *next = wait_of(w->link.next);
        weft__wake(c, w->fiber, weft__cancel_resolve(w->fiber, 0), WEFT__TAIL);
        w = next;
    } while (w != first);
}

static void event_wake_remote(weft__cord *c, weft__remote_msg *msg)
{
    if (c != NULL)
        event_wake(c, msg->fiber, (const event *)msg->value);
    free(msg);
}

/*
 * Set an event that a batch of another thread waits for. *word must be the id of the leader. If the
 * word has changed, store the new value in *word.
 *
 * Returns 0, or:
 * -EAGAIN if the word has changed
 * -ENOMEM if memory is exhausted
 */
static int event_set_remote(event *e, uint64_t *word)
{
    weft__remote_msg *msg =
        malloc(sizeof *msg); /* allocate before the exchange, which cannot be undone */
    if (msg == NULL)
        return -ENOMEM;
    *msg = (weft__remote_msg){NULL, event_wake_remote, *word, (weft_value)e};
    bool is_taken = event_exchange(e, word, CLEAR);
    if (!is_taken || weft__cord_post(msg) < 0)
        free(msg);
    return is_taken ? 0 : -EAGAIN;
}

static int event_set_local(weft__cord *c, event *e, uint64_t *word)
{
    weft_fiber leader = *word;
    if (!event_exchange(e, word, CLEAR))
        return -EAGAIN;
    event_wake(c, leader, e);
    return 0;
}

int weft_event_set(weft_event *handle)
{
    event *e = event_of(handle);
    weft__cord *c = weft__cord_self; /* NULL in a plain thread, which may set an event */
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    uint64_t word = atomic_load_explicit(e, memory_order_relaxed);
    int rc;
    do {
        if (word == CLEAR || word == IS_SET)
            rc = event_exchange(e, &word, IS_SET) ? 0 : -EAGAIN;
        else if (c != NULL && weft__fiber_cord(word) == c->index)
            rc = event_set_local(c, e, &word);
        else
            rc = event_set_remote(e, &word);
    } while (rc == -EAGAIN);
    return rc;
}

void weft_event_clear(weft_event *handle)
{
    uint64_t word = IS_SET;
    event_exchange(event_of(handle), &word, CLEAR);
}

bool weft_event_is_set(const weft_event *handle)
{
    return atomic_load_explicit((const event *)(const void *)handle, memory_order_acquire) ==
           IS_SET;
}

/*
 * Join the batch whose leader has the id word. If word is CLEAR, begin a batch.
 *
 * Another thread may set the event before the fiber has joined. The remote message then also
 * wakes this fiber, because this thread delivers the message later.
 *
 * Returns 0, or:
 * -EAGAIN if the word has changed
 * -EXDEV if the batch belongs to another thread
 */
static int event_join(weft__cord *c, event_wait *w, uint64_t word)
{
    if (word != CLEAR) {
        event_wait *leader = wait_find(c, word, w->event);
        if (leader == NULL)
            return -EXDEV;
        w->batch = leader->batch;
        weft__list_insert(&leader->link, &w->link);
        return 0;
    }
    w->batch = ++batches;
    weft__list_init(&w->link);
    return event_exchange(w->event, &word, w->fiber->id) ? 0 : -EAGAIN;
}

int weft_event_wait(weft_event *handle)
{
    event *e = event_of(handle);
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    event_wait w = {.fiber = c->current, .event = e};
    int rc;
    do { /* retry if another thread has set the event meanwhile */
        uint64_t word = IS_SET;
        if (event_exchange(e, &word, CLEAR))
            return 0;
        if (UNLIKELY(c->current->pending))
            return (int)weft__call_refuse(c);
        rc = event_join(c, &w, word);
    } while (rc == -EAGAIN);
    if (UNLIKELY(rc < 0))
        return weft_fail(rc, "weft_event_wait: a fiber of another thread waits for the event");
    return weft__wait_int(c, &waits_event, &w);
}
