/*
 * The system calls of operations, see call.h.
 *
 * On a descriptor without O_NONBLOCK, the way to avoid blocking depends on the file:
 *   socket           MSG_DONTWAIT
 *   file on disk     preadv2 and pwritev2 with RWF_NOWAIT. Data that is not in the page cache needs
 *                    a worker thread.
 *   other files      RWF_NOWAIT, for example on pipes. Terminals, named pipes and /proc do not
 *                    support the flag, so weft calls poll(2) first. If another process takes the
 *                    data after poll(2), the call blocks until more data arrives.
 *   accept           weft sets O_NONBLOCK. The flag remains set, unless keeps_flags is true.
 *   connect          weft sets O_NONBLOCK during the call.
 *   terminal output  weft sets O_NONBLOCK during the call. poll(2) reports a terminal with space
 *                    for 1 byte as writable, but a longer write waits.
 *   splice           weft sets O_NONBLOCK during the call, except on pipes.
 * While O_NONBLOCK is set, the flag affects all users of the open file.
 */
#include "backend/syscall/internal.h"
#include "base/libc.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

intptr_t weft__call_ready(int fd, int events)
{
    if (fd < 0)
        return -EBADF; /* poll(2) would ignore fd */
    struct pollfd pfd = {.fd = fd, .events = (short)events};
    intptr_t n = weft__call_result(TEMP_FAILURE_RETRY(WEFT__COUNTED(poll(&pfd, 1, 0))));
    if (n <= 0)
        return n < 0 ? n : -EAGAIN;
    return pfd.revents & POLLNVAL ? -EBADF : pfd.revents;
}

int weft__call_socket_option(int fd, int option)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    return WEFT__COUNTED(getsockopt(fd, SOL_SOCKET, option, &value, &bytes)) < 0 ? -errno : value;
}

bool weft__call_is_open(int fd)
{
    return WEFT__COUNTED(fcntl(fd, F_GETFD)) >= 0;
}

bool weft__call_is_tcp(int fd)
{
    return weft__call_socket_option(fd, SO_PROTOCOL) == IPPROTO_TCP &&
           weft__call_socket_option(fd, SO_TYPE) == SOCK_STREAM;
}

int weft__call_set_nonblock(int fd)
{
    int flags = WEFT__COUNTED(fcntl(fd, F_GETFL));
    if (flags < 0)
        return -errno;
    if (!(flags & O_NONBLOCK))
        (void)WEFT__COUNTED(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
    return flags;
}

void weft__call_restore_flags(int fd, int flags)
{
    if (!(flags & O_NONBLOCK))
        (void)WEFT__COUNTED(fcntl(fd, F_SETFL, flags));
}

void weft__sigpipe_hold(weft__sigpipe *s)
{
    sigset_t sigpipe, pending;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    (void)WEFT__COUNTED(pthread_sigmask(SIG_BLOCK, &sigpipe, &s->old_mask));
    /* If the signal was not blocked before, it cannot have been pending. */
    s->was_pending = sigismember(&s->old_mask, SIGPIPE) &&
                     WEFT__COUNTED(sigpending(&pending)) == 0 && sigismember(&pending, SIGPIPE);
}

void weft__sigpipe_release(const weft__sigpipe *s, intptr_t result)
{
    if (result == -EPIPE && !s->was_pending) {
        static const struct timespec no_wait;
        sigset_t sigpipe;
        sigemptyset(&sigpipe);
        sigaddset(&sigpipe, SIGPIPE);
        (void)TEMP_FAILURE_RETRY(WEFT__COUNTED(sigtimedwait(&sigpipe, NULL, &no_wait)));
    }
    (void)WEFT__COUNTED(pthread_sigmask(SIG_SETMASK, &s->old_mask, NULL));
}

bool weft__call_never_waits(const weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_RECV: /* recv with MSG_OOB never waits either */
        return op->u.packet.flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB);
    case WEFT__OP_RECVMSG:
        return op->u.message.flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB);
    case WEFT__OP_SEND:
        return op->u.packet.flags & MSG_DONTWAIT;
    case WEFT__OP_SENDMSG:
        return op->u.message.flags & MSG_DONTWAIT;
    case WEFT__OP_SPLICE:
    case WEFT__OP_TEE:
        return op->u.copy.flags & SPLICE_F_NONBLOCK;
    case WEFT__OP_WAIT:
        return op->u.events & WEFT__EVENTS_NOWAIT;
    default:
        return false;
    }
}

