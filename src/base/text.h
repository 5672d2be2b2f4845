/*
 * Text in the making, for signal handlers: no memory, no stdio, one write. What does not fit is
 * cut.
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

static inline void weft__text_add(weft__text *t, const char *words)
{
    while (*words != '\0' && t->count < sizeof t->bytes)
        t->bytes[t->count++] = *words++;
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

static inline void weft__text_write(const weft__text *t, int fd)
{
    if (write(fd, t->bytes, t->count) < 0)
        return; /* nobody to tell */
}

#endif
