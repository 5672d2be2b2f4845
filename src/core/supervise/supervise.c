/*
 * weft_supervise. When a child ends, decide whether the child restarts, which siblings restart with
 * it, and after which delay. Also decide when to give up. child.c starts and stops children.
 */
#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/sched/backoff.h"
#include "core/supervise/child.h"

#include <math.h>

/*
 * Defaults of options that are 0. Erlang's default is 1 restart in 5 s. 10 restarts in 10 s allow a
 * child to recover from a short outage.
 */
#define RESTARTS_MAX 10
#define WINDOW_S 10.0

static bool is_valid_time(double seconds)
{
    return seconds >= 0; /* false for NaN */
}

static int check_supervise_options(const weft_supervise_options *o)
{
    if ((unsigned)o->strategy > WEFT_REST_FOR_ONE)
        return weft_fail(-EINVAL, "weft_supervise: strategy is %d", (int)o->strategy);
    if ((unsigned)o->restart > WEFT_NEVER)
        return weft_fail(-EINVAL, "weft_supervise: restart is %d", (int)o->restart);
    if (!is_valid_time(o->restarts_window_s))
        return weft_fail(-EINVAL, "weft_supervise: restarts_window_s is %g", o->restarts_window_s);
    if (!is_valid_time(o->backoff_s) || isinf(o->backoff_s) || !is_valid_time(o->backoff_max_s))
        return weft_fail(-EINVAL, "weft_supervise: backoff_s is %g, backoff_max_s is %g",
                         o->backoff_s, o->backoff_max_s);
    return 0;
}

static int check_children(const weft_child *children, size_t n)
{
    if (children == NULL && n > 0)
        return weft_fail(-EINVAL, "weft_supervise: children is NULL, n is %zu", n);
    for (size_t i = 0; i < n; i++) {
        if (children[i].fn == NULL)
            return weft_fail(-EINVAL, "weft_supervise: fn of child %zu is NULL", i);
        if ((unsigned)children[i].restart > WEFT_NEVER)
            return weft_fail(-EINVAL, "weft_supervise: restart of child %zu is %d", i,
                             (int)children[i].restart);
        if (!is_valid_time(children[i].grace_s))
            return weft_fail(-EINVAL, "weft_supervise: grace_s of child %zu is %g", i,
                             children[i].grace_s);
    }
    return 0;
}

static void supervisor_set_options(weft__supervisor *s, const weft_supervise_options *options)
{
    weft_supervise_options *o = &s->options;
    *o = *options;
    if (o->restarts_max == 0)
        o->restarts_max = RESTARTS_MAX;
    if (o->restarts_window_s == 0)
        o->restarts_window_s = WINDOW_S;
    if (o->backoff_max_s == 0)
        o->backoff_max_s = WEFT__BACKOFF_MAX_S;
    const double limit_s = 9e9; /* a longer time does not fit in int64_t ns */
    s->restarts.max = o->restarts_max;
    s->restarts.window_ns =
        o->restarts_window_s < limit_s ? (int64_t)(o->restarts_window_s * 1e9) : WEFT__NEVER;
}

/* Make the error of a child the last error of the supervisor, and return the code of the error. */
static int child_take_error(weft__supervisor *s, const weft__sup_child *ch)
{
    weft__error_set(s->fiber, weft__error_ref(ch->fiber->error));
    return (int)ch->fiber->result;
}

/* Return the error of a supervisor after too many restarts. ch is the child that has ended last. */
static int supervisor_give_up(weft__supervisor *s, const weft__sup_child *ch)
{
    if (weft__fiber_has_failed(ch->fiber, ch->fiber->result))
        return child_take_error(s, ch);
    return weft_fail(-ELOOP, "weft_supervise: child '%s' ended again after %u restarts in %g s",
                     ch->fiber->name, s->options.restarts_max, s->options.restarts_window_s);
}

/*
 * Return the delay before the next restart of a child, in seconds. After a run that is as long as
 * the window, the delay is backoff_s again.
 */
static double next_delay(weft__supervisor *s, weft__sup_child *ch)
{
    bool is_in_window =
        ch->delay_s > 0 && weft__cord_now(s->cord) - ch->started_ns < s->restarts.window_ns;
    weft__backoff backoff = {s->options.backoff_s, WEFT__BACKOFF_FACTOR, s->options.backoff_max_s};
    return ch->delay_s = weft__backoff_next(&backoff, is_in_window ? ch->delay_s : 0);
}

