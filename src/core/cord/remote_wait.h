/*
 * A wait of one fiber that any thread can end. The memory of the wait is in the frame of the fiber,
 * and no function allocates memory. libweft-posix waits for locks with these functions.
 *
 * An object of the caller holds the waits, for example a list with a lock. A thread that wants to
 * end a wait removes the wait from the object. Then the thread calls weft__remote_wait_end, once.
 * To abort the wait, the core calls withdraw. withdraw removes the wait from the object and returns
 * true. If the object no longer has the wait, withdraw returns false. Another thread then ends the
 * wait soon, and the fiber waits for that.
 */
#ifndef WEFT_CORE_CORD_REMOTE_WAIT_H
#define WEFT_CORE_CORD_REMOTE_WAIT_H

#include "core/cord/remote_msg.h"
#include "core/fiber/fiber.h"

typedef struct weft__remote_wait {
    weft__remote_msg msg; /* to the fiber */
    bool (*withdraw)(struct weft__remote_wait *w);
} weft__remote_wait;

/*
 * Initialise a wait of the current fiber, before the wait is added to its object. The thread must
 * be a cord. The fiber must not switch between this call and weft__remote_wait_run.
 */
FOR_POSIX void weft__remote_wait_init(weft__remote_wait *w, bool (*withdraw)(weft__remote_wait *w));

/*
 * Wait until another fiber or thread ends the wait. kind->leave must be weft__remote_wait_leave.
 * Returns the argument of weft__remote_wait_end, or the error of a cancellation, interrupt or
 * raised error. After an error, the object does not have the wait any more.
 */
FOR_POSIX weft_value weft__remote_wait_run(weft__remote_wait *w, const weft__wait_kind *kind);

/* The `leave` function of the kinds of these waits. */
FOR_POSIX bool weft__remote_wait_leave(weft__fiber *f);

/* End a wait that the caller has removed from its object. value must not be an error. */
FOR_POSIX void weft__remote_wait_end(weft__remote_wait *w, weft_value value);

/* Like weft__remote_wait_end, but async-signal-safe. */
FOR_POSIX void weft__remote_wait_end_in_handler(weft__remote_wait *w, weft_value value);

/*
 * Return whether the current fiber can wait now. Returns false if the thread is not a cord, inside
 * weft_no_switch_begin, in a callback of the idle loop, and on a backend with virtual time, which
 * cannot wait for descriptors of the kernel.
 */
FOR_POSIX bool weft__fiber_can_wait(void);

/*
 * Send msg to the cord of msg->fiber. Unlike weft__cord_post, the call is async-signal-safe.
 * Returns 0, or -ESRCH if the cord has ended. On failure, the caller still owns msg. (inbox.c)
 */
FOR_POSIX int weft__cord_post_in_handler(weft__remote_msg *msg);

#endif
