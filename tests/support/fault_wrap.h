/*
 * Fault injection for the calls of the C library and the kernel. The linker's --wrap redirects the
 * calls of the library to these functions (see meson.build). The n-th call fails with its usual
 * error. Calls are counted only while faults are on.
 *
 * A fault is single or lasting. With a lasting fault every later call that needs memory or a
 * descriptor fails too, as on a system that has run out of both.
 *
 * Not wrapped are fcntl and getsockopt, which cannot fail for the requests of the library on an
 * open descriptor. The calls of libev are not wrapped, because libev aborts if it gets no memory.
 * ev.c allocates memory before these calls. fault_ring.h wraps the calls of liburing.
 */
#ifndef TESTS_SUPPORT_FAULT_WRAP_H
#define TESTS_SUPPORT_FAULT_WRAP_H

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* The current fault. Several threads may call at the same time. */
static struct {
    atomic_bool is_on;
    bool is_lasting;
    unsigned first;       /* number of the call that fails, from 1 */
    atomic_uint calls;    /* counted so far */
    atomic_uint injected; /* calls that failed */
} fault;

/* Whether a call needs a scarce resource. A lasting fault affects only scarce resources. */
typedef enum fault_kind { SCARCE, TRANSIENT } fault_kind;

static bool fault_is_due(fault_kind kind, int error)
{
    if (!atomic_load(&fault.is_on) || (fault.is_lasting && kind == TRANSIENT))
        return false;
    unsigned call = atomic_fetch_add(&fault.calls, 1) + 1;
    if (call < fault.first || (call > fault.first && !fault.is_lasting))
        return false;
    atomic_fetch_add(&fault.injected, 1);
    errno = error;
    return true;
}

/* True if result is an error that the library may return after an injected fault. */
static bool fault_explains(long result)
{
    static const int errors[] = {ENOMEM, EMFILE, ENOSPC, EIO, ENOBUFS, EAGAIN};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (result == -errors[i])
            return atomic_load(&fault.injected) > 0;
    return false;
}

/* As fault_explains. Also accept the errors of a peer that ended because of the fault. */
static inline bool fault_explains_at_peer(long result)
{
    return atomic_load(&fault.injected) > 0 &&
           (fault_explains(result) || result == -EPIPE || result == -ECONNRESET ||
            result == -ECONNREFUSED || result == -ECONNABORTED);
}

#define FAULT_WRAP(type, name, parameters, arguments, kind, error, failure) \
    type __real_##name parameters;                                          \
    type __wrap_##name parameters;                                          \
    type __wrap_##name parameters                                           \
    {                                                                       \
        if (fault_is_due(kind, error))                                      \
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
FAULT_WRAP(int, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice), TRANSIENT,
           EAGAIN, -1)
FAULT_WRAP(int, mincore, (void *at, size_t bytes, unsigned char *out), (at, bytes, out), TRANSIENT,
           EAGAIN, -1)
FAULT_WRAP(int, sigaltstack, (const stack_t *new, stack_t *old), (new, old), TRANSIENT, ENOMEM, -1)
FAULT_WRAP(int, stat, (const char *path, struct stat *out), (path, out), TRANSIENT, ENOMEM, -1)

FAULT_WRAP(int, epoll_create1, (int flags), (flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, eventfd, (unsigned start, int flags), (start, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, pipe2, (int fd[2], int flags), (fd, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, socketpair, (int family, int type, int protocol, int fd[2]),
           (family, type, protocol, fd), SCARCE, EMFILE, -1)
FAULT_WRAP(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event),
           (epoll, what, fd, event), SCARCE, ENOSPC, -1)
FAULT_WRAP(int, epoll_wait, (int epoll, struct epoll_event *out, int n, int ms),
           (epoll, out, n, ms), TRANSIENT, EINTR, -1)
/* A signal, or a kernel without this call. */
FAULT_WRAP(int, epoll_pwait2,
           (int epoll, struct epoll_event *out, int n, const struct timespec *most,
            const sigset_t *mask),
           (epoll, out, n, most, mask), TRANSIENT, fault.first % 2 ? EINTR : ENOSYS, -1)

FAULT_WRAP(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), TRANSIENT, ENOMEM, -1)
FAULT_WRAP(ssize_t, recv, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags),
           TRANSIENT, ENOBUFS, -1)
