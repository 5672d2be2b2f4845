/*
 * The first frame of a fiber, its exit and its restart. When the function of a fiber has returned,
 * the exit runs the deferred functions, ends the children and frees the memory. The exit then
 * passes the value to the awaiters. If no fiber awaits the value, the exit raises an error in the
 * parent. exit_all.c ends all fibers of a thread.
 */
#include "core/lifetime/exit.h"

#include "core/cord/fork.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/fiber/mailbox.h"
#include "core/fiber/monitor.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/scope.h"
#include "core/lifetime/tree.h"
#include "core/trace/trace.h"

int weft__fiber_take_child_error(weft__fiber *f)
{
    weft__error *error;
    while ((error = weft__error_next_raised(f)) != NULL) {
        weft__diag_undelivered(f, error);
        weft__error_unref(error);
    }
    return weft__error_next(f);
}

/*
 * Return the first undelivered error of a child, or value if there is none. An error of the fiber
 * itself and the value of a stop take precedence.
 */
static weft_value value_with_child_errors(weft__fiber *f, weft_value value)
{
    if (!weft_is_error(value) && !(f->is_stopped && !f->is_shutdown)) {
        int code = weft__fiber_take_child_error(f);
        if (code != 0)
            value = code;
    }
    weft__error_drop_queue(f);
    return value;
}

/*
 * Clean up a fiber that has deferred functions, exit hooks, children, open scopes, a mailbox or
 * extras. Returns the value of the fiber.
 */
COLD static weft_value exit_clean_up(weft__cord *c, weft__fiber *f, weft_value value)
{
    weft__scopes_drop(c, f); /* first, because the memory of the scopes is no longer valid */
    weft__defers_run(f);
    weft__scopes_drop(c, f);
    /* Repeat, because destructors may create children, locals and exit hooks. */
    do {
        weft__fiber_run_exit_hooks(f); /* first, because a child may wait for a lock of f */
        weft__tree_end_children(c, f, NULL);
        weft__tree_drop_ended(c, f);
        weft__extras_free(f);
    } while (f->live->extras != NULL || !weft__list_is_empty(&f->live->children) ||
             f->live->exit_hooks != NULL);
    weft__mailbox_empty(c, f);
    f->is_closing = false;
    f->live->no_switch = 0;
    return value_with_child_errors(f, value);
}

/*
 * Return whether exit_clean_up() has work. A raised error and no_switch need no test here. Both set
 * f->pending, unless a scope is open.
 */
static inline bool must_clean_up(const weft__fiber *f)
{
    const weft__fiber_live *live = f->live;
    return live->extras != NULL || live->scope != NULL || live->exit_hooks != NULL ||
           !weft__list_is_empty(&live->ended) || !weft__list_is_empty(&live->children) ||
           f->mailbox != NULL || f->pending;
}

/*
 * Wake all awaiters with value. If value is an error, also set the last error of each awaiter.
 * Returns false if there are no awaiters.
 */
static bool wake_awaiters(weft__cord *c, weft__fiber *f, weft_value value)
{
    bool has_awaiters = false;
    weft__waiter *w;
    while ((w = weft__waitq_next(&f->live->awaiters)) != NULL) {
        has_awaiters = true;
        if (weft_is_error(value) && w->fiber != NULL)
            weft__error_set(w->fiber, weft__error_ref(f->error));
        weft__waitq_wake(c, w, value);
    }
    return has_awaiters;
}

/*
 * If the fiber has failed, raise its error in the parent. Call this function only if no awaiter,
 * monitor or reaper handles the error.
 */
static void raise_in_parent(weft__cord *c, weft__fiber *f, weft_value value)
{
    if (!weft__fiber_has_failed(f, value))
        return;
    weft__error_own(f);
    weft__error_queue(f->parent, (int)value, weft__error_ref(f->error));
    weft__cancel_raise(c, f->parent, WEFT__TAIL);
}

/* Keep the value in the record, for the given number of awaits. */
static void exit_keep_value(weft__cord *c, weft__fiber *f, weft_value value, uint32_t awaits)
{
    weft__fiber_set_phase(f, WEFT__ENDED);
    f->result = value;
    f->spent_ns = f->live->cpu_ns;
    f->awaits_left = awaits;
    c->ended_count++;
    weft__fiber_live *parent_live = f->parent->live;
    weft__list_insert(&parent_live->ended, &f->sibling);
    if (UNLIKELY(++parent_live->ended_count > WEFT__UNAWAITED_RECORDS))
        weft__unawaited_compact(c, f->parent, f);
}

