/*
 * The system call of an operation, for backends that learn of readiness and then make the call
 * themselves. It is responsible for never holding the thread up, also on a descriptor that blocks,
 * and for a closed reader being -EPIPE and no signal. It does not wait and keeps nothing.
 */
#ifndef WEFT_BACKEND_CALL_H
#define WEFT_BACKEND_CALL_H

#include "backend/backend.h"

/*
 * Make the call if it can be made now. Returns its result, or -EAGAIN if it would block;
 * op->progress (0 at first) is then 1 for a CONNECT that is under way, and stays 0 for one that
 * found a full backlog, of which no readiness will ever tell.
 *
 * *is_not_socket is a hint, false if nothing is known; a wrong one costs time and is put right.
 */
intptr_t weft__call_try(weft__op *op, bool *is_not_socket);

/* Make the call, and block the thread until it is done. */
intptr_t weft__call_block(weft__op *op);

/* As in the contract of a backend, for one whose descriptors are the kernel's. */
int weft__call_shutdown(weft__backend *b, int fd, int how);
int weft__call_pipe(weft__backend *b, int fd[2]);
int weft__call_socketpair(weft__backend *b, int fd[2]);

/* Close a descriptor. 0 or -errno; interrupted, it is closed all the same. */
int weft__call_close(int fd);

#endif
