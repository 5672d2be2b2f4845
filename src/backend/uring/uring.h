/*
 * The internals of the io_uring backend:
 *
 *   setup.c      creation of a ring, and detection of kernel features
 *   uring.c      the exchange with the kernel: poll
 *   fd_state.c   the state of a descriptor
 *   sqe.c        submission queue entries
 *   op.c         operations: queues, submission and cancellation
 *   complete.c   results of operations
 *   op_fast.c    the fast path of op.c
 *   hosted.c     submission and cancellation on a hosted backend
 *   close.c      closed, forgotten and released descriptors
 *   poll_add.c   readiness, for operations that io_uring does not support
 *   multishot.c  multishot accept and receive
 *   buffers.c    the ring of provided buffers
 *   leftover.c   results that multishot operations have left
 *   repair.c     repair of a ring that fails at run time
 */
#ifndef WEFT_BACKEND_URING_URING_H
#define WEFT_BACKEND_URING_URING_H

#include "backend/ready/ready.h"
#include "backend/wake_fd.h"

#include <liburing.h>

/* The features of the kernel. */
typedef struct weft__uring_abilities {
    uint64_t opcodes;     /* bit n: IORING_OP n */
    unsigned setup_flags; /* of the ring: IORING_SETUP_* */
    unsigned features;    /* IORING_FEAT_* */
    bool has_registered_ring;
    bool has_multishot_accept;
    bool has_multishot_recv; /* with a ring of provided buffers */
    bool has_poll_first;     /* IORING_RECVSEND_POLL_FIRST */
} weft__uring_abilities;

/* Return whether a ring can post a completion to another ring, without posting one to itself. */
static inline bool weft__uring_can_wake_remote(const weft__uring_abilities *a)
{
    return a->opcodes >> IORING_OP_MSG_RING & 1 && a->features & IORING_FEAT_CQE_SKIP;
}

/*
 * Opcodes that weft must not use: bit n is IORING_OP n. Tests set these bits to test the fallbacks.
 */
extern uint64_t weft__uring_disabled_opcodes;

/*
 * Create a ring with the best flags that the kernel accepts. Detect the features of the kernel.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 * -ENOSYS if the kernel has no io_uring
 * -EOPNOTSUPP if a required feature is missing
 * -EPERM if the system forbids io_uring
 * another error that io_uring_setup(2) or io_uring_enter(2) returned
 */
int weft__uring_setup(struct io_uring *ring, weft__uring_abilities *abilities);
/* Close a ring. */
void weft__uring_tear_down(struct io_uring *ring);

/*
 * A copy of a completion. The kernel may overwrite the original while the backend handles the copy.
 */
typedef struct weft__completion {
    uint64_t key;
    int result;
    unsigned flags;
} weft__completion;

/* The queues of operations on one descriptor. */
typedef enum weft__uring_direction {
    WEFT__DIRECTION_IN,  /* reads: only the first operation is started */
    WEFT__DIRECTION_OUT, /* writes: only the first operation is started */
    WEFT__DIRECTION_ANY, /* independent operations: all operations are started */
    WEFT__DIRECTIONS,
} weft__uring_direction;

/* Results that the caller had not taken when it closed a multishot operation. */
typedef struct weft__uring_leftover {
    int first, last;           /* a list of buffers; -1: none */
    uint32_t used;             /* bytes of the first buffer that were read */
    int error;                 /* to return after the buffers; 0: none */
    struct weft__conns *conns; /* NULL: none */
} weft__uring_leftover;

/* An internal operation that waits for the readiness of a descriptor. poll_add.c uses it. */
typedef struct weft__uring_poll {
    weft__op op;
    weft__list all_link; /* in polls of weft__uring */
    struct weft__uring *uring;
    struct weft__uring_fd *fd_state; /* NULL: removed; freed when the operation completes */
    bool is_armed;
} weft__uring_poll;

/*
 * The state of a descriptor. backend_data of weft__descriptor points to it. The backend creates the
 * state on first use, and frees it when the backend is closed.
 */
typedef struct weft__uring_fd {
    /* Every operation uses the fields up to is_drained. They fit into one cache line. */
    _Alignas(CACHE_LINE_BYTES) weft__list queues[WEFT__DIRECTIONS];
    weft__uring_leftover *leftover; /* NULL: none */
    bool is_probed;                 /* the file type in this struct and in descriptor is valid */
    bool has_messages;              /* a socket that is not a stream socket */
    bool is_stream;                 /* a stream socket; false while unknown */
    bool is_terminal;
    bool is_drained; /* the kernel reported that the last receive emptied the stream */

    weft__descriptor *descriptor;
    weft__uring_poll *polls[2];        /* for POLLIN, for POLLOUT; NULL: none */
    weft__uring_leftover leftover_own; /* the target of leftover */
} weft__uring_fd;

