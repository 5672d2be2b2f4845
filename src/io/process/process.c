/*
 * Waiting for a started process, sending signals to the process, and ending the process. The state
 * records whether the status was taken. Until the status is taken, the kernel does not reuse the
 * pid.
 */
#include "io/process/process.h"

#include "base/libc.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <math.h>
#include <signal.h>

/* The maximum number of failed waits. A shield does not prevent all errors. */
#define INTERRUPTS_MAX 16

static weft__child_process child_of(weft_process *p)
{
    weft__process *s = weft__process_of(p);
    weft__child_process child = {
        .type = P_PID, .id = (id_t)p->pid, .events = WEXITED, .pidfd = s->pidfd};
    if (s->pidfd >= 0) {
        child.type = P_PIDFD;
        child.id = (id_t)s->pidfd;
    }
    return child;
}

static bool is_running(weft_process *p)
{
    return p->pid != 0 && weft__process_of(p)->state == WEFT__PROCESS_RUNNING;
}

static int process_result(weft_process *p)
{
    weft__process *s = weft__process_of(p);
    return s->state == WEFT__PROCESS_EXITED ? s->status : -ECHILD;
}

/* Take the status if the process has ended. */
static void process_poll(weft_process *p, const weft__child_process *child)
{
    weft__process *s = weft__process_of(p);
    pid_t polled = weft__child_process_poll(child, &s->status);
    if (polled != 0)
        s->state = polled > 0 ? WEFT__PROCESS_EXITED : WEFT__PROCESS_LOST;
}

/*
 * Wait for the end of the process. Another fiber may close the process meanwhile. Do not use the
 * pidfd then, because its number may belong to another file.
 *
 * Returns the status, the error that interrupted the caller, or:
 * -EBADF if another fiber has closed the process
 * -ECHILD if other code has taken the status
 */
static int await_exit(weft_process *p, bool *is_interrupted)
{
    const pid_t pid = p->pid;
    weft__child_process child = child_of(p);
    *is_interrupted = false;
    if (is_running(p))
        process_poll(p, &child);
    while (is_running(p)) {
        int rc = weft__child_process_await(&child, is_interrupted);
        if (*is_interrupted)
            return rc;
        if (p->pid != pid)
            return -EBADF;
        if (is_running(p))
            process_poll(p, &child);
    }
    return process_result(p);
}

static int process_send_signal(weft_process *p, int signal)
{
    weft__process *s = weft__process_of(p);
    if (!s->has_group && s->pidfd >= 0) {
        if (pidfd_send_signal(s->pidfd, signal, NULL, 0) == 0)
            return 0;
        if (errno == ESRCH || errno == EINVAL)
            return -errno;
    }
    return kill(s->has_group ? -p->pid : p->pid, signal) < 0 ? -errno : 0;
}

int weft_process_kill(weft_process *p, int signal)
{
    if (p->pid == 0)
        return -EBADF;
    weft__child_process child = child_of(p);
    child.events |= WNOWAIT;
    /* While the status can be taken, the kernel does not reuse the pid. */
    if (!is_running(p) || weft__child_process_poll(&child, NULL) < 0)
        return -ESRCH;
    return process_send_signal(p, signal);
}

/*
 * Wait until the process has ended, or until the scope limit is cancelled. If limit is NULL, the
 * wait has no time limit.
 */
static void await_exit_until(weft_process *p, const weft_scope *limit)
{
    bool is_interrupted;
    for (int interrupts = 0;
         is_running(p) && interrupts < INTERRUPTS_MAX && !weft_scope_is_cancelled(limit);)
        interrupts += await_exit(p, &is_interrupted) < 0;
}

/*
 * Send SIGTERM. If the process has not ended after grace_s, send SIGKILL. The caller must be
 * shielded.
 */
static int process_terminate(weft_process *p, double grace_s)
{
    weft_process_kill(p, SIGTERM);
    weft_process_kill(p, SIGCONT);
    weft_scope grace = {{0}};
    weft_scope_open(&grace, grace_s);
    await_exit_until(p, &grace);
    weft_scope_close(&grace);
    if (!is_running(p))
        return process_result(p);
    int rc = weft_process_kill(p, SIGKILL);
    if (rc < 0 && rc != -ESRCH)
        return weft_fail(rc, "cannot kill process %d", (int)p->pid);
    await_exit_until(p, NULL);
    return is_running(p) ? -EPERM : process_result(p);
}

static int process_terminate_shielded(weft_process *p, double grace_s)
{
    int rc = -EPERM;
    if (!is_running(p))
        return process_result(p);
    WEFT_SHIELD(INFINITY) {
        rc = process_terminate(p, grace_s);
    }
    return rc;
}

int weft_process_wait(weft_process *p)
{
    if (p->pid == 0)
        return -EBADF;
    bool is_interrupted;
    int rc = await_exit(p, &is_interrupted);
    if (is_interrupted && weft_is_error(rc) && is_running(p) &&
        weft__process_of(p)->on_cancel == WEFT_ON_CANCEL_END)
        (void)process_terminate_shielded(p, weft__process_of(p)->grace_s);
    return rc;
}

int weft_process_end(weft_process *p, double grace_s)
{
    if (p->pid == 0)
        return -EBADF;
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "weft_process_end: grace_s is %g", grace_s);
    return process_terminate_shielded(p, grace_s);
}

static void fd_close_and_clear(int *fd)
{
    int closed = *fd;
    *fd = -1;
    if (closed >= 0)
        weft_close(closed);
}

static void close_pipes(weft_process *p)
{
    fd_close_and_clear(&p->in);
    fd_close_and_clear(&p->out);
    fd_close_and_clear(&p->err);
}

static void process_forget(weft_process *p)
{
    fd_close_and_clear(&weft__process_of(p)->pidfd);
    p->pid = 0;
}

int weft_process_close(weft_process *p)
{
    if (p->pid == 0)
        return -EBADF;
    close_pipes(p);
    int rc = process_terminate_shielded(p, weft__process_of(p)->grace_s);
    process_forget(p);
    return rc;
}

pid_t weft_process_detach(weft_process *p)
{
    if (p->pid == 0)
        return -EBADF;
    pid_t pid = is_running(p) ? p->pid : -ECHILD;
    close_pipes(p);
    process_forget(p);
    return pid;
}
