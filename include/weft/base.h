/*
 * What every public header needs: the value type and the words that mark declarations.
 * Nothing here is a function of the library.
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

/* Exported from the shared library. */
#define WEFT_API __attribute__((visibility("default")))

/*
 * Control may pass to other fibers inside this call: it is a switchpoint. Also a word to grep for.
 */
#define WEFT_SWITCHPOINT WEFT_API

/* The compiler checks the arguments against the format. */
#define WEFT_PRINTF(format_index, first_arg) \
    __attribute__((format(printf, format_index, first_arg)))

/*
 * Make the compiler warn if the result of a call is not used. For calls that create something only
 * their result names, that fill memory up to what they return, or that return an error which is
 * reported nowhere else.
 */
#define WEFT_MUST_CHECK __attribute__((warn_unused_result))

/* Paste two tokens after expanding them; for names that a macro makes up. */
#define WEFT__PASTE(a, b) WEFT__PASTE_RAW(a, b)
#define WEFT__PASTE_RAW(a, b) a##b

/*
 * What a fiber is resumed with, returns and receives: an integer or a pointer. The range -4095..-1
 * is an error, the negative errno; everything else is a value.
 */
typedef intptr_t weft_value;

/*
 * A fiber's id. It can be printed, compared, stored and sent; using one whose fiber is gone is
 * -ESRCH. A thread never gives out an id twice, so a stale id never names another of its fibers; a
 * thread creates at most 2^54 fibers. A thread that starts after another one has ended does not
 * repeat the other's ids before 2^41 fibers have been created. Ids are not ordered by age. 0 is no
 * fiber.
 */
typedef uint64_t weft_fiber;

/* What a fiber runs. */
typedef weft_value weft_fn(void *arg);

#endif
