/*
 * Selectors: the backends of weft for other runtimes.
 *
 * A runtime with its own fibers, coroutines or callbacks (Ruby, Python, Lua, a game loop) is a
 * host. A host waits for I/O, time, processes and worker threads through a selector. The selector
 * creates no fiber, and calls no function of the host in the host's thread. The host starts an
 * operation and suspends its own fiber. Later the host polls, takes the completed operations, and
 * resumes the fibers that own them:
 *
 *     weft_selector_op op = {.owner = fiber};
 *     weft_value n = weft_selector_recv(s, &op, fd, data, bytes, 0);
 *     if (n == WEFT_SELECTOR_PENDING)
 *         n = suspend(fiber);                     // the loop passes op.result
 *
 *     weft_selector_poll(s, INFINITY);            // in the loop of the host
 *     for (weft_selector_op *op; (op = weft_selector_next(s)) != NULL;)
 *         resume(op->owner, op->result);
 *
 * This header is not part of <weft.h>. Programs that use the fibers of weft do not need selectors.
 *
 * Threads: a selector belongs to the thread that first uses it. weft_selector_open is not a use, so
 * one thread may open a selector for another thread. In other threads, only weft_selector_wake and
 * weft_selector_close may be called. All other functions fail with -EXDEV there. A process may have
 * any number of selectors, usually one per thread. The thread does not become a cord (cord.h). The
 * thread may also be a cord, but then weft_selector_poll blocks the fibers of that cord.
 *
 * Descriptors: the host opens and closes its descriptors as it likes. No operation depends on
 * O_NONBLOCK. weft does not change the flags of a descriptor, except during a call of accept(2) or
 * connect(2), or a write to a terminal. The host may close a descriptor with close(2) while no
 * operation is pending on it. The number may then name another file at once. Every operation
 * applies to the file that has the number when the operation is started. Before the host closes a
 * descriptor with pending operations, it must cancel them, or use weft_selector_close_fd.
 *
 * Operations on one descriptor: reads (read, recv, accept) at the current position complete in the
 * order in which they were started. So do writes. Any number of operations may wait for the
 * readiness of one descriptor, with different events. All of them complete.
 *
 * No operation raises SIGPIPE. A signal handler may interrupt weft_selector_poll.
 *
 * Fork: in a child of fork(2), a selector of the parent can only be closed. All other functions
 * fail with -ENOTRECOVERABLE there, and weft_selector_wake has no effect. The child may open
 * selectors of its own.
 *
 * If the host closes descriptors of the selector by mistake, for example with closefrom(3), the
 * selector opens new ones, and pending operations continue. If the kernel refuses further calls,
 * for example because of a seccomp filter, pending operations end with -EIO. The selector then uses
 * another backend.
 *
 * Every function that returns an int or a weft_value can fail with:
 * -ENOTRECOVERABLE if the process is a child of the process that opened the selector
 * -EXDEV if another thread uses the selector
 * the error with which a backend cannot be opened, for example -EMFILE
 */
#ifndef WEFT_SELECTOR_H
#define WEFT_SELECTOR_H

#include <weft/base.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

WEFT_BEGIN

typedef struct weft_selector weft_selector;

/* The result of a function that has started an operation. Not an error, a size or a descriptor. */
#define WEFT_SELECTOR_PENDING INTPTR_MIN

/* An offset: the current position of the file, or a file without positions. */
#define WEFT_SELECTOR_CURRENT (-1)

/*
 * An operation, in memory of the host. Set an operation to all-zero, except owner, before its first
 * use. While the operation is pending, the host must not move, free or reuse it. The same applies
 * to the buffers and addresses of the operation. After the operation has ended, the host may use it
 * again.
 *
 * An operation is pending from the call that starts it, until weft_selector_next returns it or a
 * cancellation ends it.
 */
typedef struct weft_selector_op {
    void *owner;       /* for the host: weft does not use it */
    weft_value result; /* set before weft_selector_next returns the operation */
    uint64_t weft__private[3];
} weft_selector_op;

/* Options of a selector. All-zero is the default. */
typedef struct weft_selector_options {
    /* io_uring, epoll, libev, libev-epoll, libev-poll or libev-select. NULL: see below. */
    const char *backend;
} weft_selector_options;

