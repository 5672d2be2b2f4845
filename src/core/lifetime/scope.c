/*
 * Scopes and shields: nested deadlines and cancellation. This file also implements the block macros
 * of weft/scope.h.
 */
#include "core/lifetime/scope.h"

#include "core/cord/handle.h"
#include "core/cord/inbox.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/group.h"

#include <weft/error.h>

static weft__scope *scope_private(weft_scope *scope)
{
    return (weft__scope *)(void *)scope;
}

/* Handle the expiry of a deadline. Cancel a scope, or deactivate a shield. */
static void scope_expire(weft__scope *s, int64_t at_ns)
{
    s->deadline_ns = WEFT__NEVER;
    if (s->is_shield) {
        s->has_expired = true;
        return;
    }
    s->is_cancelled = true;
    s->cancelled_ns = at_ns;
}

/* Return the scope that makes blocking calls of the fiber fail. NULL: none. */
static weft__scope *find_cause(const weft__fiber *f)
{
    weft__scope *cause = NULL;
    for (weft__scope *s = f->live->scope; s != NULL; s = s->outer) {
        if (s->is_cancelled && (cause == NULL || s->cancelled_ns < cause->cancelled_ns))
            cause = s;
        if (weft__scope_shields(s))
            break;
    }
    return cause;
}

void weft__scopes_note_cancel(weft__cord *c, weft__fiber *f)
{
    weft__scope *cause = find_cause(f);
    if (cause != NULL && cause->first_cancel == 0)
        cause->first_cancel = ++c->scope_cancels;
}

void weft__scope_cancels_forget(uint64_t since)
{
    if (weft__scope_cancels_so_far() == since)
        return;
    for (weft__scope *s = weft__cord_self->current->live->scope; s != NULL; s = s->outer)
        if (s->first_cancel > since)
            s->first_cancel = 0;
}

/*
 * Set the deadline timer of a fiber to at_ns, the earliest deadline of its scopes. The timer is in
 * the fiber and not in a scope. So the exit of a fiber can disarm the timer without access to open
 * scopes. The memory of these scopes may be invalid.
 */
static void deadline_timer_set(weft__cord *c, weft__fiber *f, int64_t at_ns)
{
    weft__unhold_timer(c, f, &f->live->deadline);
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(c, f, &f->live->deadline, at_ns);
}

/* Set the deadline timer again after a deadline has expired or was removed. */
static void deadline_recompute(weft__cord *c, weft__fiber *f)
{
    int64_t at_ns = WEFT__NEVER;
    for (const weft__scope *s = f->live->scope; s != NULL; s = s->outer)
        at_ns = s->deadline_ns < at_ns ? s->deadline_ns : at_ns;
    if (!weft__timer_is_armed(&f->live->deadline) || at_ns != f->live->deadline.deadline_ns)
        deadline_timer_set(c, f, at_ns);
}

void weft__scope_expired(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = CONTAINER_OF(timer, weft__fiber_live, deadline)->waiter.fiber;
    weft__timer_fired(c, f);
    for (weft__scope *s = f->live->scope; s != NULL; s = s->outer)
        if (s->deadline_ns <= c->now_ns)
            scope_expire(s, s->deadline_ns);
    deadline_recompute(c, f);
    weft__cancel_raise(c, f, WEFT__TAIL);
}

static inline void set_deadline(weft__cord *c, weft__scope *s, double timeout_s)
{
    weft__fiber *f = s->fiber;
    if (timeout_s == 0) {
        scope_expire(s, c->now_ns);
        return;
    }
    s->deadline_ns = weft__deadline(c, timeout_s);
    if (s->deadline_ns == WEFT__NEVER)
        return;
    if (LIKELY(!weft__timer_is_armed(&f->live->deadline)))
        weft__hold_timer(c, f, &f->live->deadline, s->deadline_ns);
    else if (s->deadline_ns < f->live->deadline.deadline_ns)
        deadline_timer_set(c, f, s->deadline_ns);
}

static inline void drop_deadline(weft__cord *c, weft__scope *s)
{
    if (s->deadline_ns == WEFT__NEVER)
        return;
    s->deadline_ns = WEFT__NEVER;
    if (LIKELY(s->outer == NULL && s->fiber->live->scope == s)) /* the only scope */
        weft__unhold_timer(c, s->fiber, &s->fiber->live->deadline);
    else /* the timer may still have an earlier deadline of this scope */
        deadline_recompute(c, s->fiber);
}

COLD static int open_error(const weft_scope *scope, double timeout_s, bool is_shield)
{
    const char *call = is_shield ? "weft_shield_open" : "weft_scope_open";
    if (scope == NULL)
        return weft_fail(-EINVAL, "%s: scope is NULL", call);
    if (!(timeout_s >= 0))
        return weft_fail(-EINVAL, "%s: timeout_s is %g", call, timeout_s);
    return weft_fail(-EINVAL, "%s: scope is already open", call);
}

