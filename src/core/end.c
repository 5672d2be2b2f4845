/*
 * The life of a fiber from its first frame to its last, and what becomes of its value and its
 * error: its function returns, its defers run, its children are cancelled and joined, its memory
 * is freed, and then its value goes to those who await it or its error to its parent. Also: running
 * it again.
 */
#include "core/end.h"

#include "core/alarm.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/mailbox.h"
#include "core/report.h"
#include "core/scope.h"
#include "core/tree.h"

int weft__fiber_error_from_below(weft__fiber *f)
{
    weft__error *late;
    while ((late = weft__error_next_by_hand(f)) != NULL) {
        weft__report_undelivered(f, late);
        weft__error_unref(late);
    }
    return weft__error_next(f);
}

/*
 * The first error that came from below and was not delivered is the fiber's own, unless it has one.
 */
static weft_value value_with_errors_of_children(weft__fiber *f, weft_value value)
{
    if (!weft_is_error(value) && !(f->is_stopped && !f->is_shutdown)) {
        int code = weft__fiber_error_from_below(f);
        if (code != 0)
            value = code;
    }
    weft__error_drop_queue(f);
    return value;
}

/* The end of a run for fibers that leave something behind: defers, children, scopes, memory. */
COLD static weft_value clean_up(weft__cord *c, weft__fiber *f, weft_value value)
{
    weft__scopes_drop(c, f); /* first: their memory was the function's */
    weft__defers_run(f);
    weft__scopes_drop(c, f);
    do {                             /* again, if destructors leave something behind */
        weft__fiber_lapse_claims(f); /* before its children end, who may want the lock, say */
        weft__tree_end_children(c, f, NULL);
        weft__tree_bury(c, f);
        weft__extras_free(f);
    } while (f->life->extras != NULL || !weft__list_is_empty(&f->life->children) ||
             f->life->claims != NULL);
    weft__mailbox_empty(c, f);
    f->is_closing = false;
    f->life->no_switch = 0;
    return value_with_errors_of_children(f, value);
}

/*
 * What is to be cleaned up; 0: nothing. One branch for all of them: mostly none is there. An error
 * that was raised, and a depth of no_switch, set the alarm, unless there is a scope.
 */
static inline uintptr_t left_behind(const weft__fiber *f)
{
    const weft__life *life = f->life;
    uintptr_t any = (uintptr_t)life->extras | (uintptr_t)life->scope | (uintptr_t)life->claims;
    any |= (uintptr_t)life->ended.next ^ (uintptr_t)&life->ended;
    any |= (uintptr_t)life->children.next ^ (uintptr_t)&life->children;
    any |= (uintptr_t)f->mailbox | f->alarm;
    return any;
}

/* The value to everyone who waits for it; the words of an error too. False: nobody does. */
static bool tell_awaiters(weft__cord *c, weft__fiber *f, weft_value value)
{
    bool is_any = false;
    weft__waiter *w;
    while ((w = weft__line_next(&f->life->awaiters)) != NULL) {
        is_any = true;
        if (weft_is_error(value) && w->fiber != NULL)
            weft__error_set(w->fiber, weft__error_ref(f->error));
        weft__serve(c, w, value);
    }
    return is_any;
}

/* A failure that nobody awaits goes to the parent. */
static void tell_parent(weft__cord *c, weft__fiber *f, weft_value value)
{
    if (!weft__fiber_has_failed(f, value))
        return;
    weft__error_own(f);
    weft__error_queue(f->parent, (int)value, weft__error_ref(f->error));
    weft__alarm_raise(c, f->parent, WEFT__TAIL);
}

/* Keep the value for those who await it later. */
static void keep_value(weft__cord *c, weft__fiber *f, weft_value value, uint32_t awaits)
{
    weft__fiber_set_phase(f, WEFT__ENDED);
    f->result = value;
    f->spent_ns = f->life->cpu_ns;
    f->awaits_left = awaits;
    c->ended_count++;
    weft__life *above = f->parent->life;
    weft__list_insert(&above->ended, &f->sibling);
    if (UNLIKELY(++above->ended_count > WEFT__ENDED_WHOLE))
        weft__ended_shorten(c, f->parent, f);
}

