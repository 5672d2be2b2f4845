/*
 * What multishot operations have brought and nobody has taken yet: buffers of the ring of provided
 * ones, in lists, and connections. For uring_many.c; kept with a descriptor when a loop is over.
 */
#ifndef WEFT_BACKEND_URING_KEPT_H
#define WEFT_BACKEND_URING_KEPT_H

#include "backend/uring.h"

#define WEFT__BUFFER_GROUP 0
#define WEFT__NO_BUFFER (-1)

typedef struct weft__buffer_note {
    int next; /* in the list that it is in; WEFT__NO_BUFFER: the last */
    unsigned bytes;
} weft__buffer_note;

/* Accepted connections, the oldest at first. */
typedef struct weft__conns {
    size_t first, end, room;
    int fd[];
} weft__conns;

/* The ring of provided buffers, if there is none yet. 0 or -errno. */
int weft__buffers_make(weft__uring *b);

char *weft__buffer_data(const weft__uring *b, int buffer);

/* Let the kernel have it. */
void weft__buffer_give_back(weft__uring *b, int buffer);

/* To the end of a list; from its beginning, which is there. */
void weft__buffer_append(weft__uring *b, int *first, int *final, int buffer);
int weft__buffer_pop(const weft__uring *b, int *first);

/* NULL is empty, too. */
bool weft__conns_are_empty(const weft__conns *c);

/* NULL: no memory. */
weft__conns *weft__conns_make(void);

/* Makes it if it is NULL. False: no memory. */
bool weft__conns_append(weft__conns **conns, int fd);

/* Close what is left, and free it. */
void weft__conns_close(weft__conns *c);

#endif