static inline int open_scope(weft_scope *scope, double timeout_s, bool is_shield)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (scope == NULL || !(timeout_s >= 0))
        return open_error(scope, timeout_s, is_shield);
    weft__fiber *f = c->current;
    weft__scope *s = scope_private(scope);
    if (s == f->live->scope)
        return open_error(scope, timeout_s, is_shield);
    s->outer = f->live->scope;
    s->fiber = f;
    s->deadline_ns = WEFT__NEVER;
    s->first_cancel = 0;
    s->generation = f->scope_generation;
    s->is_cancelled = s->is_explicit = s->has_expired = false;
    s->is_shield = is_shield;
    f->live->scope = s;
    set_deadline(c, s, timeout_s);
    if (is_shield || UNLIKELY(s->is_cancelled))
        weft__cancel_update(f);
    return 0;
}

int weft_scope_open(weft_scope *scope, double timeout_s)
{
    return open_scope(scope, timeout_s, false);
}

int weft_shield_open(weft_scope *scope, double timeout_s)
{
    return open_scope(scope, timeout_s, true);
}

int weft_scope_close(weft_scope *scope)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__scope *s = scope_private(scope);
    weft__fiber *f = c->current;
    if (s == NULL || s != f->live->scope)
        return weft_fail(-EINVAL, "weft_scope_close: scope is not the innermost open scope");
    drop_deadline(c, s);
    f->live->scope = s->outer;
    s->fiber = NULL;
    if (s->is_shield || f->pending)
        weft__cancel_update(f);
    return s->first_cancel != 0 && !s->is_explicit ? -ETIMEDOUT : 0;
}

int weft_scope_cancel(weft_scope *scope)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__scope *s = scope_private(scope);
    if (s == NULL || !weft__scope_is_open(s))
        return weft_fail(-EINVAL, "weft_scope_cancel: scope is not open");
    if (s->is_cancelled)
        return 0;
    drop_deadline(c, s);
    s->is_cancelled = s->is_explicit = true;
    s->cancelled_ns = c->now_ns;
    weft__cancel_raise(c, s->fiber, WEFT__FRONT);
    return 0;
}

int weft_scope_reset(weft_scope *scope, double timeout_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__scope *s = scope_private(scope);
    if (s == NULL || !weft__scope_is_open(s) || !(timeout_s >= 0))
        return weft_fail(-EINVAL, "weft_scope_reset: timeout_s is %g, or scope is not open",
                         timeout_s);
    if (s->is_cancelled)
        return -ECANCELED;
    s->has_expired = false;
    /* If the new deadline is later, the timer is corrected when it fires. So the call is O(1). */
    set_deadline(c, s, timeout_s);
    if (s->deadline_ns == WEFT__NEVER)
        deadline_recompute(c, s->fiber);
    weft__cancel_raise(c, s->fiber, WEFT__TAIL);
    return 0;
}

bool weft_scope_is_cancelled(const weft_scope *scope)
{
    return scope != NULL && ((const weft__scope *)(const void *)scope)->is_cancelled;
}

bool weft_is_cancelled(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return false;
    weft__inbox_read(c); /* a message of another thread may cancel the caller */
    weft__cord_handle_check_cancel(c);
    if (!c->current->pending && c->wheel.count > 0)
        weft__wheel_expire(&c->wheel, weft__cord_advance_now(c));
    if (c->current->pending)
        weft__scopes_note_cancel(c, c->current);
    return c->current->pending;
}

void weft__scopes_drop(weft__cord *c, weft__fiber *f)
{
    if (f->live->scope != NULL) {
        deadline_timer_set(c, f, WEFT__NEVER);
        f->live->scope = NULL;
        f->scope_generation++;
        weft__groups_drop(f);
    }
    weft__cancel_update(f);
}

void weft__scopes_rearm(weft__cord *c, weft__fiber *f)
{
    weft__timer_init(&f->live->deadline, weft__scope_expired);
    deadline_recompute(c, f);
}

bool weft__block_next(weft__block *block)
{
    if (block->is_entered)
        return false;
    block->is_entered = true;
    int rc = open_scope(&block->scope, block->timeout_s, block->is_shield);
    block->is_open = rc == 0;
    if (block->result != NULL)
        *block->result = rc;
    return block->is_open;
}

void weft__block_leave(weft__block *block)
{
    if (!block->is_open)
        return;
    int rc = weft_scope_close(&block->scope);
    if (block->result != NULL)
        *block->result = rc;
}
