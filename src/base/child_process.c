/* Poll child processes with waitid(2), see child_process.h. */
#include "base/child_process.h"

#include <errno.h>
#include <unistd.h>

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

bool weft__child_process_is_running(const weft__child_process *child)
{
    siginfo_t info = {.si_pid = 0};
    int events = child->events | WNOHANG | WNOWAIT;
    return waitid(child->type, child->id, &info, events) == 0 && info.si_pid == 0;
}

double weft__child_process_pause(weft__child_process *child)
{
    double pause_s = child->pause_s > 0 ? child->pause_s * 2 : WEFT__CHILD_PAUSE_S_FIRST;
    child->pause_s = pause_s < WEFT__CHILD_PAUSE_S_MAX ? pause_s : WEFT__CHILD_PAUSE_S_MAX;
    return child->pause_s;
}

weft__child_process weft__child_process_of(pid_t pid, int options)
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
