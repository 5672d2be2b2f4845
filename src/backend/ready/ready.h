/*
 * Operations that wait for readiness, for backends that report when a descriptor is readable or
 * writable. Each operation is first tried as a system call. If the call would block, the operation
 * waits until the backend reports readiness. Operations wait in FIFO order per direction.
 * Operations on files without readiness run on worker threads. Blocking functions also run on
 * worker threads.
 *
 * The table stores the state of a descriptor by number, from the first use until any thread closes
 * the descriptor. The backend supplies two functions. arm registers a descriptor with the kernel.
 * disarm removes the registration.
 */
#ifndef WEFT_BACKEND_READY_READY_H
#define WEFT_BACKEND_READY_READY_H

#include "backend/fd_generation.h"
#include "backend/ready/waiters.h"

/*
 * The state of a descriptor number. If all fields are empty or zero, nothing is known. The struct
 * never moves.
 */
typedef struct weft__descriptor {
    /*
     * The generation of the registration. Each registration has a new generation. 0: not
     * registered. The backend sets this field.
     */
    uint32_t generation;
    uint32_t fd_generation; /* of the number (fd_generation.h), when the state was stored */
    uint8_t armed;      /* the events of the registration (POLLIN, POLLOUT); set by the backend */
    bool is_not_socket; /* cached for weft__call_try */
    bool is_on_disk;    /* cached for weft__call_try */
    bool is_tcp;        /* a TCP connection with a registration: is_drained applies */
    bool is_drained;    /* no data to read until the next event: see ready.c */
    bool never_drained; /* an end, error or urgent byte was reported: see ready.c */
    /* arm must register again, because the number may belong to another file. */
    bool needs_rearm;
    bool is_closing;               /* close has started: new operations fail */
    const atomic_uint *fd_counter; /* the current generation of the number */
    void *backend_data;            /* the state of the backend; NULL: none */
    weft__waiters waiters;
    weft__list worker_ops; /* operations on worker threads, linked by link */
    /* Operations that wait in another list and also use fd. Linked by secondary_link. */
    weft__list secondary_ops;
    weft__list closing_link; /* in closing of weft__ready, while worker threads use fd */
} weft__descriptor;

/* The first cache line of a descriptor holds the fields that most calls use. */
_Static_assert(sizeof(void *) != 8 || sizeof(weft__descriptor) == 2 * CACHE_LINE_BYTES,
               "a descriptor is two cache lines");

typedef struct weft__ready {
    weft__backend *backend;
    /*
     * Register fd, so that poll reports when fd is ready for the waiters of d. poll must also
     * report readiness since the last report. ready.c calls arm for each new waiter. Returns 0 or
     * -errno. The error is -EPERM if the file has no readiness.
     */
    int (*arm)(weft__backend *b, int fd, weft__descriptor *d);
    /* Remove the registration of fd. */
    void (*disarm)(weft__backend *b, int fd, weft__descriptor *d);

    weft__descriptor **chunks; /* by number, in chunks that never move */
    size_t chunk_count;
    bool lacks_priority; /* arm does not support POLLPRI */
    weft__list retries;  /* operations that wait for a condition without readiness */
    int64_t retry_ns;    /* the time of the next retry */
    weft__list closing;  /* descriptors to close after worker threads have finished */
} weft__ready;

/* Initialise r for a new backend. r handles the finished jobs of the backend. */
void weft__ready_open(weft__ready *r, weft__backend *b,
                      int (*arm)(weft__backend *, int, weft__descriptor *),
                      void (*disarm)(weft__backend *, int, weft__descriptor *));

/* Close the descriptors with a deferred close, and free the table. No operation may be pending. */
void weft__ready_close(weft__ready *r);

/* The number of descriptors per chunk of the table. The size of a chunk is 8 KiB. */
#define WEFT__CHUNK_DESCRIPTORS 64

/* Return the state of a number, or NULL if the table has no chunk for the number. */
static inline weft__descriptor *weft__ready_find(const weft__ready *r, int fd)
{
    size_t chunk = (unsigned)fd / WEFT__CHUNK_DESCRIPTORS;
    if (UNLIKELY(chunk >= r->chunk_count || r->chunks[chunk] == NULL))
        return NULL;
    return &r->chunks[chunk][(unsigned)fd % WEFT__CHUNK_DESCRIPTORS];
}

/* Return whether the state belongs to an earlier file with the same number. */
static inline bool weft__ready_is_stale(const weft__descriptor *d)
{
    return d->fd_generation != atomic_load_explicit(d->fd_counter, memory_order_relaxed);
}

/* Like weft__ready_is_stale, for a number. Returns false if the number has no state. */
static inline bool weft__ready_is_stale_fd(const weft__ready *r, int fd)
{
    const weft__descriptor *d = weft__ready_find(r, fd);
    return d != NULL && weft__ready_is_stale(d);
}

