/*
 * Results of multishot operations that the caller has not taken: lists of buffers (buffers.h) and
 * lists of connections. When the caller closes a multishot operation, the descriptor keeps these
 * results as a leftover.
 */
#ifndef WEFT_BACKEND_URING_LEFTOVER_H
#define WEFT_BACKEND_URING_LEFTOVER_H

#include "backend/uring/buffers.h"

/* Accepted connections: fd[first] to fd[end - 1], the oldest first. */
typedef struct weft__conns {
    size_t first, end, capacity;
    int fd[];
} weft__conns;

/* Return whether the list is empty or NULL. */
bool weft__conns_are_empty(const weft__conns *c);

/* Create an empty list. Returns NULL if memory is exhausted. */
weft__conns *weft__conns_new(void);

/* Append a connection. Create the list if *conns is NULL. Returns false if memory is exhausted. */
bool weft__conns_append(weft__conns **conns, int fd);

/* Close the connections, and free the list. */
void weft__conns_close(weft__conns *c);

#endif
