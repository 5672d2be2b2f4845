/*
 * Supervision: what becomes of a child that ends. Who is started again, who is stopped for a
 * sibling's sake, how long to wait before that, and when to give up. How children are started and
 * stopped is in ward.c.
 */
#include "core/alarm.h"
#include "core/end.h"
#include "core/error.h"
#include "core/ward.h"

#include <math.h>

/* Options that are 0. Erlang's defaults are one restart in five seconds; ten leave room to heal. */
#define RESTARTS_MAX 10
#define WINDOW_S 10.0
#define BACKOFF_MAX_S 60.0

static bool is_time(double seconds)
{
    return seconds >= 0; /* no NaN either */
}

static int check_options(const weft_supervise_options *o)
{
    if ((unsigned)o->strategy > WEFT_REST_FOR_ONE)
        return weft_fail(-EINVAL, "there is no strategy %d", (int)o->strategy);
    if ((unsigned)o->restart > WEFT_NEVER)
        return weft_fail(-EINVAL, "there is no restart %d", (int)o->restart);
    if (!is_time(o->restarts_window_s))
        return weft_fail(-EINVAL, "a window of %g s", o->restarts_window_s);
    if (!is_time(o->backoff_s) || isinf(o->backoff_s) || !is_time(o->backoff_max_s))
        return weft_fail(-EINVAL, "a back-off of %g to %g s", o->backoff_s, o->backoff_max_s);
    return 0;
}

static int check_children(const weft_child *children, size_t n)
{
    if (children == NULL && n > 0)
        return weft_fail(-EINVAL, "there is no list of %zu children", n);
    for (size_t i = 0; i < n; i++) {
        if (children[i].fn == NULL)
            return weft_fail(-EINVAL, "child %zu has no function", i);
        if ((unsigned)children[i].restart > WEFT_NEVER)
            return weft_fail(-EINVAL, "there is no restart %d", (int)children[i].restart);
        if (!is_time(children[i].grace_s))
            return weft_fail(-EINVAL, "a grace time of %g s", children[i].grace_s);
    }
    return 0;
}

static void set_options(weft__supervisor *s, const weft_supervise_options *options)
{
    weft_supervise_options *o = &s->options;
    *o = *options;
    if (o->restarts_max == 0)
        o->restarts_max = RESTARTS_MAX;
    if (o->restarts_window_s == 0)
        o->restarts_window_s = WINDOW_S;
    if (o->backoff_max_s == 0)
        o->backoff_max_s = BACKOFF_MAX_S;
    const double limit_s = 9e9; /* of what fits */
    s->restarts.max = o->restarts_max;
    s->restarts.window_ns =
        o->restarts_window_s < limit_s ? (int64_t)(o->restarts_window_s * 1e9) : WEFT__NEVER;
}

/* The error with which a ward has ended is the supervisor's. */
static int hand_on_error(weft__supervisor *s, const weft__ward *w)
{
    weft__error_set(s->fiber, weft__error_ref(w->fiber->error));
    return (int)w->fiber->result;
}

/* There were too many restarts, and w has ended again. */
static int give_up(weft__supervisor *s, const weft__ward *w)
{
    if (weft__fiber_has_failed(w->fiber, w->fiber->result))
        return hand_on_error(s, w);
    return weft_fail(-ELOOP, "'%s' has ended again after %u restarts in %g s", w->fiber->name,
                     s->options.restarts_max, s->options.restarts_window_s);
}

/*
 * How long to wait before the next restart of w: it starts from the beginning once a run has lasted
 * as long as the window.
 */
static double next_delay(weft__supervisor *s, weft__ward *w)
{
    bool is_in_window =
        w->delay_s > 0 && weft__cord_now(s->cord) - w->started_ns < s->restarts.window_ns;
    double delay_s = is_in_window ? 2 * w->delay_s : s->options.backoff_s;
    if (delay_s > s->options.backoff_max_s)
        delay_s = s->options.backoff_max_s;
    return w->delay_s = delay_s;
}

/* Does it run again when a sibling takes it along? */
static bool follows_siblings(const weft__ward *w)
{
    return w->restart == WEFT_ALWAYS || w->restart == WEFT_ON_ERROR;
}

/* Start those from this place on who are halted, or whose time has come, in their order. */
static int start_from(weft__supervisor *s, weft__list *place)
{
    if (UNLIKELY(s->fiber->alarm)) /* it would only be to stop them again */
        return (int)weft__refuse(s->cord);
    int rc = 0;
    for (weft__list *node = place; node != &s->wards && rc == 0; node = node->next) {
        weft__ward *w = weft__ward_in_order(node);
        if (w->state == WEFT__WARD_HALTED || w->state == WEFT__WARD_DUE)
            rc = weft__ward_start(w);
        if (s->options.strategy == WEFT_ONE_FOR_ONE)
            break;
    }
    return rc;
}

