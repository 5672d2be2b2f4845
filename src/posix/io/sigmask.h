/*
 * Signal masks of ppoll, pselect and epoll_pwait.
 *
 * The mask must be set during the wait only. But other fibers run during the wait, and the mask
 * belongs to the thread. So the mask is set only around short calls that do not wait. If the mask
 * unblocks a signal, such calls are repeated during the wait. The signal is then handled up to
 * WEFT__MASK_CHECK_S late.
 */
#ifndef WEFT_POSIX_IO_SIGMASK_H
#define WEFT_POSIX_IO_SIGMASK_H

#include <signal.h>
#include <stdbool.h>

#define WEFT__MASK_CHECK_S 0.010

/* Return whether the mask unblocks a signal that the thread blocks. mask may be NULL. */
bool weft__mask_unblocks(const sigset_t *mask);

/* Handle pending signals that the mask unblocks. Returns 0, or -EINTR after a handler has run. */
int weft__mask_handle(const sigset_t *mask);

/*
 * Wait with a function and handle the signals that the mask unblocks. timeout_s is INFINITY or the
 * limit of the wait. wait(context, s) waits for at most s seconds. It returns 0 after this time, or
 * another result.
 */
int weft__mask_wait(const sigset_t *mask, double timeout_s, int (*wait)(void *context, double s),
                    void *context);

#endif
