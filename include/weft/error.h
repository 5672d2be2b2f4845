/*
 * Error codes, messages and chains of causes.
 *
 * An error code is a negative errno. Many functions also record a message that describes the failed
 * action. Each fiber stores its last error. An error is linked to the error that caused it. An
 * error keeps its message and its causes when weft passes the error to a parent or to an awaiting
 * fiber.
 *
 * Functions that create an object return a pointer or an id. On failure, these functions return
 * NULL or 0 and always record an error with a message. If a value is absent, a getter returns NULL
 * or 0. An absent value is not an error. A getter records only the errors that its comment lists.
 */
#ifndef WEFT_ERROR_H
#define WEFT_ERROR_H

#include <weft/base.h>

#include <stdarg.h>

WEFT_BEGIN

/* An error, linked to its cause. */
typedef struct weft_error_info {
    int code;                            /* a negative errno */
    const char *message;                 /* never NULL */
    weft_fiber fiber;                    /* the fiber in which the error occurred */
    const char *fiber_name;              /* the name of the fiber at that time; "": none */
    const struct weft_error_info *cause; /* NULL: the first error of the chain */
} weft_error_info;

/**
 * Record an error with a message, and return its code.
 *
 * The caller's previous error becomes the cause of the new error. Use the call in a return
 * statement: `return weft_fail(rc, "cannot read %s", path);`
 *
 * A chain has at most 16 errors. The next error starts a new chain. A message has at most 255
 * bytes. If code is not in -4095..-1, the call records and returns -EINVAL.
 *
 * If memory is exhausted, or if the thread cannot have fibers (see weft_self), the recorded error
 * has no cause. The message of the error is then the description of the code.
 */
WEFT_API int weft_fail(int code, const char *format, ...) WEFT_PRINTF(2, 3);

/** Like weft_fail, but with a va_list. */
WEFT_API int weft_failv(int code, const char *format, va_list args) WEFT_PRINTF(2, 0);

/**
 * Return the caller's last error, or NULL if there is none.
 *
 * Three events set the last error: the caller records an error, an error is raised in the caller,
 * or a fiber that the caller awaits fails. The result is valid until the next error or the end of
 * the caller.
 *
 * Some calls return a code and record no message, for example a failed read or a cancelled sleep.
 * Compare the code of the error with the returned code before you use the message.
 *
 * If a call returns the error of a child, the caller must mark the error as seen. weft_error,
 * weft_error_clear and weft_fail mark the error. If the caller ends without an error and without
 * the mark, weft reports the error on stderr. The exit status does not change.
 */
WEFT_API const weft_error_info *weft_error(void);

/**
 * Clear the caller's last error.
 *
 * Call this function after handling the error. The next error then starts a new chain. If the
 * process fails later, weft does not report an error that main has cleared as a possible reason.
 */
WEFT_API void weft_error_clear(void);

/** Return whether a value is an error. Errors are the values -4095..-1. */
static inline bool weft_is_error(weft_value value)
{
    return (uintptr_t)value >= (uintptr_t)-4095;
}

WEFT_END

#endif
