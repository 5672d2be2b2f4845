/*
 * What the call*.c share. A try_ function returns the result or -EAGAIN, and then has changed
 * op->wait_fd if it is something else that the operation waits for.
 */
#ifndef WEFT_BACKEND_CALL_PARTS_H
#define WEFT_BACKEND_CALL_PARTS_H

#include "backend/call.h"

#include <errno.h>
#include <signal.h>

/* What a system call returned, as we return it. */
static inline intptr_t weft__call_result(intptr_t returned)
{
    return returned < 0 ? -errno : returned;
}

/* The events that fd is ready for, -EAGAIN if for none. */
intptr_t weft__call_ready(int fd, int events);

/* An int that the socket tells about itself, or -errno. */
int weft__call_socket_option(int fd, int option);

/*
 * Set O_NONBLOCK for one call, if it is not set: whoever shares the open file sees it for that
 * long. Returns the flags to go back to, or -errno.
 */
int weft__call_unblock(int fd);
void weft__call_reblock(int fd, int flags);

/*
 * Around a call that may raise SIGPIPE: the signal is blocked for this thread, and taken away if
 * the call raised it. One that was pending before is the program's own, and stays.
 */
typedef struct weft__sigpipe {
    sigset_t old;
    bool was_pending;
} weft__sigpipe;

void weft__sigpipe_hold(weft__sigpipe *s);
void weft__sigpipe_release(const weft__sigpipe *s, intptr_t result);

/* READ, WRITE, READV, WRITEV: call_file.c */
intptr_t weft__call_try_transfer(weft__op *op, weft__facts *known);
intptr_t weft__call_block_transfer(weft__op *op);

/* RECV, SEND, RECVMSG, SENDMSG, ACCEPT, CONNECT: call_socket.c */
intptr_t weft__call_try_packet(weft__op *op, int more_flags);
intptr_t weft__call_try_accept(weft__op *op);
intptr_t weft__call_block_accept(weft__op *op);
intptr_t weft__call_try_connect(weft__op *op);

/* SPLICE, TEE, SENDFILE: call_splice.c */
intptr_t weft__call_try_splice(weft__op *op);
intptr_t weft__call_try_tee(weft__op *op);
intptr_t weft__call_try_sendfile(weft__op *op);
intptr_t weft__call_block_copy(weft__op *op);

#endif
