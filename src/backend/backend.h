/*
 * The contract between a cord and the kernel: one table of functions, behind which everything that
 * can block happens. Nothing above it asks which backend it has, and a backend knows nothing of
 * fibers: it is handed operations, and says when they are done.
 *
 * A backend belongs to one thread; only wake may be called from others.
 */
#ifndef WEFT_BACKEND_BACKEND_H
#define WEFT_BACKEND_BACKEND_H

#include "backend/pool.h"
#include "base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Every operation, and what a dump calls the wait for it. weft__opcode and the waits of core/op.c
 * are both made from this list.
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

/* An offset that stands for the file's own position. */
#define WEFT__OFFSET_CURRENT (-1)

/* Among the events of WAIT, beside those of poll(2): it only looks. -EAGAIN: nothing is there. */
#define WEFT__LOOK_ONLY (1 << 16)

/*
 * One outstanding operation: on the stack of the fiber that waits for it, until it is done. The
 * first part is the caller's to fill in, the second the backend's.
 *
 * A socket operation with MSG_DONTWAIT or MSG_ERRQUEUE among its flags never waits: -EAGAIN is its
 * result. MSG_WAITALL is the caller's matter, and not among them.
 *
 * SENDFILE wants offset_in, and sends what is in memory at once. -EOPNOTSUPP, -EINVAL or -ENOSYS:
 * it is not, or these two files or this backend cannot do it; then the caller is to copy.
 */
typedef struct weft__op {
    weft__opcode code;
    int fd; /* for CALL what its fn works on, -1: nothing; the folder (AT_FDCWD) for OPEN */
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
            struct sockaddr *address;
            socklen_t *bytes;
        } accept; /* ACCEPT; may be NULL */
        struct {
            const struct sockaddr *address;
            socklen_t bytes;
        } connect;  /* CONNECT */
        int events; /* WAIT: POLLIN, POLLOUT, WEFT__LOOK_ONLY */
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
             * Given up while fn runs: NULL, the operation ends when fn returns, as if it had not
             * been; else it ends at once, and drop(arg) is called on that thread after fn. Given up
             * before fn was begun, drop(arg) is called at once. Once arg is drop's, it is NULL
             * here: so its owner can tell, whatever the result.
             */
            void (*drop)(void *arg);
            weft__lane lane; /* in which fn waits for its turn */
        } call;              /* CALL */
    } u;
    /*
     * Called from inside poll or close_fd when the operation is done, with what its call is to
     * return. The backend has let go of op.
     */
    void (*done)(struct weft__op *op, intptr_t result);
    void *owner; /* the caller's own, for done */

    bool is_own;     /* the backend's own altogether: not counted as pending; the caller's is not */
    int progress;    /* backend's own: how far an operation of several steps has come */
    weft__list link; /* where it waits in the backend */
    weft__list turn; /* backend's own: a second place to wait in */
    uint64_t key;    /* backend's own: what the kernel knows it by */
    size_t moved;    /* backend's own: bytes that earlier steps of it have moved */
    void *place;     /* backend's own: what it knows of fd */
    struct weft__job *job; /* in the pool; NULL: not there */
    int wait_fd;           /* what it waits for next: set by weft__call_try (call.h) */
    int wait_events;
    struct weft__op *before, *after; /* backend's own: its neighbours in a chain, while under way */
} weft__op;

/*
 * What to fetch of an operation and of its owner before it is done, in cache lines: on the stack
 * the frames of those who wait for it are behind it; of the owner it is all of a record.
 */
#define WEFT__OP_LINES 4
#define WEFT__OWNER_LINES 4

/*
 * A read or write at the file's own position, in memory that may hold anything: what is the
 * backend's stays so, as there is a lot of it and hardly any of it is used.
 */
static inline void weft__op_set(weft__op *op, weft__opcode code, int fd, const void *data,
                                size_t bytes)
{
    op->code = code;
    op->fd = fd;
    op->u.buffer.data = (void *)data;
    op->u.buffer.bytes = bytes;
    op->u.buffer.offset = WEFT__OFFSET_CURRENT;
    op->is_own = false;
}

/*
 * An operation with many results, for loops: connections (ACCEPT) or what is received (RECV), one
 * after the other, without being asked for each. The caller fills in op's code, fd, done and owner.
 */
