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

char *weft__strbuf_take(weft__strbuf *w)
{
    if (!w->has_failed)
        return w->data;
    free(w->data);
    return NULL;
}

void weft__strbuf_add_host(weft__strbuf *w, const char *host)
{
    weft__strbuf_printf(w, strchr(host, ':') != NULL ? "[%s]" : "%s", host);
}

void weft__strbuf_add_base64(weft__strbuf *w, const void *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i += 3) {
        size_t n = bytes - i < 3 ? bytes - i : 3;
        uint32_t bits = (uint32_t)byte[i] << 16;
        bits |= n > 1 ? (uint32_t)byte[i + 1] << 8 : 0;
        bits |= n > 2 ? byte[i + 2] : 0;
        char quad[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                        n > 1 ? digits[bits >> 6 & 63] : '=', n > 2 ? digits[bits & 63] : '='};
        weft__strbuf_add(w, quad, sizeof quad);
    }
}
