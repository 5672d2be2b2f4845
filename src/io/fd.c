/*
 * Calls for any kind of descriptor. Each call is one operation of the backend, or a loop of
 * operations.
 */
#include "backend/fd_generation.h"
#include "backend/syscall/call.h"
#include "io/fd_watcher.h"

#include <weft/error.h>
#include <weft/io.h>

#include <limits.h>
#include <poll.h>

ssize_t weft_read(int fd, void *buffer, size_t bytes)
{
    weft__op op;
    weft__op_set(&op, WEFT__OP_READ, fd, buffer, bytes);
    return weft__op_run(&op);
}

ssize_t weft_write(int fd, const void *buffer, size_t bytes)
{
    weft__op op;
    weft__op_set(&op, WEFT__OP_WRITE, fd, buffer, bytes);
    return weft__op_run(&op);
}

ssize_t weft_readv(int fd, const struct iovec *pieces, int count)
{
    weft__op op = {
        .code = WEFT__OP_READV, .fd = fd, .u.vector = {pieces, count, WEFT__OFFSET_CURRENT}};
    return weft__op_run(&op);
}

ssize_t weft_writev(int fd, const struct iovec *pieces, int count)
{
    weft__op op = {
        .code = WEFT__OP_WRITEV, .fd = fd, .u.vector = {pieces, count, WEFT__OFFSET_CURRENT}};
    return weft__op_run(&op);
}

ssize_t weft_write_all(int fd, const void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = weft_write(fd, (const char *)buffer + done, bytes - done);
        if (n < 0)
            return n;
        done += (size_t)n;
    }
    return (ssize_t)bytes;
}

static ptrdiff_t min_ptrdiff(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

/*
 * Return the first piece that is not completely written after bytes more bytes. *skip is the number
 * of written bytes of the current piece. The call updates *skip.
 */
static const struct iovec *iovec_skip(const struct iovec *piece, size_t *skip, size_t bytes)
{
    *skip += bytes;
    while (*skip > 0 && *skip >= piece->iov_len)
        *skip -= piece++->iov_len;
    return piece;
}

ssize_t weft_writev_all(int fd, const struct iovec *pieces, int count)
{
    if (count < 0)
        return -EINVAL;
    size_t left = 0;
    for (int i = 0; i < count; i++)
        left += pieces[i].iov_len;
    const struct iovec *end = pieces + count;
    const ssize_t total = (ssize_t)left;
    size_t skip = 0;
    while (left > 0) {
        /*
         * Write the rest of a partly written piece separately, because the caller's array must not
         * change.
         */
        ssize_t n = skip > 0
                        ? weft_write(fd, (char *)pieces->iov_base + skip, pieces->iov_len - skip)
                        : weft_writev(fd, pieces, (int)min_ptrdiff(end - pieces, IOV_MAX));
        if (n < 0)
            return n;
        left -= (size_t)n;
        if (left > 0)
            pieces = iovec_skip(pieces, &skip, (size_t)n);
    }
    return total;
}

ssize_t weft_read_full(int fd, void *buffer, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = weft_read(fd, (char *)buffer + done, bytes - done);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int weft_wait_fd(int fd, int events)
{
    if ((events & (POLLIN | POLLOUT)) == 0)
        return weft_fail(-EINVAL, "weft_wait_fd: events has neither POLLIN nor POLLOUT");
    weft__op op = {.code = WEFT__OP_WAIT, .fd = fd, .u.events = events & (POLLIN | POLLOUT)};
    return (int)weft__op_run(&op);
}

/*
 * Advance the generation before the close, because another thread may reuse the number after the
 * close. A thread without a cord has no fiber that waits on fd.
 */
int weft_close(int fd)
{
    weft__cord *c = weft__cord_here();
    if (LIKELY(c != NULL))
        weft__fd_watch_fd_closing(c, fd);
    weft__fd_advance(fd);
    return c != NULL ? c->backend->type->close_fd(c->backend, fd) : weft__call_close(fd);
}

int weft_fd_release(int fd)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return (int)weft__no_cord();
    if (c->fd_watcher != NULL && weft__fd_watcher_find(c->fd_watcher, fd) != NULL)
        return -EBUSY;
    const weft__backend_type *type = c->backend->type;
    return type->release_fd != NULL ? type->release_fd(c->backend, fd) : 0;
}

/* A thread that is not a cord has no state, and does not become a cord. */
int weft_fd_forget(int fd)
{
    if (fd < 0)
        return -EBADF;
    weft__cord *c = weft__cord_self;
    if (c != NULL)
        weft__fd_watch_fd_closing(c, fd);
    weft__fd_advance(fd);
    if (c == NULL || c->backend->type->forget_fd == NULL)
        return 0;
    return c->backend->type->forget_fd(c->backend, fd);
}

int weft_pipe(int fd[2])
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    return b != NULL ? b->type->pipe(b, fd) : weft__no_cord();
}

const char *weft_backend_why(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->backend_why : "this thread cannot run fibers";
}

const char *weft_backend_name(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->backend->type->name : "none";
}
