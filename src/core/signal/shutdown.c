/*
 * weft_shutdown_all: cancel listeners, then other fibers, then cords, and wait for their end. This
 * file also implements weft_set_daemon.
 */
#include "core/signal/shutdown.h"

#include "base/clock.h"
#include "core/cord/handle.h"
#include "core/debug/diag.h"
#include "core/lifetime/tree.h"
#include "core/op/op.h"

#include <weft/scope.h>
#include <weft/shutdown.h>
#include <weft/time.h>

#include <stdlib.h>

/* Fibers whose backtraces the report of the remaining fibers has. Symbols take time. */
#define BACKTRACES_MAX 16

/*
 * Maximum number of polls between the cancellation of the listeners and the cancellation of the
 * other fibers. A cancelled accept usually returns after a few polls.
 */
#define POLLS_MAX 16

/*
 * Iterate over all fibers, from last_descendant(main) with previous_fiber(). The iteration visits
 * newer siblings first, children before their parents, and main last.
 */
static weft__fiber *last_descendant(weft__fiber *f)
{
    while (weft__tree_has_children(f, NULL))
        f = weft__fiber_of_sibling(f->live->children.prev);
    return f;
}

static weft__fiber *previous_fiber(const weft__fiber *f)
{
    if (f->sibling.prev == &f->parent->live->children)
        return f->parent;
    return last_descendant(weft__fiber_of_sibling(f->sibling.prev));
}

/*
 * Return true if weft_shutdown_all must end this fiber. The current fiber is the caller of
 * weft_shutdown_all.
 */
static bool must_end(const weft__cord *c, const weft__fiber *f)
{
    return !f->is_daemon && !weft__tree_is_ancestor(f, c->current);
}

static bool is_accepting(const weft__fiber *f)
{
    return f->waits_in != NULL && f->waits_in->is_accept;
}

/* Cancel the listeners. Return true if there was a listener. */
static bool stop_listeners(weft__cord *c, int64_t grace_ns)
{
    bool has_listener = false;
    for (weft__fiber *f = last_descendant(c->main);; f = previous_fiber(f)) {
        bool is_ancestor = weft__tree_is_ancestor(f, c->current);
        has_listener |= is_accepting(f);
        if (is_accepting(f) && is_ancestor)
            weft_interrupt(f->id, -ECANCELED);
        else if (is_accepting(f))
            weft__tree_stop_child(c, f, grace_ns, WEFT__EXIT_REQUESTED);
        if (f->parent == NULL)
            return has_listener;
    }
}

/* Return true if the kernel has not yet released an operation of a stopped fiber. */
static bool is_release_pending(const weft__cord *c)
{
    for (weft__fiber *f = last_descendant(c->main); f->parent != NULL; f = previous_fiber(f))
        if (f->is_stopped && f->waits_in != NULL && f->waits_in->is_release)
            return true;
    return false;
}

void weft__shutdown_listeners(weft__cord *c, int64_t grace_ns)
{
    if (!stop_listeners(c, grace_ns))
        return;
    /*
     * A poll completes the cancelled operations. Then the cancelled fibers run, and may cancel
     * other fibers.
     */
    int quiet_polls = 0;
    for (int i = 0; i < POLLS_MAX && quiet_polls < 2; i++) {
        weft_sleep(0);
        quiet_polls = is_release_pending(c) ? 0 : quiet_polls + 1;
    }
}

/*
 * Cancel all fibers that must end. Each fiber moves to the front of the run queue, so parents run
 * before their children.
 */
static void stop_others(weft__cord *c, int64_t grace_ns)
{
    for (weft__fiber *f = last_descendant(c->main);; f = previous_fiber(f)) {
        if (must_end(c, f))
            weft__tree_stop_child(c, f, grace_ns, WEFT__EXIT_REQUESTED);
        else
            f->is_closing = true;
        if (f->parent == NULL)
            return;
    }
}

/* A wait for the end of one fiber. */
typedef struct exit_wait {
    weft__exit_hook exit_hook; /* in the exit hooks of the fiber; called during its cleanup */
    weft__fiber *waiter;
} exit_wait;

static bool leave_exit_wait(weft__fiber *f)
{
    weft__exit_hook_remove(&((exit_wait *)f->wait_object)->exit_hook);
    return true;
}

static const weft__wait_kind waits_exits = {"the end of all other fibers",
                                            .leave = leave_exit_wait};

