/*
 * Operations over readiness: for backends that are told when a descriptor can be read or written
 * and then make the call themselves. The call is tried first; what would block waits here, first
 * come, first served for each direction, until the backend says that the descriptor is ready. What
 * no readiness tells of (regular files, functions that block) goes to the pool.
 *
 * It keeps what is known of each descriptor by its number, from the first wait until the descriptor
 * is closed, by any thread. How a descriptor is watched is the backend's matter: two functions.
 */
#ifndef WEFT_BACKEND_READY_H
#define WEFT_BACKEND_READY_H

#include "backend/fd_generation.h"
#include "backend/waiters.h"

/* What is known of a number. All empty and zero: nothing. It never moves. */
typedef struct weft__descriptor {
    uint32_t generation;    /* the backend's own: tells its watch from one before; 0: not watched */
    uint32_t fd_generation; /* of the number, when all this was learned: see fd_generation.h */
    uint8_t watched;        /* the backend's own: what it is watched for (POLLIN, POLLOUT) */
    bool is_not_socket;     /* for weft__call_try */
    bool is_on_disk;        /* the same */
    bool is_tcp;            /* and watched: so it may become drained */
    bool is_drained;        /* nothing is left to read until the next event: see ready.c */
    bool has_more;    /* than data to read: its end, an error, an urgent byte; never drained */
    bool is_doubtful; /* for watch: it may be another file's number by now, watch it anew */
    bool is_closing;  /* being closed; nothing new is let in */
    const atomic_uint *fd_counter; /* the generation of the number now */
    void *watcher;                 /* the backend's own; NULL: none */
    weft__waiters waiters;
    weft__list pooled;  /* operations on it that the pool has, by their link */
    weft__list also;    /* operations that wait elsewhere and need it, too, by their turn */
    weft__list closing; /* in weft__ready's closing, while the pool is still at work on it */
} weft__descriptor;

/* What most calls need is in the first. */
#define WEFT__DESCRIPTOR_LINES 2
_Static_assert(sizeof(void *) != 8 ||
                   sizeof(weft__descriptor) == WEFT__DESCRIPTOR_LINES * CACHE_LINE_BYTES,
               "a descriptor is two cache lines");

typedef struct weft__ready {
    weft__backend *backend;
    /*
     * Have poll report when fd is ready for what its waiters (of d) wait for, from now on; also a
     * readiness that came since the last report. Called whenever one more has begun to wait. 0 or
     * -errno, -EPERM for a file that cannot be watched.
     */
    int (*watch)(weft__backend *b, int fd, weft__descriptor *d);
    /* fd is to be closed, or belongs to another file: forget it. */
    void (*unwatch)(weft__backend *b, int fd, weft__descriptor *d);

    weft__descriptor **chunks; /* by number, in chunks that never move */
    size_t chunk_count;
    weft__list retries; /* what waits for something that no readiness tells of */
    int64_t retry_ns;   /* when they are tried again */
    weft__list closing; /* descriptors to close when the pool is done with them */
} weft__ready;

void weft__ready_open(weft__ready *r, weft__backend *b,
                      int (*watch)(weft__backend *, int, weft__descriptor *),
                      void (*unwatch)(weft__backend *, int, weft__descriptor *));

/* Free the table. Nothing is pending; descriptors that wait to be closed are. */
void weft__ready_close(weft__ready *r);

/* Descriptors in a chunk of the table, 8 KiB together. */
#define WEFT__CHUNK_DESCRIPTORS 64

/* NULL if nothing was ever noted about the number. */
static inline weft__descriptor *weft__ready_find(const weft__ready *r, int fd)
{
    size_t chunk = (unsigned)fd / WEFT__CHUNK_DESCRIPTORS;
    if (UNLIKELY(chunk >= r->chunk_count || r->chunks[chunk] == NULL))
        return NULL;
    return &r->chunks[chunk][(unsigned)fd % WEFT__CHUNK_DESCRIPTORS];
}

/* Does what is known of the number concern a file that had it before? */
static inline bool weft__ready_is_stale(const weft__descriptor *d)
{
    return d->fd_generation != atomic_load_explicit(d->fd_counter, memory_order_relaxed);
}

