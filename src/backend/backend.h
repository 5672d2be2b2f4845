/*
 * The backend interface: the functions that a cord calls for every blocking operation. A cord is a
 * thread that runs fibers. Code above the interface does not depend on the backend in use. A
 * backend does not depend on fibers. The cord submits operations, and the backend reports their
 * results.
 *
 * A backend belongs to one thread. Other threads may call only wake.
 */
#ifndef WEFT_BACKEND_BACKEND_H
#define WEFT_BACKEND_BACKEND_H

#include "backend/workers/job.h"
#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * All operations. The second column is the text that a dump prints for a fiber in this wait. The
 * preprocessor generates weft__opcode, and the wait kinds in core/op/op.c, from this list.
 */
#define WEFT__OPCODES(X)    \
    X(READ, "read")         \
    X(WRITE, "write")       \
    X(READV, "readv")       \
    X(WRITEV, "writev")     \
    X(RECV, "recv")         \
    X(SEND, "send")         \
    X(RECVMSG, "recvmsg")   \
    X(SENDMSG, "sendmsg")   \
    X(ACCEPT, "accept")     \
    X(CONNECT, "connect")   \
    X(WAIT, "a descriptor") \
    X(SPLICE, "splice")     \
    X(TEE, "tee")           \
    X(SENDFILE, "sendfile") \
    X(OPEN, "open")         \
    X(FSYNC, "fsync")       \
    X(CALL, "a call on another thread")

typedef enum weft__opcode {
#define WEFT__OPCODE(name, wait) WEFT__OP_##name,
    WEFT__OPCODES(WEFT__OPCODE) WEFT__OP_COUNT,
#undef WEFT__OPCODE
} weft__opcode;

/* The offset that means the current position of the file. */
#define WEFT__OFFSET_CURRENT (-1)

/*
 * A flag for the events of WAIT, in addition to the flags of poll(2). With this flag, WAIT returns
 * -EAGAIN instead of waiting.
 */
#define WEFT__EVENTS_NOWAIT (1 << 16)

/*
 * One operation, usually on the stack of the waiting fiber. The caller sets the fields up to
 * is_internal. The backend owns the other fields.
 *
 * A socket operation with MSG_DONTWAIT in its flags never waits. A receive with MSG_ERRQUEUE or
 * MSG_OOB also never waits. These operations return -EAGAIN instead. The flags must not contain
 * MSG_WAITALL. The caller implements MSG_WAITALL.
 *
 * SENDFILE requires offset_in, and sends only data that is in the page cache. In the following
 * cases, the result is -EINVAL, -ENOSYS or -EOPNOTSUPP, and the caller copies the data by reads and
 * writes:
 *   - The data is not in the page cache.
 *   - sendfile(2) does not support the files.
 *   - The backend does not support SENDFILE.
 */
typedef struct weft__op {
    weft__opcode code;
    int fd; /* OPEN: a directory or AT_FDCWD. CALL: the descriptor that fn uses; -1: none */
    union {
        struct {
            void *data;
            size_t bytes;
            int64_t offset;
        } buffer; /* READ, WRITE */
        struct {
            const struct iovec *pieces;
            int count;
            int64_t offset;
        } vector; /* READV, WRITEV */
        struct {
            void *data;
            size_t bytes;
            int flags;
        } packet; /* RECV, SEND */
        struct {
            struct msghdr *header;
            int flags;
        } message; /* RECVMSG, SENDMSG */
        struct {
            struct sockaddr *address; /* may be NULL, like bytes */
            socklen_t *bytes;
            bool keeps_flags; /* do not leave O_NONBLOCK set */
        } accept;             /* ACCEPT */
        struct {
            const struct sockaddr *address;
            socklen_t bytes;
        } connect;  /* CONNECT */
        int events; /* WAIT: POLLIN, POLLOUT, WEFT__EVENTS_NOWAIT; if hosted: also POLLPRI */
        struct {
            int64_t *offset_in; /* may be NULL, as in splice(2) */
            int64_t *offset_out;
            size_t bytes;
            int fd_out;
            unsigned flags;
        } copy; /* SPLICE, TEE, SENDFILE: from fd to fd_out */
        struct {
            const char *path;
            int flags;
            mode_t mode;
        } open;            /* OPEN */
        bool is_data_only; /* FSYNC */
        struct {
            intptr_t (*fn)(void *arg);
            void *arg;
            /*
             * Release arg after a cancellation. If fn has not started, cancel calls drop. If fn is
             * running, the operation ends at once. The worker thread calls drop after fn has
             * returned. cancel sets arg to NULL, because drop then owns the memory. If drop is
             * NULL, a running fn cannot be cancelled. The operation then ends when fn returns.
             */
            void (*drop)(void *arg);
            weft__worker_queue worker_queue; /* the queue that runs fn */
        } call;                              /* CALL */
    } u;
    /*
     * Report the result. The backend calls done once, from poll or from another function except
     * wake. submit and cancel do not call done for their own operation. The backend does not use op
     * afterwards.
     */
    void (*done)(struct weft__op *op, intptr_t result);
    void *owner; /* for done; set by the caller */

    /*
     * The backend itself submitted the operation, and pending does not count it. The caller sets
     * false.
     */
    bool is_internal;
    int progress;    /* the state of the operation; the meaning depends on code and backend */
    weft__list link; /* in the queue in which the operation waits */
    weft__list secondary_link; /* in a second list of the backend, for example a backlog */
    uint64_t key;              /* io_uring: the user_data of its entry; 0: not on the ring */
    size_t moved;   /* io_uring: bytes that earlier submissions of the operation have transferred */
    void *fd_state; /* io_uring: the weft__uring_fd of fd; NULL: none */
    struct weft__job *job; /* the job on a worker thread; NULL: none */
    int wait_fd;           /* the descriptor to wait for next; set by syscall/call.c */
    int wait_events;       /* the events to wait for next */
    /* io_uring: the neighbours in a chain, while the operation is in flight; NULL: none */
    struct weft__op *before, *after;
} weft__op;