static void wake_exit_waiter(weft__exit_hook *exit_hook)
{
    weft__fiber *f = CONTAINER_OF(exit_hook, exit_wait, exit_hook)->waiter;
    weft__wake(weft__cord_self, f, 0, WEFT__TAIL);
}

/* Return a fiber that must still end, or NULL if there is none. */
static weft__fiber *find_remaining(const weft__cord *c)
{
    for (weft__fiber *f = last_descendant(c->main); f->parent != NULL; f = previous_fiber(f))
        if (must_end(c, f))
            return f;
    return NULL;
}

/* Wait until all fibers that must end have ended. Return 0, or the error that ended the wait. */
static int wait_for_fibers(weft__cord *c)
{
    weft__fiber *f;
    while ((f = find_remaining(c)) != NULL) {
        if (c->current->pending)
            return (int)weft__call_refuse(c);
        exit_wait e = {.waiter = c->current};
        weft__exit_hook_add(&f->live->exit_hooks, &e.exit_hook, wake_exit_waiter);
        int rc = weft__wait_int(c, &waits_exits, &e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool have_cords_ended(const weft__cord *c)
{
    return weft__cord_handles_wait_until(c->handle, 0); /* 0 is in the past, so do not wait */
}

/* The argument of wait_for_threads, which runs in a worker. */
typedef struct threads_wait {
    const weft__cord_handle *except;
    int64_t until_ns;
} threads_wait;

static intptr_t wait_for_threads(void *arg)
{
    const threads_wait *w = arg;
    return weft__cord_handles_wait_until(w->except, w->until_ns) ? 0 : -ETIMEDOUT;
}

static int wait_for_cords(weft__cord *c, double grace_s)
{
    if (have_cords_ended(c))
        return 0;
    threads_wait *w = malloc(sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    w->except = c->handle;
    w->until_ns = weft__ns_later(weft__clock_ns(), weft__whole_ns(grace_s * 1e9));
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {wait_for_threads, w, free}};
    int rc = (int)weft__op_run(&op);
    free(op.u.call.arg);
    return rc;
}

static void report_running_cord(weft_cord id, const char *name)
{
    weft__diag(LOG_WARNING, "thread #%llu '%s' was cancelled and has not ended",
               (unsigned long long)id, name);
}

static void report_remaining(weft__cord *c, double grace_s)
{
    unsigned reported = 0;
    weft__cord_handles_each_running(c->handle, report_running_cord);
    for (weft__fiber *f = last_descendant(c->main); f->parent != NULL; f = previous_fiber(f)) {
        bool is_joining = f->phase == WEFT__ENDING && weft__tree_has_children(f, NULL);
        if (!must_end(c, f) || is_joining)
            continue;
        weft__diag_not_ended(c, f, grace_s, reported++ < BACKTRACES_MAX);
    }
}

int weft_shutdown_all(double grace_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "weft_shutdown_all: grace_s is %g", grace_s);
    int64_t grace_ns = grace_s > 0 ? weft__deadline(c, grace_s) : 0;
    weft__shutdown_listeners(c, grace_ns);
    stop_others(c, grace_ns);
    weft__cord_handles_cancel(c->handle, grace_s);
    if (grace_s == 0)
        weft_sleep(0);
    weft_scope grace;
    weft_scope_open(&grace, grace_s);
    int rc = wait_for_fibers(c);
    if (rc == 0)
        rc = wait_for_cords(c, grace_s);
    if (weft_scope_close(&grace) == -ETIMEDOUT && rc == -ECANCELED)
        rc = -ETIMEDOUT;
    if (rc == -ETIMEDOUT)
        report_remaining(c, grace_s);
    return rc;
}

int weft_set_daemon(bool is_daemon)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->parent == NULL)
        return weft_fail(-EINVAL, "weft_set_daemon: a main fiber cannot be a daemon");
    if (f->is_daemon == is_daemon)
        return 0;
    bool has_timer = weft__timer_is_armed(&f->live->deadline);
    c->held_timers += is_daemon ? -(size_t)has_timer : (size_t)has_timer;
    f->is_daemon = is_daemon;
    weft__exit_hook *next;
    for (weft__exit_hook *exit_hook = f->live->exit_hooks; is_daemon && exit_hook != NULL;
         exit_hook = next) {
        next = exit_hook->next;
        if (exit_hook->on_exit != wake_exit_waiter)
            continue;
        weft__exit_hook_remove(exit_hook);
        wake_exit_waiter(exit_hook);
    }
    return 0;
}