/* Return true if the child restarts when a sibling restarts. */
static bool follows_siblings(const weft__sup_child *ch)
{
    return ch->restart == WEFT_ALWAYS || ch->restart == WEFT_ON_ERROR;
}

/*
 * Start the halted and due children in their order, beginning with list node `first`. With
 * WEFT_ONE_FOR_ONE, check only the first child.
 */
static int children_start_from(weft__supervisor *s, weft__list *first)
{
    if (UNLIKELY(s->fiber->pending)) /* the supervisor would stop the children again at once */
        return (int)weft__call_refuse(s->cord);
    int rc = 0;
    for (weft__list *node = first; node != &s->children && rc == 0; node = node->next) {
        weft__sup_child *ch = weft__sup_child_of_order(node);
        if (ch->state == WEFT__SUP_CHILD_HALTED || ch->state == WEFT__SUP_CHILD_DUE)
            rc = weft__sup_child_start(ch);
        if (s->options.strategy == WEFT_ONE_FOR_ONE)
            break;
    }
    return rc;
}

/* Start a child and the siblings that were halted with it. */
static int child_start(weft__supervisor *s, weft__sup_child *ch)
{
    bool is_rest = s->options.strategy != WEFT_ONE_FOR_ALL && ch->state != WEFT__SUP_CHILD_REMOVED;
    return children_start_from(s, is_rest ? &ch->order_link : s->children.next);
}

/* The reaction to a child that has ended by itself. */
typedef enum verdict {
    VERDICT_NONE,    /* no reaction: on_exit has restarted the child, or it was removed */
    VERDICT_DONE,    /* the child does not restart, except with a sibling */
    VERDICT_RESTART, /* restart the child */
    VERDICT_FATAL,   /* stop all children, and return the error */
} verdict;

/* Call on_exit. Return true if the supervisor must not react after the call. */
static bool is_handled_by_user(weft__supervisor *s, weft__sup_child *ch)
{
    const weft_supervise_options *o = &s->options;
    if (o->on_exit != NULL) {
        weft__error *error = weft_is_error(ch->fiber->result) ? ch->fiber->error : NULL;
        weft__error_set(s->fiber, weft__error_ref(error));
        o->on_exit(ch->fiber->id, ch->fiber->result, o->on_exit_arg);
    }
    /*
     * If on_exit has restarted the child, and the child has ended again, the child is in to_handle.
     */
    return ch->state != WEFT__SUP_CHILD_ENDED || !weft__list_is_empty(&ch->work_link);
}

static verdict child_verdict(weft__supervisor *s, weft__sup_child *ch)
{
    bool has_failed = weft__fiber_has_failed(ch->fiber, ch->fiber->result);
    if (is_handled_by_user(s, ch))
        return VERDICT_NONE;
    switch (ch->restart) {
    case WEFT_ALWAYS:
        return VERDICT_RESTART;
    case WEFT_ON_ERROR:
        return has_failed ? VERDICT_RESTART : VERDICT_DONE;
    case WEFT_DEFAULT:
        return has_failed ? VERDICT_FATAL : VERDICT_DONE;
    default:
        return VERDICT_DONE;
    }
}

/* Make a child dormant if it can restart with a sibling. Otherwise forget the child. */
static void child_set_aside(weft__supervisor *s, weft__sup_child *ch)
{
    if (s->options.strategy != WEFT_ONE_FOR_ONE && follows_siblings(ch))
        weft__sup_child_set_state(ch, WEFT__SUP_CHILD_DORMANT);
    else
        weft__sup_child_forget(ch);
}

/* Add the siblings that restart with ch to to_stop. Halt siblings that do not run. */
static void gather_to_stop(weft__supervisor *s, weft__sup_child *ch)
{
    bool is_for_all = s->options.strategy == WEFT_ONE_FOR_ALL;
    weft__list *first = is_for_all ? s->children.next : ch->order_link.next;
    for (weft__list *node = first; node != &s->children; node = node->next) {
        weft__sup_child *sibling = weft__sup_child_of_order(node);
        if (sibling->state == WEFT__SUP_CHILD_RUNNING || sibling->state == WEFT__SUP_CHILD_ENDED) {
            weft__list_remove(&sibling->work_link);
            weft__list_insert(&s->to_stop, &sibling->work_link);
        } else {
            weft__sup_child_undelay(sibling);
        }
    }
}

