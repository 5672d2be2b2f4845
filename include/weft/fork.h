/*
 * Child processes that continue with a copy of the calling fiber.
 *
 * weft_fork creates a child process that can use weft. A child of plain fork(2) cannot use weft if
 * the parent has already called weft. In such a child, every call that could wait, wake a fiber or
 * reach a thread fails. Functions that return a pointer return NULL. Functions that return an id
 * return 0. Other functions return -ENOTRECOVERABLE. The first failed call writes a message to
 * stderr.
 *
 * A child of plain fork(2) may call exec, _exit, exit and weft_close. exit does not run the cleanup
 * of the parent's fibers. When the function of the fiber that called fork(2) returns, weft calls
 * exit(3). The exit status is 1 if the function returned an error, else 0. If that function is
 * main, main returns its status as usual.
 *
 * Plain fork(2) has no effect on the parent. If a program forks before it first calls weft, both
 * processes may use weft.
 */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include <weft/base.h>

#include <sys/types.h>

WEFT_BEGIN

/**
 * Fork the process, and continue the calling fiber in both processes.
 *
 * Unlike a child of plain fork(2), the child process can use weft. The call does not switch.
 *
 * The child process has one thread and one fiber, a copy of the calling fiber. The copy runs on a
 * copy of the stack and is the main fiber of the child process. When the function of the fiber
 * returns, weft calls exit(3) with status 0. After an unhandled error, weft reports the error and
 * the exit status is 1. If the function is main, main returns its status as usual.
 *
 * The fiber keeps its id, name, fiber-local values, memory and locks. The fiber also keeps its open
 * scopes with their deadlines, and the messages in its mailbox. Functions registered with
 * weft_defer and WEFT_DEFER run in both processes, on separate copies of the memory. If only the
 * parent should run these functions, the child process must end with exec or _exit. As with
 * fork(2), flush output buffers before the call.
 *
 * No other fiber exists in the child process. Calls with the id of another fiber of the thread fail
 * with -ESRCH. The cleanup of other fibers does not run. Pointers to memory on the stacks of other
 * fibers remain valid. Groups and supervisors that the caller has opened are empty. If another
 * fiber held a mutex or a write lock, calls on that lock fail with -EOWNERDEAD. Semaphore units,
 * read locks and resources of a weft_pool that other fibers held are not released. If another fiber
 * was in a call on a stream, calls in the same direction fail with -EOWNERDEAD. Fibers of the
 * child process can use channels, queues and other objects. A shared channel is closed and empty.
 *
 * Other threads, cords, messages in flight and pending operations exist only in the parent. The
 * child process has a new backend. The child process can start cords, and weft creates new workers
 * on demand. On the sim backend, the clock continues. Pipes and socket pairs of the sim backend do
 * not exist in the child process.
 *
 * If the caller is a callback of weft_accept_loop or weft_recv_loop, the loop ends in the child
 * process. The loop returns -EBADF after the callback has returned. If the caller is an offloaded
 * function, the child process has the signal mask of the program, not the mask of a worker. When
 * the offloaded function returns, weft calls exit(3) as above.
 *
 * Returns the process id of the child process in the parent, 0 in the child process, or:
 * -EAGAIN if the process limit is reached (see fork(2))
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE if the process is a child of plain fork(2)
 */
WEFT_API pid_t weft_fork(void) WEFT_MUST_CHECK;

WEFT_END

#endif