/**
 * Open a selector.
 *
 * If options is NULL or options->backend is NULL, the environment variable WEFT_BACKEND names the
 * backend. If the variable is not set, weft uses the best backend that works. If the named backend
 * cannot be opened, weft uses the best other backend, and prints one line on stderr, once per
 * process.
 *
 * The call opens no descriptor. The first function that uses the selector opens the backend, and
 * its thread becomes the thread of the selector. Close the selector with weft_selector_close.
 *
 * Returns 0, or:
 * -EINVAL if options->backend is not the name of a backend
 * -EINVAL if out is NULL
 * -ENOMEM if memory is exhausted
 * -EOPNOTSUPP if the backend is sim, which has no descriptors of the kernel
 */
WEFT_API int weft_selector_open(weft_selector **out,
                                const weft_selector_options *options) WEFT_MUST_CHECK;

/**
 * Close a selector.
 *
 * The call cancels all pending operations. It returns after the kernel has released their buffers,
 * and after functions without drop have returned (see weft_selector_offload). The call does not
 * write to the operations, and weft_selector_next does not return them. The memory of operations
 * without buffers may therefore be invalid already.
 *
 * Any thread may close a selector that no thread uses. No thread may call weft_selector_wake during
 * or after the call. In a child of fork(2), the call closes the descriptors of the child, and frees
 * memory. The selector of the parent is not affected. If selector is NULL, the call does nothing.
 */
WEFT_API void weft_selector_close(weft_selector *selector);

/**
 * Return the name of the backend, for example "io_uring".
 *
 * The call is a use of the selector: it opens the backend if necessary. The text is static. Returns
 * NULL if the backend cannot be opened, in another thread, and in a child of fork(2).
 */
WEFT_API const char *weft_selector_backend(weft_selector *selector);

/**
 * Return the number of pending operations. Operations that have completed count until
 * weft_selector_next returns them.
 */
WEFT_API size_t weft_selector_pending(const weft_selector *selector);

/** Return the time of a monotonic clock in seconds. All time limits refer to this clock. */
WEFT_API double weft_selector_now(void);

/**
 * Read up to bytes bytes from a descriptor.
 *
 * If offset is WEFT_SELECTOR_CURRENT, the call reads at the current position, or from a pipe, a
 * socket or a terminal. Otherwise the call reads at offset, as pread(2). The call first tries to
 * read without waiting. Data that is not in memory is read by the kernel or by a worker thread.
 *
 * Returns or completes with the number of bytes, 0 at the end of the input, an error of read(2), or
 * the errors of all operations:
 * -EBADF if fd is not open
 * -EBADF if weft_selector_close_fd closes fd
 * -EBUSY if op is pending
 * -EIO if the backend has failed
 * -ENOMEM if memory is exhausted
 * -ETIMEDOUT if the time limit has passed (see weft_selector_limit)
 * WEFT_SELECTOR_PENDING is only returned: the operation then completes in a later poll.
 */
WEFT_API weft_value weft_selector_read(weft_selector *selector, weft_selector_op *op, int fd,
                                       void *data, size_t bytes, int64_t offset) WEFT_MUST_CHECK;

/**
 * Write up to bytes bytes to a descriptor. See weft_selector_read for offset.
 *
 * The call writes as many bytes as fit without waiting. If none fit, the operation waits.
 *
 * Returns or completes with the number of bytes, an error of write(2), or an error of
 * weft_selector_read.
 */
WEFT_API weft_value weft_selector_write(weft_selector *selector, weft_selector_op *op, int fd,
                                        const void *data, size_t bytes,
                                        int64_t offset) WEFT_MUST_CHECK;

/**
 * Receive from a socket. See recv(2).
 *
 * With MSG_DONTWAIT, MSG_ERRQUEUE or MSG_OOB in flags, the call never waits.
 *
 * Returns or completes with the number of bytes, 0 at the end of the input, an error of recv(2), an
 * error of weft_selector_read, or:
 * -EINVAL if flags contains MSG_WAITALL
 */
WEFT_API weft_value weft_selector_recv(weft_selector *selector, weft_selector_op *op, int fd,
                                       void *data, size_t bytes, int flags) WEFT_MUST_CHECK;

