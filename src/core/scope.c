/* Scopes: deadlines and cancel flags that nest, and shields against them. */
#include "core/scope.h"

#include "arch/annotate.h"
#include "core/alarm.h"
#include "core/group.h"

#include <weft/error.h>

static weft__scope *private_of(weft_scope *scope)
{
    return (weft__scope *)(void *)scope;
}

/* The time is over: a scope is cancelled, a shield keeps nothing out any more. */
static void lapse(weft__scope *s)
{
    if (s->is_shield)
        s->is_over = true;
    else
        s->is_cancelled = s->has_struck = true;
}

static void strike(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    weft__scope *s = CONTAINER_OF(timer, weft__scope, timer);
    weft__fired_timer(c, s->fiber);
    s->fiber->deadlines--;
    lapse(s);
    weft__alarm_raise(c, s->fiber, WEFT__TAIL);
}

static void set_deadline(weft__cord *c, weft__scope *s, double timeout_s)
{
    if (timeout_s == 0) {
        lapse(s);
        return;
    }
    int64_t at_ns = weft__deadline(c, timeout_s);
    if (at_ns == WEFT__NEVER)
        return;
    weft__hold_timer(c, s->fiber, &s->timer, at_ns);
    s->fiber->deadlines++;
}

static void disarm(weft__cord *c, weft__fiber *f, weft__scope *s)
{
    f->deadlines -= weft__timer_is_armed(&s->timer);
    weft__unhold_timer(c, f, &s->timer);
}

static int open_scope(weft_scope *scope, double timeout_s, bool is_shield)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return -ENOMEM;
    if (scope == NULL || !(timeout_s >= 0))
        return weft_fail(-EINVAL, "a scope of %g s", timeout_s);
    weft__scope *s = private_of(scope);
    if (s == c->current->scope)
        return weft_fail(-EINVAL, "this scope is open already");
    *s = (weft__scope){.outer = c->current->scope, .fiber = c->current, .is_shield = is_shield};
    weft__timer_init(&s->timer, strike);
    c->current->scope = s;
    set_deadline(c, s, timeout_s);
    if (is_shield || s->is_cancelled)
        weft__alarm_update(c->current);
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
        return -ENOMEM;
    weft__scope *s = private_of(scope);
    weft__fiber *f = c->current;
    if (s == NULL || s != f->scope)
        return weft_fail(-EINVAL, "this is not the innermost open scope");
    disarm(c, f, s);
    f->scope = s->outer;
    s->fiber = NULL;
    if (s->is_shield || f->alarm)
        weft__alarm_update(f);
    return s->has_struck ? -ETIMEDOUT : 0;
}

int weft_scope_cancel(weft_scope *scope)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return -ENOMEM;
    weft__scope *s = private_of(scope);
    if (s == NULL || s->fiber == NULL)
        return weft_fail(-EINVAL, "the scope is not open");
    if (s->is_cancelled)
        return 0;
    disarm(c, s->fiber, s);
    s->is_cancelled = true;
    weft__alarm_raise(c, s->fiber, WEFT__FRONT);
    return 0;
}

int weft_scope_reset(weft_scope *scope, double timeout_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return -ENOMEM;
    weft__scope *s = private_of(scope);
    if (s == NULL || s->fiber == NULL || !(timeout_s >= 0))
        return weft_fail(-EINVAL, "resetting a scope to %g s, or one that is not open", timeout_s);
    if (s->is_cancelled)
        return -ECANCELED;
    disarm(c, s->fiber, s);
    s->is_over = false;
    set_deadline(c, s, timeout_s);
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
    if (!c->current->alarm && c->wheel.count > 0)
        weft__wheel_expire(&c->wheel, weft__cord_look(c));
    return c->current->alarm;
}

/* Is that memory of a function of f which has returned? */
static bool is_in_a_frame(const weft__fiber *f, const weft__scope *s)
{
#ifdef WEFT__ASAN /* has frames elsewhere, and poisons those that are over */
    if (__asan_region_is_poisoned((void *)s, sizeof *s) != NULL)
        return true;
#endif
    return (uintptr_t)s - (uintptr_t)f->stack.low < f->stack.bytes;
}

/*
 * What is gone cannot be looked at, and need not be if there is no deadline to disarm. As the
 * process ends nobody can tell where main is.
 */
static bool may_be_gone(const weft__cord *c, const weft__fiber *f, const weft__scope *s)
{
    return f->deadlines == 0 && (c->closer != NULL || is_in_a_frame(f, s));
}

void weft__scopes_drop(weft__cord *c, weft__fiber *f)
{
    bool has_some = f->scope != NULL;
    for (weft__scope *s = f->scope; s != NULL && !may_be_gone(c, f, s); s = s->outer) {
        disarm(c, f, s);
        s->fiber = NULL;
    }
    f->scope = NULL;
    if (has_some)
        weft__groups_drop(f);
    weft__alarm_update(f);
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
