/* A growing byte buffer in allocated memory. */
#ifndef WEFT_BASE_BUFFER_H
#define WEFT_BASE_BUFFER_H

#include "compiler.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* All-zero is empty. */
typedef struct weft__buffer {
    char *data; /* NULL: none */
    size_t bytes;
    size_t capacity;
} weft__buffer;

/*
 * Make room for more bytes after the held bytes. The capacity at least doubles, so that appending
 * takes linear time. The first capacity is exactly more. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static inline int weft__buffer_reserve(weft__buffer *b, size_t more)
{
    if (LIKELY(more <= b->capacity - b->bytes))
        return 0;
    if (more > SIZE_MAX / 2 - b->bytes)
        return -ENOMEM;
    size_t capacity = b->bytes + more > 2 * b->capacity ? b->bytes + more : 2 * b->capacity;
    char *data = realloc(b->data, capacity);
    if (data == NULL)
        return -ENOMEM;
    b->data = data;
    b->capacity = capacity;
    return 0;
}

/* Free the memory. The buffer is then empty. */
static inline void weft__buffer_free(weft__buffer *b)
{
    free(b->data);
    *b = (weft__buffer){0};
}

#endif