/* Discard the state of an earlier file, unless this thread is closing the descriptor. */
void weft__ready_refresh(weft__ready *r, int fd, weft__descriptor *d);

/* Like weft__ready_find, but discard the state of an earlier file first. */
static inline weft__descriptor *weft__ready_current(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    if (d != NULL && UNLIKELY(weft__ready_is_stale(d)))
        weft__ready_refresh(r, fd, d);
    return d;
}

/* Return the descriptor number of a state. d must be in the table. */
int weft__ready_fd_of(const weft__ready *r, const weft__descriptor *d);

/*
 * Like weft__ready_current, but create the state if necessary. The number must be open. Returns
 * NULL if memory is exhausted.
 */
weft__descriptor *weft__ready_ensure(weft__ready *r, int fd);

/* Free the table. */
void weft__ready_free_table(weft__ready *r);

/*
 * Return the descriptor of a copy operation that the operation does not wait for. Returns -1 for
 * other operations.
 */
static inline int weft__ready_other_fd(const weft__op *op)
{
    if (op->code != WEFT__OP_SPLICE && op->code != WEFT__OP_TEE && op->code != WEFT__OP_SENDFILE)
        return -1;
    int out = op->u.copy.fd_out;
    return op->wait_fd == out ? op->fd : out;
}

/* close.c: discard the cached file type and the registration. Waiting operations remain. */
void weft__ready_invalidate(weft__ready *r, int fd, weft__descriptor *d);

/* close.c: close the descriptors with a deferred close that worker threads no longer use. */
void weft__ready_close_deferred(weft__ready *r);

/* As in weft__backend_type, for all operations. */
intptr_t weft__ready_submit(weft__ready *r, weft__op *op);
bool weft__ready_cancel(weft__ready *r, weft__op *op);
int weft__ready_close_fd(weft__ready *r, int fd);
int weft__ready_release_fd(weft__ready *r, int fd);

/* hosted.c: start a WAIT of a hosted backend. */
intptr_t weft__ready_wait(weft__ready *r, weft__op *op);

/* hosted.c: try the call of an operation of a hosted backend. */
intptr_t weft__ready_try_hosted(weft__ready *r, weft__op *op);

/* hosted.c: end the WAIT operations of a hosted backend that the events complete. */
void weft__ready_end_waits(weft__ready *r, weft__descriptor *d, int events);

/*
 * Return the timeout for a wait, in nanoseconds or WEFT__POLL_FOREVER. The wait ends at the next
 * retry at the latest. Returns 0 if jobs have finished.
 */
int64_t weft__ready_timeout(const weft__ready *r, int64_t timeout_ns);

/*
 * Resume the operations that wait on fd. events are the events that poll reported: POLLIN, POLLOUT,
 * POLLERR, POLLHUP, POLLRDHUP or POLLPRI. A done callback may close fd. d->generation and
 * d->backend_data then change.
 */
void weft__ready_event(weft__ready *r, int fd, weft__descriptor *d, int events);

/*
 * Try the operations in retries again, and collect finished jobs. Backends call this function at
 * the end of poll.
 */
void weft__ready_poll(weft__ready *r);

/*
 * Register all descriptors with waiters again, after the registrations were lost. Operations on
 * closed descriptors end with -EBADF.
 */
void weft__ready_rearm(weft__ready *r);

/* Discard the state of all numbers that are closed. */
void weft__ready_forget_closed(weft__ready *r);

/* End all waiting operations with an error. Operations on worker threads continue. */
void weft__ready_give_up(weft__ready *r, int error);

/* Like forget_fd of weft__backend_type. Operations that already run on a worker thread continue. */
int weft__ready_forget(weft__ready *r, int fd);

/*
 * Advance the generation of a new descriptor. Discard the state of an earlier file with the same
 * number.
 */
void weft__ready_fd_created(weft__ready *r, int fd);

/* Like weft__ready_fd_created, for all descriptors that a successful operation has created. */
void weft__ready_op_created_fds(weft__ready *r, weft__op *op, intptr_t result);

/* Like weft__ready_op_created_fds, but do nothing if the operation has not created descriptors. */
static inline void weft__ready_note_created(weft__ready *r, weft__op *op, intptr_t result)
{
    bool may_create =
        op->code == WEFT__OP_ACCEPT || op->code == WEFT__OP_OPEN || op->code == WEFT__OP_RECVMSG;
    if (UNLIKELY(may_create) && result >= 0)
        weft__ready_op_created_fds(r, op, result);
}

/* As in weft__backend_type. */
int weft__ready_pipe(weft__ready *r, int fd[2]);
int weft__ready_socketpair(weft__ready *r, int fd[2]);

#endif
