/*
 * The children of a supervisor. Start and stop children. Track children that join, end, leave or
 * are restarted by weft_restart. supervise.c decides which children to start and stop.
 */
#include "core/supervise/child.h"

#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"

#include <stdlib.h>

/* Seconds until a cancelled child that has not ended is reported, unless its grace_s is set. */
#define GRACE_S 5.0

static bool leave_supervise_wait(weft__fiber *f)
{
    (void)f; /* nothing to undo, because supervisor_notify() checks waits_in */
    return true;
}

static const weft__wait_kind waits_supervised = {"the children that it supervises",
                                                 .leave = leave_supervise_wait};
/* The wait for a cancelled child. This wait cannot be interrupted. */
static const weft__wait_kind waits_stop = {"the end of", .is_for_fiber = true};

static const weft__wait_kind waits_untracked = {
    .name = "the end of children that it cannot track, because memory was exhausted"};

static weft__supervisor *supervisor_of(weft__reaper *r)
{
    return CONTAINER_OF(r, weft__supervisor, reaper);
}

/* Wake the supervisor if it waits for work. */
static void supervisor_notify(weft__supervisor *s)
{
    if (s->fiber->waits_in != &waits_supervised)
        return;
    s->has_work = true;
    weft__wake(s->cord, s->fiber, 0, WEFT__TAIL);
}

static void child_enqueue(weft__sup_child *ch)
{
    weft__supervisor *s = ch->supervisor;
    if (weft__list_is_empty(&ch->work_link)) /* otherwise the child is already in a work list */
        weft__list_insert(&s->to_handle, &ch->work_link);
    supervisor_notify(s);
}

static bool is_active_state(weft__sup_child_state state)
{
    return state != WEFT__SUP_CHILD_DORMANT && state != WEFT__SUP_CHILD_REMOVED;
}

void weft__sup_child_set_state(weft__sup_child *ch, weft__sup_child_state state)
{
    ch->supervisor->active -= is_active_state(ch->state);
    ch->supervisor->active += is_active_state(state);
    ch->state = state;
}

/* End the wait in weft__sup_child_stop, because the child has ended or left. */
static void child_stop_done(weft__sup_child *ch, weft__sup_child_state state)
{
    weft__supervisor *s = ch->supervisor;
    weft__sup_child_set_state(ch, state);
    weft__unhold_timer(s->cord, s->fiber, &s->grace);
    if (s->fiber->waits_in == &waits_stop)
        weft__wake(s->cord, s->fiber, 0, WEFT__TAIL);
}

/* Handle a child without a record that has ended or left. */
static void untracked_removed(weft__supervisor *s)
{
    if (--s->untracked == 0 && s->fiber->waits_in == &waits_untracked)
        weft__wake(s->cord, s->fiber, 0, WEFT__TAIL);
}

static bool child_ended(weft__reaper *r, weft__fiber *f, weft_value value)
{
    (void)value; /* the fiber record stores the value */
    weft__sup_child *ch = f->reaper_data;
    if (UNLIKELY(ch == NULL)) {
        untracked_removed(supervisor_of(r));
        return false;
    }
    if (ch->state == WEFT__SUP_CHILD_STOPPING) {
        child_stop_done(ch, WEFT__SUP_CHILD_HALTED);
    } else if (ch->supervisor->is_final_stop && f->is_stopped && f->is_shutdown) {
        /* The child was created during the final stop, and never ran. */
        weft__sup_child_set_state(ch, WEFT__SUP_CHILD_HALTED);
    } else {
        weft__sup_child_set_state(ch, WEFT__SUP_CHILD_ENDED);
        child_enqueue(ch);
    }
    return true;
}

static void child_left(weft__reaper *r, weft__fiber *f)
{
    weft__supervisor *s = supervisor_of(r);
    weft__sup_child *ch = f->reaper_data;
    if (UNLIKELY(ch == NULL)) {
        untracked_removed(s);
        return;
    }
    f->reaper_data = NULL;
    ch->fiber = NULL;
    weft__unhold_timer(s->cord, s->fiber, &ch->timer);
    weft__list_remove(&ch->order_link);
    weft__list_remove(&ch->work_link);
    weft__list_insert(&s->removed, &ch->work_link);
    if (ch->state == WEFT__SUP_CHILD_STOPPING)
        child_stop_done(ch, WEFT__SUP_CHILD_REMOVED);
    else
        weft__sup_child_set_state(ch, WEFT__SUP_CHILD_REMOVED);
    supervisor_notify(s); /* the supervisor frees the record, and returns after the last child */
}

