/*
 * What happens later, again and again, or at a certain rate: fibers and loops that sleep between
 * the runs of a function. Sleeping itself is in time.c.
 */
#include "core/alarm.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

#include <stdlib.h>
#include <string.h>

/* What such a fiber is given: a copy, on its own stack. */
typedef struct plan {
    weft_fn *fn;
    void *arg;        /* meaningless if has_copy */
    double number;    /* seconds, or the rate */
    int64_t begin_ns; /* when it was asked for; WEFT__NEVER: a run before this one has used it up */
    void (*drop)(void *arg); /* releases arg; NULL: it owns nothing, or fn was called */
    bool has_copy;           /* of the argument, behind the plan */
} plan;

/* Where the copy of an argument is, aligned for anything as the plan is. */
#define PLAN_BYTES ((sizeof(plan) + 15) & ~(size_t)15)

static void *arg_of(plan *p)
{
    return p->has_copy ? (char *)p + PLAN_BYTES : p->arg;
}

static void drop_plan(void *arg)
{
    plan *p = arg;
    if (p->drop != NULL)
        p->drop(arg_of(p));
    p->drop = NULL;
}

static int check_function(weft_fn *fn)
{
    return fn != NULL ? 0 : weft_fail(-EINVAL, "a fiber needs a function");
}

static weft_fiber spin_plan(weft_fn *run, const char *name, weft_fn *fn, void *arg, double number)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL || check_function(fn) < 0)
        return 0;
    plan p = {fn, arg, number, weft__cord_now(c), NULL, false};
    return weft_spin_with(run, &p, &(weft_spin_options){.name = name, .arg_bytes = sizeof p});
}

/* Its time counts from the call that made it, or if it is restarted from then. */
static int64_t begin_of(plan *p)
{
    int64_t begin_ns = p->begin_ns;
    p->begin_ns = WEFT__NEVER;
    return begin_ns != WEFT__NEVER ? begin_ns : weft__cord_now(weft__cord_self);
}

/*
 * Wait until then; a time that has come already lets the others run. True: it is time; false: the
 * wait was cut short, *rc is what with.
 */
static bool wait_until(weft__cord *c, int64_t at_ns, int *rc)
{
    *rc = at_ns <= weft__cord_now(c) ? weft_snooze() : weft__sleep_until(c, at_ns);
    return *rc == 0;
}

static weft_value run_after(void *arg)
{
    plan *p = arg;
    int rc;
    if (!wait_until(weft__cord_self, weft__ns_later(begin_of(p), weft__whole_ns(p->number * 1e9)),
                    &rc)) {
        drop_plan(p);
        return rc;
    }
    p->drop = NULL; /* fn owns its argument */
    return p->fn(arg_of(p));
}

/* The plan p, with a copy of arg behind it. */
static weft_fiber spin_after_copy(plan p, const void *arg, weft_spin_options *o)
{
    char *both = malloc(PLAN_BYTES + o->arg_bytes);
    if (both == NULL) {
        weft_fail(-ENOMEM, "weft_after_with: no memory for %zu bytes of arg", o->arg_bytes);
        return 0;
    }
    p.has_copy = true;
    memcpy(both, &p, sizeof p);
    memcpy(both + PLAN_BYTES, arg, o->arg_bytes);
    o->arg_bytes += PLAN_BYTES;
    weft_fiber f = weft_spin_with(run_after, both, o);
    free(both);
    return f;
}

static weft_fiber spin_after(plan *p, weft_spin_options *o)
{
    if (o->arg_bytes > 0)
        return spin_after_copy(*p, p->arg, o);
    o->arg_bytes = sizeof *p;
    return weft_spin_with(run_after, p, o);
}

weft_fiber weft_after_with(double seconds, weft_fn *fn, void *arg, const weft_spin_options *options)
{
    weft_spin_options o = options != NULL ? *options : (weft_spin_options){0};
    weft__cord *c = weft__cord_here();
    if (!(seconds >= 0))
        weft_fail(-EINVAL, "weft_after: seconds is %g", seconds);
    if (c == NULL || !(seconds >= 0) || check_function(fn) < 0 || weft__spin_check(fn, arg, &o) < 0)
        return 0;
    plan p = {fn, arg, seconds, weft__cord_now(c), o.drop, false};
    o.name = o.name != NULL ? o.name : "after";
    o.drop = o.drop != NULL ? drop_plan : NULL;
    weft_fiber id = spin_after(&p, &o);
    if (id != 0)
        weft__fiber_find(c, id)->is_unawaited = true;
    return id;
}

weft_fiber weft_after(double seconds, weft_fn *fn, void *arg)
{
    return weft_after_with(seconds, fn, arg, NULL);
}

/* Reckoned from the beginning: sums of rounded periods would drift. */
static int64_t time_of(int64_t tick, int64_t begin_ns, double period_ns)
{
    return weft__ns_later(begin_ns, weft__whole_ns((double)tick * period_ns));
}

/* The number of the first tick that is not over yet and comes after the last one. */
static int64_t next_tick(int64_t last, int64_t begin_ns, double period_ns)
{
    int64_t now_ns = weft__cord_now(weft__cord_self);
    int64_t tick = (int64_t)((double)(now_ns - begin_ns) / period_ns);
    if (time_of(tick, begin_ns, period_ns) < now_ns)
        tick++;
    return tick > last ? tick : last + 1;
}

static weft_value run_every(void *arg)
{
    plan *p = arg;
    int64_t begin_ns = begin_of(p);
    double period_ns = p->number > 1e-9 ? p->number * 1e9 : 1; /* the clock knows nothing less */
    for (int64_t tick = 1;; tick = next_tick(tick, begin_ns, period_ns)) {
        int rc;
        if (!wait_until(weft__cord_self, time_of(tick, begin_ns, period_ns), &rc))
            return rc;
        weft_value value = p->fn(p->arg);
        if (weft_is_error(value))
            return value;
        if (weft__is_refused(weft__cord_self))
            return weft__no_cord();
    }
}

weft_fiber weft_every(double seconds, weft_fn *fn, void *arg)
{
    if (seconds > 0)
        return spin_plan(run_every, "every", fn, arg, seconds);
    weft_fail(-EINVAL, "something every %g s", seconds);
    return 0;
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int check_loop(weft_fn *fn, double rate)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "a loop needs a function");
    return rate > 0 ? 0 : weft_fail(-EINVAL, "a loop that runs %g times a second", rate);
}

int weft_throttled_loop(weft_fn *fn, void *arg, double rate, size_t count)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    int rc = check_loop(fn, rate);
    if (rc < 0)
        return rc;
    int64_t interval_ns = weft__whole_ns(1e9 / rate); /* rounded up: at most so many in a second */
    int64_t at_ns = weft__cord_now(c);
    for (size_t n = 1;; n++) {
        weft_value value = fn(arg);
        if (weft_is_error(value))
            return (int)value;
        if (n == count)
            return 0;
        at_ns = later_of(weft__ns_later(at_ns, interval_ns), weft__cord_now(c));
        if (!wait_until(c, at_ns, &rc))
            return rc;
    }
}

static weft_value run_loop(void *arg)
{
    const plan *p = arg;
    return weft_throttled_loop(p->fn, p->arg, p->number, 0);
}

weft_fiber weft_spin_loop(weft_fn *fn, void *arg, double rate)
{
    return check_loop(fn, rate) == 0 ? spin_plan(run_loop, "loop", fn, arg, rate) : 0;
}
