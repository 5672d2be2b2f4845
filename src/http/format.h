/* Text as printf(3) makes it, of any length: a short one needs no memory. */
#ifndef WEFT_HTTP_FORMAT_H
#define WEFT_HTTP_FORMAT_H

#include <weft/base.h>

#include <stdarg.h>
#include <stddef.h>

typedef struct weft__format {
    char *bytes; /* with a NUL behind them */
    size_t count;
    char own[1024]; /* where they are if they have room */
} weft__format;

/* 0; -EINVAL for a bad format, -ENOMEM. To be closed unless it fails. */
int weft__format_open(weft__format *f, const char *format, va_list args) WEFT_PRINTF(2, 0);
void weft__format_close(weft__format *f);

#endif
