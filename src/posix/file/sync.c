/* Hooks of fsync and fdatasync. */
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/file.h>

#include <unistd.h>

static int sync_in_fiber(int fd, int (*sync)(int fd))
{
    int error = errno;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    intptr_t rc = weft__hook_wait_end(&w, sync(fd));
    errno = error;
    return (int)weft__hook_result(rc);
}

HOOK_DEFINE(int, fsync, (int fd))
{
    return weft__hook_is_on() ? sync_in_fiber(fd, weft_fsync) : REAL(fsync)(fd);
}

HOOK_DEFINE(int, fdatasync, (int fd))
{
    return weft__hook_is_on() ? sync_in_fiber(fd, weft_fdatasync) : REAL(fdatasync)(fd);
}
