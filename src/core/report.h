/* What weft says on stderr, unasked: deadlocks, errors that nobody handled, mistakes. */
#ifndef WEFT_CORE_REPORT_H
#define WEFT_CORE_REPORT_H

#include "core/cord.h"
#include "core/error.h"

#include <weft/debug.h>

/*
 * Format and write to a descriptor, at most 511 bytes, in one write. 0 or -errno. Not stdio: a
 * stream may be in use by the very fiber that is reported on.
 */
int weft__say(int fd, const char *format, ...) WEFT_PRINTF(2, 3);

/* One line, after "weft: ". */
void weft__report(const char *format, ...) WEFT_PRINTF(1, 2);

/* Once: so many children of this parent have ended and were not awaited; child is one of them. */
void weft__report_unawaited(const weft__fiber *parent, const weft__fiber *child, unsigned count);

/* Nothing can ever wake anyone; with the tree of fibers. */
void weft__report_deadlock(void);

/*
 * An error reached the top: the message, the causes, the fibers it climbed through, where it was
 * recorded.
 */
void weft__report_unhandled(const weft__error *e, int code);

/* The running fiber ignores its cancellation: its name and backtrace. */
void weft__report_ignored(const weft__fiber *f);

/* The fiber, which has ended well, has not looked at its last error, which came from a child. */
void weft__report_unseen(const weft__fiber *f);

/* The fiber has ended before this error of weft_raise was delivered. */
void weft__report_undelivered(const weft__fiber *f, const weft__error *e);

/* Main ended the process with this status, and this is the last that it was told from below. */
void weft__report_last(const weft__error *e, int status);

/*
 * If WEFT_DUMP_SIGNAL names a signal, that one writes the fibers of the calling thread to stderr
 * from now on. Once in a process. (From above: io/signal_dump.c.)
 */
void weft__signal_dump_install(void);

/* What is known of a fiber. */
void weft__fiber_info(weft__cord *c, const weft__fiber *f, weft_info *out);

#endif
