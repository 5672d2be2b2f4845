/*
 * Calls that do not block, see call.h.
 *
 * How a call on a descriptor without O_NONBLOCK is kept from blocking depends on the file:
 *   socket          MSG_DONTWAIT
 *   pipe and others preadv2, pwritev2 with RWF_NOWAIT
 *   what does not know that flag (terminals, named pipes, /proc): asked with poll first. Another
 *   process that reads the same file in between can make us wait for the next data.
 *   accept          asked with poll first; another process that accepts in between likewise
 *   connect         O_NONBLOCK is set around the call. So is it around a write to a terminal,
 *                   which polls as writable with room for one byte and waits for the rest.
 *                   Whoever shares the open file sees the flag for that long.
 */
#include "backend/call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Linux 6.18; not in glibc 2.36. */
#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100
#endif

/* What a system call returned, as we return it. */
static intptr_t result_of(intptr_t returned)
{
    return returned < 0 ? -errno : returned;
}

/* The events that fd is ready for, -EAGAIN if for none. */
static intptr_t ready(int fd, int events)
{
    if (fd < 0)
        return -EBADF; /* poll passes over it in silence */
    struct pollfd asked = {.fd = fd, .events = (short)events};
    intptr_t n = result_of(TEMP_FAILURE_RETRY(poll(&asked, 1, 0)));
    if (n <= 0)
        return n < 0 ? n : -EAGAIN;
    return asked.revents & POLLNVAL ? -EBADF : asked.revents;
}

/*
 * A write without SIGPIPE for any kernel: the signal is blocked for this thread, and taken away if
 * the write raised it. One that was pending before is the program's own, and stays.
 */
static intptr_t write_masked(int fd, const struct iovec *piece, int flags)
{
    sigset_t sigpipe, pending, old;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &old);
    intptr_t result = result_of(TEMP_FAILURE_RETRY(pwritev2(fd, piece, 1, -1, flags)));
    if (result == -EPIPE && !sigismember(&pending, SIGPIPE)) {
        static const struct timespec at_once;
        (void)TEMP_FAILURE_RETRY(sigtimedwait(&sigpipe, NULL, &at_once));
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return result;
}

/*
 * A write that neither waits nor signals; -EOPNOTSUPP if the file cannot. A kernel before 6.18
 * refuses RWF_NOSIGNAL with the error with which a file refuses RWF_NOWAIT: until a call went
 * through we cannot tell.
 */
static intptr_t write_nowait(int fd, const struct iovec *piece)
{
    enum { UNKNOWN, YES, NO };
    static atomic_int has_nosignal = UNKNOWN;
    int known = atomic_load_explicit(&has_nosignal, memory_order_relaxed);
    intptr_t result = -EOPNOTSUPP;
    if (known != NO) {
        int flags = RWF_NOWAIT | RWF_NOSIGNAL;
        result = result_of(TEMP_FAILURE_RETRY(pwritev2(fd, piece, 1, -1, flags)));
    }
    if (result == -EOPNOTSUPP && known != YES) {
        result = write_masked(fd, piece, RWF_NOWAIT);
        if (result != -EOPNOTSUPP && known == UNKNOWN)
            atomic_store_explicit(&has_nosignal, NO, memory_order_relaxed);
    } else if (result >= 0 && known == UNKNOWN) {
        atomic_store_explicit(&has_nosignal, YES, memory_order_relaxed);
    }
    return result;
}

/* For a file that cannot write without waiting, and that poll calls writable. */
static intptr_t write_ready(int fd, struct iovec piece)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    struct stat status;
    if (flags & O_NONBLOCK || fstat(fd, &status) < 0)
        return write_masked(fd, &piece, 0);
    if (S_ISCHR(status.st_mode) && isatty(fd)) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        intptr_t result = write_masked(fd, &piece, 0);
        fcntl(fd, F_SETFL, flags);
        return result;
    }
    if (S_ISFIFO(status.st_mode) && piece.iov_len > PIPE_BUF)
        piece.iov_len = PIPE_BUF; /* a writable pipe has room for so much */
    return write_masked(fd, &piece, 0);
}

static intptr_t try_write(const weft__op *op, bool *is_not_socket)
{
    struct iovec piece = {.iov_base = op->u.buffer.data, .iov_len = op->u.buffer.bytes};
    if (!*is_not_socket) {
        int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        intptr_t sent = TEMP_FAILURE_RETRY(send(op->fd, piece.iov_base, piece.iov_len, flags));
        if (sent >= 0 || errno != ENOTSOCK)
            return result_of(sent);
        *is_not_socket = true;
    }
    intptr_t result = write_nowait(op->fd, &piece);
    if (result != -EOPNOTSUPP)
        return result;
    result = ready(op->fd, POLLOUT);
    return result < 0 ? result : write_ready(op->fd, piece);
}

static intptr_t try_read(const weft__op *op, bool *is_not_socket)
{
    void *data = op->u.buffer.data;
    size_t bytes = op->u.buffer.bytes;
    if (bytes == 0) /* recv would wait for data that it then does not take */
        return result_of(read(op->fd, data, 0));
    if (!*is_not_socket) {
        intptr_t received = TEMP_FAILURE_RETRY(recv(op->fd, data, bytes, MSG_DONTWAIT));
        if (received >= 0 || errno != ENOTSOCK)
            return result_of(received);
        *is_not_socket = true;
    }
    struct iovec piece = {.iov_base = data, .iov_len = bytes};
    intptr_t result = result_of(TEMP_FAILURE_RETRY(preadv2(op->fd, &piece, 1, -1, RWF_NOWAIT)));
    if (result != -EOPNOTSUPP)
        return result;
    result = ready(op->fd, POLLIN);
    return result < 0 ? result : result_of(TEMP_FAILURE_RETRY(read(op->fd, data, bytes)));
}

