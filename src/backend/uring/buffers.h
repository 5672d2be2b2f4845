/*
 * The ring of provided buffers, and lists of filled buffers. The kernel selects a buffer from the
 * ring for each result of a multishot receive. A buffer is identified by its index.
 */
#ifndef WEFT_BACKEND_URING_BUFFERS_H
#define WEFT_BACKEND_URING_BUFFERS_H

#include "backend/uring/uring.h"

#define WEFT__URING_BUFFER_GROUP 0
#define WEFT__URING_NO_BUFFER (-1)

typedef struct weft__uring_buffer_info {
    int next; /* the next buffer of a list; WEFT__URING_NO_BUFFER: none */
    unsigned bytes;
} weft__uring_buffer_info;

/* Create the ring if it does not exist. Returns 0 or -errno. */
int weft__uring_buffers_ensure(weft__uring *b);

/* Return the memory of a buffer. */
char *weft__uring_buffer_data(const weft__uring *b, int buffer);

/* Return a buffer to the kernel. */
void weft__uring_buffer_recycle(weft__uring *b, int buffer);

/* Append a buffer to a list. */
void weft__uring_buffer_append(weft__uring *b, int *first, int *last, int buffer);
/* Remove the first buffer of a list, and return it. The list must not be empty. */
int weft__uring_buffer_pop(const weft__uring *b, int *first);

/* Free the ring and the buffers. */
void weft__uring_buffers_free(weft__uring *b);

#endif
