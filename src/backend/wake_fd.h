/*
 * The eventfd by which a backend is woken, and whether its number is still the backend's. The
 * program may close descriptors that are not its own (closefrom(3)), and open others with the same
 * numbers: nothing is written to such a number, and it is not closed.
 */
#ifndef WEFT_BACKEND_WAKE_FD_H
#define WEFT_BACKEND_WAKE_FD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct weft__wake_fd {
    atomic_int fd;       /* -1: none; the backend's thread writes it, others read it to wake */
    uint32_t generation; /* of that number, when the eventfd was opened */
} weft__wake_fd;

/* flags as in eventfd(2). 0 or -errno. */
int weft__wake_fd_open(weft__wake_fd *w, int flags);

/*
 * Move a new descriptor to a high number and return that, or fd if there is none. The program may
 * still use low numbers that it has closed, and would hit ours.
 */
int weft__fd_move_up(int fd);

/* Open a new eventfd, at a high number, in place of one that was lost. */
int weft__wake_fd_renew(weft__wake_fd *w, int flags);

/* Add to the counter, from any thread. False: the number is no longer an eventfd of weft's. */
bool weft__wake_fd_write(weft__wake_fd *w);

/* Is the number still this eventfd? One system call. In the backend's thread. */
bool weft__wake_fd_is_own(const weft__wake_fd *w);

/* Close it, if it is still this one, and forget the number. */
void weft__wake_fd_close(weft__wake_fd *w);

#endif