FAULT_WRAP(ssize_t, send, (int fd, const void *from, size_t bytes, int flags),
           (fd, from, bytes, flags), TRANSIENT, ENOBUFS, -1)

/* A file with only its beginning in the page cache. Limits the result of reads with RWF_NOWAIT. */
static struct {
    bool is_set;
    size_t bytes;          /* bytes that are still readable without waiting */
    size_t call_bytes_max; /* of one read; 0: no limit */
    int error;             /* of reads that wait for the disk; 0: none */
} page_cache;

ssize_t __real_preadv2(int fd, const struct iovec *to, int n, off_t at, int flags);

static inline ssize_t read_page_cache(int fd, const struct iovec *to, off_t at, int flags)
{
    struct iovec part = {to->iov_base, to->iov_len};
    if (part.iov_len > page_cache.bytes)
        part.iov_len = page_cache.bytes;
    if (page_cache.call_bytes_max != 0 && part.iov_len > page_cache.call_bytes_max)
        part.iov_len = page_cache.call_bytes_max;
    if (part.iov_len == 0) {
        errno = EAGAIN;
        return -1;
    }
    page_cache.bytes -= part.iov_len;
    return __real_preadv2(fd, &part, 1, at, flags);
}

ssize_t __wrap_preadv2(int fd, const struct iovec *to, int n, off_t at, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *to, int n, off_t at, int flags)
{
    if (fault_is_due(TRANSIENT, EIO))
        return -1;
    if (page_cache.is_set && flags & RWF_NOWAIT && n > 0)
        return read_page_cache(fd, to, at, flags);
    if (page_cache.is_set && page_cache.error != 0) {
        errno = page_cache.error;
        return -1;
    }
    return __real_preadv2(fd, to, n, at, flags);
}

FAULT_WRAP(ssize_t, pwritev2, (int fd, const struct iovec *from, int n, off_t at, int flags),
           (fd, from, n, at, flags), TRANSIENT, EIO, -1)

FAULT_WRAP(ssize_t, recvmsg, (int fd, struct msghdr *to, int flags), (fd, to, flags), TRANSIENT,
           ENOBUFS, -1)
FAULT_WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *from, int flags), (fd, from, flags),
           TRANSIENT, ENOBUFS, -1)
FAULT_WRAP(int, accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags),
           (fd, from, bytes, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, connect, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes),
           TRANSIENT, ENOBUFS, -1)
FAULT_WRAP(int, socket, (int family, int type, int protocol), (family, type, protocol), SCARCE,
           EMFILE, -1)
FAULT_WRAP(int, bind, (int fd, const struct sockaddr *at, socklen_t bytes), (fd, at, bytes), SCARCE,
           ENOMEM, -1)
FAULT_WRAP(int, listen, (int fd, int backlog), (fd, backlog), TRANSIENT, ENOBUFS, -1)
FAULT_WRAP(ssize_t, splice, (int in, off_t *from, int out, off_t *to, size_t bytes, unsigned flags),
           (in, from, out, to, bytes, flags), TRANSIENT, ENOMEM, -1)
FAULT_WRAP(ssize_t, tee, (int in, int out, size_t bytes, unsigned flags), (in, out, bytes, flags),
           TRANSIENT, ENOMEM, -1)
FAULT_WRAP(ssize_t, sendfile, (int out, int in, off_t *from, size_t bytes), (out, in, from, bytes),
           TRANSIENT, ENOMEM, -1)

FAULT_WRAP(int, fstat, (int fd, struct stat *out), (fd, out), TRANSIENT, EIO, -1)
FAULT_WRAP(int, fstatat, (int folder, const char *path, struct stat *out, int flags),
           (folder, path, out, flags), TRANSIENT, EIO, -1)
