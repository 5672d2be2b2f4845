/*
 * Waiting for children: by a pidfd where there is one, by looking again and again elsewhere.
 *
 * Nothing but the final look takes a status, and nothing can cut that short: so none is lost. A
 * thread that blocks in waitid(2) would be told at once where there is no pidfd, too, but could not
 * be called back (docs/adr/0017).
 */
#include "base/libc.h"
#include "core/op.h"
#include "io/process.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/select.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

/*
 * Seconds between two looks: at first as long as a short program takes, then doubled; in the end
 * what nobody notices, and what costs a thousand waiting fibers 5 % of a processor.
 */
#define PAUSE_S_FIRST 0.001
#define PAUSE_S_MAX 0.02

int weft__pidfd_open(pid_t pid)
{
    int fd = pidfd_open(pid, 0);
    if (fd >= 0)
        weft__fd_made(fd);
    return fd;
}

/* As wait(2) codes it. */
static int status_of(const siginfo_t *info)
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

pid_t weft__child_look(const weft__child *child, int *status)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(child->type, child->id, &info, child->events | WNOHANG) < 0)
        return -errno;
    if (info.si_pid != 0 && status != NULL)
        *status = status_of(&info);
    return info.si_pid;
}

/* Each time for longer. */
static int pause_looking(weft__child *child, bool *is_struck)
{
    double pause_s = child->pause_s > 0 ? child->pause_s * 2 : PAUSE_S_FIRST;
    child->pause_s = pause_s < PAUSE_S_MAX ? pause_s : PAUSE_S_MAX;
    weft_clause pause = weft_clause_time(child->pause_s);
    int rc = weft_select(&pause, 1);
    *is_struck = rc < 0;
    return rc;
}

/*
 * A child that is traced has ended before its parent is told: a pidfd that has spoken says nothing
 * new, and is not asked again. Nor is one that the backend cannot wait for: it may have run out of
 * descriptors itself.
 */
int weft__child_await(weft__child *child, bool *is_struck)
{
    if (child->pidfd < 0)
        return pause_looking(child, is_struck);
    int rc = weft_wait_fd(child->pidfd, POLLIN);
    *is_struck = weft__was_struck() || rc == -EBADF; /* closed by another fiber */
    child->pidfd = -1;
    return rc;
}

static pid_t wait_for(weft__child *child, int *status)
{
    for (;;) {
        bool is_struck;
        pid_t found = weft__child_look(child, status);
        if (found != 0)
            return found;
        int rc = weft__child_await(child, &is_struck);
        if (is_struck)
            return rc;
    }
}

static weft__child child_of(pid_t pid, int options)
{
    weft__child child = {.type = P_PID, .id = (id_t)pid, .pidfd = -1};
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
 * Somebody else may take the status, and another process get the number, before there is a pidfd:
 * from then on it is the pidfd's process that counts, and that one is then no child of ours.
 */
static pid_t wait_by_pidfd(int pidfd, int *status)
{
    weft__child child = {.type = P_PIDFD, .id = (id_t)pidfd, .events = WEXITED, .pidfd = pidfd};
    pid_t found = wait_for(&child, status);
    weft_close(pidfd);
    return found;
}

pid_t weft_waitpid(pid_t pid, int *status, int options)
{
    if ((options & ~(WNOHANG | WUNTRACED | WCONTINUED)) != 0)
        return weft_fail(-EINVAL, "waiting for a child with options 0x%x", (unsigned)options);
    if (pid == INT_MIN) /* there is no such group */
        return -ECHILD;
    weft__child child = child_of(pid, options);
    pid_t found = weft__child_look(&child, status);
    if (found != 0 || options & WNOHANG)
        return found;
    int pidfd = child.type == P_PID && child.events == WEXITED ? weft__pidfd_open(pid) : -1;
    if (pidfd >= 0)
        return wait_by_pidfd(pidfd, status);
    return wait_for(&child, status);
}
