/* Format text of any length as printf(3) does. Text below 1 KiB needs no allocation. */
#ifndef WEFT_HTTP_TEXT_FORMAT_H
#define WEFT_HTTP_TEXT_FORMAT_H

#include <weft/base.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__format {
    char *bytes; /* NUL-terminated; points to own or to allocated memory */
    size_t count;
    char own[1024]; /* the text, if the text fits */
} weft__format;

/*
 * Format a text. If the call succeeds, the caller must call weft__format_close. Return 0, or:
 *
 * - -EINVAL if vsnprintf(3) fails
 * - -ENOMEM if memory is exhausted
 */
int weft__format_open(weft__format *f, const char *format, va_list args) WEFT_PRINTF(2, 0);
void weft__format_close(weft__format *f);

/* The maximum length of a number in decimal notation. */
#define WEFT__DECIMAL_BYTES 20

/* Write a number in decimal notation to the end of digits. Returns its first digit. */
static inline char *weft__format_decimal(char digits[WEFT__DECIMAL_BYTES], uint64_t number,
                                         size_t *bytes)
{
    char *first = digits + WEFT__DECIMAL_BYTES;
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    *bytes = (size_t)(digits + WEFT__DECIMAL_BYTES - first);
    return first;
}

#endif
