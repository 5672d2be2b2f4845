/*
 * Calls that fail when told to: what the library asks of the C library and of the kernel goes
 * through here (the linker's --wrap, see meson.build), and the n-th of these calls fails, with the
 * error that it usually fails with. Calls count only while the plan is on.
 *
 * A failure is a single one, or it lasts: then every later call that needs memory or a descriptor
 * fails too, as it does when a machine is full.
 */
#ifndef TESTS_FAULT_WRAP_H
#define TESTS_FAULT_WRAP_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Threads may call at the same time. */
static struct {
    atomic_bool is_on;
    bool is_lasting;
    unsigned first;     /* the call that fails, from 1 */
    atomic_uint calls;  /* so far */
    atomic_uint struck; /* of these, those that were made to fail */
} fault;

/* What a call needs: only scarce things run out for good. */
typedef enum fault_kind { SCARCE, PASSING } fault_kind;

static bool fault_strikes(fault_kind kind, int error)
{
    if (!atomic_load(&fault.is_on) || (fault.is_lasting && kind == PASSING))
        return false;
    unsigned call = atomic_fetch_add(&fault.calls, 1) + 1;
    if (call < fault.first || (call > fault.first && !fault.is_lasting))
        return false;
    atomic_fetch_add(&fault.struck, 1);
    errno = error;
    return true;
}

/* Is this what a call of the library may return when a call below it failed? */
static bool fault_is_told(long result)
{
    static const int errors[] = {ENOMEM, EMFILE, ENOSPC, EIO, ENOBUFS, EAGAIN};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (result == -errors[i])
            return atomic_load(&fault.struck) > 0;
    return false;
}

#define FAULT_WRAP(type, name, parameters, arguments, kind, error, failure) \
    type __real_##name parameters;                                          \
    type __wrap_##name parameters;                                          \
    type __wrap_##name parameters                                           \
    {                                                                       \
        if (fault_strikes(kind, error))                                     \
            return failure;                                                 \
        return __real_##name arguments;                                     \
    }

FAULT_WRAP(void *, malloc, (size_t bytes), (bytes), SCARCE, ENOMEM, NULL)
FAULT_WRAP(void *, calloc, (size_t n, size_t bytes), (n, bytes), SCARCE, ENOMEM, NULL)
FAULT_WRAP(void *, realloc, (void *old, size_t bytes), (old, bytes), SCARCE, ENOMEM, NULL)
FAULT_WRAP(void *, mmap, (void *at, size_t bytes, int access, int flags, int fd, off_t from),
           (at, bytes, access, flags, fd, from), SCARCE, ENOMEM, MAP_FAILED)
FAULT_WRAP(int, mprotect, (void *at, size_t bytes, int access), (at, bytes, access), SCARCE, ENOMEM,
           -1)
FAULT_WRAP(int, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice), PASSING, EAGAIN,
           -1)
FAULT_WRAP(int, mincore, (void *at, size_t bytes, unsigned char *out), (at, bytes, out), PASSING,
           EAGAIN, -1)
FAULT_WRAP(int, sigaltstack, (const stack_t *new, stack_t *old), (new, old), PASSING, ENOMEM, -1)
FAULT_WRAP(int, stat, (const char *path, struct stat *out), (path, out), PASSING, ENOMEM, -1)

FAULT_WRAP(int, epoll_create1, (int flags), (flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, eventfd, (unsigned start, int flags), (start, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, pipe2, (int fd[2], int flags), (fd, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, socketpair, (int family, int type, int protocol, int fd[2]),
           (family, type, protocol, fd), SCARCE, EMFILE, -1)
FAULT_WRAP(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event),
           (epoll, what, fd, event), SCARCE, ENOSPC, -1)
FAULT_WRAP(int, epoll_wait, (int epoll, struct epoll_event *out, int n, int ms),
           (epoll, out, n, ms), PASSING, EINTR, -1)
/* A signal, or a kernel that does not know the call. */
FAULT_WRAP(int, epoll_pwait2,
           (int epoll, struct epoll_event *out, int n, const struct timespec *most,
            const sigset_t *mask),
           (epoll, out, n, most, mask), PASSING, fault.first % 2 ? EINTR : ENOSYS, -1)

FAULT_WRAP(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), PASSING, ENOMEM, -1)
FAULT_WRAP(ssize_t, recv, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags),
           PASSING, ENOBUFS, -1)
FAULT_WRAP(ssize_t, send, (int fd, const void *from, size_t bytes, int flags),
           (fd, from, bytes, flags), PASSING, ENOBUFS, -1)
FAULT_WRAP(ssize_t, preadv2, (int fd, const struct iovec *to, int n, off_t at, int flags),
           (fd, to, n, at, flags), PASSING, EIO, -1)
FAULT_WRAP(ssize_t, pwritev2, (int fd, const struct iovec *from, int n, off_t at, int flags),
           (fd, from, n, at, flags), PASSING, EIO, -1)

/* Variadic, and none takes more than six. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long x[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        x[i] = va_arg(args, long);
    va_end(args);
    if (fault_strikes(PASSING, ENOMEM))
        return -1;
    return __real_syscall(number, x[0], x[1], x[2], x[3], x[4], x[5]);
}

#endif
