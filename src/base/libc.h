/*
 * Functions of the GNU C library that other C libraries lack. musl 1.2.3 lacks all these functions.
 *
 * Meson defines WEFT_HAS_X if the C library has x. Otherwise, this header defines x as a system
 * call, or declares a replacement from libc.c.
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
/* Return 0, because no frames are available. */
static inline int backtrace(void **out, int n)
{
    (void)out;
    (void)n;
    return 0;
}

/* Write n addresses to fd, one per line. A signal handler may call this function. */
void backtrace_symbols_fd(void *const *addresses, int n, int fd);

/* Return n addresses as text, in one block from malloc. Return NULL if memory is exhausted. */
char **backtrace_symbols(void *const *addresses, int n);
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

/* The bit in a status of wait(2) that reports a core dump. */
#ifndef WCOREFLAG
#define WCOREFLAG 0x80
#endif

/* Since Linux 4.14. */
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
/*
 * The kernel takes the offset as two halves. On 64-bit systems, the kernel ignores the high half.
 */
static inline ssize_t preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags)
{
    return syscall(SYS_preadv2, fd, to, n, (long)offset, (long)((int64_t)offset >> 32), flags);
}

static inline ssize_t pwritev2(int fd, const struct iovec *from, int n, off_t offset, int flags)
{
    return syscall(SYS_pwritev2, fd, from, n, (long)offset, (long)((int64_t)offset >> 32), flags);
}
#endif

#ifndef WEFT_HAS_EPOLL_PWAIT2
static inline int epoll_pwait2(int epoll, struct epoll_event *out, int n,
                               const struct timespec *timeout, const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait2, epoll, out, n, timeout, mask, _NSIG / 8);
}
#endif

/*
 * Replacements for waits with CLOCK_MONOTONIC. They never return early. They may return late if
 * CLOCK_REALTIME is set during the wait.
 */
#ifndef WEFT_HAS_SEM_CLOCKWAIT
int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);
#endif
#ifndef WEFT_HAS_PTHREAD_COND_CLOCKWAIT
int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock, clockid_t clock,
                           const struct timespec *until);
#endif

#ifndef WEFT_HAS_POSIX_SPAWN_FILE_ACTIONS_ADDCLOSEFROM_NP
/*
 * The child closes only descriptors that are open during this call. Descriptors that another thread
 * opens later without O_CLOEXEC remain open in the child.
 */
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
#endif

#ifndef WEFT_HAS_SIGABBREV_NP
/*
 * Return the name of a signal without SIG, for example "INT". Return NULL if the signal is unknown.
 */
const char *sigabbrev_np(int signal);
#endif

#endif