typedef struct weft__many {
    weft__op op;
    bool is_waited_for; /* next has said that there is nothing: done is to be called, once */
    struct weft__backend *backend; /* that it was opened on; the caller's own */
    /* The backend's own. */
    bool is_armed;     /* the kernel has it */
    bool is_cancelled; /* the kernel has been told to stop */
    bool is_closing;
    bool is_shut; /* the descriptor was closed under it */
    bool has_last;
    uint32_t fd_generation;    /* of its descriptor, when it was opened */
    int last;                  /* how it ended, once what came before has been taken */
    int held;                  /* the buffer whose data the caller has; -1: none */
    unsigned count;            /* results that wait to be taken */
    int first, final;          /* buffers (RECV), in a list */
    size_t skip;               /* bytes of the first that were read before */
    struct weft__conns *conns; /* connections (ACCEPT); NULL: none */
} weft__many;

/*
 * What submit says when the operation waits; no operation ends with this value (it is no errno and
 * no size).
 */
#define WEFT__OP_PENDING INTPTR_MIN

/* For poll, in place of a time. */
#define WEFT__POLL_FOR_EVER (-1)
/* For another thread, so many nanoseconds (more than 1) of real time, whatever the clock. */
#define WEFT__POLL_REAL(ns) (-(int64_t)(ns))

typedef struct weft__backend weft__backend;

typedef struct weft__backend_type {
    const char *name;

    /* Nothing but fibers of the same cord can complete an operation: with none of them runnable, no
     * operation ever will be, but for those that poll has not handled yet. */
    bool is_closed;

    /* A new backend in *out. 0 or -errno. */
    int (*open)(weft__backend **out);

    /* Free it. No operation is pending. */
    void (*close)(weft__backend *b);

    /*
     * In a child of fork(2), where all this is a copy: close its descriptors, and nothing else. The
     * kernel hears nothing of what was done with them, which the parent goes on with, and the
     * memory stays as it is. is_own: of the thread that is left; another's may have been anywhere.
     */
    void (*abandon)(weft__backend *b, bool is_own);

    /*
     * It takes the place of one that was abandoned: a virtual clock goes on where that stood. NULL:
     * the clock is the world's.
     */
    void (*follow)(weft__backend *b, const weft__backend *before);

    /* The clock: monotonic nanoseconds. */
    int64_t (*now_ns)(weft__backend *b);

    /*
     * Start an operation. Returns its result if that is there at once (done is not called then),
     * else WEFT__OP_PENDING: op must stay where it is until done has been called or cancel has said
     * true.
     */
    intptr_t (*submit)(weft__backend *b, weft__op *op);

    /*
     * Give up a pending operation. True: it is out, the kernel has let go of its buffer, done will
     * not be called. False: it is on its way out, done will be called, with -ECANCELED if nothing
     * had happened and with the result if something had.
     */
    bool (*cancel)(weft__backend *b, weft__op *op);

    /*
     * Handle what is complete, calling done for each. 0 does not wait; else waits until there is
     * something or wake is called, at most timeout_ns, or for ever (WEFT__POLL_FOR_EVER), or, when
     * nobody but another thread can help any more, for a real time (WEFT__POLL_REAL). Interrupted
     * by a signal it returns early. 0, or -errno when the kernel refuses altogether.
     */
    int (*poll)(weft__backend *b, int64_t timeout_ns);

    /* From any thread: make a poll that waits, or the next one, return. */
    void (*wake)(weft__backend *b);

    /*
     * Are its descriptors still its own? The program may have closed them, and opened others with
     * their numbers. 0 or -EBADF. A few system calls. NULL: it has none.
     */
    int (*check)(weft__backend *b);

    /*
     * Poll or check has failed: make the descriptors anew. Numbers that may be another file's by
     * now are left alone. Operations go on, except on descriptors that are closed: -EBADF. 0, or
     * -errno: it cannot, and is to be given up. NULL: it never fails.
     */
    int (*repair)(weft__backend *b);

    /*
     * End all operations with this error, except those that the pool has; from now on only close is
     * called. What loops have received stays readable.
     */
    void (*give_up)(weft__backend *b, int error);

    /*
     * The same to another backend of the same type, by the thread that b belongs to; NULL where the
     * kernel has nothing better than wake. False: wake is to be called. If it gets lost, lost(tag)
     * is called later.
     */
    bool (*message)(weft__backend *b, weft__backend *to, uint32_t tag);

    /* Close a descriptor, after ending what is pending on it with -EBADF. 0 or -errno. */
    int (*close_fd)(weft__backend *b, int fd);

    /*
     * The operations with many results; NULL where the kernel has none.
     *
     * open: 0, or -errno: -EOPNOTSUPP if this descriptor has to be asked each time.
     * next: the next result, a connection or a number of bytes (*data is theirs until the next
     * call); 0 or less is the end, but for WEFT__OP_PENDING: done will be called when it is worth
     * asking again. -ENOBUFS: nothing can be received this way just now.
     * close: true, it is over; false, done will be called when it is. What has come and was not
     * taken is kept for the next operation on fd.
     */
    int (*many_open)(weft__backend *b, weft__many *m);
    intptr_t (*many_next)(weft__backend *b, weft__many *m, const void **data);
    bool (*many_close)(weft__backend *b, weft__many *m);

    /*
     * Start several operations, each after the one before it has succeeded; done is called for each
     * of them, with -ECANCELED for those that were not begun. NULL where the kernel cannot. 0, or
     * -errno: nothing was started, and they are to be submitted one by one.
     */
    int (*submit_linked)(weft__backend *b, weft__op *const *ops, size_t count);

    /*
     * The number belongs to another file, as its generation tells (fd_generation.h): forget what is
     * known of it, and end what still waits on it with -EBADF. NULL: nothing is ever known.
     */
    void (*forget_fd)(weft__backend *b, int fd);

    /*
     * Another thread uses the number from now on: forget what is known of it, and have the kernel
     * report nothing more about it here. 0; -EBUSY: an operation is pending on it, or a loop on it
     * has left something; -EBADF. NULL: 0 for any descriptor.
     */
    int (*release_fd)(weft__backend *b, int fd);

    /* shutdown(2). 0 or -errno. */
    int (*shutdown_fd)(weft__backend *b, int fd, int how);

    /* A pipe, two connected stream sockets; close-on-exec. 0 or -errno. */
    int (*pipe)(weft__backend *b, int fd[2]);
    int (*socketpair)(weft__backend *b, int fd[2]);

    /*
     * The cord has run fibers for so many switches without waiting, and looks at the clock; 0: a
     * fiber does. A virtual clock moves on here, or a fiber that never waits would stop time. NULL:
     * nothing to do.
     */
    void (*tick)(weft__backend *b, unsigned switches);

    /*
     * A number to choose the next runnable fiber by, for backends that shuffle; NULL, or false:
     * keep the order.
     */
    bool (*choose)(weft__backend *b, uint64_t *random);
} weft__backend_type;

