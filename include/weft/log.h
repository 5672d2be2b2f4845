/*
 * The messages that weft prints without a request: errors of the program, warnings and deadlocks.
 *
 * By default weft writes messages to stderr. Each message then begins with "weft: ". Where another
 * header says that weft reports on stderr, weft_set_log applies.
 */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H

#include <weft/base.h>

WEFT_BEGIN

/*
 * A function that receives the messages of weft.
 *
 * level is a level of <syslog.h>: LOG_ERR for an error, LOG_WARNING for a warning. Later versions
 * may use other levels. text has neither the prefix "weft: " nor a newline at its end. A report
 * arrives as one text, with newlines between its lines. For example, a deadlock report contains the
 * tree of fibers. A report has at most 1 MiB. text is valid until the function returns.
 *
 * Any thread may call the function, also a thread that weft has created. Several threads may call
 * the function at the same time. The function runs on the stack of the fiber that caused the
 * message. The function must not call functions of weft, except weft_set_log. In a fiber, a call
 * that would switch fails with -EPERM. Messages about the choice of the backend and about WEFT_SEED
 * are an exception: weft does not detect such a call.
 */
typedef void weft_log_fn(int level, const char *text, void *arg);

/**
 * Pass the messages of weft to a function, instead of to stderr.
 *
 * weft calls fn(level, text, arg) for each message of the process. If fn is NULL, weft writes to
 * stderr again. Each call replaces the function of the previous call. The call waits until running
 * calls of the previous function have returned. After the call, the program may free the previous
 * arg. If a log function makes this call, the call does not wait. The program must then not free
 * the previous arg. weft may call fn until the process ends, also during exit(3).
 *
 * If fn causes a message, weft writes the message to stderr. These messages also go to stderr,
 * because fn is not safe at these times:
 *
 *   - the report of a stack overflow, from a signal handler
 *   - the fibers that remain after the grace time of weft_shutdown_on_signals, from a handler
 *   - the message in a child of fork(2) that calls weft
 *
 * Output on request remains where the program directs the output: weft_dump, weft_top and
 * WEFT_DUMP_SIGNAL.
 *
 * Any thread may call this function. The call never switches.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_set_log(weft_log_fn *fn, void *arg);

/**
 * Print a message, as the messages of weft are printed.
 *
 * level is a level of <syslog.h>. The message is one line without a newline at its end, and is cut
 * to 504 bytes. The message goes to the function of weft_set_log, else to stderr. Any thread may
 * call this function. A signal handler must not call it. The call never switches.
 */
WEFT_API void weft_log(int level, const char *format, ...) WEFT_PRINTF(2, 3);

WEFT_END

#endif