/* Start w, unless it was started by hand or is gone, and those that were halted with it. */
static int start(weft__supervisor *s, weft__ward *w)
{
    bool is_rest = s->options.strategy != WEFT_ONE_FOR_ALL && w->state != WEFT__WARD_GONE;
    return start_from(s, is_rest ? &w->in_order : s->wards.next);
}

/* What is to be done about a ward that has ended by itself. */
typedef enum verdict {
    SETTLED, /* nothing: it runs again already, or is gone */
    DONE,    /* it does not run again by itself */
    AGAIN,
    FATAL, /* all is over */
} verdict;

/* Tell the user of it, who may settle the matter. */
static bool is_settled_by_user(weft__supervisor *s, weft__ward *w)
{
    const weft_supervise_options *o = &s->options;
    if (o->on_exit != NULL) {
        weft__error *words = weft_is_error(w->fiber->result) ? w->fiber->error : NULL;
        weft__error_set(s->fiber, weft__error_ref(words));
        o->on_exit(w->fiber->id, w->fiber->result, o->on_exit_arg);
    }
    /* Started, and ended again already, it is among those to handle. */
    return w->state != WEFT__WARD_ENDED || !weft__list_is_empty(&w->in_work);
}

static verdict judge(weft__supervisor *s, weft__ward *w)
{
    bool has_failed = weft__fiber_has_failed(w->fiber, w->fiber->result);
    if (is_settled_by_user(s, w))
        return SETTLED;
    switch (w->restart) {
    case WEFT_ALWAYS:
        return AGAIN;
    case WEFT_ON_ERROR:
        return has_failed ? AGAIN : DONE;
    case WEFT_DEFAULT:
        return has_failed ? FATAL : DONE;
    default:
        return DONE;
    }
}

/* It does not run again, unless a sibling takes it along. */
static void lay_aside(weft__supervisor *s, weft__ward *w)
{
    if (s->options.strategy != WEFT_ONE_FOR_ONE && follows_siblings(w))
        weft__ward_set_state(w, WEFT__WARD_RESTS);
    else
        weft__ward_forget(w);
}

/* Those whom the end of w concerns, in their order; what does not run is halted at once. */
static void gather_concerned(weft__supervisor *s, weft__ward *w)
{
    bool is_for_all = s->options.strategy == WEFT_ONE_FOR_ALL;
    weft__list *first = is_for_all ? s->wards.next : w->in_order.next;
    for (weft__list *node = first; node != &s->wards; node = node->next) {
        weft__ward *one = weft__ward_in_order(node);
        if (one->state == WEFT__WARD_RUNS || one->state == WEFT__WARD_ENDED) {
            weft__list_remove(&one->in_work);
            weft__list_insert(&s->concerned, &one->in_work);
        } else {
            weft__ward_undelay(one);
        }
    }
}

/* Stop them from the last to the first. 0 or -EDEADLK. */
static int stop_concerned(weft__supervisor *s)
{
    int rc = 0;
    while (rc == 0 && !weft__list_is_empty(&s->concerned)) {
        weft__ward *one = weft__ward_in_work(s->concerned.prev);
        weft__list_remove(&one->in_work);
        if (one->state == WEFT__WARD_ENDED) /* before its turn came */
            weft__list_insert(s->absorbed.next, &one->in_work);
        else
            rc = weft__ward_stop(one);
        if (one->state == WEFT__WARD_HALTED && !follows_siblings(one))
            weft__ward_forget(one);
    }
    return rc;
}

/* Those that ended by themselves meanwhile are told of, and start with the others. */
static int absorb_ends(weft__supervisor *s)
{
    weft__ward *one;
    while ((one = weft__ward_pop(&s->absorbed)) != NULL) {
        verdict v = one->state == WEFT__WARD_ENDED ? judge(s, one) : SETTLED;
        if (v == FATAL) {
            weft__ward_set_state(one, WEFT__WARD_HALTED);
            return hand_on_error(s, one);
        }
        if (v == AGAIN || (v == DONE && follows_siblings(one)))
            weft__ward_set_state(one, WEFT__WARD_HALTED);
        else if (v == DONE)
            weft__ward_forget(one);
    }
    return 0;
}

/* Start w again, and stop and start again those whom that concerns. */
static int restart(weft__supervisor *s, weft__ward *w)
{
    int rc = weft__intensity_note(&s->restarts, weft__cord_now(s->cord));
    weft__ward_set_state(w, WEFT__WARD_HALTED);
    if (rc == -ELOOP)
        return give_up(s, w);
    double delay_s = s->options.backoff_s > 0 ? next_delay(s, w) : 0;
    if (rc == 0 && s->options.strategy != WEFT_ONE_FOR_ONE) {
        gather_concerned(s, w);
        rc = stop_concerned(s);
        if (rc == 0)
            rc = absorb_ends(s);
    }
    if (rc < 0)
        return rc;
    if (delay_s == 0 || w->state != WEFT__WARD_HALTED) /* or it was started by hand */
        return start(s, w);
    weft__ward_delay(w, delay_s);
    return 0;
}

