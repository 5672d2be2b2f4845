/*
 * Hooks of reads from files on disk. Data in the page cache comes by the real call with RWF_NOWAIT.
 * weft reads the rest, which needs the disk.
 */
#include "posix/io/fd_note.h"
#include "posix/io/fd_wait.h"
#include "posix/io/read.h"

#include <weft/file.h>
#include <weft/io.h>

#include <limits.h>

/* A read from a file on disk. */
typedef struct disk_read {
    int fd;
    const struct iovec *pieces; /* not empty */
    size_t count;
    int64_t offset; /* WEFT__READ_CURRENT: the current position */
} disk_read;

static int64_t offset_after(const disk_read *r, size_t done)
{
    return r->offset == WEFT__READ_CURRENT ? WEFT__READ_CURRENT : r->offset + (int64_t)done;
}

/* Read without waiting. Fails with EAGAIN if the data is not in memory. */
static ssize_t disk_try(const disk_read *r, size_t done)
{
    struct iovec window[WEFT__IOVEC_WINDOW];
    const struct iovec *pieces = r->pieces;
    int count = (int)r->count;
    if (done > 0) {
        count = weft__iovec_tail(r->pieces, r->count, done, window);
        pieces = window;
    }
    return REAL(preadv2)(r->fd, pieces, count, offset_after(r, done), RWF_NOWAIT);
}

static ssize_t disk_wait(const disk_read *r, size_t done)
{
    struct iovec window[WEFT__IOVEC_WINDOW];
    int count = weft__iovec_tail(r->pieces, r->count, done, window);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    ssize_t n = r->offset == WEFT__READ_CURRENT
                    ? weft_readv(r->fd, window, count)
                    : weft_preadv(r->fd, window, count, offset_after(r, done));
    return weft__hook_result(weft__hook_wait_end(&w, n));
}

/* Return whether the note of the file was wrong: code without hooks has closed the number. */
static bool is_other_kind(const disk_read *r)
{
    return r->offset == WEFT__READ_CURRENT && weft__fd_kind_renew(r->fd) != WEFT__FD_DISK;
}

ssize_t weft__read_disk(int fd, const struct iovec *pieces, size_t count, int64_t offset)
{
    disk_read r = {fd, pieces, count, offset};
    int error = errno;
    size_t bytes = weft__iovec_bytes(pieces, count), done = 0;
    while (done < bytes) {
        ssize_t n = disk_try(&r, done);
        /*
         * A file without RWF_NOWAIT, for example in /proc, blocks the thread. Read only once: the
         * kernel returns part of some files, and a second read may wait for an event.
         */
        if (n < 0 && errno == EOPNOTSUPP && done == 0)
            return REAL(preadv2)(fd, pieces, (int)count, offset, 0);
        if (n < 0 && errno == EAGAIN && is_other_kind(&r)) {
            errno = error;
            return done > 0 ? (ssize_t)done : weft__hook_readv(fd, pieces, (int)count);
        }
        if (n < 0 && errno == EAGAIN)
            n = disk_wait(&r, done);
        if (n <= 0 && done == 0)
            return n;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    errno = error;
    return (ssize_t)done;
}

HOOK_DEFINE(ssize_t, pread, (int fd, void *buffer, size_t bytes, off_t offset))
{
    if (!weft__hook_is_on() || bytes == 0 || offset < 0)
        return REAL(pread)(fd, buffer, bytes, offset);
    return weft__read_disk(fd, &(struct iovec){buffer, bytes}, 1, offset);
}

HOOK_DEFINE(ssize_t, pread64, (int fd, void *buffer, size_t bytes, off64_t offset))
{
    return weft__hook_pread(fd, buffer, bytes, offset);
}

HOOK_DEFINE(ssize_t, preadv, (int fd, const struct iovec *pieces, int count, off_t offset))
{
    if (!weft__hook_is_on() || count <= 0 || count > IOV_MAX || offset < 0 ||
        weft__iovec_bytes(pieces, (size_t)count) == 0)
        return REAL(preadv)(fd, pieces, count, offset);
    return weft__read_disk(fd, pieces, (size_t)count, offset);
}

HOOK_DEFINE(ssize_t, preadv64, (int fd, const struct iovec *pieces, int count, off64_t offset))
{
    return weft__hook_preadv(fd, pieces, count, offset);
}

HOOK_DEFINE(ssize_t, preadv2,
            (int fd, const struct iovec *pieces, int count, off_t offset, int flags))
{
    if (flags != 0)
        return REAL(preadv2)(fd, pieces, count, offset, flags);
    return offset == -1 ? weft__hook_readv(fd, pieces, count)
                        : weft__hook_preadv(fd, pieces, count, offset);
}

HOOK_DEFINE(ssize_t, preadv64v2,
            (int fd, const struct iovec *pieces, int count, off64_t offset, int flags))
{
    return weft__hook_preadv2(fd, pieces, count, offset, flags);
}

HOOK_DEFINE(ssize_t, __pread_chk, (int fd, void *buffer, size_t bytes, off_t offset, size_t room))
{
    if (bytes > room)
        return REAL(__pread_chk)(fd, buffer, bytes, offset, room);
    return weft__hook_pread(fd, buffer, bytes, offset);
}

HOOK_DEFINE(ssize_t, __pread64_chk,
            (int fd, void *buffer, size_t bytes, off64_t offset, size_t room))
{
    return weft__hook___pread_chk(fd, buffer, bytes, offset, room);
}
