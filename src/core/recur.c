/*
 * What happens later, again and again, or at a certain rate: fibers and loops that sleep between
 * the runs of a function. Sleeping itself is in time.c.
 */
#include "core/alarm.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

/* What such a fiber is given: a copy, on its own stack. */
typedef struct plan {
    weft_fn *fn;
    void *arg;
    double number;    /* seconds, or the rate */
    int64_t begin_ns; /* when it was asked for; WEFT__NEVER: a run before this one has used it up */
} plan;

static weft_fiber spin_plan(weft_fn *run, const char *name, weft_fn *fn, void *arg, double number)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return 0;
    if (fn == NULL) {
        weft_fail(-EINVAL, "a fiber needs a function");
        return 0;
    }
    plan p = {fn, arg, number, weft__cord_now(c)};
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
    return *rc == 0 && weft__cord_now(c) >= at_ns; /* 0 may be what it was interrupted with */
}

static weft_value run_after(void *arg)
{
    plan *p = arg;
    int rc;
    if (!wait_until(weft__cord_self, weft__ns_later(begin_of(p), weft__whole_ns(p->number * 1e9)),
                    &rc))
        return rc;
    return p->fn(p->arg);
}

weft_fiber weft_after(double seconds, weft_fn *fn, void *arg)
{
    if (seconds >= 0)
        return spin_plan(run_after, "after", fn, arg, seconds);
    weft_fail(-EINVAL, "something after %g s", seconds);
    return 0;
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