void weft__fiber_retire(weft__cord *c, weft__fiber *f)
{
    if (f->phase == WEFT__FREE) {
        c->records_used++; /* it was counted out when it ended */
        weft__fiber_free(c, f);
    } else if (f->arg_room == 0) { /* kept for its value; a restart may need the argument too */
        weft__fiber_release_stack(c, f);
    }
}

/*
 * Tell everyone who is to know that the fiber has ended: those who await it, and if nobody does its
 * keeper, its monitors or its parent. Returns how often its value may still be awaited; 0: not at
 * all, nothing is kept but for a keeper that stays.
 */
static uint32_t tell(weft__cord *c, weft__fiber *f, weft_value value)
{
    bool is_awaited = tell_awaiters(c, f, value);
    bool is_parent_told = is_awaited || f->keeper != NULL;
    uint32_t awaits = !is_awaited && !f->is_unawaited;
    if (UNLIKELY(f->monitors != NULL))
        awaits = weft__monitors_tell(c, f, &is_parent_told);
    if (!is_parent_told)
        tell_parent(c, f, value);
    if (UNLIKELY(f->keeper != NULL)) {
        bool is_kept = f->keeper->type->ended(f->keeper, f, value);
        if (is_kept && f->keeper == NULL)
            return UINT32_MAX; /* until it is taken by hand */
        if (!is_kept)
            f->keeper = NULL;
        return f->monitors != NULL ? awaits : 0;
    }
    return awaits;
}

/* Is the keeper just ending the fiber, to decide alone what comes then? */
static bool is_held(const weft__fiber *f)
{
    return f->keeper != NULL && f->keeper->type->holds != NULL &&
           f->keeper->type->holds(f->keeper, f);
}

/* The fiber is dead: its record is free from now on, or holds its value. */
static void finish(weft__cord *c, weft__fiber *f, weft_value value)
{
    if (UNLIKELY(!weft__line_is_empty(&f->restarters)) && !is_held(f))
        weft__serve_all(c, &f->restarters, -ESRCH);
    if (UNLIKELY(weft_is_error(value)))
        weft__error_set(f, weft__error_of_end(f, (int)value));
    uint32_t awaits = tell(c, f, value);
    weft__tree_unlink(c, f);
    if (awaits > 0 || f->keeper != NULL) {
        keep_value(c, f, value, awaits);
    } else {
        weft__fiber_set_phase(f, WEFT__FREE);
        weft__fiber_set_id(f, 0);
        c->records_used--;
    }
}

/* What its function returned becomes its value, with all that it leaves behind cleaned up. */
static weft_value settle(weft__cord *c, weft__fiber *f, weft_value returned)
{
    weft_value value = weft__fiber_final_value(f, returned);
    if (UNLIKELY(weft__is_copy))
        weft__fork_return(value); /* nothing here is its own */
    weft__fiber_set_phase(f, WEFT__ENDING);
    if (UNLIKELY(left_behind(f) != 0 || f->has_short))
        value = clean_up(c, f, value);
    f->claim_run++; /* what it holds still, nobody waits for */
    return value;
}

/*
 * The end of most fibers: it has a value, leaves nothing behind, and its parent waits for that and
 * for nothing else. Nothing is kept of it, and nobody else is to be told. *first as in sched.h.
 */
