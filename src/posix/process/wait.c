/* Hooks of waits for child processes. The hook of wait(2) is in wait_any.c. */
#include "posix/wait.h"
#include "posix/hook.h"
#include "posix/process/child_wait.h"

#include <string.h>

/* Return whether the call waits with weft. Only the calling thread can wait with __WNOTHREAD. */
static bool waits_with_weft(int options)
{
    return weft__hook_is_on() && (options & (WNOHANG | __WNOTHREAD)) == 0;
}

static int wait_for_change(weft__child_wait *c)
{
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    return (int)weft__hook_wait_end(&w, weft__child_wait_run(c));
}

/* Look for the child after a failure, too. The end of the child may be the reason for EINTR. */
static pid_t wait_child(pid_t pid, int *status, int options, struct rusage *usage)
{
    weft__child_wait c = weft__child_wait_of(pid, options);
    int rc = 0;
    for (;;) {
        pid_t found = REAL(wait4)(pid, status, options | WNOHANG, usage);
        if (found != 0)
            return found;
        if (rc < 0)
            return weft__hook_fail(rc);
        rc = wait_for_change(&c);
    }
}

HOOK_DEFINE(pid_t, waitpid, (pid_t pid, int *status, int options))
{
    return waits_with_weft(options) ? wait_child(pid, status, options, NULL)
                                    : REAL(waitpid)(pid, status, options);
}

HOOK_DEFINE(pid_t, wait3, (int *status, int options, struct rusage *usage))
{
    return waits_with_weft(options) ? wait_child(-1, status, options, usage)
                                    : REAL(wait3)(status, options, usage);
}

HOOK_DEFINE(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage))
{
    return waits_with_weft(options) ? wait_child(pid, status, options, usage)
                                    : REAL(wait4)(pid, status, options, usage);
}

/* Like waitid(2) with WNOHANG. Returns 1 if a child was found, 0 if none was found, or -1. */
static int poll_child(idtype_t type, id_t id, siginfo_t *info, int options)
{
    siginfo_t found;
    memset(&found, 0, sizeof found);
    if (REAL(waitid)(type, id, &found, options | WNOHANG) < 0)
        return -1;
    if (found.si_pid != 0 && info != NULL)
        *info = found;
    return found.si_pid != 0;
}

static int wait_child_info(idtype_t type, id_t id, siginfo_t *info, int options)
{
    weft__child_wait c = {type, id, options & ~WNOWAIT, false};
    int rc = 0;
    for (;;) {
        int found = poll_child(type, id, info, options);
        if (found != 0)
            return found < 0 ? -1 : 0;
        if (rc < 0)
            return weft__hook_fail(rc);
        rc = wait_for_change(&c);
    }
}

HOOK_DEFINE(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options))
{
    return waits_with_weft(options) ? wait_child_info(type, id, info, options)
                                    : REAL(waitid)(type, id, info, options);
}
