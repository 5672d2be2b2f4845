/*
 * Errors: a code, and beside it words. The code is what functions return, a negative errno. The
 * words say what was attempted; they are kept with the fiber that failed, chained to the cause
 * before them, and travel with the code when it climbs the tree or is awaited.
 */
#ifndef WEFT_ERROR_H
#define WEFT_ERROR_H

#include <weft/base.h>

WEFT_BEGIN

/* One error; the next one in the chain is what caused it. */
typedef struct weft_error_info {
    int code;                            /* the negative errno */
    const char *message;                 /* never NULL */
    weft_fiber fiber;                    /* where it happened */
    const char *fiber_name;              /* its name then; "" if it had none */
    const struct weft_error_info *cause; /* NULL: this was the first */
} weft_error_info;

/**
 * Record what went wrong, chained to the caller's previous error, and return code:
 * `return weft_fail(rc, "cannot read %s", path);`
 *
 * A chain has at most 16 errors, then a new one begins; a message has at most 255 bytes. Without
 * memory the words are lost, and the code is returned all the same. A code that is not in -4095..-1
 * is recorded as -EINVAL.
 */
WEFT_API int weft_fail(int code, const char *format, ...) WEFT_PRINTF(2, 3);

/**
 * The caller's last error: recorded by itself, raised in it, or come from a fiber that it awaited.
 * NULL if there was none. Calls that only return a code (a read that fails, a cancelled sleep)
 * record no words: compare the code before believing that these are about it. Valid until the
 * caller's next error, or its end.
 *
 * If a call of the caller returned a child's error, that error counts as seen once the caller calls
 * weft_error, weft_error_clear or weft_fail, or fails itself. If the caller ends well without any
 * of these, the error is reported on stderr: the result of the call may not have been checked. The
 * exit status does not change.
 */
WEFT_API const weft_error_info *weft_error(void);

/**
 * Forget the caller's last error, once it is dealt with: the next one starts a new chain, and is
 * not said to be caused by it. In main: it is not shown as a possible reason when the process fails
 * later.
 */
WEFT_API void weft_error_clear(void);

/** Is this value an error, -4095..-1? */
static inline bool weft_is_error(weft_value value)
{
    return (uintptr_t)value >= (uintptr_t)-4095;
}

WEFT_END

#endif
