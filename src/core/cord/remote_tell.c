/*
 * weft_tell and weft_try_tell to fibers of other threads. Usually, the sender sends one remote
 * message without a reply. weft_try_tell always does so. If the mailbox is bounded, weft_try_tell
 * first reserves a place in the mailbox (mailbox_bound.h).
 *
 * If the inbox of the receiving cord is full, or the cord has a bounded mailbox, weft_tell sends a
 * request instead. The request waits in the receiving cord until the mailbox has space. The
 * receiving cord then sends the request back as the reply. A sending fiber waits for the reply. A
 * thread without fibers blocks on a semaphore. If the sending fiber is cancelled during the wait,
 * it sends a cancel message. The result is then -ECANCELED, unless the mailbox has already accepted
 * the message.
 */
#include "core/cord/remote_tell.h"

#include "base/libc.h"
#include "core/cord/inbox.h"
#include "core/fiber/mailbox.h"
#include "core/lifetime/cancel.h"

#include <weft/mailbox.h>

#include <semaphore.h>
#include <stdlib.h>

/*
 * A request. The thread that has received msg owns the request, except cancel_msg. Only the sender
 * writes and sends cancel_msg.
 */
typedef struct remote_request {
    weft__remote_msg msg;        /* to the receiver, then back to the sender with the result */
    weft__remote_msg cancel_msg; /* to the receiver, after msg */
    /* Used by the receiving cord; in the senders of the mailbox or in no queue. */
    weft__waiter waiter;
    atomic_int refs;     /* 1 for msg, plus 1 while cancel_msg is in flight */
    weft_fiber sender;   /* constant; 0: a thread without fibers */
    weft_fiber receiver; /* constant */
    weft_value message;  /* constant; the message of weft_tell */
    sem_t replied;       /* if sender is 0: posted when the result is in msg.value */
} remote_request;

static void request_unref(remote_request *r)
{
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1)
        free(r);
}

static const weft__wait_kind waits_cancelled_reply = {.name = "the reply to a cancelled message"};

static bool leave_reply(weft__fiber *f);

static const weft__wait_kind waits_reply = {"space in a mailbox of another thread",
                                            .leave = leave_reply};

/* Wake the sender. If the thread of the sender is ending, the sender does not wait any more. */
static void deliver_tell_reply(weft__cord *c, weft__remote_msg *msg)
{
    remote_request *r = CONTAINER_OF(msg, remote_request, msg);
    weft__fiber *f = weft__fiber_waiting(c, r->sender, r);
    if (f != NULL)
        weft__wake(c, f, weft__cancel_resolve(f, msg->value), WEFT__TAIL);
    request_unref(r);
}

/* Send the result to the sender. */
static void request_reply(remote_request *r, weft_value value)
{
    if (r->sender == 0) {
        r->msg.value = value;
        sem_post(&r->replied); /* the sender frees the request */
        return;
    }
    r->msg = (weft__remote_msg){NULL, deliver_tell_reply, r->sender, value, 0};
    if (weft__cord_post(&r->msg) < 0)
        request_unref(r); /* the cord of the sender has ended */
}

static void request_on_wake(weft__waiter *w, weft_value value)
{
    request_reply(CONTAINER_OF(w, remote_request, waiter), value);
}

static void deliver_request(weft__cord *c, weft__remote_msg *msg)
{
    remote_request *r = CONTAINER_OF(msg, remote_request, msg);
    weft__fiber *f = c != NULL ? weft__fiber_find(c, r->receiver) : NULL;
    if (f == NULL || f->phase == WEFT__ENDED) {
        request_reply(r, -ESRCH);
        return;
    }
    int rc = weft_try_tell(r->receiver, r->message);
    if (rc != -EAGAIN) {
        request_reply(r, rc);
        return;
    }
    r->waiter = (weft__waiter){.on_wake = request_on_wake, .data = &r->message, .how = WEFT__TAIL};
    weft__waitq_join(&f->mailbox->fifo.senders, &r->waiter);
}

/* Cancel a request. If the waiter is in no wait queue, the reply was already sent. */
static void deliver_tell_cancel(weft__cord *c, weft__remote_msg *msg)
{
    (void)c;
    remote_request *r = CONTAINER_OF(msg, remote_request, cancel_msg);
    if (r->waiter.waitq != NULL) {
        weft__waitq_leave(&r->waiter);
        request_reply(r, -ECANCELED);
    }
    request_unref(r);
}

/* Send the cancel message. The sender continues to wait for the reply. */
static bool leave_reply(weft__fiber *f)
{
    remote_request *r = f->wait_object;
    f->waits_in = &waits_cancelled_reply;
    r->cancel_msg = (weft__remote_msg){NULL, deliver_tell_cancel, r->receiver, 0, 0};
    atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    if (weft__cord_post(&r->cancel_msg) < 0)
        request_unref(r); /* the ending cord sends the reply */
    return false;
}

/* A remote message that has arrived and waits for space in the mailbox. */
typedef struct delayed_msg {
    weft__waiter waiter; /* in the senders of the mailbox */
    weft__mailbox *mailbox;
    weft_value value;
    bool is_reserved; /* the message has a place (mailbox_bound.h) */
} delayed_msg;

