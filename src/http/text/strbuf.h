/*
 * A growing string in allocated memory. If memory is exhausted, an append sets has_failed and does
 * not change the string. Later appends then have no effect. Callers therefore check has_failed
 * once, after the last append.
 */
#ifndef WEFT_HTTP_TEXT_STRBUF_H
#define WEFT_HTTP_TEXT_STRBUF_H

#include <weft/base.h>

#include <stdbool.h>
#include <stddef.h>

/* All-zero is the empty string. The caller frees data. */
typedef struct weft__strbuf {
    char *data;      /* NUL-terminated; NULL: nothing appended yet */
    size_t bytes;    /* without the NUL */
    size_t capacity; /* allocated bytes */
    bool has_failed;
} weft__strbuf;

void weft__strbuf_add(weft__strbuf *w, const char *data, size_t bytes);

/* Append formatted text. The arguments must not point into the string. */
void weft__strbuf_printf(weft__strbuf *w, const char *format, ...) WEFT_PRINTF(2, 3);

/*
 * Return the string, which the caller frees. Returns NULL if memory was exhausted. The caller must
 * not use the strbuf any more.
 */
char *weft__strbuf_take(weft__strbuf *w);

/* Append the base64 code of data (RFC 4648, 4). */
void weft__strbuf_add_base64(weft__strbuf *w, const void *data, size_t bytes);

/* Append a host. Put an IPv6 address into brackets. */
void weft__strbuf_add_host(weft__strbuf *w, const char *host);

#endif