/* States per allocation. A slab has 8 KiB. One allocation per state would waste 64 bytes. */
#define WEFT__URING_SLAB_FDS 63

/* States of descriptors in one allocation, which the backend frees when it is closed. */
typedef struct weft__uring_fd_slab {
    struct weft__uring_fd_slab *next; /* NULL: none */
    unsigned used;                    /* states in use, from the first on */
    weft__uring_fd fds[WEFT__URING_SLAB_FDS];
} weft__uring_fd_slab;

/* The ring of provided buffers. */
typedef struct weft__uring_buffers {
    struct io_uring_buf_ring *ring; /* NULL: not created yet */
    char *memory;
    struct weft__uring_buffer_info *infos; /* by index of the buffer */
} weft__uring_buffers;

typedef struct weft__uring {
    weft__backend base;
    struct io_uring ring;
    weft__uring_abilities abilities;
    weft__ready ready; /* descriptors by number, and operations that wait for readiness */
    /*
     * Operations to submit, and operations to cancel, after the submission queue was full. Linked
     * by secondary_link.
     */
    weft__list backlog;
    weft__list cancel_backlog;
    weft__list cancelling;    /* operations with a cancel request, by secondary_link */
    bool must_retry_cancels;  /* a cancel request did not find its operation */
    weft__uring_fd_slab *fds; /* all weft__uring_fd, the newest slab first; NULL: none */
    weft__list polls;         /* all weft__uring_poll */
    uint16_t key_count;       /* the number of keys so far; part of each key */
    uint32_t generation;      /* of the last registration for ready.c */
    uint64_t handled;         /* the number of handled completions */
    uint32_t fd_advances;     /* weft__fd_advances at the last check of the submission queue */
    bool lacks_nosignal;      /* the kernel does not support RWF_NOSIGNAL */
    bool is_wake_armed;       /* a read of wake is submitted */
    bool is_given_up;         /* the ring is closed */
    weft__wake_fd wake;
    uint64_t wake_count; /* the buffer for reading wake */
    weft__uring_buffers buffers;
} weft__uring;

static inline weft__uring *weft__uring_of(weft__backend *base)
{
    return CONTAINER_OF(base, weft__uring, base);
}

/*
 * A key is the user_data of a submission queue entry and of its completions. A key contains a
 * pointer of 48 bits, the kind of the key in the low 3 bits, and a count in the high 16 bits.
 * Because of the count, a late cancel request does not match a later operation at the same stack
 * address. Linux uses addresses of more than 48 bits only on request.
 */
typedef enum weft__key_kind {
    WEFT__KEY_OP,
    WEFT__KEY_CANCEL,
    WEFT__KEY_WAKE,
    WEFT__KEY_MULTISHOT,
    /*
     * A wake from another ring. If the result is negative: a failed wake of another ring, with its
     * tag.
     */
    WEFT__KEY_MSG_RING,
} weft__key_kind;

#define WEFT__KEY_KIND_MASK 7
#define WEFT__KEY_TAG_SHIFT 3

static inline uint64_t weft__key_make(weft__uring *b, const void *object, weft__key_kind kind)
{
    return (uint64_t)++b->key_count << 48 | (uint64_t)(uintptr_t)object | kind;
}

static inline void *weft__key_object(uint64_t key)
{
    return (void *)(uintptr_t)(key << 16 >> 16 & ~(uint64_t)WEFT__KEY_KIND_MASK);
}

/* Bits in the progress of an operation. */
enum {
    WEFT__STARTED = 1,   /* in the submission queue or in the kernel */
    WEFT__CANCELLED = 2, /* the operation ends with -ECANCELED, unless it has completed */
    WEFT__CLOSED = 4,    /* the descriptor was closed: ends with -EBADF; in no queue */
    WEFT__LINKED = 8,    /* in a chain, and not its last link */
    WEFT__CHAINED = 16,  /* in a chain */
};

static inline bool weft__uring_is_multishot(const weft__op *op)
{
    return (op->key & WEFT__KEY_KIND_MASK) == WEFT__KEY_MULTISHOT;
}

/*
 * Decrement pending, except for an internal operation. pending counts the operations that wait for
 * the internal operation instead.
 */