/* The value is in the mailbox, or the mailbox ends. */
static void delayed_on_wake(weft__waiter *w, weft_value value)
{
    (void)value;
    delayed_msg *d = CONTAINER_OF(w, delayed_msg, waiter);
    d->mailbox->delayed--;
    if (d->is_reserved)
        weft__mailbox_bound_release(&d->mailbox->bound);
    free(d);
}

/* Let a message wait for space. Return false if memory is exhausted. */
static bool mailbox_delay(weft__mailbox *m, weft_value value, bool is_reserved)
{
    delayed_msg *d = malloc(sizeof *d);
    if (d == NULL)
        return false;
    *d = (delayed_msg){.mailbox = m, .value = value, .is_reserved = is_reserved};
    d->waiter = (weft__waiter){.on_wake = delayed_on_wake, .data = &d->value, .how = WEFT__TAIL};
    weft__waitq_join(&m->fifo.senders, &d->waiter);
    m->delayed++;
    return true;
}

/*
 * Deliver a message without a place. If earlier messages wait for space, the message waits behind
 * them, because they may have the same sender. Otherwise the bound does not apply: the mailbox was
 * unbounded when the message was sent.
 */
static void deliver_message(weft__cord *c, weft__remote_msg *msg)
{
    weft__fiber *f = c != NULL ? weft__fiber_find(c, msg->fiber) : NULL;
    if (f != NULL && f->phase != WEFT__ENDED) {
        weft__mailbox *m = f->mailbox;
        if (LIKELY(m == NULL || m->delayed == 0) || !mailbox_delay(m, msg->value, false))
            weft__mailbox_force(c, f, msg->value);
    }
    weft__remote_msg_free(c, msg);
}

/*
 * Deliver a message with a place. A fiber of this thread may have taken the place meanwhile. If the
 * fiber has ended and was restarted, the place was in the mailbox of an earlier run. If the new run
 * has no mailbox, the message needs no place.
 */
static void deliver_reserved(weft__cord *c, weft__remote_msg *msg)
{
    weft__fiber *f = c != NULL ? weft__fiber_find(c, msg->fiber) : NULL;
    weft__mailbox *m = f != NULL && f->phase != WEFT__ENDED ? f->mailbox : NULL;
    if (m == NULL) {
        deliver_message(c, msg);
        return;
    }
    int rc = weft__mailbox_bound_put(c, &m->bound, &m->fifo, msg->value);
    if (rc == -EAGAIN && !mailbox_delay(m, msg->value, true)) {
        weft__mailbox_force(c, f, msg->value);
        weft__mailbox_bound_release(&m->bound);
    }
    weft__remote_msg_free(c, msg);
}

/* Reserve a place for a message that is about to be sent, if the mailbox is bounded. */
static int message_reserve(weft__cord *c, weft__remote_msg *msg)
{
    if (atomic_load_explicit(&c->bounded_mailboxes, memory_order_relaxed) == 0)
        return 0;
    weft__reservation result = weft__mailbox_bound_reserve(msg->fiber);
    if (result == WEFT__RESERVED)
        msg->deliver = deliver_reserved;
    return result == WEFT__NO_PLACE ? -EAGAIN : 0;
}

int weft__remote_try_tell(weft_fiber fiber, weft_value value)
{
    return weft__cord_send_if(fiber, value, deliver_message, message_reserve);
}

/*
 * Create and send a request.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if the cord has ended
 */
static int request_post(weft_fiber sender, weft_fiber fiber, weft_value value, remote_request **out)
{
    remote_request *r = *out = malloc(sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    *r = (remote_request){.msg = {NULL, deliver_request, fiber, 0},
                          .refs = 1,
                          .sender = sender,
                          .receiver = fiber,
                          .message = value};
    if (sender == 0)
        sem_init(&r->replied, 0, 0);
    int rc = weft__cord_post(&r->msg);
    if (rc < 0)
        free(r);
    return rc;
}

static int tell_and_wait(weft__cord *c, weft_fiber fiber, weft_value value)
{
    if (c->current->pending)
        return (int)weft__call_refuse(c);
    remote_request *r;
    int rc = request_post(c->current->id, fiber, value, &r);
    return rc < 0 ? rc : weft__wait_int(c, &waits_reply, r);
}

/*
 * Like tell_and_wait, but in a thread without fibers. Disable pthread_cancel, because a cancelled
 * thread would leak the request.
 */
static int tell_and_block(weft_fiber fiber, weft_value value)
{
    int cancel_state;
    remote_request *r;
    int rc = request_post(0, fiber, value, &r);
    if (rc < 0)
        return rc;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    TEMP_FAILURE_RETRY(sem_wait(&r->replied));
    pthread_setcancelstate(cancel_state, NULL);
    rc = (int)r->msg.value;
    sem_destroy(&r->replied);
    free(r);
    return rc;
}

int weft__remote_tell(weft_fiber fiber, weft_value value)
{
    int rc = weft__cord_send(fiber, value, deliver_message, true);
    if (rc != -EAGAIN)
        return rc;
    weft__cord *c = weft__cord_self;
    return c != NULL ? tell_and_wait(c, fiber, value) : tell_and_block(fiber, value);
}