/* Stop the children in to_stop, the last child first. Return 0 or -EDEADLK. */
static int stop_gathered(weft__supervisor *s)
{
    int rc = 0;
    while (rc == 0 && !weft__list_is_empty(&s->to_stop)) {
        weft__sup_child *sibling = weft__sup_child_of_work(s->to_stop.prev);
        weft__list_remove(&sibling->work_link);
        if (sibling->state == WEFT__SUP_CHILD_ENDED) /* ended by itself */
            weft__list_insert(s->self_ended.next, &sibling->work_link);
        else
            rc = weft__sup_child_stop(sibling);
        if (sibling->state == WEFT__SUP_CHILD_HALTED && !follows_siblings(sibling))
            weft__sup_child_forget(sibling);
    }
    return rc;
}

/*
 * Call on_exit for the children in self_ended. These children restart with their siblings. Return
 * 0, or the error that ends weft_supervise.
 */
static int handle_self_ended(weft__supervisor *s)
{
    weft__sup_child *sibling;
    while ((sibling = weft__sup_child_pop(&s->self_ended)) != NULL) {
        verdict v =
            sibling->state == WEFT__SUP_CHILD_ENDED ? child_verdict(s, sibling) : VERDICT_NONE;
        if (v == VERDICT_FATAL) {
            weft__sup_child_set_state(sibling, WEFT__SUP_CHILD_HALTED);
            return child_take_error(s, sibling);
        }
        if (v == VERDICT_RESTART || (v == VERDICT_DONE && follows_siblings(sibling)))
            weft__sup_child_set_state(sibling, WEFT__SUP_CHILD_HALTED);
        else if (v == VERDICT_DONE)
            weft__sup_child_forget(sibling);
    }
    return 0;
}

/*
 * Restart a child, and the siblings that restart with it. Return 0, or the error that ends
 * weft_supervise.
 */
static int child_restart(weft__supervisor *s, weft__sup_child *ch)
{
    int rc = weft__restart_intensity_note(&s->restarts, weft__cord_now(s->cord));
    weft__sup_child_set_state(ch, WEFT__SUP_CHILD_HALTED);
    if (rc == -ELOOP)
        return supervisor_give_up(s, ch);
    double delay_s = s->options.backoff_s > 0 ? next_delay(s, ch) : 0;
    if (rc == 0 && s->options.strategy != WEFT_ONE_FOR_ONE) {
        gather_to_stop(s, ch);
        rc = stop_gathered(s);
        if (rc == 0)
            rc = handle_self_ended(s);
    }
    if (rc < 0)
        return rc;
    /*
     * If ch is not halted any more, weft_restart has restarted ch. Then start the siblings at once.
     */
    if (delay_s == 0 || ch->state != WEFT__SUP_CHILD_HALTED)
        return child_start(s, ch);
    weft__sup_child_delay(ch, delay_s);
    return 0;
}

static int child_handle(weft__supervisor *s, weft__sup_child *ch)
{
    if (ch->state == WEFT__SUP_CHILD_DUE)
        return child_start(s, ch);
    if (ch->state != WEFT__SUP_CHILD_ENDED)
        return 0; /* weft_restart has restarted the child */
    switch (child_verdict(s, ch)) {
    case VERDICT_RESTART:
        return child_restart(s, ch);
    case VERDICT_FATAL:
        weft__sup_child_set_state(ch, WEFT__SUP_CHILD_HALTED);
        return child_take_error(s, ch);
    case VERDICT_DONE:
        child_set_aside(s, ch);
        return 0;
    default:
        return 0;
    }
}

