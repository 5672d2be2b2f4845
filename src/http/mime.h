/* Media types by the ends of names. */
#ifndef WEFT_HTTP_MIME_H
#define WEFT_HTTP_MIME_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weft__mime {
    const char *extension; /* without the dot, in lower case */
    const char *type;
} weft__mime;

/* In the order of extensions: who adds one keeps it. A test looks. */
extern const weft__mime weft__mime_table[];
extern const size_t weft__mime_count;

/*
 * The type of a file with this name, or path, whatever the case; "application/octet-stream" for one
 * that is not known.
 */
const char *weft__mime_of(const char *name);

/*
 * Is it worth compressing? Parameters do not matter. Not text/event-stream, whose events would be
 * held back.
 */
bool weft__mime_is_compressible(const char *type);

#endif
