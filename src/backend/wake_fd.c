/* See wake_fd.h. */
#include "backend/wake_fd.h"

#include "backend/fd_generation.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Numbers from here on are out of the program's way. Most processes may have 1024. */
#define HIGH_FD_MIN 512

/*
 * F_GETFL of an eventfd of weft's, beside O_NONBLOCK. O_APPEND has no effect on an eventfd, so no
 * other part of the program sets it. Files that open(2) made have O_LARGEFILE too.
 */
#define MARK (O_RDWR | O_APPEND)

static int number_of(const weft__wake_fd *w)
{
    return atomic_load_explicit(&w->fd, memory_order_relaxed);
}

/* A new eventfd with the mark. Its number, or -errno. */
static int open_marked(int flags)
{
    int fd = eventfd(0, flags);
    if (fd < 0)
        return -errno;
    if (fcntl(fd, F_SETFL, (flags & EFD_NONBLOCK) | O_APPEND) == 0)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

/* fd is the new eventfd, or -errno, which is returned. */
static int adopt(weft__wake_fd *w, int fd)
{
    int rc = fd < 0 ? fd : weft__fd_reserve(fd);
    if (rc < 0) {
        if (fd >= 0)
            close(fd);
        return rc;
    }
    weft__fd_advance(fd); /* a cord that had this number has lost it */
    w->generation = weft__fd_generation(fd);
    atomic_store(&w->fd, fd);
    return 0;
}

int weft__wake_fd_open(weft__wake_fd *w, int flags)
{
    atomic_store(&w->fd, -1);
    return adopt(w, open_marked(flags));
}

int weft__fd_move_up(int fd)
{
    int moved = fd >= 0 && fd < HIGH_FD_MIN ? fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD_MIN) : -1;
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}

int weft__wake_fd_renew(weft__wake_fd *w, int flags)
{
    return adopt(w, weft__fd_move_up(open_marked(flags)));
}

/* If fcntl fails for another reason than a closed number (seccomp), assume that it is. */
static bool is_marked(const weft__wake_fd *w)
{
    int flags = fcntl(number_of(w), F_GETFL);
    return flags < 0 ? errno != EBADF : (flags & ~O_NONBLOCK) == MARK;
}

bool weft__wake_fd_write(weft__wake_fd *w)
{
    uint64_t one = 1;
    if (!is_marked(w))
        return false;
    ssize_t n = TEMP_FAILURE_RETRY(write(number_of(w), &one, sizeof one));
    /* EAGAIN: the counter is full, and then the backend has been woken often enough. */
    return n == sizeof one || errno == EAGAIN;
}

bool weft__wake_fd_is_own(const weft__wake_fd *w)
{
    return is_marked(w) && weft__fd_generation(number_of(w)) == w->generation;
}

void weft__wake_fd_close(weft__wake_fd *w)
{
    if (number_of(w) >= 0 && weft__wake_fd_is_own(w))
        close(number_of(w));
    atomic_store(&w->fd, -1);
}
