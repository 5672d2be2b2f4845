/*
 * The children of a supervisor, one by one: noticing that they come, end, leave or are restarted by
 * hand, and starting and stopping them. Nothing is decided here; see supervise.c.
 */
#include "core/ward.h"

#include "core/alarm.h"
#include "core/end.h"
#include "core/error.h"
#include "core/report.h"

#include <stdlib.h>

/* Until it is said that a child would not stop, if the list says nothing else. */
#define GRACE_S 5.0

static bool leave_wards(weft__fiber *f)
{
    (void)f; /* nobody wakes it who does not see it waiting */
    return true;
}

static const weft__wait_kind waits_wards = {"the children that it supervises",
                                            .leave = leave_wards};
/* Told to stop, they are waited for whatever strikes the supervisor. */
static const weft__wait_kind waits_stop = {"the end of", .is_for_fiber = true};

static const weft__wait_kind waits_strays = {.name = "children that it has no memory for"};

static weft__supervisor *supervisor_of(weft__keeper *k)
{
    return CONTAINER_OF(k, weft__supervisor, keeper);
}

/* There is something to do for the supervisor, which may be waiting for that. */
static void call(weft__supervisor *s)
{
    if (s->fiber->waits_in != &waits_wards)
        return;
    s->is_called = true;
    weft__wake(s->cord, s->fiber, 0, WEFT__TAIL);
}

static void let_handle(weft__ward *w)
{
    weft__supervisor *s = w->supervisor;
    if (weft__list_is_empty(&w->in_work)) /* else it is noticed where it is */
        weft__list_insert(&s->to_handle, &w->in_work);
    call(s);
}

static bool is_active(weft__ward_state state)
{
    return state != WEFT__WARD_RESTS && state != WEFT__WARD_GONE;
}

void weft__ward_set_state(weft__ward *w, weft__ward_state state)
{
    w->supervisor->active -= is_active(w->state);
    w->supervisor->active += is_active(state);
    w->state = state;
}

/* The one that is being stopped has ended, or is no concern of ours any more. */
static void end_stop(weft__ward *w, weft__ward_state state)
{
    weft__supervisor *s = w->supervisor;
    weft__ward_set_state(w, state);
    weft__unhold_timer(s->cord, s->fiber, &s->grace);
    if (s->fiber->waits_in == &waits_stop)
        weft__wake(s->cord, s->fiber, 0, WEFT__TAIL);
}

/* A child is gone that could not become a ward. */
static void lose_stray(weft__supervisor *s)
{
    if (--s->strays == 0 && s->fiber->waits_in == &waits_strays)
        weft__wake(s->cord, s->fiber, 0, WEFT__TAIL);
}

static bool ward_ended(weft__keeper *k, weft__fiber *f, weft_value value)
{
    (void)value; /* the record has it */
    weft__ward *w = f->kept_as;
    if (UNLIKELY(w == NULL)) {
        lose_stray(supervisor_of(k));
        return false;
    }
    if (w->state == WEFT__WARD_STOPS) {
        end_stop(w, WEFT__WARD_HALTED);
    } else if (w->supervisor->is_over && f->is_stopped && f->is_shutdown) { /* it never ran */
        weft__ward_set_state(w, WEFT__WARD_HALTED);
    } else {
        weft__ward_set_state(w, WEFT__WARD_ENDED);
        let_handle(w);
    }
    return true;
}

static void ward_left(weft__keeper *k, weft__fiber *f)
{
    weft__supervisor *s = supervisor_of(k);
    weft__ward *w = f->kept_as;
    if (UNLIKELY(w == NULL)) {
        lose_stray(s);
        return;
    }
    f->kept_as = NULL;
    w->fiber = NULL;
    weft__unhold_timer(s->cord, s->fiber, &w->timer);
    weft__list_remove(&w->in_order);
    weft__list_remove(&w->in_work);
    weft__list_insert(&s->gone, &w->in_work);
    if (w->state == WEFT__WARD_STOPS)
        end_stop(w, WEFT__WARD_GONE);
    else
        weft__ward_set_state(w, WEFT__WARD_GONE);
    call(s); /* it may have been the last; and it is to be freed */
}