static int handle(weft__supervisor *s, weft__ward *w)
{
    if (w->state == WEFT__WARD_DUE)
        return start(s, w);
    if (w->state != WEFT__WARD_ENDED)
        return 0; /* it was started by hand since, which settles the matter */
    switch (judge(s, w)) {
    case AGAIN:
        return restart(s, w);
    case FATAL:
        weft__ward_set_state(w, WEFT__WARD_HALTED);
        return hand_on_error(s, w);
    case DONE:
        lay_aside(s, w);
        return 0;
    default:
        return 0;
    }
}

/* Do what there is to do. 0, or -errno: all is over. */
static int work(weft__supervisor *s)
{
    int rc = 0;
    while (rc == 0) {
        weft__ward *w;
        if (s->lacks_memory) {
            rc = -ENOMEM;
        } else if (s->has_to_start) {
            s->has_to_start = false;
            rc = start_from(s, s->wards.next);
        } else if ((w = weft__ward_pop(&s->to_handle)) != NULL) {
            rc = handle(s, w);
            weft__wards_free_gone(s);
            if (rc == 0 && UNLIKELY(s->fiber->alarm)) /* on_exit may wait: this need not end */
                rc = (int)weft__refuse(s->cord);
        } else {
            break;
        }
    }
    return rc;
}

/* Until no ward is left that runs or will run again, or something else ends it. */
static int supervise(weft__supervisor *s)
{
    for (;;) {
        int rc = work(s);
        weft__wards_free_gone(s);
        if (rc < 0 || s->active == 0)
            return rc;
        if (!weft__wards_wait(s, &rc))
            return rc;
    }
}

/* All is over, but the user is still told of those that have ended by themselves. */
static void tell_of_ends(weft__supervisor *s)
{
    weft__list_splice(&s->to_handle, &s->absorbed);
    weft__list_splice(&s->to_handle, &s->concerned);
    weft__ward *w;
    while ((w = weft__ward_pop(&s->to_handle)) != NULL) {
        if (w->state == WEFT__WARD_ENDED && !is_settled_by_user(s, w))
            weft__ward_forget(w);
    }
}

/* Stop all wards, from the last to the first; those that come meanwhile too. */
static void stop_all(weft__supervisor *s)
{
    bool was_closing = s->fiber->is_closing;
    s->is_over = true;
    s->words = weft__error_ref(s->fiber->error); /* on_exit may have others */
    s->fiber->is_closing = true; /* nobody is restarted by hand, new children never run */
    for (;;) {
        tell_of_ends(s);
        if (weft__list_is_empty(&s->wards)) {
            if (!weft__wards_end_strays(s))
                break;
            continue; /* others may have come meanwhile */
        }
        weft__ward *last = weft__ward_in_order(s->wards.prev);
        if (last->state == WEFT__WARD_RUNS)
            weft__ward_stop(last);
        if (last->state != WEFT__WARD_GONE)
            weft__ward_forget(last); /* also one that will never end */
    }
    s->fiber->is_closing = was_closing;
    weft__error_set(s->fiber, s->words);
    s->words = NULL;
}

/* Start the children of the list. 0, or -errno with words. */
static int start_list(weft__supervisor *s, const weft_child *children, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const weft_child *child = &children[i];
        weft_spin_options how = {.name = child->name, .stack_bytes = child->stack_bytes};
        const weft__error *before = s->fiber->error;
        weft_fiber id = weft_spin_with(child->fn, child->arg, &how);
        if (id == 0)
            return s->fiber->error != before ? s->fiber->error->info.code : -ENOMEM;
        if (s->lacks_memory)
            return -ENOMEM;
        weft__ward *w = weft__fiber_find(s->cord, id)->kept_as;
        w->restart = child->restart != WEFT_DEFAULT ? child->restart : WEFT_ALWAYS;
        if (child->grace_s > 0)
            w->grace_s = child->grace_s;
    }
    return 0;
}

static const weft_supervise_options no_options;

int weft_supervise(const weft_child *children, size_t n, const weft_supervise_options *options)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (options == NULL)
        options = &no_options;
    int rc = check_options(options);
    if (rc == 0)
        rc = check_children(children, n);
    if (rc < 0)
        return rc;
    if (c->current->life->nursery != NULL)
        return weft_fail(-EINVAL, "the fiber supervises already");
    if (c->current->life->no_switch > 0 || (n > 0 && c->current->alarm))
        return (int)weft__refuse(c);
    if (n > 0 && c->current->is_closing)
        return weft_fail(-ECANCELED, "the fiber is ending: its children would never run");
    weft__supervisor s = {.cord = c, .fiber = c->current};
    set_options(&s, options);
    weft__wards_begin(&s, n == 0);
    rc = start_list(&s, children, n);
    if (rc == 0)
        rc = supervise(&s);
    stop_all(&s);
    weft__wards_end(&s);
    return rc;
}
