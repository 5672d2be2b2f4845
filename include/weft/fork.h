/*
 * Processes that go on with a copy of the calling fiber.
 *
 * After a plain fork(2), in a program that has called weft before, the parent goes on as if nothing
 * had happened, and weft is not to be had in the child: every call that could wait, wake a fiber or
 * reach a thread is refused with -ENOTRECOVERABLE (or what the call has for nothing: NULL, 0), and
 * the first such call says so on stderr, in one line. The child may call exec, _exit and exit,
 * which runs no clean-up of the parent's fibers; weft_close closes. If the function of the fiber
 * that called fork returns there, the child ends by exit, with status 1 for an error. A program
 * that forks before its first call of weft is not concerned: both may use it.
 */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include <weft/base.h>

#include <sys/types.h>

WEFT_BEGIN

/**
 * fork(2), with a child that can use weft: the calling fiber goes on in both processes. Returns the
 * child's process id in the parent, 0 in the child; does not switch.
 *
 * In the child only the calling fiber exists, in a single thread. It is the main fiber there, on
 * the stack that it runs on, and when its function returns the process ends by exit: status 0, or 1
 * with the usual report if it returned an error that nobody handled. It keeps its id, name, locals,
 * memory, open scopes with their deadlines, what it has in its mailbox, and the locks that it
 * holds. What it left to weft_defer and WEFT_DEFER is done in both processes, each time for a copy;
 * what only the parent is to undo, the child has to leave by exec or _exit. As with fork(2), flush
 * what is buffered for output before.
 *
 * All other fibers are gone without having ended: their ids are -ESRCH, none of their clean-up is
 * run, and their stacks stay as they were, so what lies there can be used. Groups and supervisors
 * that the caller is inside of have no children any more. A mutex that one of them held, or held to
 * write, is -EOWNERDEAD; what they had taken of a semaphore, read locks and resources of a pool are
 * not given back. Channels, queues and all the rest go on among the child's own fibers. Other
 * threads, cords and their messages under way, and operations that were pending are the parent's
 * alone; the child has a backend of its own (under sim the clock goes on, with no pipes), and
 * starts cords and threads for blocking work anew.
 *
 * A loop that the caller is inside of (weft_accept_loop, weft_recv_loop) ends in the child with
 * -EBADF when its function returns. In the child of a function that is offloaded signals are
 * blocked as they were outside, and when that function returns the process ends, as above.
 *
 * -EAGAIN, -ENOMEM as fork(2); -ENOTRECOVERABLE in a child that plain fork(2) has made.
 */
WEFT_API pid_t weft_fork(void) WEFT_MUST_CHECK;

WEFT_END

#endif
