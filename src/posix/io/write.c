/*
 * Hooks of write for all kinds of files. Attempts are real calls, so the kernel raises SIGPIPE as
 * without hooks.
 *
 * There is no hook of pwrite. Only files on disk have offsets, and the kernel writes these to its
 * page cache.
 */
#include "posix/io/fd_wait.h"
#include "posix/io/send.h"

#include <limits.h>

/* A pipe that is writable takes at least this number of bytes without blocking. */
#define POLLED_BYTES_MAX PIPE_BUF

/*
 * For files that cannot write without blocking: write if poll(2) reports that the file is writable.
 */
static ssize_t polled_attempt(const weft__write_call *c, size_t done)
{
    if (weft__fd_ready(c->fd, POLLOUT) == 0) {
        errno = EAGAIN;
        return -1;
    }
    struct iovec window[WEFT__IOVEC_WINDOW];
    int count = weft__iovec_tail(c->pieces, c->count, done, window);
    if (window[0].iov_len > POLLED_BYTES_MAX)
        window[0].iov_len = POLLED_BYTES_MAX;
    bool is_small = weft__iovec_bytes(window, (size_t)count) <= POLLED_BYTES_MAX;
    return REAL(writev)(c->fd, window, is_small ? count : 1);
}

/* The same file may support RWF_NOWAIT in other kernels. */
static ssize_t nowait_attempt(const weft__write_call *c, size_t done)
{
    struct iovec window[WEFT__IOVEC_WINDOW];
    const struct iovec *pieces = c->pieces;
    size_t count = c->count;
    if (done > 0) {
        count = (size_t)weft__iovec_tail(c->pieces, c->count, done, window);
        pieces = window;
    }
    ssize_t n = REAL(pwritev2)(c->fd, pieces, (int)count, -1, RWF_NOWAIT);
    if (n >= 0 || errno != EOPNOTSUPP)
        return n;
    weft__fd_kind_set(c->fd, WEFT__FD_POLLED);
    return polled_attempt(c, done);
}

static ssize_t write_socket(int fd, const struct iovec *pieces, size_t count, int flags)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = count};
    return weft__write_in_fiber(&(weft__write_call){.fd = fd,
                                                    .flags = flags,
                                                    .pieces = pieces,
                                                    .count = count,
                                                    .bytes = weft__iovec_bytes(pieces, count),
                                                    .message = count != 1 ? &message : NULL,
                                                    .attempt = weft__send_attempt,
                                                    .is_socket = true});
}

static ssize_t write_other(int fd, const struct iovec *pieces, size_t count, bool is_polled)
{
    return weft__write_in_fiber(
        &(weft__write_call){.fd = fd,
                            .pieces = pieces,
                            .count = count,
                            .bytes = weft__iovec_bytes(pieces, count),
                            .attempt = is_polled ? polled_attempt : nowait_attempt});
}

static ssize_t write_by_kind(int fd, const struct iovec *pieces, size_t count)
{
    weft__fd_kind_note kind = weft__fd_kind_of(fd);
    switch (kind) {
    case WEFT__FD_SOCKET:
    case WEFT__FD_SEQPACKET:
        return write_socket(fd, pieces, count, kind == WEFT__FD_SEQPACKET ? MSG_EOR : 0);
    case WEFT__FD_NOWAIT:
    case WEFT__FD_POLLED:
        return write_other(fd, pieces, count, kind == WEFT__FD_POLLED);
    default:
        return REAL(writev)(fd, pieces, (int)count);
    }
}

/* Write in a fiber. pieces are not empty. */
static ssize_t write_in_fiber(int fd, const struct iovec *pieces, size_t count)
{
    int error = errno;
    ssize_t n = write_by_kind(fd, pieces, count);
    /* ENOTSOCK, EPERM: code without hooks has closed the number, and its note was wrong. */
    if (n >= 0 || (errno != ENOTSOCK && errno != EPERM))
        return n;
    weft__fd_kind_set(fd, WEFT__FD_UNKNOWN);
    errno = error;
    return write_by_kind(fd, pieces, count);
}

HOOK_DEFINE(ssize_t, write, (int fd, const void *buffer, size_t bytes))
{
    if (!weft__hook_is_on() || bytes == 0 || weft__fd_kind_of(fd) == WEFT__FD_DISK)
        return REAL(write)(fd, buffer, bytes);
    return write_in_fiber(fd, &(struct iovec){(void *)(uintptr_t)buffer, bytes}, 1);
}

HOOK_DEFINE(ssize_t, writev, (int fd, const struct iovec *pieces, int count))
{
    if (!weft__hook_is_on() || count <= 0 || count > IOV_MAX ||
        weft__iovec_bytes(pieces, (size_t)count) == 0)
        return REAL(writev)(fd, pieces, count);
    return write_in_fiber(fd, pieces, (size_t)count);
}

/* The offset -1 is the current position. Other offsets need a file on disk. */
HOOK_DEFINE(ssize_t, pwritev2,
            (int fd, const struct iovec *pieces, int count, off_t offset, int flags))
{
    if (offset != -1 || flags != 0)
        return REAL(pwritev2)(fd, pieces, count, offset, flags);
    return weft__hook_writev(fd, pieces, count);
}

HOOK_DEFINE(ssize_t, pwritev64v2,
            (int fd, const struct iovec *pieces, int count, off64_t offset, int flags))
{
    return weft__hook_pwritev2(fd, pieces, count, offset, flags);
}
