/*
 * The system calls of operations. weft__call_try avoids blocking the thread, even on a descriptor
 * without O_NONBLOCK. weft__call_block may block the thread. If the reader of a pipe or socket is
 * closed, a write returns -EPIPE and does not raise SIGPIPE. The functions keep no state of
 * operations.
 */
#ifndef WEFT_BACKEND_SYSCALL_CALL_H
#define WEFT_BACKEND_SYSCALL_CALL_H

#include "backend/backend.h"

/* Values of op->wait_fd in place of a descriptor: */
#define WEFT__WAIT_WORKER (-1) /* only a worker thread can make the call */
#define WEFT__WAIT_RETRY (-2)  /* no descriptor reports readiness: try again later */

/* The flag exists since Linux 6.18. glibc 2.36 does not define it. */
#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100
#endif

/* The maximum number of bytes that one read(2) or write(2) transfers. */
#define WEFT__RW_BYTES_MAX 0x7ffff000

/*
 * The cached type of a file. If all fields are false, the type is unknown. A wrong type only costs
 * time. weft__call_try corrects it.
 */
typedef struct weft__fd_kind {
    bool is_not_socket;
    bool is_on_disk; /* a regular file or block device: always ready, and sometimes slow */
} weft__fd_kind;

/*
 * Make the call of an operation if the call does not block. Returns the result, or WEFT__OP_PENDING
 * if the call would block. op->wait_fd and op->wait_events then describe the next wait.
 * op->progress must be 0 at the first call.
 */
intptr_t weft__call_try(weft__op *op, weft__fd_kind *kind);

/*
 * Make the call of an operation, and block the thread until the call is done. If op->wait_fd is
 * WEFT__WAIT_WORKER, do not wait for readiness. The result may then be -EAGAIN.
 */
intptr_t weft__call_block(weft__op *op);

/*
 * Set wait_fd and wait_events to the first wait of the operation. If wait_events is then 0, the
 * operation does not wait for earlier operations.
 */
void weft__call_set_wait(weft__op *op);

/* Return whether -EAGAIN is a result of the operation, and not a reason to wait. */
bool weft__call_never_waits(const weft__op *op);

/* Return whether the number is an open descriptor. */
bool weft__call_is_open(int fd);

/*
 * Check that a descriptor has readiness. poll(2) reports every regular file as ready, but epoll
 * does not support regular files.
 *
 * Returns 0, or:
 * -EBADF if fd is not open
 * -EPERM if fd is a regular file or directory
 */
int weft__call_check_waitable(int fd);

/* Return whether the descriptor is a TCP socket. */
bool weft__call_is_tcp(int fd);

/* As in weft__backend_type, for backends with kernel descriptors. */
int weft__call_shutdown(weft__backend *b, int fd, int how);
int weft__call_pipe(weft__backend *b, int fd[2]);
int weft__call_socketpair(weft__backend *b, int fd[2]);

/*
 * Close a descriptor. Returns 0 or -errno. EINTR is not an error, because the descriptor is closed.
 */
int weft__call_close(int fd);

#endif
