/*
 * Monitors. A fiber (the watcher) gets a message each time another fiber (the target) ends. After
 * the message, the watcher can await the target once, independent of other awaits.
 */
#include "core/fiber/monitor.h"

#include "core/fiber/mailbox.h"
#include "core/lifetime/exit.h"

#include <weft/error.h>
#include <weft/mailbox.h>

#include <stdlib.h>

typedef struct monitor {
    weft__exit_hook target_hook;  /* in target->monitors */
    weft__exit_hook watcher_hook; /* in watcher->live->exit_hooks */
    weft__fiber *target;
    weft__fiber *watcher;
    bool is_await_due; /* the message was sent, and the watcher has not awaited the target yet */
    bool has_slot;     /* a slot in the watcher's mailbox is reserved, so the message cannot fail */
} monitor;

static monitor *monitor_of(weft__exit_hook *target_hook)
{
    return CONTAINER_OF(target_hook, monitor, target_hook);
}

static void monitor_reserve(monitor *m)
{
    weft__fifo *p = &m->watcher->mailbox->fifo;
    m->has_slot = weft__fifo_make_room(p, 1) == 0;
    p->reserved += m->has_slot;
}

static void monitor_unreserve(monitor *m)
{
    m->watcher->mailbox->fifo.reserved -= m->has_slot;
    m->has_slot = false;
}

/* Exit hook of the target: free the monitor. */
static void target_exited(weft__exit_hook *target_hook)
{
    monitor *m = monitor_of(target_hook);
    weft__exit_hook_remove(&m->watcher_hook);
    monitor_unreserve(m);
    free(m);
}

/*
 * Drop an await of an ended fiber that a watcher has not made. Without a reaper, one more await is
 * allowed, unless a fiber without a monitor has awaited the fiber, or none will. If no await is
 * left, the fiber is gone.
 */
static void drop_await(weft__fiber *f)
{
    uint32_t awaits_min = f->reaper == NULL && !f->is_value_taken;
    f->awaits_left -= f->awaits_left > awaits_min;
    if (f->awaits_left == 0 && f->reaper == NULL)
        weft__fiber_release(weft__cord_self, f);
}

/* Exit hook of the watcher: free the monitor, and drop the watcher's await of the target. */
static void watcher_exited(weft__exit_hook *watcher_hook)
{
    monitor *m = CONTAINER_OF(watcher_hook, monitor, watcher_hook);
    weft__fiber *f = m->target;
    weft__exit_hook_remove(&m->target_hook);
    if (m->is_await_due && f->phase == WEFT__ENDED && !weft__fiber_is_group_held(f))
        drop_await(f);
    monitor_unreserve(m);
    free(m);
}

static void monitor_tell(weft__cord *c, monitor *m)
{
    monitor_unreserve(m);
    weft__mailbox_force(c, m->watcher, (weft_value)m->target->id);
    monitor_reserve(m);
    m->is_await_due = true;
}

uint32_t weft__monitors_notify(weft__cord *c, weft__fiber *f, bool *is_error_handled)
{
    uint32_t told = 0;
    for (weft__exit_hook *target_hook = f->monitors; target_hook != NULL;
         target_hook = target_hook->next) {
        monitor *m = monitor_of(target_hook);
        monitor_tell(c, m);
        told++;
        *is_error_handled |= m->watcher == f->parent;
    }
    return told;
}

/*
 * Return the monitor with the given target f and watcher, or NULL. A monitor is in two lists: the
 * monitors of f, and the exit hooks of the watcher. The search walks both lists at the same time,
 * and stops at the end of the shorter list.
 */
static monitor *monitor_find(const weft__fiber *f, const weft__fiber *watcher)
{
    weft__exit_hook *target_hook = f->monitors, *watcher_hook = watcher->live->exit_hooks;
    for (; target_hook != NULL && watcher_hook != NULL;
         target_hook = target_hook->next, watcher_hook = watcher_hook->next) {
        if (monitor_of(target_hook)->watcher == watcher)
            return monitor_of(target_hook);
        if (watcher_hook->on_exit == watcher_exited &&
            CONTAINER_OF(watcher_hook, monitor, watcher_hook)->target == f)
            return CONTAINER_OF(watcher_hook, monitor, watcher_hook);
    }
    return NULL;
}

uint32_t weft__monitors_unawaited(const weft__fiber *f)
{
    uint32_t unawaited = 0;
    for (weft__exit_hook *target_hook = f->monitors; target_hook != NULL;
         target_hook = target_hook->next)
        unawaited += monitor_of(target_hook)->is_await_due;
    return unawaited;
}

bool weft__monitors_await(weft__fiber *f, const weft__fiber *watcher)
{
    monitor *m = monitor_find(f, watcher);
    if (m == NULL || !m->is_await_due)
        return weft__monitors_unawaited(f) == 0;
    m->is_await_due = false;
    return true;
}

int weft_monitor(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc == -ESRCH && weft__unawaited_find(c, fiber) != NULL)
        return weft__mailbox_force(c, c->current, (weft_value)fiber); /* the target has no record */
    if (rc < 0)
        return rc;
    weft__fiber *self = c->current;
    if (f == self)
        return weft_fail(-EINVAL, "weft_monitor: fiber is the caller");
    if (monitor_find(f, self) != NULL)
        return 0;
    monitor *m = weft__mailbox_of(self) != NULL ? malloc(sizeof *m) : NULL;
    if (m == NULL)
        return -ENOMEM;
    *m = (monitor){.target = f, .watcher = self};
    monitor_reserve(m);
    if (!m->has_slot) {
        free(m);
        return -ENOMEM;
    }
    weft__exit_hook_add(&f->monitors, &m->target_hook, target_exited);
    weft__exit_hook_add(&self->live->exit_hooks, &m->watcher_hook, watcher_exited);
    if (f->phase == WEFT__ENDED) {
        /* Without a reaper, one await is always available. The first watcher uses this await. */
        bool is_more = f->reaper != NULL || weft__monitors_unawaited(f) > 0;
        f->awaits_left += is_more && !weft__fiber_is_group_held(f);
        monitor_tell(c, m);
    }
    return 0;
}

int weft_unmonitor(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc < 0)
        return rc;
    monitor *m = monitor_find(f, c->current);
    if (m == NULL)
        return -ENOENT;
    weft__exit_hook_remove(&m->watcher_hook);
    watcher_exited(&m->watcher_hook);
    return 0;
}
