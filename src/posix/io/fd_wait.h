/* Waits of hooks for one descriptor: whether a call may wait, for how long, and its result. */
#ifndef WEFT_POSIX_IO_FD_WAIT_H
#define WEFT_POSIX_IO_FD_WAIT_H

#include "posix/hook.h"
#include "posix/io/fd_note.h"
#include "posix/wait.h"

#include <sys/uio.h>

/*
 * Return whether a call on the descriptor waits: O_NONBLOCK is not set. A failure means that the
 * descriptor is not open. Preserves errno.
 */
bool weft__fd_may_wait(int fd);

/* Return the events of the descriptor that are ready. Returns 0 if none is ready. */
int weft__fd_ready(int fd, int events);

/*
 * Return SO_RCVTIMEO or SO_SNDTIMEO in seconds, or WEFT__HOOK_FOREVER. note is the note of the
 * descriptor. Preserves errno.
 */
double weft__fd_recv_limit_s(int fd, uint32_t note);
double weft__fd_send_limit_s(int fd, uint32_t note);

/*
 * Wait for events of a descriptor. generation is the generation of the number before the wait.
 * Returns the events or -errno: -EBADF if the descriptor has been closed meanwhile, even by another
 * thread. The number may belong to another file then.
 */
intptr_t weft__fd_await(int fd, int events, uint32_t generation);

/*
 * Like weft__hook_wait_end, but return `late` if the time of the wait has passed. The result of the
 * kernel may be -ETIMEDOUT, too, and remains.
 */
intptr_t weft__fd_wait_end(weft__hook_wait *w, intptr_t result, intptr_t late);

/* The delay between attempts of a call that no event announces, in seconds. Starts with 0. */
#define WEFT__HOOK_RETRY_FIRST_S 0.001
#define WEFT__HOOK_RETRY_MAX_S 0.020

/* Sleep before the next attempt. Returns 0, or the error that ended the sleep. */
int weft__hook_retry_pause(double *delay_s);

/* The number of pieces that weft__iovec_tail stores. */
#define WEFT__IOVEC_WINDOW 16

/* The total size of pieces. */
size_t weft__iovec_bytes(const struct iovec *pieces, size_t count);

/*
 * Store the pieces after the first `skip` bytes, at most WEFT__IOVEC_WINDOW. Return their number.
 */
int weft__iovec_tail(const struct iovec *pieces, size_t count, size_t skip,
                     struct iovec out[WEFT__IOVEC_WINDOW]);

#endif
