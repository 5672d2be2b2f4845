/*
 * Hooks that close or replace descriptors. weft and the notes of hooks must forget_fd the old file,
 * in every thread. These hooks are therefore never off. In a thread without fibers they only
 * advance the generation of the number, which makes no system call and takes no lock.
 */
#include "posix/io/fd_wait.h"

#include "backend/fd_generation.h"

#include <weft/io.h>

#include <limits.h>
#include <unistd.h>

/* Return whether the thread may change the state of its backend. A signal handler may not. */
static bool can_forget(void)
{
    return weft__cord_self != NULL && weft__hook_thread_self.handlers == 0;
}

/*
 * Forget a descriptor before its file is closed or replaced. A worker thread that uses the
 * descriptor finishes first, if the fiber can wait. The wait cannot be cancelled, because the file
 * that is next could get the result of the worker thread.
 */
static void forget_fd(int fd)
{
    if (!can_forget()) {
        weft__fd_advance(fd);
        return;
    }
    int error = errno;
    double delay_s = 0;
    while (weft_fd_forget(fd) == -EBUSY && weft__hook_is_on()) {
        weft_scope shield;
        weft_shield_open(&shield, WEFT__HOOK_RETRY_MAX_S);
        (void)weft__hook_retry_pause(&delay_s);
        weft_scope_close(&shield);
    }
    errno = error;
}

/* Closes the descriptor also if the fiber is cancelled. */
HOOK_DEFINE(int, close, (int fd))
{
    if (fd < 0)
        return REAL(close)(fd);
    if (can_forget())
        return (int)weft__hook_result(weft_close(fd));
    weft__fd_advance(fd);
    return REAL(close)(fd);
}

/* Do not forget_fd the new number if the call fails. */
static bool is_replaced(int old_fd, int new_fd)
{
    return new_fd >= 0 && old_fd != new_fd && REAL(fcntl)(old_fd, F_GETFD) >= 0;
}

HOOK_DEFINE(int, dup2, (int old_fd, int new_fd))
{
    int error = errno;
    if (is_replaced(old_fd, new_fd))
        forget_fd(new_fd);
    errno = error;
    return REAL(dup2)(old_fd, new_fd);
}

HOOK_DEFINE(int, dup3, (int old_fd, int new_fd, int flags))
{
    int error = errno;
    if (is_replaced(old_fd, new_fd))
        forget_fd(new_fd);
    errno = error;
    return REAL(dup3)(old_fd, new_fd, flags);
}

/* Forget a range of numbers. Only numbers below weft__fd_numbers can have state. */
static void forget_range(unsigned first, unsigned last)
{
    unsigned end = weft__fd_numbers();
    for (unsigned fd = first; fd < end && fd <= last; fd++)
        forget_fd((int)fd);
}

HOOK_DEFINE(int, close_range, (unsigned first, unsigned last, int flags))
{
    if (!(flags & CLOSE_RANGE_CLOEXEC) && first <= last)
        forget_range(first, last);
    return REAL(close_range)(first, last, flags);
}

HOOK_DEFINE(void, closefrom, (int first))
{
    forget_range(first > 0 ? (unsigned)first : 0, INT_MAX);
    REAL(closefrom)(first);
}

/* libc closes the descriptor itself, after it has written the buffer of the stream. */
HOOK_DEFINE(int, fclose, (FILE * stream))
{
    int error = errno, fd = stream != NULL ? fileno(stream) : -1;
    if (fd >= 0)
        forget_fd(fd);
    errno = error;
    return REAL(fclose)(stream);
}
