/*
 * The first frame of a fiber and its exit (exit.c), and the exit of all fibers of a thread
 * (exit_all.c).
 */
#ifndef WEFT_CORE_LIFETIME_EXIT_H
#define WEFT_CORE_LIFETIME_EXIT_H

#include "core/sched/sched.h"

/*
 * The first frame of a fiber. Run the function of the current fiber, then exit. weft_first_value
 * returns value.
 */
void weft__fiber_entry(intptr_t value);

/*
 * Free the stack of an ended fiber, unless the stack holds an argument that a restart needs. Free
 * the record, unless the record holds the value. Call weft__fiber_retire after the next fiber has
 * been chosen.
 */
void weft__fiber_retire(weft__cord *c, weft__fiber *f);

/* Return whether a group keeps the record of an ended fiber. Awaits do not free such a record. */
static inline bool weft__fiber_is_group_held(const weft__fiber *f)
{
    return f->awaits_left > UINT32_MAX / 2;
}

/*
 * Take the value of an ended fiber that the current fiber awaits. If the value is an error, set the
 * last error of the current fiber. Free the record, unless another await or a reaper needs the
 * record. Returns the value.
 */
weft_value weft__fiber_collect(weft__cord *c, weft__fiber *f);

/* Like weft__fiber_collect, but with an id. Returns -ESRCH if the fiber is gone. */
weft_value weft__fiber_collect_id(weft__cord *c, weft_fiber id);

/*
 * Restart an ended fiber.
 *
 * Returns 0, or:
 * -ENOMEM if memory for a stack is exhausted
 */
int weft__fiber_restart(weft__cord *c, weft__fiber *f);

/* Remove an ended fiber from its reaper. Free the record, unless a monitor needs the record. */
void weft__fiber_release(weft__cord *c, weft__fiber *f);

/*
 * Return whether a fiber with this value has failed. An error of a stopped fiber is not a failure,
 * with one exception. If the fiber was stopped because its parent ended, any error except
 * -ECANCELED is a failure.
 */
static inline bool weft__fiber_has_failed(const weft__fiber *f, weft_value value)
{
    bool was_requested = f->is_stopped && (value == -ECANCELED || !f->is_shutdown);
    return weft_is_error(value) && !was_requested;
}

/*
 * Return the value of a fiber. The function of the fiber has returned `returned`. A stopped fiber
 * gets the value that was passed to the stop. If the fiber was stopped because its parent ended, an
 * error in `returned` takes precedence.
 */
static inline weft_value weft__fiber_final_value(const weft__fiber *f, weft_value returned)
{
    if (LIKELY(!f->is_stopped))
        return returned;
    return f->is_shutdown && weft_is_error(returned) ? returned : f->result;
}

/*
 * Run the exit hooks of a fiber. Locks that only owner_generation tracks then have a dead owner
 * (sync/owner.h).
 */
static inline void weft__fiber_run_exit_hooks(weft__fiber *f)
{
    f->owner_generation++;
    weft__exit_hooks_run(&f->live->exit_hooks);
}

/*
 * Take the oldest undelivered error of a child. The function of f must have returned. Report
 * undelivered errors of weft_raise, because these errors do not change the value of f. Returns the
 * error, or 0 if there is none.
 */
int weft__fiber_take_child_error(weft__fiber *f);

/*
 * End all fibers of a cord, because its thread or the process ends. Returns the first unhandled
 * error, or 0. (exit_all.c)
 */
int weft__cord_end_fibers(weft__cord *c);

/*
 * End all fibers of a cord that weft_cord_start started. The function of the cord has returned
 * `returned`. *error receives a reference to the error, or NULL if the value is not an error.
 * Returns the value of the cord. (exit_all.c)
 */
weft_value weft__cord_exit(weft__cord *c, weft_value returned, weft__error **error);

#endif
