/*
 * Remote messages: allocate messages, push messages into the inbox of a cord, wake the cord, and
 * deliver messages. See inbox.h.
 */
#include "core/cord/inbox.h"

#include "core/cord/registry.h"
#include "core/cord/remote_wait.h"
#include "core/trace/trace.h"

#include <limits.h>
#include <stdlib.h>

/* Reverse a list of messages that starts with the newest message. */
static weft__remote_msg *msgs_reverse(weft__remote_msg *newest)
{
    weft__remote_msg *oldest = NULL;
    while (newest != NULL) {
        weft__remote_msg *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

/* Remove and return the oldest message. Return NULL if there is none. */
static weft__remote_msg *inbox_pop(weft__cord *c)
{
    if (c->inbox_taken == NULL && !weft__inbox_is_empty(c))
        c->inbox_taken = msgs_reverse(atomic_exchange(&c->inbox, NULL));
    weft__remote_msg *msg = c->inbox_taken;
    if (msg != NULL)
        c->inbox_taken = msg->next;
    return msg;
}

void weft__inbox_each(weft__cord *c, void (*fn)(weft__cord *c, weft__remote_msg *msg))
{
    weft__remote_msg **end = &c->inbox_taken;
    while (*end != NULL)
        end = &(*end)->next;
    *end = msgs_reverse(atomic_exchange(&c->inbox, NULL));
    for (weft__remote_msg *msg = c->inbox_taken; msg != NULL; msg = msg->next)
        fn(c, msg);
}

/*
 * Deliver at most count_max messages, and return their number. receiver is c or NULL. If receiver
 * is NULL, reject the messages.
 */
static unsigned inbox_deliver(weft__cord *c, weft__cord *receiver, unsigned count_max)
{
    unsigned count = 0;
    weft__remote_msg *msg;
    while (count < count_max && (msg = inbox_pop(c)) != NULL) {
        count++;
        if (UNLIKELY(c->trace != NULL))
            weft__trace_receive(c, msg);
        msg->deliver(receiver, msg);
    }
    if (UNLIKELY(c->trace != NULL))
        weft__trace_receive(c, NULL);
    c->messages += count;
    atomic_fetch_sub_explicit(&c->remote_pending, count, memory_order_relaxed);
    return count;
}

void weft__inbox_reject_all(weft__cord *c)
{
    inbox_deliver(c, NULL, UINT_MAX);
}

void weft__inbox_read(weft__cord *c)
{
    if (LIKELY(!weft__cord_has_messages(c)))
        return;
    uint32_t left = c->round_messages;
    uint32_t batch = left < WEFT__REMOTE_BATCH ? left : WEFT__REMOTE_BATCH;
    /*
     * Subtract before the delivery. A delivery may call a function of the program, which may call
     * weft__inbox_read again.
     */
    c->round_messages -= batch;
    c->round_messages += batch - inbox_deliver(c, c, batch);
}

void weft__inbox_begin_round(weft__cord *c)
{
    uint32_t runnable = weft__runqueue_count(&c->runqueue);
    c->round_switches = runnable;
    c->round_messages = WEFT__REMOTE_BATCH;
    if (runnable / WEFT__REMOTE_PART > WEFT__REMOTE_BATCH)
        c->round_messages = runnable / WEFT__REMOTE_PART;
}

static void backend_wake(const weft__cord *c, weft__backend *b)
{
    const weft__cord *self = weft__cord_self;
    bool is_sent = self != NULL && self->backend->type == b->type && b->type->wake_remote != NULL &&
                   b->type->wake_remote(self->backend, b, c->index);
    if (!is_sent)
        b->type->wake(b);
}

/*
 * type->wake may call a cancellation point. A thread that is cancelled there would not release the
 * slot of the cord. So disable pthread_cancel.
 */
void weft__cord_wake(weft__cord *c)
{
    int cancel_state;
    atomic_store(&c->is_woken, true);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    weft__backend *b = __atomic_load_n(&c->backend, __ATOMIC_ACQUIRE);
    /* A cord without a backend has not started, and reads its inbox before its first wait. */
    if (b != NULL)
        backend_wake(c, b);
    pthread_setcancelstate(cancel_state, NULL);
}

/*
 * Push a message. Return whether the caller must wake the cord.
 *
 * The cord sets is_asleep before it checks its inbox. The sender pushes before it reads is_asleep.
 * All these accesses are sequentially consistent. So the cord finds the message, or the sender
 * finds the cord asleep. If there are several senders, the sender that clears is_asleep wakes the
 * cord.
 */
static inline bool push_must_wake(weft__cord *c, weft__remote_msg *msg)
{
    atomic_fetch_add_explicit(&c->remote_pending, 1, memory_order_relaxed);
    weft__remote_msg *newest = atomic_load_explicit(&c->inbox, memory_order_relaxed);
    do {
        msg->next = newest;
    } while (!atomic_compare_exchange_weak(&c->inbox, &newest, msg));
    return atomic_load(&c->is_asleep) && atomic_exchange(&c->is_asleep, false);
}

void weft__inbox_push(weft__cord *c, weft__remote_msg *msg)
{
    weft__cord *self = weft__cord_self;
    msg->trace_id = UNLIKELY(self != NULL && self->trace != NULL) ? weft__trace_send(self, msg) : 0;
    if (push_must_wake(c, msg))
        weft__cord_wake(c);
}

/* A signal may have interrupted wake_remote of this thread. So use only type->wake. */
int weft__cord_post_in_handler(weft__remote_msg *msg)
{
    uint32_t index = weft__fiber_cord(msg->fiber);
    weft__cord *c = weft__registry_acquire(index);
    if (c == NULL)
        return -ESRCH;
    if (push_must_wake(c, msg)) {
        atomic_store(&c->is_woken, true);
        weft__backend *b = __atomic_load_n(&c->backend, __ATOMIC_ACQUIRE);
        if (b != NULL)
            b->type->wake(b);
    }
    weft__registry_release(index);
    return 0;
}

/* Return the error for a cord that does not exist. */
COLD static int missing_cord_error(void)
{
    return weft__is_copy ? weft__no_cord() : -ESRCH;
}

int weft__cord_post(weft__remote_msg *msg)
{
    uint32_t index = weft__fiber_cord(msg->fiber);
    weft__cord *c = msg->fiber != 0 ? weft__registry_acquire(index) : NULL;
    if (c == NULL)
        return missing_cord_error();
    weft__inbox_push(c, msg);
    weft__registry_release(index);
    return 0;
}

/* Return true if the cord has this fiber. The caller must have acquired the cord. */
static bool has_fiber(const weft__cord *c, weft_fiber fiber)
{
    uint32_t slot = weft__fiber_slot(fiber);
    if (!weft__record_exists(c, slot))
        return false;
    const weft__fiber *f = weft__record_at(c, slot);
    return __atomic_load_n(&f->id, __ATOMIC_RELAXED) == fiber &&
           __atomic_load_n(&f->phase, __ATOMIC_RELAXED) != WEFT__ENDED;
}

bool weft__remote_fiber_exists(weft_fiber fiber)
{
    uint32_t index = weft__fiber_cord(fiber);
    const weft__cord *c = weft__registry_acquire(index);
    if (c == NULL)
        return false;
    bool exists = has_fiber(c, fiber);
    weft__registry_release(index);
    return exists;
}

/*
 * Return true if the cord may have this fiber. While a remote spawn is in flight, any id may be
 * valid. Check in_flight first, because in_flight decreases only after the id is in the table. The
 * caller must have acquired the cord.
 */
static bool may_have_fiber(weft__cord *c, weft_fiber fiber)
{
    return atomic_load(&c->id_reserve.in_flight) > 0 || has_fiber(c, fiber);
}

/*
 * The memory of messages. Allocation is slow if one thread allocates memory and another thread
 * frees it. So a cord allocates its messages in slabs. A cord first reuses messages that it has
 * received. So a fiber that replies to messages allocates no memory.
 */
typedef struct slab_msg {
    weft__remote_msg msg;
    struct weft__msg_slab *msg_slab; /* NULL: not part of a slab */
} slab_msg;

typedef struct weft__msg_slab {
    atomic_uint left; /* messages that are not freed; the slab is freed when left is 0 */
    unsigned used;    /* messages that the sender has taken; only the sender uses this field */
    slab_msg msgs[WEFT__MSG_SLAB_COUNT];
} weft__msg_slab;

static void slab_release(weft__msg_slab *msg_slab, unsigned count)
{
    if (atomic_fetch_sub_explicit(&msg_slab->left, count, memory_order_acq_rel) == count)
        free(msg_slab);
}

/* Take a message from the slab of the cord. Return NULL if memory is exhausted. */
static slab_msg *slab_take(weft__cord *self)
{
    weft__msg_slab *msg_slab = self->msg_slab;
    if (UNLIKELY(msg_slab == NULL)) {
        msg_slab = self->msg_slab = malloc(sizeof *msg_slab);
        if (msg_slab == NULL)
            return NULL;
        atomic_init(&msg_slab->left, WEFT__MSG_SLAB_COUNT);
        msg_slab->used = 0;
    }
    slab_msg *s = &msg_slab->msgs[msg_slab->used++];
    s->msg_slab = msg_slab;
    if (UNLIKELY(msg_slab->used == WEFT__MSG_SLAB_COUNT))
        self->msg_slab = NULL;
    return s;
}

/*
 * Allocate a message. A thread that is not a cord has no slab. Return NULL if memory is exhausted.
 */
static slab_msg *msg_alloc(void)
{
    weft__cord *self = weft__cord_self;
    if (self == NULL) {
        slab_msg *s = malloc(sizeof *s);
        if (s != NULL)
            s->msg_slab = NULL;
        return s;
    }
    weft__remote_msg *spare = self->spare_msgs;
    if (spare == NULL)
        return slab_take(self);
    self->spare_msgs = spare->next;
    self->spare_msgs_count--;
    return CONTAINER_OF(spare, slab_msg, msg);
}

void weft__remote_msg_free(weft__cord *c, weft__remote_msg *msg)
{
    slab_msg *s = CONTAINER_OF(msg, slab_msg, msg);
    if (c != NULL && c->spare_msgs_count < WEFT__SPARE_MSGS_MAX) {
        msg->next = c->spare_msgs;
        c->spare_msgs = msg;
        c->spare_msgs_count++;
    } else if (s->msg_slab != NULL) {
        slab_release(s->msg_slab, 1);
    } else {
        free(s);
    }
}

void weft__msg_slab_close(weft__cord *c)
{
    while (c->spare_msgs != NULL) {
        weft__remote_msg *msg = c->spare_msgs;
        c->spare_msgs = msg->next;
        weft__remote_msg_free(NULL, msg);
    }
    if (c->msg_slab != NULL)
        slab_release(c->msg_slab, WEFT__MSG_SLAB_COUNT - c->msg_slab->used);
}

/*
 * Copy msg, and send the copy to c. admit is NULL, or the argument of weft__cord_send_if. The
 * message is allocated before admit is called, because nothing may fail after admit has returned 0.
 * The caller must have acquired c. The function is inlined, so that weft__cord_send does not test
 * admit.
 */
__attribute__((always_inline)) static inline int
inbox_send(weft__cord *c, const weft__remote_msg *msg, bool fails_if_bounded,
           int (*admit)(weft__cord *c, weft__remote_msg *msg))
{
    if (!may_have_fiber(c, msg->fiber))
        return -ESRCH;
    if (weft__inbox_is_full(c))
        return -EAGAIN;
    if (fails_if_bounded && atomic_load_explicit(&c->bounded_mailboxes, memory_order_relaxed) > 0)
        return -EAGAIN;
    slab_msg *s = msg_alloc();
    if (s == NULL)
        return -ENOMEM;
    s->msg = *msg;
    int rc = admit != NULL ? admit(c, &s->msg) : 0;
    if (rc == 0)
        weft__inbox_push(c, &s->msg);
    else
        weft__remote_msg_free(weft__cord_self, &s->msg);
    return rc;
}

/* Find the cord of msg->fiber, and call inbox_send. */
__attribute__((always_inline)) static inline int
cord_send(const weft__remote_msg *msg, bool fails_if_bounded,
          int (*admit)(weft__cord *c, weft__remote_msg *msg))
{
    uint32_t index = weft__fiber_cord(msg->fiber);
    weft__cord *c = msg->fiber != 0 ? weft__registry_acquire(index) : NULL;
    if (c == NULL)
        return missing_cord_error();
    int rc = inbox_send(c, msg, fails_if_bounded, admit);
    weft__registry_release(index);
    return rc;
}

int weft__cord_send(weft_fiber fiber, weft_value value,
                    void (*deliver)(weft__cord *c, weft__remote_msg *msg), bool fails_if_bounded)
{
    return cord_send(&(weft__remote_msg){NULL, deliver, fiber, value, 0}, fails_if_bounded, NULL);
}

int weft__cord_send_if(weft_fiber fiber, weft_value value,
                       void (*deliver)(weft__cord *c, weft__remote_msg *msg),
                       int (*admit)(weft__cord *c, weft__remote_msg *msg))
{
    return cord_send(&(weft__remote_msg){NULL, deliver, fiber, value, 0}, false, admit);
}