static inline void weft__uring_pending_dec(weft__uring *b, const weft__op *op)
{
    b->base.pending -= !op->is_internal;
}

/* Return an empty submission queue entry, or NULL if the queue is full until the next poll. */
static inline struct io_uring_sqe *weft__uring_get_sqe(weft__uring *b)
{
    return io_uring_get_sqe(&b->ring);
}

static inline bool weft__uring_has(const weft__uring *b, int opcode)
{
    return b->abilities.opcodes >> opcode & 1;
}

/* Return the state of fd, or NULL if fd has no state. */
static inline weft__uring_fd *weft__uring_fd_find(weft__uring *b, int fd)
{
    weft__descriptor *d = fd >= 0 ? weft__ready_find(&b->ready, fd) : NULL;
    return d != NULL ? d->backend_data : NULL;
}

/* Return the first operation of a queue. The queue must not be empty. */
static inline weft__op *weft__uring_queue_first(const weft__list *queue)
{
    return CONTAINER_OF(queue->next, weft__op, link);
}

/* uring.c: submit all entries and the backlog, and handle completions. */
void weft__uring_flush(weft__uring *b);

/*
 * fd_state.c: return the state of fd. Create and probe the state if necessary. Returns NULL if
 * memory is exhausted or fd is not open.
 */
weft__uring_fd *weft__uring_fd_ensure(weft__uring *b, int fd);

/* Create the state of a descriptor without a probe. Returns NULL if memory is exhausted. */
weft__uring_fd *weft__uring_fd_new(weft__uring *b, weft__descriptor *d);

/* Probe: detect the file type of fd, and store it in f and in the descriptor of f. */
void weft__uring_fd_probe(weft__uring_fd *f, int fd);

/* Set the state of an accepted connection. The connection is a socket, so no probe is necessary. */
void weft__uring_fd_set_accepted(weft__uring *b, int fd, bool has_messages);

/* sqe.c: return whether io_uring supports the operation on this descriptor. f may be NULL. */
bool weft__uring_is_native(const weft__uring *b, const weft__op *op, const weft__uring_fd *f);

/*
 * Fill in the entry of an operation. weft__uring_is_native must have returned true. f may be NULL.
 */
void weft__uring_prep(const weft__uring *b, struct io_uring_sqe *sqe, const weft__op *op,
                      const weft__uring_fd *f);

/* op.c: as in weft__backend_type. */
intptr_t weft__uring_submit(weft__backend *base, weft__op *op);
int weft__uring_submit_linked(weft__backend *base, weft__op *const *ops, size_t count);
bool weft__uring_cancel(weft__backend *base, weft__op *op);

/* Return the direction of an operation, which selects its queue. */
weft__uring_direction weft__uring_direction_of(const weft__op *op);

/*
 * Add an operation to its queue. Start the operation if it does not wait for another one. If the
 * operation has no descriptor, f is NULL.
 */
void weft__uring_enqueue(weft__uring *b, weft__uring_fd *f, weft__op *op, weft__key_kind kind);

/*
 * Fill in an entry for an operation. If the submission queue is full, add the operation to the
 * backlog.
 */
void weft__uring_op_start(weft__uring *b, weft__op *op);

/* Remove an operation from its queue, and start the next operation of the queue. */
void weft__uring_op_dequeue(weft__uring *b, weft__op *op);

/*
 * Start the first operation of a queue, unless it is already started. If a leftover completes the
 * operation, call done and continue with the next operation.
 */
void weft__uring_start_next(weft__uring *b, int fd, weft__uring_direction direction);

/* Return whether a queue contains more than one operation. */
bool weft__uring_has_queued(weft__uring *b, int fd, weft__uring_direction direction);

/* Send a cancel request for a started operation. */
void weft__uring_request_cancel(weft__uring *b, weft__op *op);

/* Repeat the cancel requests for all operations that have not ended. */
void weft__uring_retry_cancels(weft__uring *b);

/* Move operations and cancel requests from the backlogs to the submission queue. */
void weft__uring_submit_backlog(weft__uring *b);

/*
 * Add a multishot operation to the queue of its descriptor, or remove the operation from the queue.
 */
void weft__uring_multishot_enqueue(weft__uring *b, weft__multishot *m);
void weft__uring_multishot_dequeue(weft__uring *b, weft__multishot *m);

/* Cancel a multishot operation. Returns true if the operation was not submitted yet. */
bool weft__uring_multishot_cancel(weft__uring *b, weft__multishot *m);

/*
 * Cancel the multishot operation of f if it has the same owner as op. A fiber may start op inside
 * its own multishot loop. Without the cancellation, op would wait until the loop ends.
 */
