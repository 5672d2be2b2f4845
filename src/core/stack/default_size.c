/* The sizes of stacks and of their guards: the defaults, or what the environment says. */
#include "core/stack.h"

#include <weft/error.h>
#include <weft/fiber.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* A size that the environment may say. */
typedef struct setting {
    const char *name; /* of the variable */
    size_t bytes_default;
    size_t bytes_min;
    size_t bytes_max;
    const char *too_small; /* said if the value is below bytes_min */
    const char *too_large;
} setting;

static void say_of_size(const setting *s, const char *text, const char *words)
{
    struct iovec line[] = {
        {(char *)"weft: ", 6},        {(char *)s->name, strlen(s->name)}, {(char *)"=", 1},
        {(char *)text, strlen(text)}, {(char *)words, strlen(words)},
    };
    if (writev(STDERR_FILENO, line, 5) < 0)
        return; /* nobody to tell */
}

/* The number of bytes that the text says, 0 if it says none. Saturates. */
static size_t size_parse(const char *text)
{
    static const char units[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9') /* strtoull takes signs and blanks */
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
        say_of_size(s, text, " is not a size (such as 128K or 1M): ignored\n");
        return s->bytes_default;
    }
    if (bytes < s->bytes_min) {
        say_of_size(s, text, s->too_small);
        return s->bytes_min;
    }
    if (bytes > s->bytes_max) {
        say_of_size(s, text, s->too_large);
        return s->bytes_max;
    }
    return bytes;
}

size_t weft__stack_bytes_default(void)
{
    static const setting stack = {
        "WEFT_STACK",          WEFT__STACK_BYTES_DEFAULT,    WEFT__STACK_BYTES_MIN,
        WEFT__STACK_BYTES_MAX, " is too small: 16K taken\n", " is too much: 1G taken\n"};
    static _Atomic size_t known;
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (UNLIKELY(bytes == 0)) {
        bytes = size_from_environment(&stack);
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}

/* Of every guard; 0: not settled yet. */
static _Atomic size_t guard_bytes;

/* In whole pages, and an odd number of them: see class_stride. */
static size_t round_guard(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (bytes + page - 1) / page;
    return (pages | 1) * page;
}

/* Settle it, unless another thread was faster. */
static bool settle_guard(size_t bytes)
{
    size_t unsettled = 0;
    return atomic_compare_exchange_strong(&guard_bytes, &unsettled, round_guard(bytes));
}

size_t weft__stack_guard_bytes(void)
{
    static const setting guard = {"WEFT_GUARD",          1,    1,
                                  WEFT__GUARD_BYTES_MAX, NULL, " is too much: 16M taken\n"};
    size_t bytes = atomic_load_explicit(&guard_bytes, memory_order_relaxed);
    if (LIKELY(bytes != 0))
        return bytes;
    settle_guard(size_from_environment(&guard));
    return atomic_load_explicit(&guard_bytes, memory_order_relaxed);
}

int weft_guard_set(size_t bytes)
{
    if (bytes == 0 || bytes > WEFT__GUARD_BYTES_MAX)
        return weft_fail(-EINVAL, "weft_guard_set: bytes is %zu, which is not in 1..%zu", bytes,
                         WEFT__GUARD_BYTES_MAX);
    if (!settle_guard(bytes))
        return weft_fail(-EBUSY, "weft_guard_set: the size is in use or was set already");
    return 0;
}
