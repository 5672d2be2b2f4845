/* The eventfd that wakes a backend, see wake_fd.h. */
#include "backend/wake_fd.h"

#include "backend/fd_generation.h"
#include "backend/syscall/count.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * The lowest number for weft__fd_move_up. Most processes may use 1024 descriptors. Programs rarely
 * use numbers above 511.
 */
#define HIGH_FD_MIN 512

/*
 * The result of F_GETFL for an eventfd of weft, except O_NONBLOCK. O_APPEND has no effect on an
 * eventfd, so other code does not set it. A file from open(2) also has O_LARGEFILE.
 */
#define MARKED_FLAGS (O_RDWR | O_APPEND)

static int wake_fd_number(const weft__wake_fd *w)
{
    return atomic_load_explicit(&w->fd, memory_order_relaxed);
}

/* Open an eventfd with the mark. Returns its number or -errno. */
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

/* Use fd as the eventfd. If fd is negative, return fd. Returns 0 or -errno. */
static int wake_fd_adopt(weft__wake_fd *w, int fd)
{
    int rc = fd < 0 ? fd : weft__fd_reserve(fd);
    if (rc < 0) {
        if (fd >= 0)
            close(fd);
        return rc;
    }
    weft__fd_advance(fd); /* invalidates the state of an earlier file with this number */
    w->generation = weft__fd_generation(fd);
    atomic_store(&w->fd, fd);
    return 0;
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
    return wake_fd_adopt(w, weft__fd_move_up(open_marked(flags)));
}

int weft__wake_fd_open(weft__wake_fd *w, int flags)
{
    atomic_store(&w->fd, -1);
    return weft__wake_fd_renew(w, flags);
}

int weft__wake_fd_open_low(weft__wake_fd *w, int flags)
{
    atomic_store(&w->fd, -1);
    return wake_fd_adopt(w, open_marked(flags));
}

/*
 * If fcntl fails with an error other than EBADF (for example because of seccomp), assume that the
 * mark is set.
 */
static bool is_marked(const weft__wake_fd *w)
{
    int flags = WEFT__COUNTED(fcntl(wake_fd_number(w), F_GETFL));
    return flags < 0 ? errno != EBADF : (flags & ~O_NONBLOCK) == MARKED_FLAGS;
}

bool weft__wake_fd_write(weft__wake_fd *w)
{
    uint64_t one = 1;
    if (!is_marked(w))
        return false;
    ssize_t n = TEMP_FAILURE_RETRY(WEFT__COUNTED(write(wake_fd_number(w), &one, sizeof one)));
    /* EAGAIN: the counter is at its maximum, so a wake is pending already. */
    return n == sizeof one || errno == EAGAIN;
}

bool weft__wake_fd_is_own(const weft__wake_fd *w)
{
    return is_marked(w) && weft__fd_generation(wake_fd_number(w)) == w->generation;
}

void weft__wake_fd_close(weft__wake_fd *w)
{
    if (wake_fd_number(w) >= 0 && weft__wake_fd_is_own(w))
        close(wake_fd_number(w));
    atomic_store(&w->fd, -1);
}