void weft__fiber_retire(weft__cord *c, weft__fiber *f)
{
    if (f->phase == WEFT__FREE) {
        /*
         * Count the record again, because exit_finish() has subtracted the record, and
         * weft__fiber_free() expects a counted record.
         */
        c->records_used++;
        weft__fiber_free(c, f);
    } else if (f->arg_room == 0) { /* otherwise the stack holds the argument, for a restart */
        weft__fiber_release_stack(c, f);
    }
}

/*
 * Pass the value to the awaiters, the monitors and the reaper. If no awaiter, monitor or reaper
 * handles an error, raise the error in the parent. Returns the number of awaits that may still take
 * the value. If the number is 0, only a reaper may need the record.
 */
static uint32_t exit_notify(weft__cord *c, weft__fiber *f, weft_value value)
{
    bool is_awaited = wake_awaiters(c, f, value);
    bool is_error_handled = is_awaited || f->reaper != NULL;
    uint32_t awaits = !is_awaited && !f->is_unawaited;
    if (UNLIKELY(f->monitors != NULL)) {
        f->is_value_taken = awaits == 0;
        awaits = weft__monitors_notify(c, f, &is_error_handled);
    }
    if (!is_error_handled)
        raise_in_parent(c, f, value);
    if (UNLIKELY(f->reaper != NULL)) {
        bool keeps_record = f->reaper->type->ended(f->reaper, f, value);
        if (keeps_record && f->reaper == NULL)
            return UINT32_MAX; /* the record exists until the reaper collects the fiber */
        if (!keeps_record) {
            f->reaper = NULL;
            f->is_value_taken = f->monitors != NULL;
        }
        return f->monitors != NULL ? awaits : 0;
    }
    return awaits;
}

/* Return whether the reaper is ending the fiber. The reaper then restarts or releases the fiber. */
static bool is_held_by_reaper(const weft__fiber *f)
{
    return f->reaper != NULL && f->reaper->type->holds != NULL &&
           f->reaper->type->holds(f->reaper, f);
}

/* End the fiber. After the call, the record is free or holds the value. */
static void exit_finish(weft__cord *c, weft__fiber *f, weft_value value)
{
    if (UNLIKELY(!weft__waitq_is_empty(&f->restarters)) && !is_held_by_reaper(f))
        weft__waitq_wake_all(c, &f->restarters, -ESRCH);
    if (UNLIKELY(weft_is_error(value)))
        weft__error_set(f, weft__error_of_exit(f, (int)value));
    uint32_t awaits = exit_notify(c, f, value);
    weft__tree_unlink(c, f);
    if (awaits > 0 || f->reaper != NULL) {
        exit_keep_value(c, f, value, awaits);
    } else {
        weft__fiber_set_phase(f, WEFT__FREE);
        weft__fiber_set_id(f, 0);
        c->records_used--;
    }
}

/* Clean up after the function of the fiber has returned. Returns the value of the fiber. */
static weft_value exit_resolve_value(weft__cord *c, weft__fiber *f, weft_value returned)
{
    weft_value value = weft__fiber_final_value(f, returned);
    if (UNLIKELY(weft__is_copy))
        weft__fork_exit(value); /* a child of plain fork(2) must not clean up */
    weft__fiber_set_phase(f, WEFT__ENDING);
    if (UNLIKELY(must_clean_up(f) || f->has_unawaited))
        value = exit_clean_up(c, f, value);
    f->owner_generation++; /* locks of f without waiters now have a dead owner (sync/owner.h) */
    return value;
}

/*
 * Return whether the exit can use the fast path. This is true if value is not an error, there is
 * nothing to clean up, and only the parent awaits the fiber. The fast path does not keep the value,
 * and notifies no other fiber. *first is as in weft__can_switch_away_fast.
 */