/* An int that the socket tells about itself, or -errno. */
static int socket_option(int fd, int option)
{
    int value = 0;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) < 0 ? -errno : value;
}

static intptr_t accept_now(const weft__op *op)
{
    struct sockaddr *address = op->u.accept.address;
    socklen_t *bytes = op->u.accept.bytes;
    return result_of(TEMP_FAILURE_RETRY(accept4(op->fd, address, bytes, SOCK_CLOEXEC)));
}

/*
 * Several threads or processes may wait on one listening socket, and one of them takes what all
 * were told of. So it becomes non-blocking, and stays so; to ask by poll first would not do.
 */
static intptr_t try_accept(const weft__op *op)
{
    int flags = fcntl(op->fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (!(flags & O_NONBLOCK))
        fcntl(op->fd, F_SETFL, flags | O_NONBLOCK);
    intptr_t result = accept_now(op);
    if (result != -EAGAIN)
        return result;
    /* What does not listen is an error now, not something to wait for. */
    int is_listening = socket_option(op->fd, SO_ACCEPTCONN);
    if (is_listening < 0)
        return is_listening;
    return is_listening ? -EAGAIN : -EINVAL;
}

/* The call, with O_NONBLOCK for as long as it takes. */
static intptr_t connect_nonblocking(const weft__op *op)
{
    int flags = fcntl(op->fd, F_GETFL);
    if (flags < 0)
        return -errno;
    if (!(flags & O_NONBLOCK))
        fcntl(op->fd, F_SETFL, flags | O_NONBLOCK);
    intptr_t result = result_of(connect(op->fd, op->u.connect.address, op->u.connect.bytes));
    if (!(flags & O_NONBLOCK))
        fcntl(op->fd, F_SETFL, flags);
    return result;
}

/* How a connect that was under way has ended, -EAGAIN while it has not. */
static intptr_t connect_outcome(int fd)
{
    intptr_t result = ready(fd, POLLOUT);
    if (result < 0)
        return result;
    int error = socket_option(fd, SO_ERROR);
    return error > 0 ? -error : error;
}

static intptr_t try_connect(weft__op *op)
{
    if (op->progress == 1)
        return connect_outcome(op->fd);
    intptr_t result = connect_nonblocking(op);
    /* EALREADY: an earlier call was given up and left the socket connecting. */
    if (result != -EINPROGRESS && result != -EALREADY && result != -EINTR)
        return result;
    op->progress = 1;
    return -EAGAIN;
}

intptr_t weft__call_try(weft__op *op, bool *is_not_socket)
{
    switch (op->code) {
    case WEFT__OP_READ:
        return try_read(op, is_not_socket);
    case WEFT__OP_WRITE:
        return try_write(op, is_not_socket);
    case WEFT__OP_ACCEPT:
        return try_accept(op);
    case WEFT__OP_CONNECT:
        return try_connect(op);
    case WEFT__OP_WAIT:
        return ready(op->fd, op->u.events);
    default:
        return -ENOSYS;
    }
}

static intptr_t block_write(const weft__op *op)
{
    struct iovec piece = {.iov_base = op->u.buffer.data, .iov_len = op->u.buffer.bytes};
    intptr_t sent = TEMP_FAILURE_RETRY(send(op->fd, piece.iov_base, piece.iov_len, MSG_NOSIGNAL));
    if (sent < 0 && errno == ENOTSOCK)
        return write_masked(op->fd, &piece, 0);
    return result_of(sent);
}

static intptr_t block_wait(int fd, int events)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return -EPERM;
    struct pollfd asked = {.fd = fd, .events = (short)events};
    intptr_t n = result_of(TEMP_FAILURE_RETRY(poll(&asked, 1, -1)));
    return n < 0 ? n : asked.revents;
}

/* Still -EAGAIN if O_NONBLOCK is set. A connect is only started: that cannot be interrupted. */
static intptr_t block_once(weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
        return result_of(TEMP_FAILURE_RETRY(read(op->fd, op->u.buffer.data, op->u.buffer.bytes)));
    case WEFT__OP_WRITE:
        return block_write(op);
    case WEFT__OP_ACCEPT:
        return accept_now(op);
    case WEFT__OP_CONNECT:
        return try_connect(op);
    case WEFT__OP_WAIT:
        return block_wait(op->fd, op->u.events);
    default:
        return -ENOSYS;
    }
}

intptr_t weft__call_block(weft__op *op)
{
    int events = op->code == WEFT__OP_READ || op->code == WEFT__OP_ACCEPT ? POLLIN : POLLOUT;
    intptr_t result;
    while ((result = block_once(op)) == -EAGAIN) {
        /* No readiness tells of room in a backlog: that is asked again after 1 ms. */
        bool is_refused = op->code == WEFT__OP_CONNECT && op->progress == 0;
        struct pollfd asked = {.fd = is_refused ? -1 : op->fd, .events = (short)events};
        if (poll(&asked, 1, is_refused ? 1 : -1) < 0 && errno != EINTR)
            return -errno;
    }
    return result;
}

int weft__call_shutdown(weft__backend *b, int fd, int how)
{
    (void)b;
    return shutdown(fd, how) < 0 ? -errno : 0;
}

int weft__call_pipe(weft__backend *b, int fd[2])
{
    (void)b;
    return pipe2(fd, O_CLOEXEC) < 0 ? -errno : 0;
}

int weft__call_socketpair(weft__backend *b, int fd[2])
{
    (void)b;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0 ? -errno : 0;
}

int weft__call_close(int fd)
{
    return close(fd) < 0 && errno != EINTR ? -errno : 0;
}
