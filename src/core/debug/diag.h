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
 * Print the tree of fibers. The first line begins with prefix. Return 0, or the error of the first
 * write.
 */
int weft__dump(weft__cord *c, weft__report *r, const char *prefix);

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

/* Fill in information about a fiber. */
void weft__fiber_info(weft__cord *c, const weft__fiber *f, weft_info *out);

#endif
