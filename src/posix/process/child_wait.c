/*
 * Waits for changes of child processes, see child_wait.h.
 *
 * The wait for the end of one child uses a pidfd. All other waits need a thread in waitid(2),
 * because the kernel has no descriptor for them. A fiber that stops waiting cannot stop this
 * thread. So fibers share the threads: one thread waits for each set of children, until one of them
 * changes. The thread leaves the status to the fibers (WNOWAIT).
 */
#include "posix/process/child_wait.h"

#include "core/cord/remote_wait.h"
#include "core/op/op.h"
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/io.h>
#include <weft/offload.h>
#include <weft/time.h>

#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* The time between two looks at the children if no thread can be created, in seconds. */
#define RETRY_S 0.02

/* A thread in waitid(2). */
typedef struct watch {
    struct watch *next;
    weft__child_wait children;
    weft__list waiters;
} watch;

/* A fiber that waits for a watch. */
typedef struct child_waiter {
    weft__remote_wait wait;
    weft__list link; /* in the watch; unlinked: the watch has ended */
} child_waiter;

static pthread_mutex_t watches_lock = PTHREAD_MUTEX_INITIALIZER;
static watch *watches;

static const weft__wait_kind waits_child = {.name = "a child process",
                                            .leave = weft__remote_wait_leave};

static void watches_enter(void)
{
    REAL(pthread_mutex_lock)(&watches_lock);
}

static void watches_leave(void)
{
    REAL(pthread_mutex_unlock)(&watches_lock);
}

/* A child of fork has no threads of its parent, and may have a locked copy of the lock. */
static void watches_reset(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    watches_lock = unlocked;
    watches = NULL;
}

__attribute__((constructor)) static void watches_init(void)
{
    (void)pthread_atfork(NULL, NULL, watches_reset);
}

static void watch_unlink(const watch *w)
{
    watch **at = &watches;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

/* Wait in a worker thread. */
static weft_value watch_run(void *arg)
{
    watch *w = arg;
    siginfo_t info;
    while (REAL(waitid)(w->children.type, w->children.id, &info, w->children.events | WNOWAIT) <
               0 &&
           errno == EINTR)
        continue;
    watches_enter();
    watch_unlink(w);
    weft__list *node;
    while ((node = weft__list_pop(&w->waiters)) != NULL)
        weft__remote_wait_end(&CONTAINER_OF(node, child_waiter, link)->wait, 0);
    watches_leave();
    free(w);
    return 0;
}

static bool child_waiter_withdraw(weft__remote_wait *wait)
{
    child_waiter *w = CONTAINER_OF(wait, child_waiter, wait);
    watches_enter();
    bool is_waiting = !weft__list_is_empty(&w->link);
    weft__list_remove(&w->link);
    watches_leave();
    return is_waiting;
}

/* Return the watch of these children, or start one. Return NULL if no thread can be created. */
static watch *watch_ensure(const weft__child_wait *c)
{
    for (watch *w = watches; w != NULL; w = w->next)
        if (w->children.type == c->type && w->children.id == c->id &&
            w->children.events == c->events)
            return w;
    watch *w = malloc(sizeof *w);
    if (w == NULL)
        return NULL;
    *w = (watch){.next = watches, .children = *c};
    weft__list_init(&w->waiters);
    if (weft_offload_go(watch_run, w) < 0) {
        free(w);
        return NULL;
    }
    return watches = w;
}

static int wait_by_thread(const weft__child_wait *c)
{
    child_waiter self;
    weft__remote_wait_init(&self.wait, child_waiter_withdraw);
    watches_enter();
    watch *w = watch_ensure(c);
    if (w != NULL)
        weft__list_insert(&w->waiters, &self.link);
    watches_leave();
    if (w == NULL)
        return weft_sleep(RETRY_S);
    HOOK_COUNT(offloads);
    return (int)weft__remote_wait_run(&self.wait, &waits_child);
}

/*
 * A traced child may have ended before its status is available. The pidfd is then readable. So use
 * a pidfd only once.
 */
static int wait_by_pidfd(weft__child_wait *c, int pidfd)
{
    c->has_had_pidfd = true;
    weft__fd_created(pidfd);
    int rc = weft_wait_fd(pidfd, POLLIN);
    weft_close(pidfd);
    return rc < 0 ? rc : 0;
}

static int open_pidfd(const weft__child_wait *c)
{
    bool can_use = c->type == P_PID && c->events == WEXITED && !c->has_had_pidfd;
    return can_use ? (int)syscall(SYS_pidfd_open, (pid_t)c->id, 0) : -1;
}

int weft__child_wait_run(weft__child_wait *c)
{
    int pidfd = open_pidfd(c);
    return pidfd >= 0 ? wait_by_pidfd(c, pidfd) : wait_by_thread(c);
}

weft__child_wait weft__child_wait_of(pid_t pid, int options)
{
    int events = WEXITED | (options & (WUNTRACED | WCONTINUED | __WALL | __WCLONE));
    if (pid == -1)
        return (weft__child_wait){P_ALL, 0, events, false};
    if (pid > 0)
        return (weft__child_wait){P_PID, (id_t)pid, events, false};
    return (weft__child_wait){P_PGID, (id_t)(pid == 0 ? getpgrp() : -pid), events, false};
}

static weft_value discard_status(void *arg)
{
    pid_t pid = (pid_t)(intptr_t)arg;
    while (REAL(waitpid)(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

pid_t weft__child_wait_end(pid_t pid, int *status)
{
    weft__child_wait c = weft__child_wait_of(pid, 0);
    for (;;) {
        pid_t found = REAL(waitpid)(pid, status, WNOHANG);
        if (found != 0)
            return found;
        weft__hook_wait w;
        weft__hook_wait_begin(&w, WEFT__HOOK_IGNORES_SIGNALS, WEFT__HOOK_FOREVER);
        int rc = (int)weft__hook_wait_end(&w, weft__child_wait_run(&c));
        if (rc < 0) {
            (void)weft_offload_go(discard_status, (void *)(intptr_t)pid);
            return weft__hook_fail(rc);
        }
    }
}
