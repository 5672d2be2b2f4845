/* Find the media type of a file by its extension, and whether a type is worth compressing. */
#ifndef WEFT_HTTP_TEXT_MIME_H
#define WEFT_HTTP_TEXT_MIME_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weft__mime {
    const char *extension; /* without the dot, in lower case */
    const char *type;
} weft__mime;

/*
 * The table is sorted by extension, for the binary search. tests/http/text/test_http_text.c checks
 * the order.
 */
extern const weft__mime weft__mime_table[];
extern const size_t weft__mime_count;

/*
 * Return the media type of a file with this name or path. Ignore case. Return
 * "application/octet-stream" for an unknown or missing extension.
 */
const char *weft__mime_of(const char *name);

/*
 * Return whether a body of this media type is worth compressing. Ignore parameters of the type.
 * Return false for text/event-stream, because compression would delay events.
 */
bool weft__mime_is_compressible(const char *type);

#endif
