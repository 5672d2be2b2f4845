/*
 * Mailboxes, which receive messages for fibers.
 *
 * Every fiber has a mailbox. Any fiber or thread can send messages to the id of a fiber. A message
 * is one value, for example an integer, a fiber id, or a pointer that the receiver frees.
 *
 * The messages of one sender arrive in the order of sending. A mailbox is unbounded, unless its
 * fiber sets a bound. A sender waits while a bounded mailbox is full. When a fiber ends, weft
 * discards the messages that the fiber has not received. A restarted fiber begins with an unbounded
 * mailbox. The mailbox contains only the messages of senders that were waiting.
 */
#ifndef WEFT_MAILBOX_H
#define WEFT_MAILBOX_H

#include <weft/base.h>

#include <sys/types.h>

WEFT_BEGIN

/**
 * Put a value into the mailbox of a fiber.
 *
 * The call waits while the mailbox is bounded and full. If the fiber belongs to another thread, the
 * call also waits while 16,384 messages are pending in that thread. If the call fails, the value is
 * not in the mailbox.
 *
 * Any thread may call this function. A plain thread (see cord.h) blocks while the call waits. For a
 * fiber of another thread, the call returns 0 when the message has been sent. The message is lost
 * if the fiber ends before the message arrives. The message is also lost if memory is exhausted
 * when the message arrives. If a mailbox of that thread is bounded or 16,384 messages are pending,
 * the call waits until the message has arrived.
 *
 * Returns 0, or:
 * -EDEADLK if the fiber is the caller and its mailbox is full
 * -EINVAL if value is an error code
 * -ENOMEM if memory is exhausted
 * -ESRCH if the fiber ends while the caller waits
 * -ESRCH if the fiber has ended
 */
WEFT_SWITCHPOINT int weft_tell(weft_fiber fiber, weft_value value);

/**
 * Like weft_tell, but without waiting.
 *
 * Any thread may call this function. The call never switches. For a fiber of another thread, the
 * call returns 0 when the message has been sent. Such a message has a place in the mailbox, even
 * before the message arrives. Messages of one sender arrive in the order of sending, also if the
 * sender calls both weft_tell and weft_try_tell. The message is lost in the cases that weft_tell
 * names. The call can also fail with -EAGAIN shortly after a message was taken.
 *
 * Returns 0, or:
 * -EAGAIN if the stored messages and the accepted messages in transit reach the bound
 * -EAGAIN if the fiber belongs to another thread, and 16,384 messages are pending in that thread
 * -EINVAL if value is an error code
 * -ENOMEM if memory is exhausted
 * -ESRCH if the fiber has ended
 */
WEFT_API int weft_try_tell(weft_fiber fiber, weft_value value);

/**
 * Receive the next message, and wait while the mailbox is empty.
 *
 * If a message is available, the call does not switch and succeeds even in a cancelled fiber.
 * Cleanup can therefore receive the remaining messages. A message may arrive while this call fails.
 * If messages own memory, drain the mailbox with weft_try_receive afterwards.
 *
 * Returns the message, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT weft_value weft_receive(void);

/**
 * Like weft_receive, but without waiting.
 *
 * Returns the message, or:
 * -EAGAIN if the mailbox is empty
 */
WEFT_API weft_value weft_try_receive(void) WEFT_MUST_CHECK;

/** Store at most n available messages in out, and return their number. */
WEFT_API size_t weft_receive_all(weft_value *out, size_t n);

/**
 * Return the number of messages in the mailbox of a fiber.
 *
 * Returns the number, or:
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API ssize_t weft_mailbox_count(weft_fiber fiber);

/**
 * Set the bound of the caller's mailbox.
 *
 * If messages is 0, the mailbox becomes unbounded. The call does not remove messages. Waiting
 * senders continue if the mailbox has space.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_mailbox_set_bound(size_t messages);

/**
 * Send the caller a message when a fiber ends.
 *
 * The message is the id of the fiber. The bound of the caller's mailbox does not apply to this
 * message. After the message, weft_await returns the value or the error of the fiber without
 * waiting. Every monitoring fiber can await the fiber once, independently of other awaits. If the
 * fiber has already ended, the call sends the message immediately. If the fiber is restarted after
 * its end, its next end causes another message. weft_restart on a running fiber causes no message.
 * If the caller is the parent of the fiber, weft does not raise an error of the fiber in the
 * caller.
 *
 * Returns 0, even if the caller already monitors the fiber, or:
 * -EINVAL if the fiber is the caller
 * -ENOMEM if memory is exhausted
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_monitor(weft_fiber fiber);

/**
 * Stop monitoring a fiber.
 *
 * The call does not remove a message that was already sent.
 *
 * Returns 0, or:
 * -ENOENT if the caller does not monitor the fiber
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_unmonitor(weft_fiber fiber);

WEFT_END

#endif
