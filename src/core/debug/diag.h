/* Messages that weft prints without a request: deadlocks, unhandled errors, mistakes. */
#ifndef WEFT_CORE_DEBUG_DIAG_H
#define WEFT_CORE_DEBUG_DIAG_H

#include "core/cord/cord.h"
#include "core/debug/report.h"
#include "core/fiber/error.h"

#include <weft/debug.h>

/*
 * Pass a message to the log function (weft_set_log), else to stderr. level is a level of syslog(3).
 * The message has less than WEFT__LOG_TEXT_BYTES_MAX bytes (base/log.h). The caller must not hold a
 * lock.
 */
FOR_POSIX void weft__diag(int level, const char *format, ...) WEFT_PRINTF(2, 3);

/*
 * Print the trees of fibers of all cords. The first line of each tree begins with prefix. If
 * has_cycles is true, first print the cycles of fibers that wait for each other. Otherwise print
 * the use of stacks at the end. The call does not switch.
 *
 * If memory is exhausted, print only the fibers of the calling cord, without cycles. The first line
 * says so.
 *
 * Returns 0, the error of the first write, or:
 * -ENOMEM if memory is exhausted and the calling thread is not a cord
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
int weft__dump(weft__report *r, const char *prefix, bool has_cycles);

/*
 * Report the number of unawaited children of a parent, once per process. `child` is one of these
 * children.
 */
void weft__diag_unawaited(const weft__fiber *parent, const weft__fiber *child, unsigned count);

/* Report a deadlock, with the tree of fibers. */
void weft__diag_deadlock(void);

/*
 * Report an error that the main fiber did not handle, with its causes, its backtrace, and the
 * fibers in which the error was raised. e may be NULL.
 */
void weft__diag_unhandled(const weft__error *e, int code);

/*
 * Report that a cancelled fiber of the calling thread has not ended within its grace time. Print
 * the reason of its wait, and its backtrace if has_frames.
 */
void weft__diag_not_ended(weft__cord *c, weft__fiber *f, double grace_s, bool has_frames);

/* Report that the running fiber ignores its cancellation. Print the backtrace of the fiber. */
void weft__diag_ignored(const weft__fiber *f);

/*
 * Report that a fiber ended successfully, although its last error is an unchecked error of a child.
 */
void weft__diag_unseen(const weft__fiber *f);

/* Report that a fiber ended before an error from weft_raise was delivered. */
void weft__diag_undelivered(const weft__fiber *f, const weft__error *e);

/*
 * Report the status with which the main fiber ended the process, and the last error of the main
 * fiber.
 */
void weft__diag_last(const weft__error *e, int status);

/* Return the fiber that must end the wait of f. 0: not known. The fiber must wait. */
weft_fiber weft__awaited_fiber(const weft__fiber *f);

/* Return the descriptor of the operation for which f waits. -1: none. The fiber must wait. */
int weft__awaited_fd(const weft__fiber *f);

/* Like weft__fiber_info, but without stack_used, which needs a system call. */
void weft__fiber_facts(weft__cord *c, const weft__fiber *f, weft_info *out);

/* Fill in information about a fiber. */
void weft__fiber_info(weft__cord *c, const weft__fiber *f, weft_info *out);

#endif
