/*
 * Cancellation and raised errors. Both make a blocking call fail early. If the fiber waits, its
 * wait ends at once. Otherwise f->pending is set, and the next blocking call of the fiber fails.
 */
#include "core/lifetime/cancel.h"

#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/lifetime/scope.h"
#include "core/lifetime/tree.h"
#include "core/trace/trace.h"

/*
 * The state of a fiber's scopes. The innermost scope that is cancelled or an active shield
 * determines the state. OPEN: no scope is cancelled or an active shield.
 */
typedef enum scopes_state { OPEN, CANCELLED, SHIELDED } scopes_state;

static scopes_state scopes_state_of(const weft__fiber *f)
{
    for (const weft__scope *s = f->live->scope; s != NULL; s = s->outer) {
        if (s->is_cancelled)
            return CANCELLED;
        if (weft__scope_shields(s))
            return SHIELDED;
    }
    return OPEN;
}

/*
 * Return whether the fiber has an active shield. A shield delays errors that are raised in the
 * fiber.
 */
static bool is_shielded(const weft__fiber *f)
{
    for (const weft__scope *s = f->live->scope; s != NULL; s = s->outer)
        if (weft__scope_shields(s))
            return true;
    return false;
}

static bool has_raised_error(const weft__fiber *f)
{
    return f->live->raised != NULL || f->live->raised_code != 0;
}

bool weft__cancel_is_stop(const weft__fiber *f)
{
    return f->is_stopped && scopes_state_of(f) == OPEN;
}

void weft__cancel_update(weft__fiber *f)
{
    scopes_state state = scopes_state_of(f);
    bool from_outside = f->is_stopped || has_raised_error(f);
    bool is_set = state == CANCELLED || (from_outside && state == OPEN) || f->live->no_switch > 0;
    f->pending = is_set;
    if (!is_set)
        f->refusals = 0;
}

weft_value weft__cancel_take(weft__fiber *f)
{
    if (is_shielded(f) || f->is_stopped || !has_raised_error(f)) {
        weft__scopes_note_cancel(weft__cord_self, f);
        return -ECANCELED;
    }
    bool has_error = f->live->raised != NULL;
    int code = weft__error_next(f);
    if (has_error)
        f->error->is_unseen = !f->error->is_from_raise;
    weft__cancel_update(f);
    return code;
}

void weft__cancel_raise(weft__cord *c, weft__fiber *f, weft__queue_end where)
{
    weft__cancel_update(f);
    if (UNLIKELY(c->trace != NULL))
        weft__trace_cancel(c, f);
    if (!f->pending || f->waits_in == NULL || f->waits_in->leave == NULL)
        return;
    if (f->phase == WEFT__FRESH && !f->is_stopped)
        return;
    if (f->waits_in->leave(f))
        weft__wake_aborted(c, f, weft__cancel_take(f), where);
}

/* This wait cannot be interrupted. */
static const weft__wait_kind waits_pause = {
    .name = "the end of a pause, because it ignores its cancellation"};

/*
 * Pause the current fiber, because the fiber ignores the errors of its blocking calls. Report the
 * fiber once. If the process is ending and its grace time is over, let the process end without the
 * fiber.
 */
COLD static void refusal_pause(weft__cord *c, weft__fiber *f)
{
    int64_t now_ns = weft__cord_now(c);
    if (f->refusals == WEFT__REFUSALS_NAMED)
        weft__diag_ignored(f);
    if (f->refusals >= WEFT__REFUSALS_NAMED && c->give_up_ns != 0 && now_ns >= c->give_up_ns)
        weft__tree_give_up(c, f);
    weft__hold_timer(c, f, &f->live->timer, weft__ns_later(now_ns, WEFT__REFUSAL_PAUSE_NS));
    weft__wait(c, &waits_pause, NULL);
}

weft_value weft__call_refuse(weft__cord *c)
{
    weft__fiber *f = c->current;
    f->was_interrupted = true;
    if (f->live->no_switch > 0) {
        weft__diag(LOG_ERR, "fiber #%llu '%s' tried to switch while switching is forbidden",
                   (unsigned long long)f->id, f->name);
        return -EPERM;
    }
    /*
     * Code that ignores the error may call again in a loop. Let other fibers run, for example a
     * fiber that waits for the end of this fiber.
     */
    f->refusals += f->refusals < UINT16_MAX;
    if (UNLIKELY(f->refusals >= WEFT__REFUSALS_PAUSED))
        refusal_pause(c, f);
    else if (f->refusals >= WEFT__REFUSALS_MAX)
        weft__yield(c, 0);
    return weft__cancel_take(f);
}

weft_value weft__cancel_resolve(weft__fiber *f, weft_value result)
{
    f->was_interrupted = result == -ECANCELED && (f->is_interrupted || f->pending);
    if (f->was_interrupted)
        result = f->is_interrupted ? f->live->interrupt_code : weft__cancel_take(f);
    f->is_interrupted = false;
    return result;
}

void weft__fiber_stop(weft__cord *c, weft__fiber *f, weft_value value, weft__exit_reason why)
{
    f->is_stopped = true;
    f->is_shutdown = why == WEFT__EXIT_WITH_PARENT;
    f->is_restarting = why == WEFT__EXIT_TO_RESTART;
    f->result = value;
    if (weft__runnable_is_queued(&f->queued)) {
        weft__runqueue_remove(&c->runqueue, &f->queued);
        weft__runqueue_push_front(&c->runqueue, &f->queued);
    }
    weft__cancel_raise(c, f, WEFT__FRONT);
}

int weft_stop(weft_fiber fiber, weft_value value)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    if (f->parent == NULL)
        return weft_fail(-EINVAL, "weft_stop: fiber is a main fiber");
    if (f->phase != WEFT__ENDING)
        weft__fiber_stop(c, f, value, WEFT__EXIT_REQUESTED);
    else
        f->is_restarting = false; /* too late to set the value; only prevent a restart */
    return 0;
}

int weft_cancel(weft_fiber fiber)
{
    return weft_stop(fiber, -ECANCELED);
}

int weft_raisev(weft_fiber fiber, int code, const char *format, va_list args)
{
    if (!weft_is_error(code) || format == NULL)
        return weft_fail(-EINVAL, "weft_raise: code is %d, or format is NULL", code);
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    weft__error *e = weft__error_new(c->current, code, NULL, format, args);
    weft__error_locate(e);
    if (e != NULL)
        e->is_from_raise = true;
    rc = weft__error_queue(f, code, e);
    if (rc == 0)
        weft__cancel_raise(c, f, WEFT__FRONT);
    return rc;
}

int weft_raise(weft_fiber fiber, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = weft_raisev(fiber, code, format, args);
    va_end(args);
    return rc;
}

void weft__error_deliver_again(weft__fiber *f, int code)
{
    weft__error_set(f, weft__error_of_exit(f, code));
    weft__error_own(f);
    weft__error_queue(f, code, weft__error_ref(f->error));
    weft__cancel_update(f);
}

void weft_no_switch_begin(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return;
    c->current->live->no_switch++;
    weft__cancel_update(c->current);
}

void weft_no_switch_end(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL || c->current->live->no_switch == 0)
        return;
    c->current->live->no_switch--;
    weft__cancel_update(c->current);
}
