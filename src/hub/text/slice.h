/* A slice: a pointer to bytes that belong to another object, and their number. */
#ifndef WEFT_HUB_TEXT_SLICE_H
#define WEFT_HUB_TEXT_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* All-zero is empty. */
typedef struct weft__slice {
    const char *data; /* without a NUL */
    size_t bytes;
} weft__slice;

static inline weft__slice weft__slice_of(const char *text)
{
    return (weft__slice){text, text == NULL ? 0 : strlen(text)};
}

static inline bool weft__slice_is(weft__slice s, const char *text)
{
    size_t bytes = strlen(text);
    return s.bytes == bytes && memcmp(s.data, text, bytes) == 0;
}

#endif
