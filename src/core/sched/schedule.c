/*
 * Explicit control of fibers: suspend, schedule, transfer, start, interrupt, park. weft_snooze is
 * in sched.c.
 */
#include "core/cord/inbox.h"
#include "core/lifetime/cancel.h"
#include "core/sched/sched.h"

#include <stdlib.h>

/* The `leave` function of waits in which no object refers to the fiber. */
static bool leave_nothing(weft__fiber *f)
{
    (void)f;
    return true;
}

const weft__wait_kind weft__waits_new = {"its start", .is_open = true, .leave = leave_nothing};
const weft__wait_kind weft__waits_suspend = {"weft_schedule", .is_open = true,
                                             .leave = leave_nothing};
static const weft__wait_kind waits_start = {.name = "the fiber it started", .is_for_fiber = true};
static const weft__wait_kind waits_transfer = {"a transfer back from", .is_open = true,
                                               .is_for_fiber = true, .leave = leave_nothing};

weft_value weft_suspend(void)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(c->current->pending))
        return weft__call_refuse(c);
    return weft__wait(c, &weft__waits_suspend, NULL);
}

/*
 * Remove a fiber from its open wait, or from the run queue after an open wait. Returns false if the
 * fiber is in neither state. The call then changes nothing.
 */
static bool fiber_take_resumable(weft__cord *c, weft__fiber *f)
{
    if (weft__runnable_is_queued(&f->queued)) {
        if (!f->is_wait_open)
            return false;
        weft__runqueue_remove(&c->runqueue, &f->queued);
        return true;
    }
    if (f->waits_in == NULL || !f->waits_in->is_open)
        return false;
    f->waits_in = NULL;
    return true;
}

/*
 * Return the value with which a fiber resumes. If the fiber is queued with an error, only another
 * error replaces that error.
 */
static weft_value value_to_deliver(bool was_queued, weft_value old_value, weft_value value)
{
    return was_queued && weft_is_error(old_value) && !weft_is_error(value) ? old_value : value;
}

/* Wake the starter of a fiber that transfers away. Put the starter at the head of the run queue. */
COLD static void release_starter(weft__cord *c, weft__fiber *f)
{
    weft__wake(c, f->starter, 0, WEFT__FRONT);
    f->starter = NULL;
}

weft_value weft_transfer(weft_fiber fiber, weft_value value)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (UNLIKELY(f->pending))
        return weft__call_refuse(c);
    weft__fiber *to = weft__fiber_find(c, fiber);
    if (UNLIKELY(to == NULL || to->phase == WEFT__ENDED))
        return weft__fiber_find_error(c, fiber);
    if (UNLIKELY(to == f))
        return value;
    bool was_queued = weft__runnable_is_queued(&to->queued);
    if (UNLIKELY(to->is_parked || !fiber_take_resumable(c, to)))
        return -EBUSY;
    to->value = value_to_deliver(was_queued, to->value, value);
    if (UNLIKELY(f->starter != NULL))
        release_starter(c, f);
    weft__wait_begin(c, &waits_transfer, to);
    return weft__switch_to(c, to);
}

weft_value weft_start(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->pending)
        return weft__call_refuse(c);
    weft__fiber *to = weft__fiber_find(c, fiber);
    if (to == NULL || to->phase == WEFT__ENDED)
        return weft__fiber_find_error(c, fiber);
    if (to->waits_in != &weft__waits_new || to->is_parked)
        return -EBUSY;
    to->waits_in = NULL;
    to->value = 0;
    to->starter = f;
    f->value = 0;
    weft__wait_begin(c, &waits_start, to);
    return weft__switch_to(c, to);
}

static int schedule_here(weft__cord *c, weft__fiber *f, weft_value value)
{
    /*
     * The current fiber may be queued, if it runs the idle loop and was just woken. A parked fiber
     * may be runnable, but is never queued.
     */
    bool is_runnable =
        weft__runnable_is_queued(&f->queued) || (f->waits_in == NULL && f != c->current);
    if (is_runnable ? !f->is_wait_open : f->waits_in == NULL || !f->waits_in->is_open)
        return -EBUSY;
    if (is_runnable && value_to_deliver(true, f->value, value) != value)
        return 0;
    if (weft__runnable_is_queued(&f->queued))
        weft__runqueue_remove(&c->runqueue, &f->queued);
    f->waits_in = NULL;
    weft__make_runnable(c, f, value, WEFT__TAIL);
    return 0;
}

/*
 * Handle a remote weft_schedule. If the fiber has ended or does not wait, the message has no
 * effect.
 */
static void schedule_by_message(weft__cord *c, weft__remote_msg *msg)
{
    if (c != NULL)
        weft_schedule(msg->fiber, msg->value);
    weft__remote_msg_free(c, msg);
}

int weft_schedule(weft_fiber fiber, weft_value value)
{
    weft__cord *c = weft__cord_self; /* a thread that only sends does not become a cord */
    if (c == NULL || (fiber != 0 && weft__fiber_cord(fiber) != c->index))
        return weft__cord_send(fiber, value, schedule_by_message, false);
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL || f->phase == WEFT__ENDED)
        return -ESRCH;
    return schedule_here(c, f, value);
}

int weft_interrupt(weft_fiber fiber, int code)
{
    if (!weft_is_error(code))
        return weft_fail(-EINVAL, "weft_interrupt: code is %d, which is not an error", code);
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    const weft__wait_kind *kind = f->waits_in;
    if (kind == NULL || kind->leave == NULL || kind->ignores_interrupts || kind == &weft__waits_new)
        return -EBUSY;
    if (kind->leave(f)) {
        weft__wake_aborted(c, f, code, WEFT__TAIL);
    } else {
        f->is_interrupted = true;
        f->live->interrupt_code = code;
    }
    return 0;
}

int weft_park(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    if (f == c->current)
        return -EINVAL;
    weft__park(c, f);
    return 0;
}

int weft_unpark(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    weft__unpark(c, f);
    return 0;
}