static void child_due(weft__timer *timer)
{
    weft__sup_child *ch = CONTAINER_OF(timer, weft__sup_child, timer);
    weft__timer_fired(ch->supervisor->cord, ch->supervisor->fiber);
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_DUE);
    child_enqueue(ch);
}

static void child_adopt(weft__supervisor *s, weft__fiber *f)
{
    weft__sup_child *ch = malloc(sizeof *ch);
    f->reaper = &s->reaper;
    f->reaper_data = ch;
    if (ch == NULL) { /* stop the supervisor and this child */
        weft_cancel(f->id);
        s->lacks_memory = true;
        s->untracked++;
        supervisor_notify(s);
        return;
    }
    *ch = (weft__sup_child){.supervisor = s,
                            .fiber = f,
                            .restart = s->options.restart,
                            .grace_s = GRACE_S,
                            .state = WEFT__SUP_CHILD_RUNNING};
    weft__timer_init(&ch->timer, child_due);
    weft__list_init(&ch->work_link);
    weft__list_insert(&s->children, &ch->order_link);
    s->active++;
}

/* Update a child that the supervisor or weft_restart has restarted. */
static void child_started(weft__sup_child *ch)
{
    weft__supervisor *s = ch->supervisor;
    bool was_waiting = ch->state == WEFT__SUP_CHILD_DELAYED || ch->state == WEFT__SUP_CHILD_DUE;
    /*
     * If the child was waiting, weft_restart has restarted the child. Then start the halted
     * siblings too.
     */
    if (was_waiting) {
        s->has_to_start = true;
        supervisor_notify(s);
    }
    weft__unhold_timer(s->cord, s->fiber, &ch->timer);
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_RUNNING);
    ch->started_ns = weft__cord_now(s->cord);
}

static bool child_has_ended(const weft__sup_child *ch)
{
    return ch->state != WEFT__SUP_CHILD_RUNNING && ch->state != WEFT__SUP_CHILD_STOPPING;
}

static void child_joined(weft__reaper *r, weft__fiber *f)
{
    if (f->reaper == NULL)
        child_adopt(supervisor_of(r), f);
    else if (f->reaper == r && f->reaper_data != NULL && child_has_ended(f->reaper_data))
        child_started(f->reaper_data);
}

static bool child_held(const weft__reaper *r, const weft__fiber *f)
{
    const weft__supervisor *s = CONTAINER_OF(r, weft__supervisor, reaper);
    const weft__sup_child *ch = f->reaper_data;
    if (ch == NULL)
        return false;
    return ch->state == WEFT__SUP_CHILD_STOPPING ||
           (ch->state == WEFT__SUP_CHILD_HALTED && s->stopping != NULL);
}

static const weft__reaper_type supervisor_type = {child_ended, child_left, child_joined,
                                                  child_held};

/* Clean up, because the process ends while the fiber is in weft_supervise. */
static void supervisor_on_exit(weft__exit_hook *hook)
{
    weft__sup_children_end(CONTAINER_OF(hook, weft__supervisor, exit_hook));
}

/* Report the child in state STOPPING, because its grace time is over. */
static void report_late_child(weft__timer *timer)
{
    weft__supervisor *s = CONTAINER_OF(timer, weft__supervisor, grace);
    weft__timer_fired(s->cord, s->fiber);
    weft__diag_not_ended(s->cord, s->stopping->fiber, s->stopping->grace_s, true);
}

void weft__sup_children_begin(weft__supervisor *s, bool with_existing)
{
    weft__fiber *self = s->fiber;
    s->reaper.type = &supervisor_type;
    weft__list *lists[] = {&s->children, &s->to_handle, &s->to_stop, &s->self_ended, &s->removed};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        weft__list_init(lists[i]);
    weft__timer_init(&s->grace, report_late_child);
    weft__exit_hook_add(&self->live->exit_hooks, &s->exit_hook, supervisor_on_exit);
    self->live->children_reaper = &s->reaper;
    self->has_children_reaper = true;
    if (with_existing)
        WEFT__LIST_FOR(node, &self->live->children)
            child_joined(&s->reaper, weft__fiber_of_sibling(node));
}

static bool is_untracked(const weft__supervisor *s, const weft__fiber *f)
{
    return f->reaper == &s->reaper && f->reaper_data == NULL;
}