/**
 * Send to a connected socket. See send(2).
 *
 * The call sends as many bytes as fit without waiting. If none fit, the operation waits. With
 * MSG_DONTWAIT in flags, the call never waits.
 *
 * Returns or completes with the number of bytes, an error of send(2), or an error of
 * weft_selector_read.
 */
WEFT_API weft_value weft_selector_send(weft_selector *selector, weft_selector_op *op, int fd,
                                       const void *data, size_t bytes, int flags) WEFT_MUST_CHECK;

/**
 * Accept a connection. See accept(2).
 *
 * The new descriptor is close-on-exec, and has no other flag. address and address_bytes may be
 * NULL. The host must close the descriptor, also if it has cancelled the operation and
 * op->result shows that the operation had completed.
 *
 * Returns or completes with the descriptor, an error of accept(2), or an error of
 * weft_selector_read.
 */
WEFT_API weft_value weft_selector_accept(weft_selector *selector, weft_selector_op *op, int fd,
                                         struct sockaddr *address,
                                         socklen_t *address_bytes) WEFT_MUST_CHECK;

/**
 * Connect a socket. See connect(2).
 *
 * After a cancelled or timed-out connect, the kernel continues to connect the socket.
 *
 * Returns or completes with 0, an error of connect(2), or an error of weft_selector_read.
 */
WEFT_API weft_value weft_selector_connect(weft_selector *selector, weft_selector_op *op, int fd,
                                          const struct sockaddr *address,
                                          socklen_t address_bytes) WEFT_MUST_CHECK;

/**
 * Wait until a descriptor is ready.
 *
 * events contains POLLIN, POLLOUT or POLLPRI, as in poll(2). The call does not check whether the
 * descriptor is ready already. The next poll does so. Regular files and directories are always
 * ready, and the call returns at once or the next poll completes the operation. Except on epoll,
 * weft checks for POLLPRI every millisecond.
 *
 * An operation may complete although a following call would block. For example, another thread may
 * have taken the input. On io_uring, urgent data may end a wait for POLLIN.
 *
 * Returns or completes with the events that have occurred: events of the argument, POLLERR and
 * POLLHUP. The result is never 0. Errors are those of weft_selector_read, and:
 * -EINVAL if events is 0 or contains other flags
 * -ENOSPC if the limit of epoll(7) is reached (/proc/sys/fs/epoll/max_user_watches)
 * -EPERM if events is POLLPRI, and fd is a regular file or directory
 */
WEFT_API weft_value weft_selector_wait_fd(weft_selector *selector, weft_selector_op *op, int fd,
                                          int events) WEFT_MUST_CHECK;

/**
 * Wait for a time. The operation completes in a poll, even if seconds is 0.
 *
 * Sleeps and time limits end in the order of their times. Equal times end in the order of the
 * calls. A sleep never ends early. INFINITY waits until the operation is cancelled.
 *
 * Returns WEFT_SELECTOR_PENDING and completes with 0, or returns:
 * -EBUSY if op is pending
 * -EINVAL if seconds is negative or NaN
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_value weft_selector_sleep(weft_selector *selector, weft_selector_op *op,
                                        double seconds) WEFT_MUST_CHECK;

/**
 * Wait for a child process. See waitpid(2) for pid, options and *status.
 *
 * pid selects a process (pid > 0), any child (-1), the process group of the caller (0), or the
 * group -pid. options may contain WNOHANG, WUNTRACED and WCONTINUED. With WNOHANG, the call never
 * waits. status may be NULL.
 *
 * The selector uses a pidfd if pid is positive and options is 0. Otherwise, or without pidfds, it
 * polls, and completes at most 20 ms late. It does not use SIGCHLD. weft_selector_next takes the
 * status of the child. Therefore an operation that was cancelled or has timed out takes no status.
 *
 * Returns or completes with the pid, 0 with WNOHANG if no status is available, or:
 * -EBUSY if op is pending
 * -ECHILD if no such child exists, or other code has taken its status
 * -EINVAL if options contains another flag
 * -ENOMEM if memory is exhausted
 * -ETIMEDOUT if the time limit has passed
 */
WEFT_API weft_value weft_selector_wait_process(weft_selector *selector, weft_selector_op *op,
                                               pid_t pid, int options, int *status) WEFT_MUST_CHECK;