/*
 * The events that an operation waits for first. WAIT is not listed, because the caller sets its
 * events.
 */
static const uint8_t events_of[WEFT__OP_COUNT] = {
    [WEFT__OP_READ] = POLLIN,    [WEFT__OP_READV] = POLLIN,    [WEFT__OP_RECV] = POLLIN,
    [WEFT__OP_RECVMSG] = POLLIN, [WEFT__OP_ACCEPT] = POLLIN,   [WEFT__OP_SPLICE] = POLLIN,
    [WEFT__OP_TEE] = POLLIN,     [WEFT__OP_WRITE] = POLLOUT,   [WEFT__OP_WRITEV] = POLLOUT,
    [WEFT__OP_SEND] = POLLOUT,   [WEFT__OP_SENDMSG] = POLLOUT, [WEFT__OP_CONNECT] = POLLOUT,
};

/*
 * Return the events that an operation waits for first. Returns 0 if there are none, for example at
 * an offset.
 */
static int first_events(const weft__op *op)
{
    if (op->code == WEFT__OP_WAIT)
        return op->u.events & (POLLIN | POLLOUT | POLLPRI);
    bool is_buffer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
    bool is_vector = op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
    if ((is_buffer && op->u.buffer.offset != WEFT__OFFSET_CURRENT) ||
        (is_vector && op->u.vector.offset != WEFT__OFFSET_CURRENT))
        return 0;
    return events_of[op->code];
}

void weft__call_set_wait(weft__op *op)
{
    op->wait_fd = op->fd;
    op->wait_events = first_events(op);
}

int weft__call_check_waitable(int fd)
{
    struct stat status;
    if (WEFT__COUNTED(fstat(fd, &status)) < 0)
        return -errno;
    return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) ? -EPERM : 0;
}

static intptr_t try_wait(const weft__op *op)
{
    if (op->wait_events == 0)
        return -EINVAL;
    intptr_t result = weft__call_ready(op->fd, op->wait_events);
    intptr_t rc = result > 0 ? weft__call_check_waitable(op->fd) : 0;
    return rc < 0 ? rc : result;
}

static intptr_t block_wait(const weft__op *op)
{
    intptr_t rc = op->wait_events != 0 ? weft__call_check_waitable(op->fd) : -EINVAL;
    if (rc < 0)
        return rc;
    struct pollfd pfd = {.fd = op->fd, .events = (short)op->wait_events};
    intptr_t n = weft__call_result(TEMP_FAILURE_RETRY(WEFT__COUNTED(poll(&pfd, 1, -1))));
    return n < 0 ? n : pfd.revents;
}

/* Leave the operation to a worker thread. Report an invalid descriptor or path at once. */
static intptr_t defer_to_worker(weft__op *op)
{
    if (op->code == WEFT__OP_OPEN && op->u.open.path == NULL)
        return -EFAULT;
    bool needs_no_fd = op->code == WEFT__OP_OPEN && op->u.open.path[0] == '/';
    bool may_lack_fd = needs_no_fd || op->code != WEFT__OP_FSYNC;
    if (op->fd < 0 ? !may_lack_fd : !needs_no_fd && !weft__call_is_open(op->fd))
        return -EBADF;
    op->wait_fd = WEFT__WAIT_WORKER;
    return -EAGAIN;
}

static intptr_t try_call(weft__op *op, weft__fd_kind *kind)
{
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV:
        return weft__call_try_transfer(op, kind);
    case WEFT__OP_RECV:
    case WEFT__OP_SEND:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG:
        return weft__call_try_packet(op, MSG_DONTWAIT);
    case WEFT__OP_ACCEPT:
        return weft__call_try_accept(op);
    case WEFT__OP_CONNECT:
        return weft__call_try_connect(op);
    case WEFT__OP_WAIT:
        return try_wait(op);
    case WEFT__OP_SPLICE:
        return weft__call_try_splice(op);
    case WEFT__OP_TEE:
        return weft__call_try_tee(op);
    case WEFT__OP_SENDFILE:
        return weft__call_try_sendfile(op);
    case WEFT__OP_OPEN:
    case WEFT__OP_FSYNC:
    case WEFT__OP_CALL:
        return defer_to_worker(op);
    default:
        return -ENOSYS;
    }
}

