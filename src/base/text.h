/*
 * A text buffer for signal handlers. The functions use neither the heap nor stdio. They write the
 * whole buffer with one call. They discard text beyond 256 bytes.
 */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

typedef struct weft__text {
    char bytes[256];
    size_t count;
} weft__text;

static inline void weft__text_add(weft__text *t, const char *text)
{
    while (*text != '\0' && t->count < sizeof t->bytes)
        t->bytes[t->count++] = *text++;
}

static inline void weft__text_add_number(weft__text *t, uint64_t number)
{
    char digits[21];
    char *first = digits + sizeof digits - 1;
    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    weft__text_add(t, first);
}

static inline void weft__text_add_hex(weft__text *t, uint64_t number)
{
    char digits[17];
    char *first = digits + sizeof digits - 1;
    *first = '\0';
    do {
        *--first = "0123456789abcdef"[number & 15];
        number >>= 4;
    } while (number != 0);
    weft__text_add(t, first);
}

static inline void weft__text_write(const weft__text *t, int fd)
{
    if (write(fd, t->bytes, t->count) < 0)
        return; /* the error cannot be reported */
}

#endif
