/*
 * Messages of weft. A message goes to the function of the program (weft_set_log), or to stderr.
 * Signal handlers must not use these functions.
 */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <weft/log.h>

#include <stdarg.h>
#include <stdbool.h>
#include <syslog.h>

/* The size of a formatted line, with the final 0. A longer line is cut. */
#define WEFT__LOG_TEXT_BYTES_MAX 505

/*
 * Format a message of less than WEFT__LOG_TEXT_BYTES_MAX bytes. Pass the message on, with one call
 * or one write. Code that may run in a fiber uses weft__diag, which forbids switches in the
 * function of the program.
 */
void weft__log(int level, const char *format, ...) WEFT_PRINTF(2, 3);

/* Pass a text of one or more lines on. The text has no newline at its end. */
void weft__log_text(int level, const char *text);

/*
 * Write a message of less than WEFT__LOG_TEXT_BYTES_MAX bytes to stderr, with one write. Ignore the
 * function of the program.
 */
void weft__log_stderr(const char *format, ...) WEFT_PRINTF(1, 2);
void weft__logv_stderr(const char *format, va_list args);

/*
 * Return true if the next message of this thread goes to a function of the program. Another thread
 * may change the result at any time.
 */
bool weft__log_is_hooked(void);

#endif