intptr_t weft__call_try(weft__op *op, weft__fd_kind *kind)
{
    weft__call_set_wait(op);
    intptr_t result = try_call(op, kind);
    if (result != -EAGAIN)
        return result;
    bool is_result = op->wait_fd != WEFT__WAIT_WORKER && weft__call_never_waits(op);
    return is_result ? -EAGAIN : WEFT__OP_PENDING;
}

/* Check path, because openat is declared with a non-NULL path. */
static intptr_t block_open(const weft__op *op)
{
    if (op->u.open.path == NULL)
        return -EFAULT;
    int flags = op->u.open.flags | O_CLOEXEC;
    return weft__call_result(
        TEMP_FAILURE_RETRY(WEFT__COUNTED(openat(op->fd, op->u.open.path, flags, op->u.open.mode))));
}

/*
 * Make the call once. The result is -EAGAIN if O_NONBLOCK is set and the call would block. CONNECT
 * only starts the connection, because a signal could interrupt a blocking connect.
 */
static intptr_t call_once(weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV:
        return weft__call_block_transfer(op);
    case WEFT__OP_RECV:
    case WEFT__OP_SEND:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG:
        return weft__call_try_packet(op, 0);
    case WEFT__OP_ACCEPT:
        return weft__call_block_accept(op);
    case WEFT__OP_CONNECT:
        return weft__call_try_connect(op);
    case WEFT__OP_WAIT:
        return weft__call_never_waits(op) ? try_wait(op) : block_wait(op);
    case WEFT__OP_SPLICE:
    case WEFT__OP_TEE:
        return weft__call_block_copy(op);
    case WEFT__OP_OPEN:
        return block_open(op);
    case WEFT__OP_FSYNC:
        return weft__call_result(op->u.is_data_only ? WEFT__COUNTED(fdatasync(op->fd))
                                                    : WEFT__COUNTED(fsync(op->fd)));
    case WEFT__OP_CALL:
        return op->u.call.fn(op->u.call.arg);
    default:
        return -ENOSYS;
    }
}

/* Wait for readiness, or for 1 ms if the condition has no readiness. */
static int wait_blocking(const weft__op *op)
{
    bool is_retry = op->wait_fd < 0;
    struct pollfd pfd = {.fd = op->wait_fd, .events = (short)op->wait_events};
    return WEFT__COUNTED(poll(&pfd, 1, is_retry ? 1 : -1)) < 0 && errno != EINTR ? -errno : 0;
}

intptr_t weft__call_block(weft__op *op)
{
    bool is_for_worker = op->wait_fd == WEFT__WAIT_WORKER;
    for (;;) {
        if (!is_for_worker)
            weft__call_set_wait(op);
        intptr_t result = call_once(op);
        if (result != -EAGAIN || is_for_worker || op->code == WEFT__OP_CALL ||
            weft__call_never_waits(op))
            return result;
        int rc = wait_blocking(op);
        if (rc < 0)
            return rc;
    }
}

int weft__call_shutdown(weft__backend *b, int fd, int how)
{
    (void)b;
    return WEFT__COUNTED(shutdown(fd, how)) < 0 ? -errno : 0;
}

int weft__call_pipe(weft__backend *b, int fd[2])
{
    (void)b;
    return WEFT__COUNTED(pipe2(fd, O_CLOEXEC)) < 0 ? -errno : 0;
}

int weft__call_socketpair(weft__backend *b, int fd[2])
{
    (void)b;
    return WEFT__COUNTED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) < 0 ? -errno : 0;
}

int weft__call_close(int fd)
{
    return WEFT__COUNTED(close(fd)) < 0 && errno != EINTR ? -errno : 0;
}