/*
 * Set up a read or write at the current position. The function does not set the fields of the
 * backend, because there are many. A backend initialises the fields that it uses.
 */
static inline void weft__op_set(weft__op *op, weft__opcode code, int fd, const void *data,
                                size_t bytes)
{
    op->code = code;
    op->fd = fd;
    op->u.buffer.data = (void *)data;
    op->u.buffer.bytes = bytes;
    op->u.buffer.offset = WEFT__OFFSET_CURRENT;
    op->is_internal = false;
}

/*
 * A multishot operation: one submission that yields many connections (ACCEPT) or many received
 * buffers (RECV). The caller sets code, fd, done and owner of op before multishot_open.
 */
typedef struct weft__multishot {
    weft__op op;
    /* multishot_next has returned WEFT__OP_PENDING, so the backend must call done once. */
    bool is_waited_for;
    /* The backend that opened the operation. The caller sets this field after multishot_open. */
    struct weft__backend *backend;
    /* Fields that only the backend uses: */
    bool is_armed;     /* submitted, and the kernel has not ended it */
    bool is_cancelled; /* the backend has cancelled the submission */
    bool is_closing;
    bool is_fd_closed; /* the descriptor was closed during the operation */
    bool has_end_result;
    uint32_t fd_generation;    /* of the descriptor, at multishot_open */
    int end_result;            /* the last result, returned after the queued results */
    int held;                  /* the index of the buffer that the caller reads; -1: none */
    unsigned count;            /* queued results; too low if some are from an earlier operation */
    int first, last;           /* a list of queued buffers (RECV) */
    size_t skip;               /* bytes of the first buffer that were consumed earlier */
    struct weft__conns *conns; /* queued connections (ACCEPT); NULL: none */
} weft__multishot;

/*
 * The return value of submit for an operation that waits. No operation has this result, because the
 * value is not an errno, a descriptor or a size.
 */
#define WEFT__OP_PENDING INTPTR_MIN

/* A timeout of poll: wait without a limit. */
#define WEFT__POLL_FOREVER (-1)
/* A timeout of poll in real time, even if the clock is virtual. ns must be more than 1. */
#define WEFT__POLL_REAL(ns) (-(int64_t)(ns))

typedef struct weft__backend weft__backend;