static inline bool can_exit_fast(const weft__cord *c, const weft__fiber *f, weft_value value,
                                 weft__runnable **first)
{
    const weft__fiber_live *live = f->live;
    if (must_clean_up(f) || f->reaper != NULL || f->monitors != NULL ||
        f->restarters.first != NULL || f->error != NULL || f->starter != NULL ||
        live->cpu_ns != 0 || f->flags != 0 || weft_is_error(value))
        return false;
    const weft__waiter *w = &f->parent->live->waiter;
    return live->awaiters.first == w && w->next == w && c->warm_count < WEFT__WARM_MAX &&
           weft__can_switch_away_fast(c, f->parent, first);
}

/*
 * Free the record, wake the parent with value, and switch away. The freed stack is in use until the
 * switch. So this function must not call a function that could reuse the stack. Without the fast
 * path: spin +52 % instructions (docs/adr/0051).
 */
__attribute__((noreturn)) static inline void exit_fast(weft__cord *c, weft__fiber *f,
                                                       weft_value value, weft__runnable *first)
{
    weft__fiber *parent = f->parent;
    weft__fiber_live *parent_live = parent->live;
    parent_live->waiter.waitq = NULL;
    parent->waits_in = NULL;
    f->live->awaiters.first = NULL;
    weft__list_unlink(&f->sibling);
    f->owner_generation++;
    f->name[0] = '\0';
    weft__fiber_set_id(f, 0);
    weft__fiber_set_phase(f, WEFT__FREE);
    weft__fiber_keep_warm(c, f);
    weft__switch_away_fast(c, parent, value, first);
}

COLD static void fiber_run_again(weft__cord *c, weft__fiber *f)
{
    f->is_restarting = false;
    f->is_stopped = false;
    f->refusals = 0;
    f->live->grace_ns = 0;
    f->live->first_value = 0;
    weft__fiber_set_phase(f, WEFT__ALIVE);
    weft__error_set(f, NULL);
    weft__cancel_update(f);
    weft__waitq_wake_all(c, &f->restarters, 0);
}

/* The slow path of an exit. Returns only if the fiber runs again. */
__attribute__((noinline)) static void exit_slow(weft__cord *c, weft__fiber *f, weft_value returned)
{
    f->has_drop = false; /* the argument belongs to the function */
    weft_value value = exit_resolve_value(c, f, returned);
    if (UNLIKELY(f->is_restarting || f->is_traced)) {
        if (f->is_restarting) {
            fiber_run_again(c, f);
            return;
        }
        weft__trace_exit_value(c, value);
    }
    if (UNLIKELY(weft__error_is_unseen(f)) && !weft_is_error(value) && !f->is_stopped)
        weft__diag_unseen(f);
    if (UNLIKELY(f->parent == NULL))
        weft__fork_exit(value); /* the main fiber of a child of weft_fork */
    exit_finish(c, f, value);
    weft__switch_away(c);
}

/* Release the argument of a fiber that was stopped before its function was called. */
COLD static weft_value exit_before_run(weft__fiber *f)
{
    if (f->has_drop) {
        f->has_drop = false;
        f->live->drop(f->arg);
    }
    return -ECANCELED;
}

void weft__fiber_entry(intptr_t value)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = c->current;
    f->live->first_value = value;
    weft__fiber_set_phase(f, WEFT__ALIVE);
    for (;;) {
        weft_value result = LIKELY(!f->is_stopped) ? f->fn(f->arg) : exit_before_run(f);
        weft__runnable *first;
        if (LIKELY(can_exit_fast(c, f, result, &first)))
            exit_fast(c, f, result, first);
        exit_slow(c, f, result);
    }
}

static const weft__wait_kind waits_restart = {"a restart of", .is_for_fiber = true,
                                              .leave = weft__waitq_abort_wait};

/* Run a fiber that has never run. If the fiber was stopped, undo the stop. */
static int fiber_run_fresh(weft__cord *c, weft__fiber *f)
{
    f->is_stopped = false;
    f->live->grace_ns = 0;
    f->value = 0;
    weft__cancel_update(f);
    if (f->waits_in == &weft__waits_new)
        weft__wake(c, f, 0, WEFT__TAIL);
    return 0;
}

/*
 * Remove the undelivered error of an ended fiber from its parent, because the fiber is awaited or
 * restarted.
 */
static void error_take_back(weft__fiber *f)
{
    if (!weft_is_error(f->result))
        return;
    weft__error_unqueue(f->parent, f->error, (int)f->result);
    weft__cancel_update(f->parent);
}