FAULT_WRAP(int, fsync, (int fd), (fd), TRANSIENT, EIO, -1)
FAULT_WRAP(int, fdatasync, (int fd), (fd), TRANSIENT, EIO, -1)
FAULT_WRAP(int, ftruncate, (int fd, off_t bytes), (fd, bytes), TRANSIENT, EIO, -1)
FAULT_WRAP(int, rename, (const char *from, const char *to), (from, to), TRANSIENT, ENOSPC, -1)
FAULT_WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), TRANSIENT, ENOSPC, -1)
FAULT_WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags),
           TRANSIENT, EIO, -1)
FAULT_WRAP(int, mkostemp, (char *path, int flags), (path, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(ssize_t, getdents64, (int fd, void *out, size_t bytes), (fd, out, bytes), TRANSIENT, EIO,
           -1)
FAULT_WRAP(int, inotify_init1, (int flags), (flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, inotify_add_watch, (int fd, const char *path, uint32_t mask), (fd, path, mask),
           SCARCE, ENOSPC, -1)

FAULT_WRAP(int, pidfd_open, (pid_t pid, unsigned flags), (pid, flags), SCARCE, EMFILE, -1)
FAULT_WRAP(int, pidfd_send_signal, (int fd, int number, siginfo_t *info, unsigned flags),
           (fd, number, info, flags), TRANSIENT, EPERM, -1)

/* These calls return their errors. */
FAULT_WRAP(int, posix_memalign, (void **out, size_t alignment, size_t bytes),
           (out, alignment, bytes), SCARCE, ENOMEM, ENOMEM)
FAULT_WRAP(int, pthread_create,
           (pthread_t * out, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg),
           (out, attributes, fn, arg), SCARCE, EAGAIN, EAGAIN)
FAULT_WRAP(int, getaddrinfo,
           (const char *host, const char *service, const struct addrinfo *hints,
            struct addrinfo **out),
           (host, service, hints, out), TRANSIENT, ENOMEM, fault.first % 2 ? EAI_MEMORY : EAI_AGAIN)

FAULT_WRAP(int, posix_spawn_file_actions_addchdir_np,
           (posix_spawn_file_actions_t * actions, const char *path), (actions, path), SCARCE,
           ENOMEM, ENOMEM)
FAULT_WRAP(int, posix_spawn_file_actions_addclosefrom_np,
           (posix_spawn_file_actions_t * actions, int from), (actions, from), SCARCE, ENOMEM,
           ENOMEM)
FAULT_WRAP(int, posix_spawn_file_actions_adddup2,
           (posix_spawn_file_actions_t * actions, int from, int to), (actions, from, to), SCARCE,
           ENOMEM, ENOMEM)
FAULT_WRAP(int, posix_spawn_file_actions_addopen,
           (posix_spawn_file_actions_t * actions, int fd, const char *path, int flags, mode_t mode),
           (actions, fd, path, flags, mode), SCARCE, ENOMEM, ENOMEM)
FAULT_WRAP(int, posix_spawnp,
           (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
            const posix_spawnattr_t *attributes, char *const argv[], char *const environment[]),
           (pid, path, actions, attributes, argv, environment), SCARCE, EAGAIN, EAGAIN)

/* Variadic. The mode is read even if it was not passed; the kernel ignores it then. */
#define FAULT_WRAP_OPEN(name, parameters, arguments)  \
    int __real_##name parameters;                     \
    int __wrap_##name parameters;                     \
    int __wrap_##name parameters                      \
    {                                                 \
        va_list rest;                                 \
        va_start(rest, flags);                        \
        mode_t mode = (mode_t)va_arg(rest, unsigned); \
        va_end(rest);                                 \
        if (fault_is_due(SCARCE, EMFILE))             \
            return -1;                                \
        return __real_##name arguments;               \
    }

FAULT_WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
FAULT_WRAP_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))

/* Variadic, with at most six arguments. */
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
    if (fault_is_due(TRANSIENT, ENOMEM))
        return -1;
    return __real_syscall(number, x[0], x[1], x[2], x[3], x[4], x[5]);
}

#endif
