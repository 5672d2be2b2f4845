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

/*
 * Seconds between two polls. The first pause is about the run time of a short program. Each further
 * pause is twice as long, up to the maximum. With 1000 waiting fibers, polling at the maximum pause
 * uses 5 % of a processor.
 */
#define PAUSE_S_FIRST 0.001
#define PAUSE_S_MAX 0.02

int weft__pidfd_open(pid_t pid)
{
    int fd = pidfd_open(pid, 0);
    if (fd >= 0)
        weft__fd_created(fd);
    return fd;
}

/* Return the status in the encoding of wait(2). */
static int wait_status_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return (info->si_status & 0xff) << 8;
    case CLD_DUMPED:
        return info->si_status | WCOREFLAG;
    case CLD_STOPPED:
    case CLD_TRAPPED:
        return info->si_status << 8 | 0x7f;
    case CLD_CONTINUED:
        return 0xffff;
    default: /* CLD_KILLED */
        return info->si_status;
    }
}

pid_t weft__child_process_poll(const weft__child_process *child, int *status)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(child->type, child->id, &info, child->events | WNOHANG) < 0)
        return -errno;
    if (info.si_pid != 0 && status != NULL)
        *status = wait_status_of(&info);
    return info.si_pid;
}

/* Pause before the next poll. Each pause is longer than the previous pause, up to the maximum. */
static int child_pause(weft__child_process *child, bool *is_interrupted)
{
    double pause_s = child->pause_s > 0 ? child->pause_s * 2 : PAUSE_S_FIRST;
    child->pause_s = pause_s < PAUSE_S_MAX ? pause_s : PAUSE_S_MAX;
    weft_clause pause = weft_clause_time(child->pause_s);
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

static weft__child_process child_of(pid_t pid, int options)
{
    weft__child_process child = {.type = P_PID, .id = (id_t)pid, .pidfd = -1};
    child.events = WEXITED | (options & (WUNTRACED | WCONTINUED));
    if (pid == -1) {
        child.type = P_ALL;
    } else if (pid <= 0) {
        child.type = P_PGID;
        child.id = (id_t)(pid == 0 ? getpgrp() : -pid);
    }
    return child;
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
    weft__child_process child = child_of(pid, options);
    pid_t pid_found = weft__child_process_poll(&child, status);
    if (pid_found != 0 || options & WNOHANG)
        return pid_found;
    int pidfd = child.type == P_PID && child.events == WEXITED ? weft__pidfd_open(pid) : -1;
    if (pidfd >= 0)
        return wait_by_pidfd(pidfd, status);
    return child_wait(&child, status);
}