/* Remove a fiber from the ended children of its parent. */
static void ended_list_leave(weft__cord *c, weft__fiber *f)
{
    weft__list_remove(&f->sibling);
    c->ended_count--;
    f->parent->live->ended_count--;
    error_take_back(f);
}

int weft__fiber_restart(weft__cord *c, weft__fiber *f)
{
    size_t bytes = weft__stack_slot_bytes(&f->stack);
    int rc = f->stack.low == NULL ? weft__fiber_take_stack(c, f, bytes) : 0;
    if (rc < 0)
        return rc;
    weft__fiber_reset_context(f);
    ended_list_leave(c, f);
    weft__error_set(f, NULL);
    f->is_stopped = f->is_value_taken = false;
    f->live->grace_ns = 0;
    f->live->cpu_ns = f->spent_ns;
    f->live->cxx = (weft__cxx_globals){0};
    weft__fiber_set_phase(f, WEFT__FRESH);
    weft__cancel_update(f);
    weft__tree_link(f, f->parent);
    f->is_wait_open = true;
    weft__make_runnable(c, f, 0, WEFT__TAIL);
    weft__waitq_wake_all(c, &f->restarters, 0);
    return 0;
}

/* Make a fiber restart after its current run or its cleanup. */
static void exit_to_restart(weft__cord *c, weft__fiber *f)
{
    if (f->phase == WEFT__ALIVE)
        weft__fiber_stop(c, f, -ECANCELED, WEFT__EXIT_TO_RESTART);
    else
        f->is_restarting = true;
}

int weft_restart(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc < 0)
        return rc;
    weft__fiber *self = c->current;
    if (f->parent == NULL || (f->live != NULL && weft__tree_is_ancestor(f, self)))
        return weft_fail(
            -EINVAL,
            "weft_restart: fiber is a main fiber, the caller or an ancestor of the caller");
    if (f->parent->is_closing || (f->reaper != NULL && f->reaper->is_ending))
        return -ESRCH; /* the fiber ends with its parent or its group */

    bool is_free = !is_held_by_reaper(f); /* if false, the reaper restarts or releases the fiber */
    if (is_free && f->phase == WEFT__ENDED)
        return weft__fiber_restart(c, f);
    if (is_free && f->phase == WEFT__FRESH)
        return fiber_run_fresh(c, f);
    if (self->pending)
        return (int)weft__call_refuse(c);
    if (is_free)
        exit_to_restart(c, f);
    return weft__waitq_wait_int(c, &f->restarters, &waits_restart, f);
}

weft_value weft__fiber_collect(weft__cord *c, weft__fiber *f)
{
    weft_value value = f->result;
    if (weft_is_error(value)) {
        weft__error_set(c->current, weft__error_ref(f->error));
        if (f->error != NULL)
            f->error->is_unseen = false; /* the awaiting fiber gets the error */
    }
    /*
     * If f has monitors, an await by any other fiber does not consume the value. Each monitor may
     * await f once.
     */
    bool is_extra_await = f->monitors != NULL && !weft__monitors_await(f, c->current);
    f->is_value_taken |= is_extra_await;
    /*
     * If a group keeps the record, count every await. The group later checks whether f was awaited.
     */
    bool is_taken = !is_extra_await || weft__fiber_is_group_held(f);
    f->awaits_left -= is_taken && f->awaits_left > 0;
    if (f->awaits_left > 0 || f->reaper != NULL || is_extra_await) {
        error_take_back(f);
        return value;
    }
    ended_list_leave(c, f);
    weft__fiber_free(c, f);
    return value;
}

weft_value weft__fiber_collect_id(weft__cord *c, weft_fiber id)
{
    weft__fiber *f = weft__fiber_find(c, id);
    weft_value value = -ESRCH;
    if (f != NULL)
        return weft__fiber_collect(c, f);
    weft__unawaited_take(c, id, &value);
    return value;
}

void weft__fiber_release(weft__cord *c, weft__fiber *f)
{
    f->reaper = NULL;
    weft__waitq_wake_all(c, &f->restarters, -ESRCH);
    if (f->awaits_left > 0)
        return; /* a monitor has not awaited the fiber yet */
    ended_list_leave(c, f);
    weft__fiber_free(c, f);
}
