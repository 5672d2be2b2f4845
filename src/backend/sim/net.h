/*
 * The descriptors of the sim backend: pipes and socket pairs in memory. Their numbers start above
 * the numbers of the kernel. A number is reused only after all other numbers have been used.
 *
 * submit tries an operation once. Later, only weft__simnet_run tries waiting operations. Only
 * weft__simnet_run and weft__simnet_close_fd call done. Therefore cancelling an operation loses no
 * result.
 */
#ifndef WEFT_BACKEND_SIM_NET_H
#define WEFT_BACKEND_SIM_NET_H

#include "backend/backend.h"

/* The kernel's default limit of descriptors (fs.nr_open). Descriptors of the kernel are smaller. */
#define WEFT__SIMNET_FD_MIN (1 << 20)

struct weft__sim_end;

typedef struct weft__simnet {
    weft__backend *backend;       /* counts the pending operations */
    struct weft__sim_end **slots; /* by fd & mask; NULL: free */
    unsigned mask;
    unsigned count;    /* slots in use, at most half of them */
    int fd_next;       /* the next number to try */
    weft__list active; /* ends with waiters that may be able to continue */
} weft__simnet;

void weft__simnet_open(weft__simnet *net, weft__backend *backend);

/* Close all descriptors, and free the memory of the net. No operation may be pending. */
void weft__simnet_close(weft__simnet *net);

/* Return whether fd is a descriptor of the sim backend. */
static inline bool weft__simnet_owns(int fd)
{
    return fd >= WEFT__SIMNET_FD_MIN;
}

/* As in weft__backend_type. */
intptr_t weft__simnet_submit(weft__simnet *net, weft__op *op);
void weft__simnet_cancel(weft__simnet *net, weft__op *op);
int weft__simnet_close_fd(weft__simnet *net, int fd);
int weft__simnet_shutdown_fd(weft__simnet *net, int fd, int how);
int weft__simnet_pipe(weft__simnet *net, int fd[2]);
int weft__simnet_socketpair(weft__simnet *net, int fd[2]);

/*
 * Complete operations that can continue, and call done. Returns the number of completed operations.
 */
size_t weft__simnet_run(weft__simnet *net);

#endif