static inline bool is_simple_end(const weft__cord *c, const weft__fiber *f, weft_value value,
                                 weft__runnable **first)
{
    const weft__life *life = f->life;
    uintptr_t any = left_behind(f) | (uintptr_t)f->keeper | (uintptr_t)f->monitors;
    any |= (uintptr_t)f->restarters.first | (uintptr_t)f->error | (uintptr_t)f->starter;
    any |= (uintptr_t)life->cpu_ns | f->oddities;
    if (any != 0 || weft_is_error(value))
        return false;
    const weft__waiter *w = &f->parent->life->waiter;
    return life->awaiters.first == w && w->next == w && c->warm_count < WEFT__WARM_MAX &&
           weft__can_leave_simply(c, f->parent, first);
}

/* Its record is free at once; its stack is in use until the very end, and so nothing is called. */
__attribute__((noreturn)) static inline void end_simply(weft__cord *c, weft__fiber *f,
                                                        weft_value value, weft__runnable *first)
{
    weft__fiber *parent = f->parent;
    weft__life *above = parent->life;
    above->waiter.line = NULL;
    parent->waits_in = NULL;
    f->life->awaiters.first = NULL;
    weft__list_cut(&f->sibling);
    f->claim_run++;
    f->name[0] = '\0';
    weft__fiber_set_id(f, 0);
    weft__fiber_set_phase(f, WEFT__FREE);
    weft__fiber_keep_warm(c, f);
    weft__leave_simply(c, parent, value, first);
}

COLD static void begin_again(weft__cord *c, weft__fiber *f)
{
    f->is_restarting = false;
    f->is_stopped = false;
    f->refusals = 0;
    f->life->grace_ns = 0;
    f->life->first_value = 0;
    weft__fiber_set_phase(f, WEFT__ALIVE);
    weft__error_set(f, NULL);
    weft__alarm_update(f);
    weft__serve_all(c, &f->restarters, 0);
}

/* Any other end of a run. Returns if it is to run again. */
__attribute__((noinline)) static void end_fully(weft__cord *c, weft__fiber *f, weft_value returned)
{
    f->has_drop = false; /* the function was called, and owned its argument */
    weft_value value = settle(c, f, returned);
    if (UNLIKELY(f->is_restarting)) {
        begin_again(c, f);
        return;
    }
    if (UNLIKELY(weft__error_is_unseen(f)) && !weft_is_error(value) && !f->is_stopped)
        weft__report_unseen(f);
    if (UNLIKELY(f->parent == NULL))
        weft__fork_return(value); /* in a child by weft_fork it is the main fiber */
    finish(c, f, value);
    weft__switch_away(c);
}

/* The fiber was told to end before its function was called for the first time, or once more. */
COLD static weft_value end_before_run(weft__fiber *f)
{
    if (f->has_drop) {
        f->has_drop = false;
        f->life->drop(f->arg);
    }
    return -ECANCELED;
}

void weft__fiber_entry(intptr_t value)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = c->current;
    f->life->first_value = value;
    weft__fiber_set_phase(f, WEFT__ALIVE);
    for (;;) {
        weft_value result = LIKELY(!f->is_stopped) ? f->fn(f->arg) : end_before_run(f);
        weft__runnable *first;
        if (LIKELY(is_simple_end(c, f, result, &first)))
            end_simply(c, f, result, first);
        end_fully(c, f, result);
    }
}

static const weft__wait_kind waits_restart = {"a restart of", .is_for_fiber = true,
                                              .leave = weft__leave_line};

/* Let a fiber that never ran run after all, whatever it was told since. */
static int run_after_all(weft__cord *c, weft__fiber *f)
{
    f->is_stopped = false;
    f->life->grace_ns = 0;
    f->value = 0;
    weft__alarm_update(f);
    if (f->waits_in == &weft__waits_new)
        weft__wake(c, f, 0, WEFT__TAIL);
    return 0;
}

/* An ended fiber is awaited, or runs again: its error is no news to its parent any more. */
static void take_back_error(weft__fiber *f)
{
    if (!weft_is_error(f->result))
        return;
    weft__error_unqueue(f->parent, f->error, (int)f->result);
    weft__alarm_update(f->parent);
}

