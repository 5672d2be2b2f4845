/* Scopes: deadlines and cancel flags that nest, and shields against them. */
#include "core/scope.h"

#include "core/alarm.h"
#include "core/group.h"
#include "core/tenure.h"

#include <weft/error.h>

static weft__scope *private_of(weft_scope *scope)
{
    return (weft__scope *)(void *)scope;
}

/* The time is over: a scope is cancelled, a shield keeps nothing out any more. */
static void lapse(weft__scope *s, int64_t at_ns)
{
    s->at_ns = WEFT__NEVER;
    if (s->is_shield) {
        s->is_over = true;
        return;
    }
    s->is_cancelled = true;
    s->since_ns = at_ns;
}

/* The scope for which calls of the fiber fail; NULL: none. */
static weft__scope *find_cause(const weft__fiber *f)
{
    weft__scope *cause = NULL;
    for (weft__scope *s = f->life->scope; s != NULL; s = s->outer) {
        if (s->is_cancelled && (cause == NULL || s->since_ns < cause->since_ns))
            cause = s;
        if (weft__scope_keeps_out(s))
            break;
    }
    return cause;
}

void weft__scopes_note_cut(weft__cord *c, weft__fiber *f)
{
    weft__scope *cause = find_cause(f);
    if (cause != NULL && cause->cut == 0)
        cause->cut = ++c->cuts;
}

void weft__cuts_forget_some(uint64_t since)
{
    for (weft__scope *s = weft__cord_self->current->life->scope; s != NULL; s = s->outer)
        if (s->cut > since)
            s->cut = 0;
}

/*
 * The timer is the fiber's, for the earliest deadline of its scopes: so a fiber that ends with some
 * open has nothing to look for in memory that may be gone.
 */
static void set_timer(weft__cord *c, weft__fiber *f, int64_t at_ns)
{
    weft__unhold_timer(c, f, &f->life->deadline);
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(c, f, &f->life->deadline, at_ns);
}

/* A deadline is there no longer: find the earliest of the others. */
static void reckon(weft__cord *c, weft__fiber *f)
{
    int64_t at_ns = WEFT__NEVER;
    for (const weft__scope *s = f->life->scope; s != NULL; s = s->outer)
        at_ns = s->at_ns < at_ns ? s->at_ns : at_ns;
    if (!weft__timer_is_armed(&f->life->deadline) || at_ns != f->life->deadline.deadline_ns)
        set_timer(c, f, at_ns);
}

void weft__scope_over(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = CONTAINER_OF(timer, weft__life, deadline)->waiter.fiber;
    weft__fired_timer(c, f);
    for (weft__scope *s = f->life->scope; s != NULL; s = s->outer)
        if (s->at_ns <= c->now_ns)
            lapse(s, s->at_ns);
    reckon(c, f);
    weft__alarm_raise(c, f, WEFT__TAIL);
}

static inline void set_deadline(weft__cord *c, weft__scope *s, double timeout_s)
{
    weft__fiber *f = s->fiber;
    if (timeout_s == 0) {
        lapse(s, c->now_ns);
        return;
    }
    s->at_ns = weft__deadline(c, timeout_s);
    if (s->at_ns == WEFT__NEVER)
        return;
    if (LIKELY(!weft__timer_is_armed(&f->life->deadline)))
        weft__hold_timer(c, f, &f->life->deadline, s->at_ns);
    else if (s->at_ns < f->life->deadline.deadline_ns)
        set_timer(c, f, s->at_ns);
}

static inline void drop_deadline(weft__cord *c, weft__scope *s)
{
    if (s->at_ns == WEFT__NEVER)
        return;
    s->at_ns = WEFT__NEVER;
    if (LIKELY(s->outer == NULL && s->fiber->life->scope == s)) /* the only one */
        weft__unhold_timer(c, s->fiber, &s->fiber->life->deadline);
    else
        reckon(c, s->fiber); /* the timer may be for an earlier time that the scope once had */
}

COLD static int refuse_time(double timeout_s)
{
    return weft_fail(-EINVAL, "a scope of %g s", timeout_s);
}

static inline int open_scope(weft_scope *scope, double timeout_s, bool is_shield)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (scope == NULL || !(timeout_s >= 0))
        return refuse_time(timeout_s);
    weft__fiber *f = c->current;
    weft__scope *s = private_of(scope);
    if (s == f->life->scope)
        return weft_fail(-EINVAL, "this scope is open already");
    s->outer = f->life->scope;
    s->fiber = f;
    s->at_ns = WEFT__NEVER;
    s->cut = 0;
    s->run = f->scope_run;
    s->is_cancelled = s->is_by_hand = s->is_over = false;
    s->is_shield = is_shield;
    f->life->scope = s;
    set_deadline(c, s, timeout_s);
    if (is_shield || UNLIKELY(s->is_cancelled))
        weft__alarm_update(f);
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
    weft__scope *s = private_of(scope);
    weft__fiber *f = c->current;
    if (s == NULL || s != f->life->scope)
        return weft_fail(-EINVAL, "this is not the innermost open scope");
    drop_deadline(c, s);
    f->life->scope = s->outer;
    s->fiber = NULL;
    if (s->is_shield || f->alarm)
        weft__alarm_update(f);
    return s->cut != 0 && !s->is_by_hand ? -ETIMEDOUT : 0;
}

int weft_scope_cancel(weft_scope *scope)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__scope *s = private_of(scope);
    if (s == NULL || !weft__scope_is_open(s))
        return weft_fail(-EINVAL, "the scope is not open");
    if (s->is_cancelled)
        return 0;
    drop_deadline(c, s);
    s->is_cancelled = s->is_by_hand = true;
    s->since_ns = c->now_ns;
    weft__alarm_raise(c, s->fiber, WEFT__FRONT);
    return 0;
}

int weft_scope_reset(weft_scope *scope, double timeout_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__scope *s = private_of(scope);
    if (s == NULL || !weft__scope_is_open(s) || !(timeout_s >= 0))
        return weft_fail(-EINVAL, "resetting a scope to %g s, or one that is not open", timeout_s);
    if (s->is_cancelled)
        return -ECANCELED;
    s->is_over = false;
    set_deadline(c, s, timeout_s); /* a later one is looked for when the timer fires: O(1) */
    if (s->at_ns == WEFT__NEVER)
        reckon(c, s->fiber);
    weft__alarm_raise(c, s->fiber, WEFT__TAIL);
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
    weft__cord_read_inbox(c); /* another thread may have cancelled this one */
    weft__tenure_hear_cancel(c);
    if (!c->current->alarm && c->wheel.count > 0)
        weft__wheel_expire(&c->wheel, weft__cord_look(c));
    if (c->current->alarm)
        weft__scopes_note_cut(c, c->current);
    return c->current->alarm;
}

void weft__scopes_drop(weft__cord *c, weft__fiber *f)
{
    if (f->life->scope != NULL) {
        set_timer(c, f, WEFT__NEVER);
        f->life->scope = NULL;
        f->scope_run++;
        weft__groups_drop(f);
    }
    weft__alarm_update(f);
}

void weft__scopes_rearm(weft__cord *c, weft__fiber *f)
{
    weft__timer_init(&f->life->deadline, weft__scope_over);
    reckon(c, f);
}

bool weft__block_turn(weft__block *block)
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
