/* The hook of setsockopt: notes of time limits become invalid. */
#include "posix/hook.h"
#include "posix/io/fd_note.h"

#include <asm/socket.h>

static bool is_time_limit(int option)
{
    return option == SO_RCVTIMEO_OLD || option == SO_SNDTIMEO_OLD || option == SO_RCVTIMEO_NEW ||
           option == SO_SNDTIMEO_NEW;
}

/* Any thread may change the limits that hooks in fibers use. */
HOOK_DEFINE(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t bytes))
{
    int rc = REAL(setsockopt)(fd, level, option, value, bytes);
    if (rc == 0 && level == SOL_SOCKET && is_time_limit(option) &&
        weft__fd_note(fd) & WEFT__NOTE_LIMITS)
        weft__fd_note_change(fd, WEFT__NOTE_LIMITS, 0);
    return rc;
}
