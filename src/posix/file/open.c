/*
 * Hooks of open, hooked only on request (weft_adopt_options.has_files). weft opens in a worker
 * thread. An open that waits for the peer of a FIFO can be cancelled.
 */
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/file.h>

#include <fcntl.h>
#include <stdarg.h>

static bool has_mode(int flags)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

/* weft sets FD_CLOEXEC. Clear the flag if the caller did not ask for it. */
static int open_in_fiber(int folder, const char *path, int flags, mode_t mode)
{
    int error = errno;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    HOOK_COUNT(offloads);
    int fd = weft_openat(folder, path, flags, mode);
    fd = (int)weft__hook_wait_end(&w, fd);
    errno = error;
    if (fd >= 0 && !(flags & O_CLOEXEC))
        (void)REAL(fcntl)(fd, F_SETFD, 0);
    return (int)weft__hook_result(fd);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    return weft__hook_is_on() ? open_in_fiber(folder, path, flags, mode)
                              : REAL(openat)(folder, path, flags, mode);
}

/* Define a hook with an optional mode. */
#define OPEN_HOOK(name, parameters, folder)        \
    HOOK_DEFINE(int, name, parameters)             \
    {                                              \
        mode_t mode = 0;                           \
        if (has_mode(flags)) {                     \
            va_list list;                          \
            va_start(list, flags);                 \
            mode = va_arg(list, mode_t);           \
            va_end(list);                          \
        }                                          \
        return open_at(folder, path, flags, mode); \
    }

OPEN_HOOK(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN_HOOK(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN_HOOK(openat, (int folder, const char *path, int flags, ...), folder)
OPEN_HOOK(openat64, (int folder, const char *path, int flags, ...), folder)

HOOK_DEFINE(int, creat, (const char *path, mode_t mode))
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

HOOK_DEFINE(int, creat64, (const char *path, mode_t mode))
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* The checks of fortified calls: the real call ends the process if the mode is missing. */

/* Define the hook of a fortified name. */
#define OPEN_CHK_HOOK(name, parameters, folder, ...) \
    HOOK_DEFINE(int, name, parameters)               \
    {                                                \
        if (has_mode(flags))                         \
            return REAL(name)(__VA_ARGS__);          \
        return open_at(folder, path, flags, 0);      \
    }

OPEN_CHK_HOOK(__open_2, (const char *path, int flags), AT_FDCWD, path, flags)
OPEN_CHK_HOOK(__open64_2, (const char *path, int flags), AT_FDCWD, path, flags)
OPEN_CHK_HOOK(__openat_2, (int folder, const char *path, int flags), folder, folder, path, flags)
OPEN_CHK_HOOK(__openat64_2, (int folder, const char *path, int flags), folder, folder, path, flags)