typedef struct weft__backend_type {
    const char *name;

    /*
     * Whether only fibers of the cord can complete operations. If this is true and no fiber is
     * runnable, only operations that poll has not handled yet can complete.
     */
    bool is_self_contained;

    /* Create a backend, and store it in *out. Returns 0 or -errno. */
    int (*open)(weft__backend **out);

    /* Close and free a backend. No operation may be pending. */
    void (*close)(weft__backend *b);

    /*
     * Close the descriptors of a backend that a child of fork(2) has inherited. The kernel objects
     * still belong to the parent. Therefore abandon sends no requests to the kernel, and does not
     * free the backend. is_own means that the backend belongs to the thread that called fork. The
     * state of another thread's backend may be inconsistent.
     */
    void (*abandon)(weft__backend *b, bool is_own);

    /*
     * Copy the virtual time and the random state of the abandoned backend `before` to its
     * replacement b. NULL: the clock is real.
     */
    void (*inherit_clock)(weft__backend *b, const weft__backend *before);

    /* Return the monotonic time in nanoseconds. */
    int64_t (*now_ns)(weft__backend *b);

    /*
     * Start an operation. Returns WEFT__OP_PENDING if the operation waits. Otherwise returns the
     * result, and does not call done. A pending op must not move until the backend has called done
     * or cancel has returned true.
     */
    intptr_t (*submit)(weft__backend *b, weft__op *op);

    /*
     * Cancel a pending operation. Returns true if the operation has ended. The backend then does
     * not call done. Returns false if the kernel or a worker thread still uses the buffer. The
     * backend then calls done later. The result is -ECANCELED, or the result of the operation if
     * the operation has completed.
     */
    bool (*cancel)(weft__backend *b, weft__op *op);

    /*
     * Call done for completed operations. If no operation has completed, wait for a completion or
     * for wake. timeout_ns limits the wait. The value is 0 (do not wait), a time in nanoseconds,
     * WEFT__POLL_FOREVER, or WEFT__POLL_REAL if only another thread can wake the cord. A signal may
     * end the wait early. Returns 0, or -errno if the kernel object has failed.
     */
    int (*poll)(weft__backend *b, int64_t timeout_ns);

    /*
     * Make poll return. If poll does not wait, the next poll returns at once. Any thread may call
     * wake.
     */
    void (*wake)(weft__backend *b);

    /*
     * Check that the descriptors of the backend still belong to the backend. The program may have
     * closed them and opened other files with the same numbers. The check costs a few system calls.
     * Returns 0, or -EBADF if a descriptor was lost. NULL: the backend has no check.
     */
    int (*check)(weft__backend *b);

    /*
     * Open new descriptors after poll or check has failed. repair does not close numbers that may
     * belong to other files. Pending operations continue. Operations on descriptors that the
     * program has closed end with -EBADF. Returns 0, or -errno if the caller must call give_up.
     * NULL: the backend has no repair.
     */
    int (*repair)(weft__backend *b);

    /*
     * End all operations with an error, except those on worker threads. Bytes that multishot_next
     * has returned remain valid. After give_up, only multishot_close and close may be called.
     */
    void (*give_up)(weft__backend *b, int error);

    /*
     * Wake the backend `to`, which must have the same type as b. Only the thread of b may call
     * wake_remote. Returns false if the caller must call wake instead. If the wake is lost later, b
     * calls wake_lost(tag). NULL: the caller must use wake.
     */
    bool (*wake_remote)(weft__backend *b, weft__backend *to, uint32_t tag);

    /*
     * Close a descriptor, and end its pending operations with -EBADF. If a worker thread uses the
     * descriptor, the backend closes it after the thread has finished. Returns 0 or -errno.
     */
    int (*close_fd)(weft__backend *b, int fd);

    /*
     * Multishot operations. NULL: not supported.
     *
     * multishot_open returns 0, or -EOPNOTSUPP if the descriptor needs one operation per result.
     *
     * multishot_next returns the next connection, or the number of bytes at *data. The bytes are
     * valid until the next call for m. For RECV, 0 is the end of the input. A negative value is an
     * error. The error is -ENOBUFS if multishot operations hold all buffers. Returns
     * WEFT__OP_PENDING if no result is available. The backend then calls done when a result is
     * available.
     *
     * multishot_close returns true if the operation has ended. Otherwise the backend calls done
     * when the operation has ended. The next operations on fd receive the results that the caller
     * did not take.
     */
    int (*multishot_open)(weft__backend *b, weft__multishot *m);
    intptr_t (*multishot_next)(weft__backend *b, weft__multishot *m, const void **data);
    bool (*multishot_close)(weft__backend *b, weft__multishot *m);

    /*
     * Start a chain of operations. Each operation starts after the previous operation has
     * succeeded. The backend calls done for every operation. The result is -ECANCELED for
     * operations that did not start. Returns 0, or -errno if no operation was started. On failure,
     * the caller submits the operations one by one. NULL: not supported.
     */
    int (*submit_linked)(weft__backend *b, weft__op *const *ops, size_t count);

    /*
     * Discard the cached state of a descriptor number that now belongs to another file
     * (fd_generation.h). End the operations that wait on the earlier file with -EBADF. NULL: the
     * backend caches no state.
     *
     * Returns 0, or:
     * -EBUSY if a worker thread still uses the descriptor
     */
    int (*forget_fd)(weft__backend *b, int fd);

    /*
     * Prepare a descriptor for use by another thread. Discard its cached state and its registration
     * with the kernel. NULL: no preparation is necessary.
     *
     * Returns 0, or:
     * -EBADF if fd is not open
     * -EBUSY if an operation is pending on fd
     * -EBUSY if a multishot operation has left results on fd
     * -EOPNOTSUPP if fd is a descriptor of the sim backend
     */
    int (*release_fd)(weft__backend *b, int fd);

    /* Call shutdown(2). Returns 0 or -errno. */
    int (*shutdown_fd)(weft__backend *b, int fd, int how);

    /*
     * Create a pipe, or a pair of connected stream sockets, with close-on-exec. Returns 0 or
     * -errno.
     */
    int (*pipe)(weft__backend *b, int fd[2]);
    int (*socketpair)(weft__backend *b, int fd[2]);

    /*
     * Advance a virtual clock. Without tick, a fiber that never waits would stop the clock.
     * switches is the number of fiber switches since the last call, or 0 if a fiber reads the
     * clock. NULL: the clock is real.
     */
    void (*tick)(weft__backend *b, unsigned switches);

    /*
     * Get a random number that selects the next runnable fiber. Returns false if the order must not
     * change. NULL: the order never changes.
     */
    bool (*choose)(weft__backend *b, uint64_t *random);
} weft__backend_type;

