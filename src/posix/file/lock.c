/*
 * Hooks of locks of files: flock, lockf, and fcntl with F_SETLKW or F_OFD_SETLKW.
 *
 * No event announces that a lock is free. So the hooks try again after delays of 1 ms to 20 ms. A
 * worker thread in the kernel's queue could not be cancelled. The kernel does not know that a fiber
 * waits, so it does not detect deadlocks (EDEADLK), and gives no order to the waiters.
 */
#include "posix/io/fd_wait.h"

#include "core/op/op.h"

#include <weft/io.h>

#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

/* A call that locks. */
typedef struct lock_call {
    int (*try)(const struct lock_call *c); /* the real call without waiting */
    int fd, command;
    void *argument;
    off64_t bytes;
} lock_call;

static bool is_locked_by_another(int error)
{
    return error == EAGAIN || error == EACCES;
}

/* Try until the lock is free. Returns as the real call. */
static int lock_in_fiber(const lock_call *c)
{
    int error = errno, rc = c->try(c);
    if (rc == 0 || !is_locked_by_another(errno))
        return rc;
    uint32_t generation = weft__fd_generation_here(c->fd);
    double delay_s = 0;
    int paused = 0;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    while (rc < 0 && is_locked_by_another(errno) && paused == 0) {
        paused = weft__hook_retry_pause(&delay_s);
        if (paused == 0 && weft__fd_generation_here(c->fd) != generation)
            paused = -EBADF; /* closed meanwhile */
        if (paused == 0)
            rc = c->try(c);
    }
    paused = (int)weft__hook_wait_end(&w, paused);
    if (paused < 0)
        return weft__hook_fail(paused);
    if (rc == 0)
        errno = error;
    return rc;
}

static int try_flock(const lock_call *c)
{
    return REAL(flock)(c->fd, c->command | LOCK_NB);
}

HOOK_DEFINE(int, flock, (int fd, int operation))
{
    if (!weft__hook_is_on() || operation & (LOCK_NB | LOCK_UN))
        return REAL(flock)(fd, operation);
    return lock_in_fiber(&(lock_call){.try = try_flock, .fd = fd, .command = operation});
}

static int try_lockf(const lock_call *c)
{
    return REAL(lockf64)(c->fd, F_TLOCK, c->bytes);
}

HOOK_DEFINE(int, lockf64, (int fd, int command, off64_t bytes))
{
    if (!weft__hook_is_on() || command != F_LOCK)
        return REAL(lockf64)(fd, command, bytes);
    return lock_in_fiber(&(lock_call){.try = try_lockf, .fd = fd, .bytes = bytes});
}

HOOK_DEFINE(int, lockf, (int fd, int command, off_t bytes))
{
    return weft__hook_lockf64(fd, command, bytes);
}

static int try_fcntl(const lock_call *c)
{
    return REAL(fcntl)(c->fd, c->command == F_SETLKW ? F_SETLK : F_OFD_SETLK, c->argument);
}

static int fcntl_in_fiber(int fd, int command, void *argument)
{
    if ((command != F_SETLKW && command != F_OFD_SETLKW) || !weft__hook_is_on())
        return REAL(fcntl)(fd, command, argument);
    return lock_in_fiber(
        &(lock_call){.try = try_fcntl, .fd = fd, .command = command, .argument = argument});
}

/*
 * All arguments of fcntl have at most the size of a pointer, and are passed in the same register.
 */

HOOK_DEFINE(int, fcntl, (int fd, int command, ...))
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl_in_fiber(fd, command, argument);
}

HOOK_DEFINE(int, fcntl64, (int fd, int command, ...))
{
    va_list list;
    va_start(list, command);
    void *argument = va_arg(list, void *);
    va_end(list);
    return fcntl_in_fiber(fd, command, argument);
}
