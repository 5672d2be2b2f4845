/*
 * The watcher of a cord: what all watches of the thread share (include/weft/fd_watch.h).
 *
 *   fd_watch.c    open and close watches, create their fibers
 *   fd_watcher.c  the epoll descriptor, the table of watches, the operation that waits for events
 *
 * One operation of the backend (WAIT) waits for the epoll descriptor. No fiber waits. When the
 * operation is done, or when the timer of the watcher fires, the watcher creates fibers. Both
 * happen while the scheduler polls or expires timers, where creating a fiber is allowed.
 *
 * A backend of which only fibers complete operations (sim) has no kernel descriptors. There, each
 * watch has its own WAIT operation in the heap.
 */
#ifndef WEFT_IO_FD_WATCHER_H
#define WEFT_IO_FD_WATCHER_H

#include "core/op/op.h"

#include <weft/fd_watch.h>

/* The maximum number of fibers that the watcher creates at a time. */
#define WEFT__WATCH_BATCH 64

typedef enum weft__watch_state {
    WEFT__WATCH_CLOSED,
    WEFT__WATCH_OPEN, /* waits for an event */
    WEFT__WATCH_DUE,  /* the event has occurred; in `due` of the watcher */
    WEFT__WATCH_SPUN, /* the fiber was created, or drop was called */
} weft__watch_state;

/* How to create the fiber of a watch. Watches with equal values share the struct. */
typedef struct weft__watch_spin {
    weft__list link; /* in `spins` of the watcher */
    size_t refs;     /* open and due watches */
    weft_fn *fn;
    weft_group *group;         /* NULL: the fiber is a child of options.parent */
    weft_spin_options options; /* name points to the field name, or is NULL */
    char name[WEFT__NAME_BYTES];
} weft__watch_spin;

/* The operation of a watch on a self-contained backend. */
typedef struct weft__watch_op {
    weft__op op;
    weft__list link;              /* in `own_ops` of the watcher */
    struct weft__fd_watch *watch; /* NULL: the watch was closed; done frees the struct */
} weft__watch_op;

/* The private part of a weft_fd_watch. */
typedef struct weft__fd_watch {
    weft__timer timer; /* the time limit. While the state is DUE, its link is in `due`. */
    weft__watch_spin *spin;
    void *arg;
    weft__watch_op *own_op; /* NULL: the epoll descriptor watches fd */
    int fd;
    uint32_t serial;     /* of the registration with epoll(7) */
    uint32_t generation; /* of fd (fd_generation.h) */
    int16_t result;      /* the result of weft_fd_watch_result; undefined while OPEN */
    uint8_t state;       /* weft__watch_state */
} weft__fd_watch;

_Static_assert(sizeof(weft__fd_watch) <= sizeof(weft_fd_watch), "weft_fd_watch is too small");
_Static_assert(_Alignof(weft__fd_watch) <= _Alignof(weft_fd_watch),
               "the alignment of weft_fd_watch is too small");

/* Descriptor numbers per chunk of the table. A chunk has 4 KiB. */
#define WEFT__WATCH_CHUNK 512

typedef struct weft__fd_watcher {
    weft__op op;             /* WAIT for epoll_fd */
    bool is_waiting;         /* op is submitted, and not done yet */
    bool is_releasing;       /* op is submitted for an epoll descriptor that is closed */
    weft__fiber *closer;     /* waits until op is done, because the thread ends; NULL: none */
    int epoll_fd;            /* -1: no watch is registered */
    uint32_t serial;         /* of the last registration */
    size_t registered;       /* watches in the table */
    weft__fd_watch ***table; /* by descriptor number, in chunks; NULL: none */
    size_t chunks_count;
    weft__list due;     /* watches whose fibers must be created, linked by timer.link */
    weft_fiber last;    /* the last fiber that was created; 0: none */
    weft__list own_ops; /* list of weft__watch_op */
    weft__list spins;   /* list of weft__watch_spin, the last used first */
    weft__timer timer;  /* when to create fibers; not armed: when op is done */
} weft__fd_watcher;

/* Return the watch that is due first. `due` must not be empty. */
static inline weft__fd_watch *weft__fd_watch_first_due(const weft__fd_watcher *w)
{
    return CONTAINER_OF(w->due.next, weft__fd_watch, timer.link);
}

/*
 * Return the watcher of the cord. Create the watcher if necessary. Returns NULL if memory is
 * exhausted.
 */
weft__fd_watcher *weft__fd_watcher_of(weft__cord *c);

/*
 * Register a watch with epoll(7), and add it to the table. fd must be set.
 *
 * Returns 0, or an error of weft_fd_watch_open.
 */
int weft__fd_watcher_add(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch);

/* Undo weft__fd_watcher_add. */
void weft__fd_watcher_remove(weft__fd_watcher *w, weft__fd_watch *watch);

/* Return the registered watch of a descriptor number, or NULL if there is none. */
weft__fd_watch *weft__fd_watcher_find(const weft__fd_watcher *w, int fd);

/* Create the fibers of due watches when the scheduler next expires timers. */
void weft__fd_watcher_wake(weft__cord *c, weft__fd_watcher *w);

/* Disarm the timer if the watcher has nothing to do. Call this function after a watch has ended. */
void weft__fd_watcher_settle(weft__cord *c, weft__fd_watcher *w);

/*
 * The following functions are in fd_watch.c.
 */

/* End the wait of an open watch with a result. Add the watch to `due`. */
void weft__fd_watch_end(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch, int result);

/*
 * Create the fiber of the first due watch, and remove the watch from `due`. Returns 0, or -EAGAIN
 * or -ENOMEM if the fiber cannot be created now. The watch is then still the first.
 */
int weft__fd_watch_spin(weft__cord *c, weft__fd_watcher *w);

/* Close an open or due watch, and call drop. */
void weft__fd_watch_drop(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch);

/*
 * In a child of weft_fork, mark a watch of the parent as closed. The backend and the timers of the
 * parent do not exist in the child.
 */
void weft__fd_watch_forget(weft__fd_watch *watch);

/* End the watch of fd, if there is one, with -EBADF. Call this function before fd is closed. */
static inline void weft__fd_watch_fd_closing(weft__cord *c, int fd)
{
    weft__fd_watcher *w = c->fd_watcher;
    if (LIKELY(w == NULL || w->registered == 0))
        return;
    weft__fd_watch *watch = weft__fd_watcher_find(w, fd);
    if (watch != NULL)
        weft__fd_watch_end(c, w, watch, -EBADF);
}

#endif
