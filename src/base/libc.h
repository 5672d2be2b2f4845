/*
 * Calls of the GNU C library that others lack (musl 1.2.3 lacks all of these), under their own
 * names. Meson looks for each: WEFT_HAS_X says that the C library has x. What is a system call is
 * made as one; what needs more is in libc.c.
 */
#ifndef WEFT_BASE_LIBC_H
#define WEFT_BASE_LIBC_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef WEFT_HAS_BACKTRACE
#include <execinfo.h>
#else
/* No frames. */
static inline int backtrace(void **out, int n)
{
    (void)out;
    (void)n;
    return 0;
}

/* Write addresses, one a line. Safe in a signal handler. */
void backtrace_symbols_fd(void *const *at, int n, int fd);
#endif

#ifdef WEFT_HAS_PIDFD_OPEN
#include <sys/pidfd.h>
#else
static inline int pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int pidfd_send_signal(int pidfd, int signal, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, info, flags);
}
#endif

#ifndef TEMP_FAILURE_RETRY
#define TEMP_FAILURE_RETRY(expression)                  \
    ({                                                  \
        long retry_result;                              \
        do {                                            \
            retry_result = (long)(expression);          \
        } while (retry_result == -1 && errno == EINTR); \
        retry_result;                                   \
    })
#endif

/* In the status of wait(2): there is a core dump. */
#ifndef WCOREFLAG
#define WCOREFLAG 0x80
#endif

/* Linux 4.14 */
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

#ifndef WEFT_HAS_STRERRORDESC_NP
static inline const char *strerrordesc_np(int error)
{
    return strerror(error);
}
#endif

#ifndef WEFT_HAS_PREADV2
/* The kernel joins the last two halves of the offset; on 64 bits the second does not count. */
static inline ssize_t preadv2(int fd, const struct iovec *to, int n, off_t at, int flags)
{
    return syscall(SYS_preadv2, fd, to, n, (long)at, (long)((int64_t)at >> 32), flags);
}

static inline ssize_t pwritev2(int fd, const struct iovec *from, int n, off_t at, int flags)
{
    return syscall(SYS_pwritev2, fd, from, n, (long)at, (long)((int64_t)at >> 32), flags);
}
#endif

#ifndef WEFT_HAS_EPOLL_PWAIT2
static inline int epoll_pwait2(int epoll, struct epoll_event *out, int n,
                               const struct timespec *most, const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait2, epoll, out, n, most, mask, _NSIG / 8);
}
#endif

/* clock is CLOCK_MONOTONIC. Not early, however the time of day is set; then perhaps late. */
#ifndef WEFT_HAS_SEM_CLOCKWAIT
int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);
#endif
#ifndef WEFT_HAS_PTHREAD_COND_CLOCKWAIT
int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock, clockid_t clock,
                           const struct timespec *until);
#endif

#ifndef WEFT_HAS_POSIX_SPAWN_FILE_ACTIONS_ADDCLOSEFROM_NP
/* A descriptor that another thread opens after this call, without O_CLOEXEC, stays open. */
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
#endif

#ifndef WEFT_HAS_SIGABBREV_NP
/* "INT" for SIGINT; NULL: no name. */
const char *sigabbrev_np(int signal);
#endif

#endif