bool weft__sup_end_untracked(weft__supervisor *s)
{
    if (LIKELY(s->untracked == 0))
        return false;
    WEFT__LIST_FOR(node, &s->fiber->live->children) {
        weft__fiber *f = weft__fiber_of_sibling(node);
        if (is_untracked(s, f)) {
            weft__unpark(s->cord, f);
            weft_cancel(f->id);
        }
    }
    return weft__wait(s->cord, &waits_untracked, NULL) != -EDEADLK;
}

/* Let untracked children continue without a supervisor. */
static void forget_untracked(weft__supervisor *s)
{
    WEFT__LIST_FOR(node, &s->fiber->live->children) {
        weft__fiber *f = weft__fiber_of_sibling(node);
        if (is_untracked(s, f))
            f->reaper = NULL;
    }
}

void weft__sup_children_end(weft__supervisor *s)
{
    weft__fiber *self = s->fiber;
    if (s->untracked > 0)
        forget_untracked(s);
    if (s->exit_hook.pprev != NULL)
        weft__exit_hook_remove(&s->exit_hook);
    self->live->children_reaper = NULL;
    self->has_children_reaper = false;
    weft__unhold_timer(s->cord, self, &s->grace);
    while (!weft__list_is_empty(&s->children))
        weft__sup_child_forget(weft__sup_child_of_order(s->children.next));
    weft__sup_children_free_removed(s);
    weft__restart_intensity_free(&s->restarts);
    weft__error_unref(s->error);
}

bool weft__sup_children_wait(weft__supervisor *s, int *cause)
{
    s->has_work = false;
    if (UNLIKELY(s->fiber->pending))
        *cause = (int)weft__call_refuse(s->cord);
    else
        *cause = weft__wait_int(s->cord, &waits_supervised, NULL);
    return s->has_work;
}

int weft__sup_child_start(weft__sup_child *ch)
{
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_HALTED);
    int rc = weft__fiber_restart(ch->supervisor->cord, ch->fiber);
    return rc < 0 ? weft_fail(rc, "weft_supervise: cannot allocate a stack to restart child '%s'",
                              ch->fiber->name)
                  : 0;
}

void weft__sup_child_delay(weft__sup_child *ch, double seconds)
{
    weft__supervisor *s = ch->supervisor;
    int64_t at_ns = weft__deadline(s->cord, seconds);
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_DELAYED);
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(s->cord, s->fiber, &ch->timer, at_ns);
}

void weft__sup_child_undelay(weft__sup_child *ch)
{
    weft__list_remove(&ch->work_link);
    weft__unhold_timer(ch->supervisor->cord, ch->supervisor->fiber, &ch->timer);
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_HALTED);
}

int weft__sup_child_stop(weft__sup_child *ch)
{
    weft__supervisor *s = ch->supervisor;
    weft__cord *c = s->cord;
    weft__fiber *f = ch->fiber;
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_STOPPING);
    s->stopping = ch;
    weft__unpark(c, f);
    f->live->grace_ns = weft__deadline(c, ch->grace_s);
    if (f->live->grace_ns != WEFT__NEVER)
        weft__hold_timer(c, s->fiber, &s->grace, f->live->grace_ns);
    weft_cancel(f->id);
    int rc = weft__wait_int(c, &waits_stop, f);
    weft__unhold_timer(c, s->fiber, &s->grace);
    s->stopping = NULL;
    return rc;
}

/* Free the record of an ended fiber. Let a living fiber continue without a supervisor. */
static void child_release(weft__cord *c, weft__fiber *f)
{
    f->reaper_data = NULL;
    if (f->phase == WEFT__ENDED)
        weft__fiber_release(c, f);
    else
        f->reaper = NULL;
}

void weft__sup_child_forget(weft__sup_child *ch)
{
    weft__supervisor *s = ch->supervisor;
    weft__fiber *f = ch->fiber;
    weft__unhold_timer(s->cord, s->fiber, &ch->timer);
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_REMOVED);
    weft__list_remove(&ch->order_link);
    weft__list_remove(&ch->work_link);
    if (f->reaper == &s->reaper) /* otherwise the process ends, and the fiber may have ended */
        child_release(s->cord, f);
    free(ch);
}

void weft__sup_children_free_removed(weft__supervisor *s)
{
    weft__sup_child *ch;
    while ((ch = weft__sup_child_pop(&s->removed)) != NULL)
        free(ch);
}
