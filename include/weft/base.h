/*
 * Types and macros that all public headers use.
 *
 * This header declares no functions. The names of getters and setters follow these rules:
 *   - weft_x_set_p(x, value) sets the property p of an object x
 *   - weft_x_p(x) returns the property p of an object x
 *   - weft_x_is_p(x) and weft_x_has_p(x) return a bool
 *   - weft_set_p(value) sets a property of the caller, of its thread or of the process
 *   - weft_set_p(fiber, value) sets a property of a fiber
 *   - weft_p_of(fiber) returns a property of a fiber
 *   - weft_x_get(key) and weft_x_set(key, value) access values by key, for example weft_local_get
 */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_BEGIN extern "C" {
#define WEFT_END }
#else
#define WEFT_BEGIN
#define WEFT_END
#endif

/* Export a function from the shared library. */
#define WEFT_API __attribute__((visibility("default")))

/*
 * Mark a switchpoint, a function that may run other fibers before it returns. Grep for this macro
 * to find all switchpoints. An inline function that calls a switchpoint is a switchpoint too.
 */
#define WEFT_SWITCHPOINT WEFT_API

/* Check the arguments of each call against the format string at compile time. */
#define WEFT_PRINTF(format_index, first_arg) \
    __attribute__((format(printf, format_index, first_arg)))

/*
 * Warn at compile time if a caller ignores the result. The macro marks these functions:
 *   - functions that return the only reference to a new object
 *   - functions that return the number of bytes or items that they stored in a buffer
 *   - functions that return an error that weft does not report elsewhere
 */
#define WEFT_MUST_CHECK __attribute__((warn_unused_result))

/* Paste two tokens after their expansion, to generate names in macros. */
#define WEFT__PASTE(a, b) WEFT__PASTE_RAW(a, b)
#define WEFT__PASTE_RAW(a, b) a##b

/*
 * The value that a fiber returns, receives or resumes with. A value is an integer or a pointer.
 * Values in -4095..-1 are errors. An error is a negative errno.
 */
typedef intptr_t weft_value;

/*
 * The id of a fiber. Programs can print, compare, store and send ids. Ids are not ordered by age. 0
 * is not the id of a fiber.
 *
 * Functions fail with -ESRCH for the id of a fiber that is gone. A thread never reuses an id.
 * Therefore an old id never refers to another fiber of the thread. A thread can create at most 2^54
 * fibers. A thread that starts after another thread has ended may reuse the ids of the ended
 * thread. Such ids repeat only after the process has created 2^41 fibers.
 */
typedef uint64_t weft_fiber;

/* The function of a fiber. The result of the function is the value of the fiber. */
typedef weft_value weft_fn(void *arg);

#endif
