/*
 * Reading and writing, one buffer or several, at the position or at an offset: on any descriptor.
 * See call.h; sockets are only met here because read(2) works on them, too.
 *
 * A file on disk gives what is in memory and no more to RWF_NOWAIT. read(2) would have gone on, and
 * programs take a short read of a file for its end. So the rest is left to a thread, and
 * op->progress is what was had.
 */
#include "backend/call_parts.h"
#include "base/libc.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is left of an operation. */
typedef struct span {
    const struct iovec *pieces;
    int count;
    int64_t offset;
    size_t bytes;
    struct iovec own; /* the only piece, where it is not the caller's */
} span;

static bool is_read(const weft__op *op)
{
    return op->code == WEFT__OP_READ || op->code == WEFT__OP_READV;
}

/* A piece that went in part goes on alone: the caller's array is not ours to change. */
static bool is_vector(const weft__op *op)
{
    return op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
}

static void rest_of_pieces(const weft__op *op, span *s)
{
    size_t skip = (size_t)op->progress;
    s->pieces = op->u.vector.pieces;
    s->count = op->u.vector.count;
    for (; skip > 0 && skip >= s->pieces->iov_len; s->count--)
        skip -= s->pieces++->iov_len;
    if (skip > 0) {
        s->own.iov_base = (char *)s->pieces->iov_base + skip;
        s->own.iov_len = s->pieces->iov_len - skip;
        s->pieces = &s->own;
        s->count = 1;
    }
    s->bytes = 0;
    for (int i = 0; i < s->count; i++)
        s->bytes += s->pieces[i].iov_len;
}

static void rest_of(const weft__op *op, span *s)
{
    if (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE) {
        s->own.iov_base = (char *)op->u.buffer.data + op->progress;
        s->own.iov_len = s->bytes = op->u.buffer.bytes - (size_t)op->progress;
        s->pieces = &s->own;
        s->count = 1;
        s->offset = op->u.buffer.offset;
    } else {
        rest_of_pieces(op, s);
        s->offset = op->u.vector.offset;
    }
    if (s->offset != WEFT__OFFSET_CURRENT)
        s->offset += op->progress;
}

static intptr_t read_with(int fd, const span *s, int flags)
{
    return weft__call_result(
        TEMP_FAILURE_RETRY(preadv2(fd, s->pieces, s->count, s->offset, flags)));
}

static intptr_t write_with(int fd, const span *s, int flags)
{
    return weft__call_result(
        TEMP_FAILURE_RETRY(pwritev2(fd, s->pieces, s->count, s->offset, flags)));
}

/* A write without SIGPIPE for any kernel. */
static intptr_t write_masked(int fd, const span *s, int flags)
{
    weft__sigpipe held;
    weft__sigpipe_hold(&held);
    intptr_t result = write_with(fd, s, flags);
    weft__sigpipe_release(&held, result);
    return result;
}

/*
 * A write that neither waits nor signals; -EOPNOTSUPP if the file cannot. A kernel before 6.18
 * refuses RWF_NOSIGNAL with the error with which a file refuses RWF_NOWAIT: until a call went
 * through we cannot tell.
 */
static intptr_t write_nowait(int fd, const span *s)
{
    enum { UNKNOWN, YES, NO };
    static atomic_int has_nosignal = UNKNOWN;
    int known = atomic_load_explicit(&has_nosignal, memory_order_relaxed);
    intptr_t result = -EOPNOTSUPP;
    if (known != NO)
        result = write_with(fd, s, RWF_NOWAIT | RWF_NOSIGNAL);
    if (result == -EOPNOTSUPP && known != YES) {
        result = write_masked(fd, s, RWF_NOWAIT);
        if (result != -EOPNOTSUPP && known == UNKNOWN)
            atomic_store_explicit(&has_nosignal, NO, memory_order_relaxed);
    } else if (result >= 0 && known == UNKNOWN) {
        atomic_store_explicit(&has_nosignal, YES, memory_order_relaxed);
    }
    return result;
}

/* For a file that cannot write without waiting, and that poll calls writable. */
static intptr_t write_ready(int fd, const span *s)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return -errno;
    struct stat status;
    if (flags & O_NONBLOCK || fstat(fd, &status) < 0)
        return write_masked(fd, s, 0);
    if (S_ISCHR(status.st_mode) && isatty(fd)) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        intptr_t result = write_masked(fd, s, 0);
        fcntl(fd, F_SETFL, flags);
        return result;
    }
    if (!S_ISFIFO(status.st_mode) || s->bytes <= PIPE_BUF)
        return write_masked(fd, s, 0);
    int first = 0;
    while (s->pieces[first].iov_len == 0)
        first++;
    span some = {.pieces = &some.own, .count = 1, .offset = s->offset, .own = s->pieces[first]};
    if (some.own.iov_len > PIPE_BUF)
        some.own.iov_len = PIPE_BUF; /* a writable pipe has room for so much */
    return write_masked(fd, &some, 0);
}