/* The first member of the struct of every backend. */
struct weft__backend {
    const weft__backend_type *type;
    size_t pending;                        /* operations that wait, except internal operations */
    weft__finished_jobs *finished_jobs;    /* finished jobs of worker threads; NULL: no jobs */
    weft__finished_jobs finished_jobs_own; /* the initial target of finished_jobs */
    pid_t thread;                          /* the id of the thread that the backend belongs to */
    /*
     * A selector uses the backend. Its host closes descriptors without notice. Therefore state that
     * is cached about a number is valid only while an operation is pending on the number. A WAIT
     * ends when poll reports an event, without a further check. done does not call the backend. The
     * selector sets this field after open.
     */
    bool is_hosted;
    /*
     * A wake has failed, so the thread must check its descriptors. Any thread may set this field.
     */
    atomic_bool must_check;
    void (*wake_lost)(uint32_t tag); /* for wake_remote; set by the cord */
    weft__backend *parent_backend; /* in a child of weft_fork: the parent's backend, never freed */
    weft__backend *retired;        /* the previous backend of the cord, after give_up; NULL: none */
};

/* Return whether the clock of a backend is virtual. */
static inline bool weft__backend_is_virtual(const weft__backend *b)
{
    return b->type->inherit_clock != NULL;
}

/*
 * The backend of a thread that could not open another backend, for example because no descriptors
 * are free. This backend has a clock, and can sleep. Every operation fails with `error`. The caller
 * owns the memory.
 */
typedef struct weft__backend_none {
    weft__backend base;
    int error;
} weft__backend_none;

/* Initialise b. error is the negative errno with which opening another backend failed. */
void weft__backend_none_open(weft__backend_none *b, int error);

/*
 * Make the backend's thread check its descriptors, because wake has failed. Interrupt a waiting
 * poll by a signal. Any thread may call this function.
 */
void weft__backend_interrupt(weft__backend *b);

/* The backends that are built in. */
extern const weft__backend_type weft__backend_uring;
extern const weft__backend_type weft__backend_epoll;
extern const weft__backend_type weft__backend_ev, weft__backend_ev_epoll, weft__backend_ev_poll,
    weft__backend_ev_select;
extern const weft__backend_type weft__backend_sim;

/*
 * Open the backend called name. If name is NULL, use the value of the environment variable
 * WEFT_BACKEND. Open the best backend that works in these cases:
 *   - The name is missing, empty or unknown.
 *   - The backend is not sim, and cannot be opened. Warn once per process, unless is_inherited.
 * is_inherited is true if name is the backend of the parent process. The program need not have
 * named that backend. Set *why to the reason for the choice. The text is valid until the thread
 * calls weft__backend_open again. Returns 0, or -errno if no backend can be opened.
 */
int weft__backend_open(weft__backend **out, const char *name, bool is_inherited, const char **why);

/* Return the name as a static string, or NULL if no backend of that name is built in. */
const char *weft__backend_known(const char *name);

#endif
