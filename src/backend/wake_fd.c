/* See wake_fd.h. */
#include "backend/wake_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers from here on are out of the program's way. Most processes may have 1024. */
#define HIGH_FD_MIN 512

/*
 * Device and inode of an eventfd by fstat. All eventfds share one inode with epoll, io_uring and
 * timerfd descriptors, to which write(2) fails.
 */
static _Atomic uint64_t device, inode;

static int number_of(const weft__wake_fd *w)
{
    return atomic_load_explicit(&w->fd, memory_order_relaxed);
}

/* The id of the counter behind a number; 0: unknown, -1: it is not a counter. Since Linux 5.2. */
static long read_id(int fd)
{
    char path[40], text[256];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int info = open(path, O_RDONLY | O_CLOEXEC);
    if (info < 0)
        return 0;
    ssize_t n = read(info, text, sizeof text - 1);
    close(info);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (strstr(text, "eventfd-count:") == NULL)
        return -1;
    const char *id = strstr(text, "eventfd-id:");
    return id != NULL ? strtol(id + strlen("eventfd-id:"), NULL, 10) + 1 : 0;
}

int weft__wake_fd_open(weft__wake_fd *w, int flags)
{
    struct stat status;
    int fd = eventfd(0, flags);
    atomic_store(&w->fd, fd);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0) {
        atomic_store_explicit(&device, status.st_dev, memory_order_relaxed);
        atomic_store_explicit(&inode, status.st_ino, memory_order_relaxed);
    }
    w->id = read_id(fd);
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
    weft__wake_fd fresh;
    int rc = weft__wake_fd_open(&fresh, flags);
    if (rc < 0)
        return rc;
    w->id = fresh.id;
    atomic_store(&w->fd, weft__fd_move_up(fresh.fd));
    return 0;
}

/* If fstat fails for another reason than a closed number (seccomp), assume that it is. */
bool weft__wake_fd_is_eventfd(const weft__wake_fd *w)
{
    struct stat status;
    if (fstat(number_of(w), &status) < 0)
        return errno != EBADF;
    if (atomic_load_explicit(&inode, memory_order_relaxed) == 0)
        return true;
    return status.st_dev == atomic_load_explicit(&device, memory_order_relaxed) &&
           status.st_ino == atomic_load_explicit(&inode, memory_order_relaxed);
}

bool weft__wake_fd_write(weft__wake_fd *w)
{
    uint64_t one = 1;
    if (!weft__wake_fd_is_eventfd(w))
        return false;
    ssize_t n = TEMP_FAILURE_RETRY(write(number_of(w), &one, sizeof one));
    /* EAGAIN: the counter is full, and then the backend has been woken often enough. */
    return n == sizeof one || errno == EAGAIN;
}

bool weft__wake_fd_is_own(const weft__wake_fd *w)
{
    if (!weft__wake_fd_is_eventfd(w))
        return false;
    long id = w->id > 0 ? read_id(number_of(w)) : 0;
    return id == 0 || id == w->id;
}

void weft__wake_fd_close(weft__wake_fd *w)
{
    if (number_of(w) >= 0 && weft__wake_fd_is_own(w))
        close(number_of(w));
    atomic_store(&w->fd, -1);
}