/**
 * Call fn(arg) in a worker thread.
 *
 * The result of fn is the result of the operation, and may be any value except
 * WEFT_SELECTOR_PENDING. The process has up to 64 threads for such calls (see
 * weft_offload_set_limit). Further calls wait for a free thread. The threads block all signals.
 *
 * If the operation is cancelled or times out before fn has started, weft does not call fn. If fn is
 * running, drop decides. If drop is not NULL, the operation ends at once, and fn continues without
 * it. If drop is NULL, the operation ends when fn returns, with the result of fn.
 *
 * weft calls drop(arg) once if the host does not get the result of fn: in the worker thread after
 * fn has returned, or in weft_selector_cancel, weft_selector_poll or weft_selector_close. If fn has
 * not been called and drop is NULL, the host still owns arg.
 *
 * Returns WEFT_SELECTOR_PENDING and completes with the result of fn, or returns one of these errors
 * without a call of drop:
 * -EAGAIN if no worker thread exists and none can be created
 * -EBUSY if op is pending
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_value weft_selector_offload(weft_selector *selector, weft_selector_op *op,
                                          weft_fn *fn, void *arg,
                                          void (*drop)(void *arg)) WEFT_MUST_CHECK;

/**
 * Close a descriptor. Pending operations on the descriptor complete with -EBADF.
 *
 * If a worker thread uses the descriptor, the selector closes it after the thread has finished.
 * Returns 0 or an error of close(2).
 */
WEFT_API int weft_selector_close_fd(weft_selector *selector, int fd);

/**
 * Limit the time of a pending operation. The time begins with this call.
 *
 * After the time, the operation completes with -ETIMEDOUT. If the kernel or a worker thread still
 * uses the buffers, the operation completes later: with its result if the operation has had an
 * effect, else with -ETIMEDOUT. A further call replaces the limit. INFINITY removes the limit. For
 * weft_selector_sleep, the limit and the sleep are independent.
 *
 * Returns 0, or:
 * -EINVAL if op is not pending
 * -EINVAL if seconds is negative or NaN
 */
WEFT_API int weft_selector_limit(weft_selector *selector, weft_selector_op *op, double seconds);

/**
 * Cancel a pending operation.
 *
 * If the call returns 0, the operation has ended, and weft_selector_next does not return it.
 * op->result is -ECANCELED, or the result if the operation had already completed. The host must
 * not ignore such a result: a read has taken its bytes, an accept has opened a descriptor.
 *
 * If the call returns -EINPROGRESS, the kernel or a worker thread uses the buffers of the
 * operation. The operation remains pending. weft_selector_next returns it later, with -ECANCELED,
 * or with its result if it had an effect. These operations can return -EINPROGRESS:
 *   - read, write, recv, send, accept and connect on io_uring
 *   - read and write of files
 *   - offload without drop, and offload if 1024 calls that were left are still running
 * Waits and sleeps end at once.
 *
 * Returns 0, or:
 * -EINPROGRESS if the operation ends later
 * -EINVAL if op is not pending
 */
WEFT_API int weft_selector_cancel(weft_selector *selector, weft_selector_op *op);

/**
 * Wait until an operation completes.
 *
 * The call waits at most seconds seconds. 0 does not wait, INFINITY waits without a limit. It also
 * returns when weft_selector_wake is called, and when a signal handler has run in this thread. It
 * does not wait if completed operations have not been taken yet.
 *
 * The call accesses no memory of the host except operations and their buffers. A host with a global
 * lock can therefore release the lock during the call.
 *
 * Returns the maximum number of operations that weft_selector_next can return now, or:
 * -EINVAL if seconds is negative or NaN
 */
WEFT_API int weft_selector_poll(weft_selector *selector, double seconds);

/**
 * Take the next completed operation, in the order of completion. op->result is its result. The
 * operation is not pending any more.
 *
 * The call does not wait. Returns NULL if no operation has completed.
 */
WEFT_API weft_selector_op *weft_selector_next(weft_selector *selector);

/**
 * Make weft_selector_poll return. If no thread polls, the next poll does not wait.
 *
 * Any thread and any signal handler may call this function. Several calls before a poll returns
 * have the effect of one call, and cost one system call. If the selector is not waiting, the call
 * costs no system call. The function does not change errno.
 */
WEFT_API void weft_selector_wake(weft_selector *selector);

WEFT_END

#endif