/* Take a fiber from those of its parent that have ended. */
static void leave_ended(weft__cord *c, weft__fiber *f)
{
    weft__list_remove(&f->sibling);
    c->ended_count--;
    f->parent->life->ended_count--;
    take_back_error(f);
}

int weft__fiber_revive(weft__cord *c, weft__fiber *f)
{
    size_t bytes = weft__stack_slot_bytes(&f->stack);
    int rc = f->stack.low == NULL ? weft__fiber_take_stack(c, f, bytes) : 0;
    if (rc < 0)
        return rc;
    weft__fiber_rewind(f);
    leave_ended(c, f);
    weft__error_set(f, NULL);
    f->is_stopped = false;
    f->life->grace_ns = 0;
    f->life->cpu_ns = f->spent_ns;
    f->life->cxx = (weft__cxx_globals){0};
    weft__fiber_set_phase(f, WEFT__FRESH);
    weft__alarm_update(f);
    weft__tree_link(f, f->parent);
    f->woken_open = true;
    weft__make_runnable(c, f, 0, WEFT__TAIL);
    weft__serve_all(c, &f->restarters, 0);
    return 0;
}

/* Tell a fiber that runs, or whose clean-up does, to begin again after that. */
static void end_to_restart(weft__cord *c, weft__fiber *f)
{
    if (f->phase == WEFT__ALIVE)
        weft__fiber_end(c, f, -ECANCELED, WEFT__END_TO_RESTART);
    else
        f->is_restarting = true;
}

int weft_restart(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    if (rc < 0)
        return rc;
    weft__fiber *self = c->current;
    if (f->parent == NULL || (f->life != NULL && weft__tree_is_above(f, self)))
        return weft_fail(-EINVAL, "a fiber can restart neither itself nor one that it belongs to");
    if (f->parent->is_closing || (f->keeper != NULL && f->keeper->is_ending))
        return -ESRCH; /* it ends with its parent, or with its group */

    bool is_free = !is_held(f); /* else its keeper runs it again, or lets it go */
    if (is_free && f->phase == WEFT__ENDED)
        return weft__fiber_revive(c, f);
    if (is_free && f->phase == WEFT__FRESH)
        return run_after_all(c, f);
    if (self->alarm)
        return (int)weft__refuse(c);
    if (is_free)
        end_to_restart(c, f);
    return weft__line_wait_int(c, &f->restarters, &waits_restart, f);
}

weft_value weft__fiber_collect(weft__cord *c, weft__fiber *f)
{
    weft_value value = f->result;
    if (weft_is_error(value)) {
        weft__error_set(c->current, weft__error_ref(f->error));
        if (f->error != NULL)
            f->error->is_unseen = false; /* whoever awaits it looks at it */
    }
    /* A guest takes nothing away: each who monitors the fiber is owed an await of its own. */
    bool is_guest = f->monitors != NULL && !weft__monitors_pay(f, c->current);
    bool is_taken = !is_guest || weft__fiber_is_kept(f); /* a group only asks whether anyone did */
    f->awaits_left -= is_taken && f->awaits_left > 0;
    if (f->awaits_left > 0 || f->keeper != NULL || is_guest) {
        take_back_error(f);
        return value;
    }
    leave_ended(c, f);
    weft__fiber_free(c, f);
    return value;
}

weft_value weft__fiber_take(weft__cord *c, weft_fiber id)
{
    weft__fiber *f = weft__fiber_find(c, id);
    weft_value value = -ESRCH;
    if (f != NULL)
        return weft__fiber_collect(c, f);
    weft__ended_take(c, id, &value);
    return value;
}

void weft__fiber_let_go(weft__cord *c, weft__fiber *f)
{
    f->keeper = NULL;
    weft__serve_all(c, &f->restarters, -ESRCH);
    if (f->awaits_left > 0)
        return; /* its monitors have not asked for its value yet */
    leave_ended(c, f);
    weft__fiber_free(c, f);
}
