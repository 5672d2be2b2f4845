/*
 * The eventfd that wakes a backend. The program may close descriptors of weft, for example with
 * closefrom(3), and open other files with the same numbers. Therefore weft checks the number before
 * it writes to the eventfd or closes it.
 */
#ifndef WEFT_BACKEND_WAKE_FD_H
#define WEFT_BACKEND_WAKE_FD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct weft__wake_fd {
    atomic_int fd;       /* -1: none; the backend's thread writes this field, any thread reads it */
    uint32_t generation; /* of fd, when the eventfd was opened */
} weft__wake_fd;

/* Open the eventfd at a high number, with flags as in eventfd(2). Returns 0 or -errno. */
int weft__wake_fd_open(weft__wake_fd *w, int flags);

/* Like weft__wake_fd_open, but at the lowest free number. */
int weft__wake_fd_open_low(weft__wake_fd *w, int flags);

/*
 * Move a new descriptor to a high number. A program may expect its own files at the lowest numbers,
 * and may continue to use low numbers that it has closed. Returns the new number, or fd if the
 * descriptor was not moved.
 */
int weft__fd_move_up(int fd);

/*
 * Open a new eventfd, to replace a lost eventfd. On failure, keep the number. Returns 0 or -errno.
 */
int weft__wake_fd_renew(weft__wake_fd *w, int flags);

/*
 * Add 1 to the counter of the eventfd. Any thread may call this function. Returns false on failure,
 * for example if fd is not an eventfd of weft.
 */
bool weft__wake_fd_write(weft__wake_fd *w);

/*
 * Return whether fd still is the eventfd of this backend. The check costs one system call. Only the
 * backend's thread may call this function.
 */
bool weft__wake_fd_is_own(const weft__wake_fd *w);

/* Close the eventfd if fd still belongs to the backend. Set fd to -1. */
void weft__wake_fd_close(weft__wake_fd *w);

#endif
