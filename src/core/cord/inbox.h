/*
 * The inbox of a cord: remote messages from other threads, in the order of their arrival.
 *
 * Any thread can push a message without a lock. The cord delivers messages in batches, so that its
 * timers, I/O and fibers run between the batches (docs/adr/0038). Messages beyond a batch remain in
 * the inbox.
 */
#ifndef WEFT_CORE_CORD_INBOX_H
#define WEFT_CORE_CORD_INBOX_H

#include "core/cord/cord.h"

/* Return true if the cord has taken all messages. Any thread may call this function. */
static inline bool weft__inbox_is_empty(weft__cord *c)
{
    return atomic_load(&c->inbox) == NULL;
}

/* Return true if the limit of pending messages is reached. Any thread may call this function. */
static inline bool weft__inbox_is_full(weft__cord *c)
{
    return UNLIKELY(atomic_load_explicit(&c->remote_pending, memory_order_relaxed) >=
                    WEFT__REMOTE_PENDING_MAX);
}

/*
 * Return true if the cord has an undelivered message. Only the thread of the cord may call this
 * function.
 */
static inline bool weft__cord_has_messages(weft__cord *c)
{
    return c->inbox_taken != NULL || !weft__inbox_is_empty(c);
}

/*
 * Deliver a batch of messages, within the limit of this round. The other messages remain in the
 * inbox.
 */
void weft__inbox_read(weft__cord *c);

/*
 * Call fn for each undelivered message, the oldest first. fn must not remove the message. Only the
 * thread of the cord may call this function.
 */
void weft__inbox_each(weft__cord *c, void (*fn)(weft__cord *c, weft__remote_msg *msg));

/*
 * Begin a round. A round ends when each fiber that was runnable at the beginning of the round has
 * run.
 */
void weft__inbox_begin_round(weft__cord *c);

/* Call deliver(NULL, msg) for all messages. The cord must not run fibers any more. */
void weft__inbox_reject_all(weft__cord *c);

/*
 * Send msg to the cord of msg->fiber. On failure, the caller still owns msg.
 *
 * Returns 0, or:
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if the cord has ended
 */
int weft__cord_post(weft__remote_msg *msg);

/* Return true if a fiber of any thread exists and has not ended. The fiber may end at any time. */
bool weft__remote_fiber_exists(weft_fiber fiber);

/* Send msg to a cord that the caller has acquired (registry.h). */
void weft__inbox_push(weft__cord *c, weft__remote_msg *msg);

/*
 * Allocate a message, and send the message to the cord of fiber. deliver must call
 * weft__remote_msg_free.
 *
 * Returns 0, or:
 * -EAGAIN if fails_if_bounded is true and a fiber of the cord has a bounded mailbox
 * -EAGAIN if the inbox is full
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if the fiber has ended
 */
int weft__cord_send(weft_fiber fiber, weft_value value,
                    void (*deliver)(weft__cord *c, weft__remote_msg *msg), bool fails_if_bounded);

/*
 * Like weft__cord_send, but call admit before the message is sent. If admit returns an error, the
 * call fails with this error. admit may change the delivery function. After admit has returned 0,
 * the message is sent.
 */
int weft__cord_send_if(weft_fiber fiber, weft_value value,
                       void (*deliver)(weft__cord *c, weft__remote_msg *msg),
                       int (*admit)(weft__cord *c, weft__remote_msg *msg));

/* Free a message that weft__cord_send allocated. c is the argument of deliver. */
void weft__remote_msg_free(weft__cord *c, weft__remote_msg *msg);

/*
 * Free the messages that the cord has allocated and not sent. The cord must not send messages any
 * more.
 */
void weft__msg_slab_close(weft__cord *c);

/*
 * End the current poll of a cord that the caller has acquired. If the cord is not polling, its next
 * poll returns at once.
 */
void weft__cord_wake(weft__cord *c);

#endif
