/*
 * Functions that the files of this directory share. A weft__call_try_ function returns the result
 * of the call or -EAGAIN. With -EAGAIN, the function may have changed op->wait_fd and
 * op->wait_events.
 */
#ifndef WEFT_BACKEND_SYSCALL_INTERNAL_H
#define WEFT_BACKEND_SYSCALL_INTERNAL_H

#include "backend/syscall/call.h"
#include "backend/syscall/count.h"

#include <errno.h>
#include <signal.h>

/* Convert the return value of a system call to a result or -errno. */
static inline intptr_t weft__call_result(intptr_t returned)
{
    return returned < 0 ? -errno : returned;
}

/* Return the events that fd is ready for, or -errno. Returns -EAGAIN if fd is not ready. */
intptr_t weft__call_ready(int fd, int events);

/* Return an integer option of a socket (SOL_SOCKET), or -errno. */
int weft__call_socket_option(int fd, int option);

/*
 * Set O_NONBLOCK. The flag affects all users of the open file until weft__call_restore_flags.
 * Returns the flags to restore, or -errno.
 */
int weft__call_set_nonblock(int fd);
void weft__call_restore_flags(int fd, int flags);

/*
 * The signal state of a thread that has blocked SIGPIPE during a call. If the call has raised
 * SIGPIPE, weft__sigpipe_release discards the signal. A SIGPIPE that was pending before the call
 * remains pending.
 */
typedef struct weft__sigpipe {
    sigset_t old_mask;
    bool was_pending;
} weft__sigpipe;

void weft__sigpipe_hold(weft__sigpipe *s);
void weft__sigpipe_release(const weft__sigpipe *s, intptr_t result);

/* READ, WRITE, READV, WRITEV: file.c */
intptr_t weft__call_try_transfer(weft__op *op, weft__fd_kind *kind);
intptr_t weft__call_block_transfer(weft__op *op);

/* RECV, SEND, RECVMSG, SENDMSG, ACCEPT, CONNECT: socket.c */
intptr_t weft__call_try_packet(weft__op *op, int extra_flags);
intptr_t weft__call_try_accept(weft__op *op);
intptr_t weft__call_block_accept(weft__op *op);
intptr_t weft__call_try_connect(weft__op *op);

/* SPLICE, TEE, SENDFILE: splice.c */
intptr_t weft__call_try_splice(weft__op *op);
intptr_t weft__call_try_tee(weft__op *op);
intptr_t weft__call_try_sendfile(weft__op *op);
intptr_t weft__call_block_copy(weft__op *op);

#endif
