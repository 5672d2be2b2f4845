/* The state of the libev backend (ev.c), and the functions for its loop (ev_loop.c). */
#ifndef WEFT_BACKEND_READY_EV_H
#define WEFT_BACKEND_READY_EV_H

#include "backend/ready/ready.h"
#include "backend/wake_fd.h"

#include <ev.h>

typedef struct weft__ev_backend {
    weft__backend base;
    weft__ready ready;
    struct ev_loop *loop;
    bool has_leaked_loop; /* a loop has lost its descriptors, see ev_loop.c */
    ev_timer timeout;     /* active while a poll with a timeout waits */
    ev_io wake;
    weft__wake_fd wake_fd;
    uint32_t generation;      /* of the last registration */
    size_t fd_capacity;       /* libev's tables have space for numbers below this value */
    weft__list registrations; /* all registrations, see ev.c */
    weft__list changed;       /* registrations with changed waiters since the last ev_run */
    bool must_check_all;      /* libev passes all registrations to the kernel before each wait */
    unsigned method;          /* of the loop, EVBACKEND_*; 0: the default */
} weft__ev_backend;

/* Check that libev can allocate tables for a descriptor number. Returns 0 or -ENOMEM. */
int weft__ev_tables_reserve(weft__ev_backend *b, size_t number);

/*
 * Open the loop and the eventfd. On failure, b keeps the parts that were opened. Returns 0 or
 * -errno.
 */
int weft__ev_loop_open(weft__ev_backend *b, unsigned method);

/* Close the loop and the eventfd, if they still belong to the backend. */
void weft__ev_loop_close(weft__ev_backend *b);

#endif