static void is_due(weft__timer *timer)
{
    weft__ward *w = CONTAINER_OF(timer, weft__ward, timer);
    weft__fired_timer(w->supervisor->cord, w->supervisor->fiber);
    weft__ward_set_state(w, WEFT__WARD_DUE);
    let_handle(w);
}

static void take(weft__supervisor *s, weft__fiber *f)
{
    weft__ward *w = malloc(sizeof *w);
    f->keeper = &s->keeper;
    f->kept_as = w;
    if (w == NULL) { /* then all is over, for this one too */
        weft_cancel(f->id);
        s->lacks_memory = true;
        s->strays++;
        call(s);
        return;
    }
    *w = (weft__ward){.supervisor = s,
                      .fiber = f,
                      .restart = s->options.restart,
                      .grace_s = GRACE_S,
                      .state = WEFT__WARD_RUNS};
    weft__timer_init(&w->timer, is_due);
    weft__list_init(&w->in_work);
    weft__list_insert(&s->wards, &w->in_order);
    s->active++;
}

/* Started again, by the supervisor or by hand. */
static void note_start(weft__ward *w)
{
    weft__supervisor *s = w->supervisor;
    bool was_waiting = w->state == WEFT__WARD_WAITS || w->state == WEFT__WARD_DUE;
    if (was_waiting) { /* by hand: those that were halted with it are to start */
        s->has_to_start = true;
        call(s);
    }
    weft__unhold_timer(s->cord, s->fiber, &w->timer);
    weft__ward_set_state(w, WEFT__WARD_RUNS);
    w->started_ns = weft__cord_now(s->cord);
}

static bool has_ended(const weft__ward *w)
{
    return w->state != WEFT__WARD_RUNS && w->state != WEFT__WARD_STOPS;
}

static void ward_joined(weft__keeper *k, weft__fiber *f)
{
    if (f->keeper == NULL)
        take(supervisor_of(k), f);
    else if (f->keeper == k && f->kept_as != NULL && has_ended(f->kept_as))
        note_start(f->kept_as);
}

static bool ward_held(const weft__keeper *k, const weft__fiber *f)
{
    const weft__supervisor *s = CONTAINER_OF(k, weft__supervisor, keeper);
    const weft__ward *w = f->kept_as;
    if (w == NULL)
        return false;
    return w->state == WEFT__WARD_STOPS || (w->state == WEFT__WARD_HALTED && s->stops != NULL);
}

static const weft__keeper_type supervisor_type = {ward_ended, ward_left, ward_joined, ward_held};

/* The process ends in the middle of it. */
static void lapse(weft__claim *own)
{
    weft__wards_end(CONTAINER_OF(own, weft__supervisor, claim));
}

/* Said of the one that is being stopped. */
static void say_late(weft__timer *timer)
{
    weft__supervisor *s = CONTAINER_OF(timer, weft__supervisor, grace);
    const weft__fiber *f = s->stops->fiber;
    weft__fired_timer(s->cord, s->fiber);
    weft__report("fiber #%llu '%s' has not ended %g s after it was cancelled",
                 (unsigned long long)f->id, f->name, s->stops->grace_s);
}

void weft__wards_begin(weft__supervisor *s, bool with_present)
{
    weft__fiber *self = s->fiber;
    s->keeper.type = &supervisor_type;
    weft__list *lists[] = {&s->wards, &s->to_handle, &s->concerned, &s->absorbed, &s->gone};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        weft__list_init(lists[i]);
    weft__timer_init(&s->grace, say_late);
    weft__claim_make(&self->life->claims, &s->claim, lapse);
    self->life->nursery = &s->keeper;
    self->has_nursery = true;
    if (with_present)
        WEFT__LIST_FOR(node, &self->life->children)
            ward_joined(&s->keeper, weft__fiber_of_sibling(node));
}

static bool is_stray(const weft__supervisor *s, const weft__fiber *f)
{
    return f->keeper == &s->keeper && f->kept_as == NULL;
}

