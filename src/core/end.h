/* A fiber's first frame and its end. */
#ifndef WEFT_CORE_END_H
#define WEFT_CORE_END_H

#include "core/sched.h"

/* The first thing that a fiber runs: its function, then its end. */
void weft__fiber_entry(intptr_t value);

/* The last thing done for a fiber that has ended, after the next one was chosen: what it leaves. */
void weft__fiber_retire(weft__cord *c, weft__fiber *f);

/*
 * Is the record of the ended fiber kept for the group that it failed in, however often it is
 * awaited?
 */
static inline bool weft__fiber_is_kept(const weft__fiber *f)
{
    return f->awaits_left > UINT32_MAX / 2;
}

/*
 * An ended fiber is awaited: its value, its words for the current fiber, and its record is given
 * back.
 */
weft_value weft__fiber_collect(weft__cord *c, weft__fiber *f);

/* The same for an id, which is that of an ended fiber. */
weft_value weft__fiber_take(weft__cord *c, weft_fiber id);

/* Run a fiber again that has ended. 0, or -ENOMEM: no stack is to be had. */
int weft__fiber_revive(weft__cord *c, weft__fiber *f);

/* The keeper of a fiber that has ended is done with it: its record is given back. */
void weft__fiber_let_go(weft__cord *c, weft__fiber *f);

/*
 * Has the fiber, whose value this is, failed? An end that was asked for is no failure, unless it
 * was asked for because the parent ended: then an error of its own is one.
 */
static inline bool weft__fiber_has_failed(const weft__fiber *f, weft_value value)
{
    bool was_asked_for = f->is_stopped && (value == -ECANCELED || !f->is_shutdown);
    return weft_is_error(value) && !was_asked_for;
}

/*
 * The value of a fiber whose function has returned this: that, unless the fiber was stopped. If it
 * was stopped because its parent ended, its own failure still counts: nobody chose another value.
 */
static inline weft_value weft__fiber_final_value(const weft__fiber *f, weft_value returned)
{
    if (LIKELY(!f->is_stopped))
        return returned;
    return f->is_shutdown && weft_is_error(returned) ? returned : f->result;
}

/* Release what the fiber holds, also what is noted elsewhere (sync/owner.h). */
static inline void weft__fiber_lapse_claims(weft__fiber *f)
{
    f->claim_run++;
    weft__claims_lapse(&f->life->claims);
}

/*
 * The function has returned: take the oldest undelivered error of a child; 0: none. Report errors
 * of weft_raise, which come too late and do not change the value.
 */
int weft__fiber_error_from_below(weft__fiber *f);

/*
 * end_all.c: end all fibers of the cord, because its thread or process ends. The first error that
 * nobody handled, or 0.
 */
int weft__cord_end_fibers(weft__cord *c);

/*
 * The same for a cord that was started and whose function has returned this: its value, and the
 * words for it, a reference, if it is an error.
 */
weft_value weft__cord_end(weft__cord *c, weft_value returned, weft__error **words);

#endif