/* Do all pending work. Return 0, or the error that ends weft_supervise. */
static int supervisor_work(weft__supervisor *s)
{
    int rc = 0;
    while (rc == 0) {
        weft__sup_child *ch;
        if (s->lacks_memory) {
            rc = -ENOMEM;
        } else if (s->has_to_start) {
            s->has_to_start = false;
            rc = children_start_from(s, s->children.next);
        } else if ((ch = weft__sup_child_pop(&s->to_handle)) != NULL) {
            rc = child_handle(s, ch);
            weft__sup_children_free_removed(s);
            /*
             * If on_exit waits, further children may end meanwhile. Then this loop might never end,
             * so check for a cancellation.
             */
            if (rc == 0 && UNLIKELY(s->fiber->pending))
                rc = (int)weft__call_refuse(s->cord);
        } else {
            break;
        }
    }
    return rc;
}

/* Handle work, and wait for work, until no child runs or will restart. Return 0 or an error. */
static int supervisor_run(weft__supervisor *s)
{
    for (;;) {
        int rc = supervisor_work(s);
        weft__sup_children_free_removed(s);
        if (rc < 0 || s->active == 0)
            return rc;
        if (!weft__sup_children_wait(s, &rc))
            return rc;
    }
}

/* In the final stop, call on_exit for the children that have ended by themselves. */
static void call_on_exits(weft__supervisor *s)
{
    weft__list_splice(&s->to_handle, &s->self_ended);
    weft__list_splice(&s->to_handle, &s->to_stop);
    weft__sup_child *ch;
    while ((ch = weft__sup_child_pop(&s->to_handle)) != NULL) {
        if (ch->state == WEFT__SUP_CHILD_ENDED && !is_handled_by_user(s, ch))
            weft__sup_child_forget(ch);
    }
}

/*
 * Perform the final stop. Stop all children, the last child first. Also stop children that are
 * created during the final stop.
 */
static void children_stop_all(weft__supervisor *s)
{
    bool was_closing = s->fiber->is_closing;
    s->is_final_stop = true;
    s->error = weft__error_ref(s->fiber->error); /* on_exit may set another error */
    s->fiber->is_closing = true; /* weft_restart then fails, and new children never run */
    for (;;) {
        call_on_exits(s);
        if (weft__list_is_empty(&s->children)) {
            if (!weft__sup_end_untracked(s))
                break;
            continue; /* children may have been created meanwhile */
        }
        weft__sup_child *last = weft__sup_child_of_order(s->children.prev);
        if (last->state == WEFT__SUP_CHILD_RUNNING)
            weft__sup_child_stop(last);
        if (last->state != WEFT__SUP_CHILD_REMOVED)
            weft__sup_child_forget(last); /* even a child that never ends */
    }
    s->fiber->is_closing = was_closing;
    weft__error_set(s->fiber, s->error);
    s->error = NULL;
}

/* Start the children of the list. Return 0 or a negative errno. */
static int children_start_list(weft__supervisor *s, const weft_child *children, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const weft_child *child = &children[i];
        weft_spin_options spin_options = {.name = child->name, .stack_bytes = child->stack_bytes};
        const weft__error *before = s->fiber->error;
        weft_fiber id = weft_spin_with(child->fn, child->arg, &spin_options);
        if (id == 0)
            return s->fiber->error != before ? s->fiber->error->info.code : -ENOMEM;
        if (s->lacks_memory)
            return -ENOMEM;
        weft__sup_child *ch = weft__fiber_find(s->cord, id)->reaper_data;
        ch->restart = child->restart != WEFT_DEFAULT ? child->restart : WEFT_ALWAYS;
        if (child->grace_s > 0)
            ch->grace_s = child->grace_s;
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
    int rc = check_supervise_options(options);
    if (rc == 0)
        rc = check_children(children, n);
    if (rc < 0)
        return rc;
    if (c->current->live->children_reaper != NULL)
        return weft_fail(-EINVAL, "weft_supervise: the caller is already in weft_supervise");
    if (c->current->live->no_switch > 0 || (n > 0 && c->current->pending))
        return (int)weft__call_refuse(c);
    if (n > 0 && c->current->is_closing)
        return weft_fail(-ECANCELED,
                         "weft_supervise: the caller is ending, so its children would never run");
    weft__supervisor s = {.cord = c, .fiber = c->current};
    supervisor_set_options(&s, options);
    weft__sup_children_begin(&s, n == 0);
    rc = children_start_list(&s, children, n);
    if (rc == 0)
        rc = supervisor_run(&s);
    children_stop_all(&s);
    weft__sup_children_end(&s);
    return rc;
}
