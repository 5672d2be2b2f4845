/*
 * Mailboxes: every fiber has one, and anyone who knows its id can tell it something. A message is
 * one value: an integer, a pointer to something that the receiver will free, the id of a fiber.
 *
 * Messages arrive in the order in which each sender sent them. A mailbox holds as many as there is
 * memory for, unless its fiber sets a bound: then those who tell it more wait until there is room.
 * A fiber that ends takes with it what it has not received, and one that is restarted begins with
 * an empty mailbox without a bound.
 */
#ifndef WEFT_MAILBOX_H
#define WEFT_MAILBOX_H

#include <weft/base.h>

#include <sys/types.h>

WEFT_BEGIN

/**
 * Put a value into a fiber's mailbox; from any fiber of any thread, and from threads without
 * fibers. Waits while a bounded mailbox is full. Also waits while 16,384 messages are pending in
 * the fiber's thread, if that is another thread. If the call fails, the value is not in the
 * mailbox. A thread without fibers blocks while it waits, and does not become a cord.
 *
 * Returns 0. -EINVAL for an error code, which could not be told from a failure to receive; -ESRCH
 * if the fiber has ended, also while the caller waits; -EDEADLK if it is the caller's own mailbox
 * that is full; -ENOMEM. To a fiber of another thread the answer is 0 once the message is on its
 * way: it is lost if the fiber ends, or its thread is short of memory, before it arrives. Unless
 * some mailbox of that thread is bounded, or the caller had to wait: then it waits for the answer.
 */
WEFT_SWITCHPOINT int weft_tell(weft_fiber fiber, weft_value value);

/**
 * The same without waiting: -EAGAIN if the mailbox is full. Only to fibers of the same thread,
 * -EXDEV to others.
 */
WEFT_API int weft_try_tell(weft_fiber fiber, weft_value value);

/**
 * The next message; waits until there is one. A message that is there is returned without a switch,
 * even to a fiber that is being cancelled: so clean-up can take what is left. (When it fails,
 * something may have come in that very moment: who frees messages asks weft_try_receive once more.)
 */
WEFT_SWITCHPOINT weft_value weft_receive(void);

/** The next message, or -EAGAIN if there is none. */
WEFT_API weft_value weft_try_receive(void) WEFT_MUST_CHECK;

/** Take all messages that are there, at most n; returns how many. */
WEFT_API size_t weft_receive_all(weft_value *out, size_t n);

/** How many messages wait to be received by a fiber. -ESRCH if it has ended, -EXDEV. */
WEFT_API ssize_t weft_mailbox_count(weft_fiber fiber);

/**
 * Bound the caller's own mailbox to so many messages, 0: no bound. What is in it stays, and those
 * who wait are let in as far as there is room. -ENOMEM.
 */
WEFT_API int weft_mailbox_bound(size_t messages);

/**
 * Be told of a fiber's end by a message, its id, instead of by an error: weft_await then returns
 * its value or its error at once, once to each who monitors it, whoever else awaits it. If it has
 * ended already, the message is sent now. It holds for every run of a fiber that is restarted. If
 * the caller is its parent, an error of the fiber is not raised in the caller. The message does not
 * count against the bound of the caller's mailbox.
 *
 * 0, also if the caller monitors it already. -EINVAL for oneself, -ESRCH if it is gone, -EXDEV,
 * -ENOMEM.
 */
WEFT_API int weft_monitor(weft_fiber fiber);

/** Monitor it no longer. A message that was sent stays. -ENOENT if the caller does not. */
WEFT_API int weft_unmonitor(weft_fiber fiber);

WEFT_END

#endif