bool weft__wards_end_strays(weft__supervisor *s)
{
    if (LIKELY(s->strays == 0))
        return false;
    WEFT__LIST_FOR(node, &s->fiber->life->children) {
        weft__fiber *f = weft__fiber_of_sibling(node);
        if (is_stray(s, f)) {
            weft__unpark(s->cord, f);
            weft_cancel(f->id);
        }
    }
    return weft__wait(s->cord, &waits_strays, NULL) != -EDEADLK;
}

/* They go on without us. */
static void forget_strays(weft__supervisor *s)
{
    WEFT__LIST_FOR(node, &s->fiber->life->children) {
        weft__fiber *f = weft__fiber_of_sibling(node);
        if (is_stray(s, f))
            f->keeper = NULL;
    }
}

void weft__wards_end(weft__supervisor *s)
{
    weft__fiber *self = s->fiber;
    if (s->strays > 0)
        forget_strays(s);
    if (s->claim.at != NULL)
        weft__claim_drop(&s->claim);
    self->life->nursery = NULL;
    self->has_nursery = false;
    weft__unhold_timer(s->cord, self, &s->grace);
    while (!weft__list_is_empty(&s->wards))
        weft__ward_forget(weft__ward_in_order(s->wards.next));
    weft__wards_free_gone(s);
    weft__intensity_free(&s->restarts);
    weft__error_unref(s->words);
}

bool weft__wards_wait(weft__supervisor *s, int *struck)
{
    s->is_called = false;
    if (UNLIKELY(s->fiber->alarm))
        *struck = (int)weft__refuse(s->cord);
    else
        *struck = weft__wait_int(s->cord, &waits_wards, NULL);
    return s->is_called;
}

int weft__ward_start(weft__ward *w)
{
    weft__ward_set_state(w, WEFT__WARD_HALTED);
    int rc = weft__fiber_revive(w->supervisor->cord, w->fiber);
    return rc < 0 ? weft_fail(rc, "no stack to start '%s' again", w->fiber->name) : 0;
}

void weft__ward_delay(weft__ward *w, double seconds)
{
    weft__supervisor *s = w->supervisor;
    int64_t at_ns = weft__deadline(s->cord, seconds);
    weft__ward_set_state(w, WEFT__WARD_WAITS);
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(s->cord, s->fiber, &w->timer, at_ns);
}

void weft__ward_undelay(weft__ward *w)
{
    weft__list_remove(&w->in_work);
    weft__unhold_timer(w->supervisor->cord, w->supervisor->fiber, &w->timer);
    weft__ward_set_state(w, WEFT__WARD_HALTED);
}

int weft__ward_stop(weft__ward *w)
{
    weft__supervisor *s = w->supervisor;
    weft__cord *c = s->cord;
    weft__fiber *f = w->fiber;
    weft__ward_set_state(w, WEFT__WARD_STOPS);
    s->stops = w;
    weft__unpark(c, f);
    f->life->grace_ns = weft__deadline(c, w->grace_s);
    if (f->life->grace_ns != WEFT__NEVER)
        weft__hold_timer(c, s->fiber, &s->grace, f->life->grace_ns);
    weft_cancel(f->id);
    int rc = weft__wait_int(c, &waits_stop, f);
    weft__unhold_timer(c, s->fiber, &s->grace);
    s->stops = NULL;
    return rc;
}

/* The fiber goes on without us, or its record is given back. */
static void release(weft__cord *c, weft__fiber *f)
{
    f->kept_as = NULL;
    if (f->phase == WEFT__ENDED)
        weft__fiber_let_go(c, f);
    else
        f->keeper = NULL;
}

void weft__ward_forget(weft__ward *w)
{
    weft__supervisor *s = w->supervisor;
    weft__fiber *f = w->fiber;
    weft__unhold_timer(s->cord, s->fiber, &w->timer);
    weft__ward_set_state(w, WEFT__WARD_GONE);
    weft__list_remove(&w->in_order);
    weft__list_remove(&w->in_work);
    if (f->keeper == &s->keeper) /* else the process ends, and the fiber may have already */
        release(s->cord, f);
    free(w);
}

void weft__wards_free_gone(weft__supervisor *s)
{
    weft__ward *w;
    while ((w = weft__ward_pop(&s->gone)) != NULL)
        free(w);
}
