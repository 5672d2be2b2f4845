/*
 * Reads and writes with one or several buffers, at the current position or at an offset, on any
 * descriptor (call.h). Sockets are included, because read(2) supports sockets.
 *
 * With RWF_NOWAIT, a read of a file on disk returns only data that is in the page cache. Programs
 * interpret a short read of a file as the end of the file. Therefore a worker thread reads the
 * remaining bytes. op->progress counts the transferred bytes.
 */
#include "backend/syscall/internal.h"
#include "base/libc.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* The remaining part of an operation. */
typedef struct remaining_io {
    const struct iovec *pieces;
    int count;
    int64_t offset;
    size_t bytes;
    struct iovec single; /* the target of pieces, unless pieces points to the caller's buffers */
} remaining_io;

static bool is_read(const weft__op *op)
{
    return op->code == WEFT__OP_READ || op->code == WEFT__OP_READV;
}

static bool is_vector(const weft__op *op)
{
    return op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
}

static void remaining_init_vector(const weft__op *op, remaining_io *s)
{
    size_t skip = (size_t)op->progress;
    s->pieces = op->u.vector.pieces;
    s->count = op->u.vector.count;
    for (; skip > 0 && skip >= s->pieces->iov_len; s->count--)
        skip -= s->pieces++->iov_len;
    if (skip > 0) {
        s->single.iov_base = (char *)s->pieces->iov_base + skip;
        s->single.iov_len = s->pieces->iov_len - skip;
        s->pieces = &s->single;
        s->count = 1;
    }
    s->bytes = 0;
    for (int i = 0; i < s->count; i++)
        s->bytes += s->pieces[i].iov_len;
}

static void remaining_init(const weft__op *op, remaining_io *s)
{
    if (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE) {
        s->single.iov_base = (char *)op->u.buffer.data + op->progress;
        s->single.iov_len = s->bytes = op->u.buffer.bytes - (size_t)op->progress;
        s->pieces = &s->single;
        s->count = 1;
        s->offset = op->u.buffer.offset;
    } else {
        remaining_init_vector(op, s);
        s->offset = op->u.vector.offset;
    }
    if (s->offset != WEFT__OFFSET_CURRENT)
        s->offset += op->progress;
}

static intptr_t read_with(int fd, const remaining_io *s, int flags)
{
    return weft__call_result(
        TEMP_FAILURE_RETRY(WEFT__COUNTED(preadv2(fd, s->pieces, s->count, s->offset, flags))));
}

static intptr_t write_with(int fd, const remaining_io *s, int flags)
{
    return weft__call_result(
        TEMP_FAILURE_RETRY(WEFT__COUNTED(pwritev2(fd, s->pieces, s->count, s->offset, flags))));
}

/* Write with SIGPIPE blocked. This works on all kernels. */
static intptr_t write_masked(int fd, const remaining_io *s, int flags)
{
    weft__sigpipe held;
    weft__sigpipe_hold(&held);
    intptr_t result = write_with(fd, s, flags);
    weft__sigpipe_release(&held, result);
    return result;
}

/*
 * Write without waiting and without SIGPIPE. Returns -EOPNOTSUPP if the file does not support
 * RWF_NOWAIT. Before Linux 6.18, RWF_NOSIGNAL fails with the same error. Only a successful call
 * shows whether the kernel supports RWF_NOSIGNAL.
 */
static intptr_t write_nowait(int fd, const remaining_io *s)
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

/*
 * Write to a file that does not support RWF_NOWAIT. poll(2) must have reported the file as
 * writable.
 */
static intptr_t write_ready(int fd, const remaining_io *s)
{
    int flags = WEFT__COUNTED(fcntl(fd, F_GETFL));
    if (flags < 0)
        return -errno;
    struct stat status;
    if (flags & O_NONBLOCK || WEFT__COUNTED(fstat(fd, &status)) < 0)
        return write_masked(fd, s, 0);
    if (S_ISCHR(status.st_mode) && WEFT__COUNTED(isatty(fd))) {
        (void)WEFT__COUNTED(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
        intptr_t result = write_masked(fd, s, 0);
        (void)WEFT__COUNTED(fcntl(fd, F_SETFL, flags));
        return result;
    }
    if (!S_ISFIFO(status.st_mode) || s->bytes <= PIPE_BUF)
        return write_masked(fd, s, 0);
    int first = 0;
    while (s->pieces[first].iov_len == 0)
        first++;
    remaining_io part = {
        .pieces = &part.single, .count = 1, .offset = s->offset, .single = s->pieces[first]};
    if (part.single.iov_len > PIPE_BUF)
        part.single.iov_len = PIPE_BUF; /* a writable pipe has space for PIPE_BUF bytes */
    return write_masked(fd, &part, 0);
}

static intptr_t transfer_try_socket(const weft__op *op, const remaining_io *s)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const struct iovec *piece = s->pieces;
    struct msghdr message = {.msg_iov = (struct iovec *)piece, .msg_iovlen = (size_t)s->count};
    ssize_t n;
    switch (op->code) {
    case WEFT__OP_READ:
        n = TEMP_FAILURE_RETRY(
            WEFT__COUNTED(recv(op->fd, piece->iov_base, piece->iov_len, MSG_DONTWAIT)));
        break;
    case WEFT__OP_WRITE:
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(send(op->fd, piece->iov_base, piece->iov_len, flags)));
        break;
    case WEFT__OP_READV:
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(recvmsg(op->fd, &message, MSG_DONTWAIT)));
        break;
    default:
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(sendmsg(op->fd, &message, flags)));
        break;
    }
    return weft__call_result(n);
}