/* The same for a number; false if nothing is known of it. */
static inline bool weft__ready_is_stale_fd(const weft__ready *r, int fd)
{
    const weft__descriptor *d = weft__ready_find(r, fd);
    return d != NULL && weft__ready_is_stale(d);
}

/* Forget what is known of an earlier file, unless the descriptor is being closed here. */
void weft__ready_refresh(weft__ready *r, int fd, weft__descriptor *d);

/* As weft__ready_find, but what is known of an earlier file is forgotten first. */
static inline weft__descriptor *weft__ready_current(weft__ready *r, int fd)
{
    weft__descriptor *d = weft__ready_find(r, fd);
    if (d != NULL && UNLIKELY(weft__ready_is_stale(d)))
        weft__ready_refresh(r, fd, d);
    return d;
}

/* The number of a descriptor of the table. */
int weft__ready_number(const weft__ready *r, const weft__descriptor *d);

/* As weft__ready_current, and makes it. Only for an open number. NULL: no memory. */
weft__descriptor *weft__ready_note(weft__ready *r, int fd);
void weft__ready_free_table(weft__ready *r);

/* The other descriptor that an operation needs; -1: there is none. */
static inline int weft__ready_other_fd(const weft__op *op)
{
    if (op->code != WEFT__OP_SPLICE && op->code != WEFT__OP_TEE && op->code != WEFT__OP_SENDFILE)
        return -1;
    int out = op->u.copy.fd_out;
    return op->wait_fd == out ? op->fd : out;
}

/* ready_close.c: nothing is known of the file any more; what waits on it stays. */
void weft__ready_unlearn(weft__ready *r, int fd, weft__descriptor *d);

/* ready_close.c: close what was only kept open for the pool. */
void weft__ready_close_kept(weft__ready *r);

/* As in the contract of a backend; all operations are known here. */
intptr_t weft__ready_submit(weft__ready *r, weft__op *op);
bool weft__ready_cancel(weft__ready *r, weft__op *op);
int weft__ready_close_fd(weft__ready *r, int fd);
int weft__ready_release_fd(weft__ready *r, int fd);

/* For poll: at most how long it may wait. */
int64_t weft__ready_timeout(const weft__ready *r, int64_t timeout_ns);

/*
 * For poll: fd is ready for these (POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP, POLLPRI): let
 * those who wait go on. They may close it: d->generation and d->watcher tell.
 */
void weft__ready_event(weft__ready *r, int fd, weft__descriptor *d, int events);

/* For poll, at its end: what is to be tried again, and what the pool has done. */
void weft__ready_poll(weft__ready *r);

/*
 * What watched descriptors is gone: watch those anew on which someone waits. What waits on a closed
 * one ends with -EBADF.
 */
void weft__ready_rewatch(weft__ready *r);

/* Forget all numbers that are closed. */
void weft__ready_forget_closed(weft__ready *r);

/* The backend is given up: what waits ends with this error; what the pool has goes on. */
void weft__ready_give_up(weft__ready *r, int error);

/* As forget_fd in the contract of a backend. What a pool thread is at work on ends by itself. */
void weft__ready_forget(weft__ready *r, int fd);

/* The number has just been given to a new file: advance its generation, and forget it here. */
void weft__ready_made(weft__ready *r, int fd);

/* The same for the descriptors that an operation has made, which succeeded. */
void weft__ready_made_by(weft__ready *r, weft__op *op, intptr_t result);

static inline void weft__ready_note_made(weft__ready *r, weft__op *op, intptr_t result)
{
    bool may_make =
        op->code == WEFT__OP_ACCEPT || op->code == WEFT__OP_OPEN || op->code == WEFT__OP_RECVMSG;
    if (UNLIKELY(may_make) && result >= 0)
        weft__ready_made_by(r, op, result);
}

/* As in the contract of a backend. */
int weft__ready_pipe(weft__ready *r, int fd[2]);
int weft__ready_socketpair(weft__ready *r, int fd[2]);

#endif
