/*
 * Wait for child processes in a selector, with a pidfd if possible, else by polling.
 *
 * Only weft_selector_next takes a status. Until then the operation can be cancelled, and the status
 * is available for other code (docs/adr/0017).
 */
#include "selector/selector.h"

#include "backend/fd_generation.h"
#include "base/libc.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* The kernel and libev no longer use the pidfd: its wait has ended or is being cancelled. */
static void pidfd_close(weft__record *r)
{
    if (r->child.pidfd < 0)
        return;
    weft__fd_advance(r->child.pidfd);
    close(r->child.pidfd);
    r->child.pidfd = -1;
}

static void child_pause(weft__record *r)
{
    weft__record_arm(r, &r->timer, weft__child_process_pause(&r->child));
}

static void pause_fire(weft__timer *timer)
{
    weft__record *r = CONTAINER_OF(timer, weft__record, timer);
    if (weft__child_process_is_running(&r->child))
        child_pause(r);
    else
        weft__record_complete(r, 0);
}

/*
 * No status may be available: another waiter has taken it, or the child is traced. Then continue to
 * poll.
 */
static bool child_take(weft__record *r, weft_value *result)
{
    *result = weft__child_process_poll(&r->child, r->status);
    if (*result != 0)
        return true;
    child_pause(r);
    return false;
}

/* Wait for the pidfd. Returns false if that is not possible. */
static bool wait_for_pidfd(weft__record *r, pid_t pid)
{
    r->child.pidfd = pidfd_open(pid, 0);
    if (r->child.pidfd < 0)
        return false;
    weft__fd_advance(r->child.pidfd);
    /* Not P_PID: the pid may belong to another process now. */
    r->child.type = P_PIDFD;
    r->child.id = (id_t)r->child.pidfd;
    r->op.code = WEFT__OP_WAIT;
    r->op.fd = r->child.pidfd;
    r->op.u.events = POLLIN;
    return weft__record_try_submit(r) == WEFT__OP_PENDING;
}

static weft_value child_wait(weft__record *r, pid_t pid)
{
    bool has_pidfd = r->child.type == P_PID && r->child.events == WEXITED && wait_for_pidfd(r, pid);
    if (!has_pidfd)
        child_pause(r);
    return weft__record_wait(r);
}

weft_value weft_selector_wait_process(weft_selector *s, weft_selector_op *op, pid_t pid,
                                      int options, int *status)
{
    if ((options & ~(WNOHANG | WUNTRACED | WCONTINUED)) != 0)
        return -EINVAL;
    weft__record *r;
    int rc = pid != INT_MIN ? weft__record_new(s, op, &r) : -ECHILD; /* no such group exists */
    if (rc < 0)
        return rc;
    r->child = weft__child_process_of(pid, options);
    r->timer.fire = pause_fire;
    r->release = pidfd_close;
    r->take = child_take;
    r->is_kept = true;
    r->status = status;
    pid_t found = weft__child_process_poll(&r->child, status);
    if (found == 0 && !(options & WNOHANG))
        return child_wait(r, pid);
    weft__record_free(r);
    return found;
}
