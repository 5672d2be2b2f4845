/* Hooks of read for all kinds of files, at the current position. */
#include "posix/io/read.h"

#include "posix/io/fd_wait.h"
#include "posix/io/recv.h"

#include <weft/io.h>

#include <limits.h>

/* A call of read or readv. pieces are not empty. */
typedef struct read_call {
    int fd;
    const struct iovec *pieces;
    size_t count;
} read_call;

static ssize_t read_socket(const read_call *c)
{
    if (c->count == 1)
        return weft__recv_in_fiber(&(weft__recv_call){
            .fd = c->fd, .buffer = c->pieces->iov_base, .bytes = c->pieces->iov_len});
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)c->pieces,
                             .msg_iovlen = c->count};
    return weft__recv_in_fiber(&(weft__recv_call){.fd = c->fd, .message = &message});
}

static ssize_t read_with_weft(const read_call *c)
{
    return c->count == 1 ? weft_read(c->fd, c->pieces->iov_base, c->pieces->iov_len)
                         : weft_readv(c->fd, c->pieces, (int)c->count);
}

/* Read from a file that is not a socket, after an attempt that would wait. */
static ssize_t nowait_waiting(const read_call *c, uint32_t note, bool was_tried)
{
    int error = errno;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    intptr_t n = weft__hook_wait_end(&w, read_with_weft(c));
    if (n == -EBADF)
        return weft__hook_fail(n); /* the number may belong to another file now */
    bool is_full = n == (intptr_t)weft__iovec_bytes(c->pieces, c->count);
    weft__fd_note_waited(c->fd, note, was_tried, is_full);
    errno = error;
    return weft__hook_result(n);
}

/* Returns -1 and EAGAIN if the call would wait. */
static ssize_t polled_try(const read_call *c)
{
    if (weft__fd_ready(c->fd, POLLIN) != 0)
        return REAL(readv)(c->fd, c->pieces, (int)c->count);
    errno = EAGAIN;
    return -1;
}

/* If another process takes the data after poll(2), the real call blocks the thread. */
static ssize_t read_polled(const read_call *c)
{
    int error = errno;
    ssize_t n = polled_try(c);
    if (n >= 0 || errno != EAGAIN || !weft__fd_may_wait(c->fd))
        return n;
    intptr_t rc = 0;
    uint32_t generation = weft__fd_generation_here(c->fd);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    while (n < 0 && errno == EAGAIN && (rc = weft__fd_await(c->fd, POLLIN, generation)) >= 0)
        n = polled_try(c);
    rc = weft__hook_wait_end(&w, rc);
    if (rc < 0)
        return weft__hook_fail(rc);
    if (n >= 0)
        errno = error;
    return n;
}

static ssize_t read_nowait(const read_call *c)
{
    int error = errno;
    uint32_t note = weft__fd_note(c->fd);
    bool is_direct = weft__fd_note_expects_wait(note);
    ssize_t n = is_direct ? -1 : REAL(preadv2)(c->fd, c->pieces, (int)c->count, -1, RWF_NOWAIT);
    if (n < 0 && !is_direct && errno == EOPNOTSUPP) {
        weft__fd_kind_set(c->fd, WEFT__FD_POLLED);
        errno = error;
        return read_polled(c);
    }
    if (n < 0 && (is_direct || errno == EAGAIN) && weft__fd_may_wait(c->fd)) {
        errno = error;
        return nowait_waiting(c, note, !is_direct);
    }
    weft__fd_note_ready(c->fd, note);
    return is_direct ? REAL(readv)(c->fd, c->pieces, (int)c->count) : n;
}

static ssize_t read_by_kind(const read_call *c)
{
    switch (weft__fd_kind_of(c->fd)) {
    case WEFT__FD_SOCKET:
    case WEFT__FD_SEQPACKET:
        return read_socket(c);
    case WEFT__FD_NOWAIT:
        return read_nowait(c);
    case WEFT__FD_POLLED:
        return read_polled(c);
    case WEFT__FD_DISK:
        return weft__read_disk(c->fd, c->pieces, c->count, WEFT__READ_CURRENT);
    default:
        return REAL(readv)(c->fd, c->pieces, (int)c->count);
    }
}

static ssize_t read_in_fiber(const read_call *c)
{
    int error = errno;
    ssize_t n = read_by_kind(c);
    if (n >= 0 || errno != ENOTSOCK)
        return n;
    /* Code without hooks has closed the number, and its note was wrong. */
    weft__fd_kind_set(c->fd, WEFT__FD_UNKNOWN);
    errno = error;
    return read_by_kind(c);
}

HOOK_DEFINE(ssize_t, read, (int fd, void *buffer, size_t bytes))
{
    if (!weft__hook_is_on() || bytes == 0)
        return REAL(read)(fd, buffer, bytes);
    return read_in_fiber(&(read_call){fd, &(struct iovec){buffer, bytes}, 1});
}

HOOK_DEFINE(ssize_t, readv, (int fd, const struct iovec *pieces, int count))
{
    if (!weft__hook_is_on() || count <= 0 || count > IOV_MAX ||
        weft__iovec_bytes(pieces, (size_t)count) == 0)
        return REAL(readv)(fd, pieces, count);
    return read_in_fiber(&(read_call){fd, pieces, (size_t)count});
}

HOOK_DEFINE(ssize_t, __read_chk, (int fd, void *buffer, size_t bytes, size_t room))
{
    if (bytes > room)
        return REAL(__read_chk)(fd, buffer, bytes, room);
    return weft__hook_read(fd, buffer, bytes);
}
