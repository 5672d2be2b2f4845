/*
 * The descriptors of the sim backend: pipes and socket pairs that live in memory. Their numbers
 * begin where the kernel's end, and are not given out again before all of them have been.
 *
 * An operation that can go on is tried by its submitter; one that waits is only looked at in run,
 * so done is called from there and from close_fd alone, and giving an operation up loses nothing.
 */
#ifndef WEFT_BACKEND_SIM_NET_H
#define WEFT_BACKEND_SIM_NET_H

#include "backend/backend.h"

/* Descriptors of the kernel are below this: its default limit for them (fs.nr_open). */
#define WEFT__SIMNET_FD_MIN (1 << 20)

struct weft__sim_end;

typedef struct weft__simnet {
    weft__backend *backend;       /* whose pending operations are counted */
    struct weft__sim_end **slots; /* by fd & mask; NULL: free */
    unsigned mask;
    unsigned count;    /* slots in use; at most half */
    int fd_next;       /* the next number to try */
    weft__list active; /* ends whose waiters may be able to go on */
} weft__simnet;

void weft__simnet_open(weft__simnet *net, weft__backend *backend);

/* Free it, with the descriptors that are still open. Nothing is pending. */
void weft__simnet_close(weft__simnet *net);

static inline bool weft__simnet_owns(int fd)
{
    return fd >= WEFT__SIMNET_FD_MIN;
}

/* As in the contract of a backend. */
intptr_t weft__simnet_submit(weft__simnet *net, weft__op *op);
void weft__simnet_cancel(weft__simnet *net, weft__op *op);
int weft__simnet_close_fd(weft__simnet *net, int fd);
int weft__simnet_shutdown_fd(weft__simnet *net, int fd, int how);
int weft__simnet_pipe(weft__simnet *net, int fd[2]);
int weft__simnet_socketpair(weft__simnet *net, int fd[2]);

/* Complete what can be completed, calling done. Returns how many operations were. */
size_t weft__simnet_run(weft__simnet *net);

#endif
