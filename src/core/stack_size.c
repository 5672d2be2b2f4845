/* The size of a stack for which none was asked: the default, or what the environment says. */
#include "core/stack.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void say_of_size(const char *text, const char *words)
{
    struct iovec line[] = {
        {(char *)"weft: WEFT_STACK=", 17},
        {(char *)text, strlen(text)},
        {(char *)words, strlen(words)},
    };
    if (writev(STDERR_FILENO, line, 3) < 0)
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

static size_t size_from_environment(void)
{
    const char *text = getenv("WEFT_STACK");
    if (text == NULL || *text == '\0')
        return WEFT__STACK_BYTES_DEFAULT;
    size_t bytes = size_parse(text);
    if (bytes == 0) {
        say_of_size(text, " is not a size (such as 128K or 1M): ignored\n");
        return WEFT__STACK_BYTES_DEFAULT;
    }
    if (bytes < WEFT__STACK_BYTES_MIN) {
        say_of_size(text, " is too small: 16K taken\n");
        return WEFT__STACK_BYTES_MIN;
    }
    if (bytes > WEFT__STACK_BYTES_MAX) {
        say_of_size(text, " is too much: 1G taken\n");
        return WEFT__STACK_BYTES_MAX;
    }
    return bytes;
}

size_t weft__stack_bytes_default(void)
{
    static _Atomic size_t known;
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (UNLIKELY(bytes == 0)) {
        bytes = size_from_environment();
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}