static intptr_t try_socket(const weft__op *op, const span *s)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const struct iovec *piece = s->pieces;
    struct msghdr message = {.msg_iov = (struct iovec *)piece, .msg_iovlen = (size_t)s->count};
    ssize_t n;
    switch (op->code) {
    case WEFT__OP_READ:
        n = TEMP_FAILURE_RETRY(recv(op->fd, piece->iov_base, piece->iov_len, MSG_DONTWAIT));
        break;
    case WEFT__OP_WRITE:
        n = TEMP_FAILURE_RETRY(send(op->fd, piece->iov_base, piece->iov_len, flags));
        break;
    case WEFT__OP_READV:
        n = TEMP_FAILURE_RETRY(recvmsg(op->fd, &message, MSG_DONTWAIT));
        break;
    default:
        n = TEMP_FAILURE_RETRY(sendmsg(op->fd, &message, flags));
        break;
    }
    return weft__call_result(n);
}

static intptr_t other_nowait(const weft__op *op, const span *s)
{
    return is_read(op) ? read_with(op->fd, s, RWF_NOWAIT) : write_nowait(op->fd, s);
}

/* No write to a file on disk raises SIGPIPE. */
static intptr_t disk_nowait(const weft__op *op, const span *s)
{
    return is_read(op) ? read_with(op->fd, s, RWF_NOWAIT) : write_with(op->fd, s, RWF_NOWAIT);
}

/* What would block waits for readiness. */
static intptr_t try_other(weft__op *op, const span *s)
{
    intptr_t result = other_nowait(op, s);
    if (result != -EOPNOTSUPP)
        return result;
    result = weft__call_ready(op->fd, is_read(op) ? POLLIN : POLLOUT);
    if (result < 0)
        return result;
    return is_read(op) ? read_with(op->fd, s, 0) : write_ready(op->fd, s);
}

/* 0 if nothing can be learned: the call itself will say why. */
static void learn(int fd, weft__facts *known)
{
    struct stat status;
    *known = (weft__facts){.is_not_socket = false};
    if (fstat(fd, &status) < 0)
        return;
    known->is_not_socket = !S_ISSOCK(status.st_mode);
    known->is_on_disk = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
}

static intptr_t try_disk(weft__op *op, weft__facts *known)
{
    span s;
    intptr_t n;
    do {
        rest_of(op, &s);
        n = disk_nowait(op, &s);
        if (n == -EAGAIN || n == -EOPNOTSUPP)
            break;
        /* Asked for the rest of one piece, it is not over with that. */
        bool is_whole = (size_t)n == s.bytes && !(is_vector(op) && s.pieces == &s.own);
        if (n <= 0 || is_whole || n >= WEFT__RW_BYTES_MAX - op->progress)
            return n > 0 ? op->progress + n : op->progress > 0 ? op->progress : n;
        op->progress += (int)n;
    } while (true);
    /*
     * Was it another file's number when we learned that it is on disk? A pool thread that waits for
     * anything else than a disk could not be cancelled.
     */
    learn(op->fd, known);
    if (!known->is_on_disk)
        return op->progress > 0 ? op->progress : weft__call_try_transfer(op, known);
    op->wait_fd = WEFT__WAIT_THREAD;
    return -EAGAIN;
}

intptr_t weft__call_try_transfer(weft__op *op, weft__facts *known)
{
    if (is_vector(op) && (op->u.vector.count < 0 || op->u.vector.count > IOV_MAX))
        return -EINVAL; /* of a socket it would be another error */
    if (is_vector(op) && op->u.vector.count > 0 && op->u.vector.pieces == NULL)
        return -EFAULT;
    span s;
    rest_of(op, &s);
    if (s.bytes == 0 && is_read(op)) /* recv would wait for data that it then does not take */
        return read_with(op->fd, &s, 0);
    if (s.offset == WEFT__OFFSET_CURRENT && !known->is_not_socket) {
        intptr_t result = try_socket(op, &s);
        if (result != -ENOTSOCK)
            return result;
    }
    if (!known->is_not_socket)
        learn(op->fd, known);
    return known->is_on_disk ? try_disk(op, known) : try_other(op, &s);
}

/* Goes on after a call that did all it was asked for: that was only up to the end of a piece. */
intptr_t weft__call_block_transfer(weft__op *op)
{
    span s;
    intptr_t n;
    do {
        rest_of(op, &s);
        n = is_read(op) ? read_with(op->fd, &s, 0) : write_masked(op->fd, &s, 0);
        if (n > 0)
            op->progress += (int)n;
    } while (n > 0 && (size_t)n == s.bytes && s.pieces == &s.own && is_vector(op) &&
             op->progress < WEFT__RW_BYTES_MAX);
    return op->progress > 0 ? op->progress : n;
}