/* The head of every backend's own struct. */
struct weft__backend {
    const weft__backend_type *type;
    size_t pending;             /* operations that are waiting */
    weft__finished *pooled;     /* what the pool has done for it; NULL: it has no pool */
    weft__finished pooled_room; /* what pooled points to, unless it was taken over */
    pid_t thread;               /* that it belongs to */
    atomic_bool must_check;     /* any thread: it could not be woken; its thread is to check it */
    void (*lost)(uint32_t tag); /* see message; the cord's to set */
    weft__backend *left_behind; /* the parent's, in a child by weft_fork; never freed */
    weft__backend *retired;     /* of the cord's: one that was given up before this one was */
};

/*
 * The backend of a thread for which no other could be opened (no descriptors left, say): it has a
 * clock and can sleep, and every operation fails with the error that the other one failed with. It
 * is the caller's memory.
 */
typedef struct weft__backend_none {
    weft__backend base;
    int error;
} weft__backend_none;

void weft__backend_none_open(weft__backend_none *b, int error);

/*
 * For wake: the descriptor is gone. Have the backend's thread check it, which is interrupted by a
 * signal if it waits.
 */
void weft__backend_interrupt(weft__backend *b);

extern const weft__backend_type weft__backend_uring; /* those that are built in */
extern const weft__backend_type weft__backend_epoll;
extern const weft__backend_type weft__backend_ev, weft__backend_ev_epoll, weft__backend_ev_poll,
    weft__backend_ev_select;
extern const weft__backend_type weft__backend_sim;

/*
 * Open the backend that name (NULL: WEFT_BACKEND) names, else the best that works here. One that
 * does not work, or a name that is unknown, falls back to the next best. *why gets a sentence on
 * the choice, which stays. 0, or -errno if none could be opened.
 */
int weft__backend_open(weft__backend **out, const char *name, const char **why);

/* The name, in memory that stays, if a backend of that name is built in; else NULL. */
const char *weft__backend_known(const char *name);

#endif
