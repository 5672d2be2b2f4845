/*
 * A process that was started here: waiting for it, signals, its end. Whoever takes its status notes
 * it; as long as nobody has, its pid is nobody else's.
 */
#include "io/process.h"

#include "base/libc.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <math.h>
#include <signal.h>

/* Waits in a row that may fail for reasons that a shield does not keep out. */
#define STRIKES_MAX 16

static weft__child child_of(weft_process *p)
{
    weft__process *s = weft__process_of(p);
    weft__child child = {.type = P_PID, .id = (id_t)p->pid, .events = WEXITED, .pidfd = s->pidfd};
    if (s->pidfd >= 0) {
        child.type = P_PIDFD;
        child.id = (id_t)s->pidfd;
    }
    return child;
}

static bool runs(weft_process *p)
{
    return p->pid != 0 && weft__process_of(p)->state == WEFT__PROCESS_RUNS;
}

static int result_of(weft_process *p)
{
    weft__process *s = weft__process_of(p);
    return s->state == WEFT__PROCESS_OVER ? s->status : -ECHILD;
}

/* Take its status if it is there. */
static void look(weft_process *p, const weft__child *child)
{
    weft__process *s = weft__process_of(p);
    pid_t found = weft__child_look(child, &s->status);
    if (found != 0)
        s->state = found > 0 ? WEFT__PROCESS_OVER : WEFT__PROCESS_LOST;
}

/*
 * Its status, or what the caller was struck by. Another fiber may be quicker, and may have closed
 * it: then its pidfd is not to be looked at any more, the number may be another process's.
 */
static int await_end(weft_process *p, bool *is_struck)
{
    const pid_t pid = p->pid;
    weft__child child = child_of(p);
    *is_struck = false;
    if (runs(p))
        look(p, &child);
    while (runs(p)) {
        int rc = weft__child_await(&child, is_struck);
        if (*is_struck)
            return rc;
        if (p->pid != pid)
            return -EBADF;
        if (runs(p))
            look(p, &child);
    }
    return result_of(p);
}

static int send_signal(weft_process *p, int signal)
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
    weft__child child = child_of(p);
    child.events |= WNOWAIT;
    /* As long as its status is there to be taken, the pid is its own. */
    if (!runs(p) || weft__child_look(&child, NULL) < 0)
        return -ESRCH;
    return send_signal(p, signal);
}

/* Until it has ended, or the time is up (NULL: there is no limit). */
static void await_end_until(weft_process *p, const weft_scope *time)
{
    bool is_struck;
    for (int strikes = 0; runs(p) && strikes < STRIKES_MAX && !weft_scope_is_cancelled(time);)
        strikes += await_end(p, &is_struck) < 0;
}

/* The caller is shielded. */
static int end(weft_process *p, double grace_s)
{
    weft_process_kill(p, SIGTERM);
    weft_process_kill(p, SIGCONT);
    weft_scope grace = {{0}};
    weft_scope_open(&grace, grace_s);
    await_end_until(p, &grace);
    weft_scope_close(&grace);
    if (!runs(p))
        return result_of(p);
    int rc = weft_process_kill(p, SIGKILL);
    if (rc < 0 && rc != -ESRCH)
        return weft_fail(rc, "process %d cannot be ended", (int)p->pid);
    await_end_until(p, NULL);
    return runs(p) ? -EPERM : result_of(p);
}

static int end_shielded(weft_process *p, double grace_s)
{
    int rc = -EPERM;
    if (!runs(p))
        return result_of(p);
    WEFT_SHIELD(INFINITY) {
        rc = end(p, grace_s);
    }
    return rc;
}

int weft_process_wait(weft_process *p)
{
    if (p->pid == 0)
        return -EBADF;
    bool is_struck;
    int rc = await_end(p, &is_struck);
    if (is_struck && weft_is_error(rc) && runs(p) &&
        weft__process_of(p)->on_cancel == WEFT_ON_CANCEL_END)
        (void)end_shielded(p, weft__process_of(p)->grace_s);
    return rc;
}

int weft_process_end(weft_process *p, double grace_s)
{
    if (p->pid == 0)
        return -EBADF;
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "a grace time of %g s", grace_s);
    return end_shielded(p, grace_s);
}

static void close_one(int *fd)
{
    int closed = *fd;
    *fd = -1;
    if (closed >= 0)
        weft_close(closed);
}

static void close_pipes(weft_process *p)
{
    close_one(&p->in);
    close_one(&p->out);
    close_one(&p->err);
}

static void forget(weft_process *p)
{
    close_one(&weft__process_of(p)->pidfd);
    p->pid = 0;
}

int weft_process_close(weft_process *p)
{
    if (p->pid == 0)
        return -EBADF;
    close_pipes(p);
    int rc = end_shielded(p, weft__process_of(p)->grace_s);
    forget(p);
    return rc;
}

pid_t weft_process_detach(weft_process *p)
{
    if (p->pid == 0)
        return -EBADF;
    pid_t pid = runs(p) ? p->pid : -ECHILD;
    close_pipes(p);
    forget(p);
    return pid;
}
