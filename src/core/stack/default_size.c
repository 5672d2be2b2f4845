/* The default sizes of stacks and guards, and their settings in the environment. */
#include "core/debug/diag.h"
#include "core/stack/stack.h"

#include <weft/error.h>
#include <weft/fiber.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A size that an environment variable can set. */
typedef struct setting {
    const char *name; /* name of the environment variable */
    size_t bytes_default;
    size_t bytes_min;
    size_t bytes_max;
    const char *too_small; /* message if the value is below bytes_min; NULL: impossible */
    const char *too_large; /* message if the value is above bytes_max */
} setting;

static void print_setting(const setting *s, const char *text, const char *message)
{
    weft__diag(LOG_WARNING, "%s=%s %s", s->name, text, message);
}

/* Parse a number of bytes. Return 0 if the text is not a size. Return SIZE_MAX on overflow. */
static size_t size_parse(const char *text)
{
    static const char units[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9') /* strtoull accepts signs and blanks */
        return 0;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (*end != '\0') {
        const char *unit = strchr(units, *end & ~0x20);
        if (unit == NULL || end[1] != '\0')
            return 0;
        shift = 10 * ((unsigned)(unit - units) + 1);
    }
    return number > SIZE_MAX >> shift ? SIZE_MAX : (size_t)number << shift;
}

static size_t size_from_environment(const setting *s)
{
    const char *text = getenv(s->name);
    if (text == NULL || *text == '\0')
        return s->bytes_default;
    size_t bytes = size_parse(text);
    if (bytes == 0) {
        print_setting(s, text, "is ignored: the value is not a size such as 128K or 1M");
        return s->bytes_default;
    }
    if (bytes < s->bytes_min) {
        print_setting(s, text, s->too_small);
        return s->bytes_min;
    }
    if (bytes > s->bytes_max) {
        print_setting(s, text, s->too_large);
        return s->bytes_max;
    }
    return bytes;
}

size_t weft__stack_bytes_default(void)
{
    static const setting stack = {
        "WEFT_STACK",          WEFT__STACK_BYTES_DEFAULT, WEFT__STACK_BYTES_MIN,
        WEFT__STACK_BYTES_MAX, "is too small: using 16K", "is too large: using 1G"};
    static _Atomic size_t bytes_known;
    size_t bytes = atomic_load_explicit(&bytes_known, memory_order_relaxed);
    if (UNLIKELY(bytes == 0)) {
        bytes = size_from_environment(&stack);
        atomic_store_explicit(&bytes_known, bytes, memory_order_relaxed);
    }
    return bytes;
}

/* The size of every guard. 0: not set yet. */
static _Atomic size_t guard_bytes;

/* Round up to an odd number of pages. See weft__stack_class_stride. */
static size_t guard_size_round(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (bytes + page - 1) / page;
    return (pages | 1) * page;
}

/* Set the size of guards. Return false if the size is already set. */
static bool guard_size_set(size_t bytes)
{
    size_t unset = 0;
    return atomic_compare_exchange_strong(&guard_bytes, &unset, guard_size_round(bytes));
}

size_t weft__stack_guard_bytes(void)
{
    static const setting guard = {"WEFT_GUARD",          1,    1,
                                  WEFT__GUARD_BYTES_MAX, NULL, "is too large: using 16M"};
    size_t bytes = atomic_load_explicit(&guard_bytes, memory_order_relaxed);
    if (LIKELY(bytes != 0))
        return bytes;
    guard_size_set(size_from_environment(&guard));
    return atomic_load_explicit(&guard_bytes, memory_order_relaxed);
}

int weft_set_guard(size_t bytes)
{
    if (bytes == 0 || bytes > WEFT__GUARD_BYTES_MAX)
        return weft_fail(-EINVAL, "weft_set_guard: bytes is %zu, which is not in 1..%zu", bytes,
                         WEFT__GUARD_BYTES_MAX);
    if (!guard_size_set(bytes))
        return weft_fail(-EBUSY, "weft_set_guard: the size is already set or in use");
    return 0;
}
