/*
 * The system call of an operation, for backends that learn of readiness and then make the call
 * themselves. It is responsible for never holding the thread up, also on a descriptor that blocks,
 * and for a closed reader being -EPIPE and no signal. It does not wait and keeps nothing.
 */
#ifndef WEFT_BACKEND_CALL_H
#define WEFT_BACKEND_CALL_H

#include "backend/backend.h"

/* In op->wait_fd, in place of a descriptor whose readiness to wait for: */
#define WEFT__WAIT_THREAD (-1) /* only a call that blocks can do it: for the pool */
#define WEFT__WAIT_AGAIN (-2)  /* no readiness will tell: to be tried again after a while */

/* Linux 6.18; not in glibc 2.36. */
#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100
#endif

/* What a read(2) or write(2) moves at most. */
#define WEFT__RW_BYTES_MAX 0x7ffff000

/* What is known of a file. All false: nothing. A wrong fact costs time, and is put right. */
typedef struct weft__facts {
    bool is_not_socket;
    bool is_on_disk; /* a regular file, a block device: ready always, and slow sometimes */
} weft__facts;

/*
 * Make the call if it can be made now. Returns its result, or WEFT__OP_PENDING: op->wait_fd and
 * op->wait_events then say what it waits for next, or, in place of a descriptor, how else it is to
 * go on. op->progress is 0 at first.
 */
intptr_t weft__call_try(weft__op *op, weft__facts *known);

/*
 * Make the call, and block the thread until it is done. What weft__call_try has left to the pool
 * (WEFT__WAIT_THREAD) waits for the disk and for nothing else: it can be -EAGAIN.
 */
intptr_t weft__call_block(weft__op *op);

/*
 * Set wait_fd and wait_events to what the operation waits for if the first call would block.
 * Without events it takes no turn among those who wait on the descriptor.
 */
void weft__call_aim(weft__op *op);

/* Is -EAGAIN a result of the operation, and no reason to wait? */
bool weft__call_never_waits(const weft__op *op);

/* Is the number that of a descriptor at all? */
bool weft__call_is_open(int fd);

/*
 * 0, -EBADF, or -EPERM for what cannot be waited on: poll(2) calls every regular file ready, epoll
 * refuses it.
 */
int weft__call_check_waitable(int fd);

/* Is it a TCP connection? */
bool weft__call_is_tcp(int fd);

/* As in the contract of a backend, for one whose descriptors are the kernel's. */
int weft__call_shutdown(weft__backend *b, int fd, int how);
int weft__call_pipe(weft__backend *b, int fd[2]);
int weft__call_socketpair(weft__backend *b, int fd[2]);

/* Close a descriptor. 0 or -errno; interrupted, it is closed all the same. */
int weft__call_close(int fd);

#endif
