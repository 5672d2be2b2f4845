/* A growing string in allocated memory. See strbuf.h. */
#include "http/text/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRBUF_BYTES_FIRST ((size_t)512)

/* Reserve memory for more bytes and a NUL. Return false if memory is exhausted. */
static bool strbuf_reserve(weft__strbuf *w, size_t bytes)
{
    size_t capacity = w->capacity > 0 ? w->capacity : STRBUF_BYTES_FIRST;
    while (capacity - w->bytes <= bytes)
        capacity *= 2;
    if (capacity == w->capacity)
        return true;
    char *data = realloc(w->data, capacity);
    if (data == NULL) {
        w->has_failed = true;
        return false;
    }
    w->data = data;
    w->capacity = capacity;
    return true;
}

void weft__strbuf_add(weft__strbuf *w, const char *data, size_t bytes)
{
    if (w->has_failed || !strbuf_reserve(w, bytes))
        return;
    memcpy(w->data + w->bytes, data, bytes);
    w->bytes += bytes;
    w->data[w->bytes] = '\0';
}

void weft__strbuf_printf(weft__strbuf *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (w->has_failed || bytes < 0 || !strbuf_reserve(w, (size_t)bytes))
        return;
    va_start(args, format);
    vsnprintf(w->data + w->bytes, w->capacity - w->bytes, format, args);
    va_end(args);
    w->bytes += (size_t)bytes;
}

void weft__strbuf_add_host(weft__strbuf *w, const char *host)
{
    weft__strbuf_printf(w, strchr(host, ':') != NULL ? "[%s]" : "%s", host);
}