void weft__uring_multishot_cancel_for(weft__uring *b, weft__uring_fd *f, const weft__op *op);

/* complete.c: handle the completion of an operation. */
void weft__uring_completed(weft__uring *b, weft__op *op, int result, unsigned flags);

/* Initialise the fields of an operation that the backend owns. */
static inline void weft__uring_op_reset(weft__op *op)
{
    op->progress = 0;
    op->key = 0;
    op->moved = 0;
    op->job = NULL;
    weft__list_init(&op->link);
    weft__list_init(&op->secondary_link);
}

/* op_fast.c: submit an operation on the fast path. Return false if it needs the slow path. */
bool weft__uring_submit_fast(weft__uring *b, weft__op *op);

/* hosted.c: submit an operation of a hosted backend. */
intptr_t weft__uring_submit_hosted(weft__uring *b, weft__op *op);

/*
 * hosted.c: remove the entry of an operation from the submission queue. Returns false if the kernel
 * may already have the entry.
 */
bool weft__uring_revoke(weft__uring *b, weft__op *op);

/* hosted.c: cancel an operation of ready.c on a hosted backend. */
bool weft__uring_cancel_ready(weft__uring *b, weft__op *op);

/* close.c: as in weft__backend_type. */
int weft__uring_close_fd(weft__backend *base, int fd);
int weft__uring_release_fd(weft__backend *base, int fd);
int weft__uring_fd_forget(weft__uring *b, int fd);

/*
 * Make entries fail with -EBADF if any thread has closed their descriptor since the entries were
 * filled in. The kernel resolves a descriptor number only at submission. The number may then belong
 * to another file.
 */
void weft__uring_fail_stale_sqes(weft__uring *b);

/*
 * Like weft__uring_fail_stale_sqes, but return at once if no generation has advanced since the last
 * check.
 */
static inline void weft__uring_check_sqes(weft__uring *b)
{
    if (UNLIKELY(b->fd_advances != atomic_load_explicit(&weft__fd_advances, memory_order_relaxed)))
        weft__uring_fail_stale_sqes(b);
}

/* poll_add.c: arm and disarm for weft__ready. */
int weft__uring_poll_add(weft__backend *base, int fd, weft__descriptor *d);
void weft__uring_poll_remove(weft__backend *base, int fd, weft__descriptor *d);
/* Free all weft__uring_poll of the backend. */
void weft__uring_polls_free(weft__uring *b);

/* multishot.c: as in weft__backend_type. */
int weft__uring_multishot_open(weft__backend *base, weft__multishot *m);
intptr_t weft__uring_multishot_next(weft__backend *base, weft__multishot *m, const void **data);
bool weft__uring_multishot_close(weft__backend *base, weft__multishot *m);

/* Fill in the entry of a multishot operation. */
void weft__uring_prep_multishot(struct io_uring_sqe *sqe, const weft__op *op);
/* Handle a completion of a multishot operation. */
void weft__uring_multishot_completed(weft__uring *b, weft__multishot *m, const weft__completion *c);

/*
 * Take the leftover of the descriptor before the operation starts. If the caller waits for a
 * result, call done.
 */
void weft__uring_multishot_resume(weft__multishot *m, weft__uring_fd *f);

/* End an operation that was not submitted yet, because its descriptor was closed. */
void weft__uring_multishot_fd_closed(weft__multishot *m);

/* End the operation with an error, because the ring is closed. */
void weft__uring_multishot_fail(weft__multishot *m, int error);

/*
 * leftover.c: return the result of an operation from the leftover of its descriptor. Returns
 * WEFT__OP_PENDING if the leftover cannot complete the operation. f must have a leftover.
 */
intptr_t weft__uring_take_leftover(weft__uring *b, weft__uring_fd *f, weft__op *op);

/* Discard the leftover of a descriptor. */
void weft__uring_drop_leftover(weft__uring *b, weft__uring_fd *f);

/* repair.c: as in weft__backend_type. */
int weft__uring_check(weft__backend *base);
int weft__uring_repair(weft__backend *base);
void weft__uring_give_up(weft__backend *base, int error);

/*
 * Set the ring's descriptor number to -1, because the program has closed the number. The number may
 * belong to another file. If the ring is not registered with the thread, the call does nothing,
 * because the ring then needs the number.
 */
void weft__uring_forget_ring_fd(weft__uring *b);

/* Cancel the read from the eventfd. */
void weft__uring_cancel_wake(weft__uring *b);

#endif
