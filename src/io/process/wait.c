/*
 * Waiting for children. A wait uses a pidfd if possible, and polls otherwise.
 *
 * Only the last poll takes a status, and a poll cannot be interrupted. No status is therefore lost.
 * A thread in waitid(2) would need no polling, but could not be cancelled (docs/adr/0017).
 */
#include "base/libc.h"
#include "core/op/op.h"
#include "io/process/process.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/select.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

int weft__pidfd_open(pid_t pid)
{
    int fd = pidfd_open(pid, 0);
    if (fd >= 0)
        weft__fd_created(fd);
    return fd;
}

/* Pause before the next poll. Each pause is longer than the previous pause, up to the maximum. */
static int child_pause(weft__child_process *child, bool *is_interrupted)
{
    weft_clause pause = weft_clause_time(weft__child_process_pause(child));
    int rc = weft_select(&pause, 1);
    *is_interrupted = rc < 0;
    return rc;
}

/*
 * Use the pidfd only once, then poll. A traced child may have ended before its status is available.
 * The pidfd is then readable, and a second wait would return at once. The backend may also fail to
 * wait for the pidfd, for example if no descriptor is free.
 */
int weft__child_process_await(weft__child_process *child, bool *is_interrupted)
{
    if (child->pidfd < 0)
        return child_pause(child, is_interrupted);
    int rc = weft_wait_fd(child->pidfd, POLLIN);
    *is_interrupted =
        weft__was_interrupted() || rc == -EBADF; /* another fiber has closed the pidfd */
    child->pidfd = -1;
    return rc;
}

static pid_t child_wait(weft__child_process *child, int *status)
{
    for (;;) {
        bool is_interrupted;
        pid_t pid_found = weft__child_process_poll(child, status);
        if (pid_found != 0)
            return pid_found;
        int rc = weft__child_process_await(child, &is_interrupted);
        if (is_interrupted)
            return rc;
    }
}

/*
 * Wait with a pidfd, then close the pidfd. Other code may have taken the status before the pidfd
 * was opened, and another process may have received the pid. The pidfd then refers to a process
 * that is not a child, so the wait fails.
 */
static pid_t wait_by_pidfd(int pidfd, int *status)
{
    weft__child_process child = {
        .type = P_PIDFD, .id = (id_t)pidfd, .events = WEXITED, .pidfd = pidfd};
    pid_t pid_found = child_wait(&child, status);
    weft_close(pidfd);
    return pid_found;
}

pid_t weft_waitpid(pid_t pid, int *status, int options)
{
    if ((options & ~(WNOHANG | WUNTRACED | WCONTINUED)) != 0)
        return weft_fail(-EINVAL, "weft_waitpid: options is 0x%x", (unsigned)options);
    if (pid == INT_MIN) /* no such process group exists */
        return -ECHILD;
    weft__child_process child = weft__child_process_of(pid, options);
    pid_t pid_found = weft__child_process_poll(&child, status);
    if (pid_found != 0 || options & WNOHANG)
        return pid_found;
    int pidfd = child.type == P_PID && child.events == WEXITED ? weft__pidfd_open(pid) : -1;
    if (pidfd >= 0)
        return wait_by_pidfd(pidfd, status);
    return child_wait(&child, status);
}
