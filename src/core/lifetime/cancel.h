/*
 * Pending cancellation. Every blocking call first checks the flag f->pending, and fails if the flag
 * is set. The flag is set while at least one of these conditions is true:
 *   - The fiber is stopped, and no shield is active.
 *   - An error that was raised in the fiber is undelivered, and no shield is active.
 *   - A scope of the fiber is cancelled, and no shield inside that scope is active.
 *   - Switching is forbidden (weft_no_switch_begin).
 */
#ifndef WEFT_CORE_LIFETIME_CANCEL_H
#define WEFT_CORE_LIFETIME_CANCEL_H

#include "core/sched/sched.h"

/* Update f->pending after one of the conditions above has changed. */
void weft__cancel_update(weft__fiber *f);

/*
 * Update f->pending. If the flag is then set and the fiber waits, abort the wait, and wake the
 * fiber with the error. If the wait cannot be aborted at once, the wait ends later (see
 * weft__cancel_resolve). A fiber that has never run continues to wait, unless the fiber is stopped.
 * `where` is the end of the run queue that the woken fiber is added to.
 */
void weft__cancel_raise(weft__cord *c, weft__fiber *f, weft__queue_end where);

/*
 * Return the error for the blocking call that fails because of f->pending. A raised error is
 * delivered only once, so remove a raised error from the fiber. f->pending must be set.
 */
weft_value weft__cancel_take(weft__fiber *f);

/* Return whether the fiber is stopped, and none of its scopes is cancelled or an active shield. */
bool weft__cancel_is_stop(const weft__fiber *f);

/*
 * Fail a blocking call of the current fiber, because f->pending is set. If the fiber has ignored
 * many errors, let other fibers run first. Returns the error for the call, or -EPERM if switching
 * is forbidden.
 */
weft_value weft__call_refuse(weft__cord *c);

/*
 * Return the result of a wait that ended with `result`. Use this function for waits that cannot
 * always be aborted at once: their `leave` may return false. If `result` is -ECANCELED and the
 * fiber was cancelled or interrupted, return the cause. Otherwise return `result`. A pending
 * cancellation then takes effect at the next blocking call.
 */
weft_value weft__cancel_resolve(weft__fiber *f, weft_value result);

/*
 * Raise the last error of the current fiber f again. The next blocking call of f fails with code.
 */
void weft__error_deliver_again(weft__fiber *f, int code);

/* The reason for stopping a fiber. */
typedef enum weft__exit_reason {
    /* The fiber gets the value that was passed to weft__fiber_stop. */
    WEFT__EXIT_REQUESTED,
    /* Like WEFT__EXIT_REQUESTED, but an error that the fiber returns takes precedence. */
    WEFT__EXIT_WITH_PARENT,
    /* The fiber runs again afterwards. */
    WEFT__EXIT_TO_RESTART,
} weft__exit_reason;

/*
 * Stop a fiber. The function of the fiber must not have returned yet. All code that stops fibers
 * calls weft__fiber_stop.
 */
void weft__fiber_stop(weft__cord *c, weft__fiber *f, weft_value value, weft__exit_reason why);

#endif