static intptr_t other_nowait(const weft__op *op, const remaining_io *s)
{
    return is_read(op) ? read_with(op->fd, s, RWF_NOWAIT) : write_nowait(op->fd, s);
}

/* A write to a file on disk never raises SIGPIPE. */
static intptr_t disk_nowait(const weft__op *op, const remaining_io *s)
{
    return is_read(op) ? read_with(op->fd, s, RWF_NOWAIT) : write_with(op->fd, s, RWF_NOWAIT);
}

static intptr_t transfer_try_other(weft__op *op, const remaining_io *s)
{
    intptr_t result = other_nowait(op, s);
    if (result != -EOPNOTSUPP)
        return result;
    result = weft__call_ready(op->fd, is_read(op) ? POLLIN : POLLOUT);
    if (result < 0)
        return result;
    return is_read(op) ? read_with(op->fd, s, 0) : write_ready(op->fd, s);
}

/*
 * Detect the type of a file. If fstat fails, the type remains unknown, and the call itself returns
 * the error.
 */
static void fd_kind_probe(int fd, weft__fd_kind *kind)
{
    struct stat status;
    *kind = (weft__fd_kind){.is_not_socket = false};
    if (WEFT__COUNTED(fstat(fd, &status)) < 0)
        return;
    kind->is_not_socket = !S_ISSOCK(status.st_mode);
    kind->is_on_disk = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
}

static intptr_t transfer_try_disk(weft__op *op, weft__fd_kind *kind)
{
    remaining_io s;
    intptr_t n;
    do {
        remaining_init(op, &s);
        n = disk_nowait(op, &s);
        if (n == -EAGAIN || n == -EOPNOTSUPP)
            break;
        /* A call for the rest of one buffer of a vector does not complete the operation. */
        bool is_whole = (size_t)n == s.bytes && !(is_vector(op) && s.pieces == &s.single);
        if (n <= 0 || is_whole || n >= WEFT__RW_BYTES_MAX - op->progress)
            return n > 0 ? op->progress + n : op->progress > 0 ? op->progress : n;
        op->progress += (int)n;
    } while (true);
    /*
     * The number may have belonged to another file when is_on_disk was stored. Check the type
     * again. A running call on a worker thread cannot be cancelled, and only waits for a disk are
     * short.
     */
    fd_kind_probe(op->fd, kind);
    if (!kind->is_on_disk)
        return op->progress > 0 ? op->progress : weft__call_try_transfer(op, kind);
    op->wait_fd = WEFT__WAIT_WORKER;
    return -EAGAIN;
}

intptr_t weft__call_try_transfer(weft__op *op, weft__fd_kind *kind)
{
    if (is_vector(op) && (op->u.vector.count < 0 || op->u.vector.count > IOV_MAX))
        return -EINVAL; /* a socket call would return another error */
    if (is_vector(op) && op->u.vector.count > 0 && op->u.vector.pieces == NULL)
        return -EFAULT;
    remaining_io s;
    remaining_init(op, &s);
    if (s.bytes == 0 && is_read(op)) /* recv of 0 bytes would wait for data */
        return read_with(op->fd, &s, 0);
    if (s.offset == WEFT__OFFSET_CURRENT && !kind->is_not_socket) {
        intptr_t result = transfer_try_socket(op, &s);
        if (result != -ENOTSOCK)
            return result;
    }
    if (!kind->is_not_socket)
        fd_kind_probe(op->fd, kind);
    return kind->is_on_disk ? transfer_try_disk(op, kind) : transfer_try_other(op, &s);
}

/*
 * A call that starts inside a buffer transfers at most the rest of that buffer. Continue with the
 * next buffer.
 */
intptr_t weft__call_block_transfer(weft__op *op)
{
    remaining_io s;
    intptr_t n;
    do {
        remaining_init(op, &s);
        n = is_read(op) ? read_with(op->fd, &s, 0) : write_masked(op->fd, &s, 0);
        if (n > 0)
            op->progress += (int)n;
    } while (n > 0 && (size_t)n == s.bytes && s.pieces == &s.single && is_vector(op) &&
             op->progress < WEFT__RW_BYTES_MAX);
    return op->progress > 0 ? op->progress : n;
}
