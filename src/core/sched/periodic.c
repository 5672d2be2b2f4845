/*
 * weft_after, weft_every, weft_spin_loop and weft_throttled_loop: fibers and loops that sleep
 * between calls of a function. weft_sleep is in time.c.
 */
#include "core/lifetime/cancel.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

#include <stdlib.h>
#include <string.h>

/*
 * The argument of a fiber that this file creates. The argument is copied to the stack of the fiber.
 */
typedef struct periodic {
    weft_fn *fn;
    void *arg;              /* undefined if has_copy */
    double seconds_or_rate; /* seconds between calls, or calls per second */
    /* The time of the call that created the fiber. WEFT__NEVER: the fiber has been restarted. */
    int64_t begin_ns;
    /* Releases arg. NULL: not necessary, or fn has been called. */
    void (*drop)(void *arg);
    bool has_copy; /* a copy of the argument follows this struct */
} periodic;

/* The offset of the copied argument, aligned for any type. */
#define PERIODIC_BYTES ((sizeof(periodic) + 15) & ~(size_t)15)

static void *periodic_arg(periodic *p)
{
    return p->has_copy ? (char *)p + PERIODIC_BYTES : p->arg;
}

static void periodic_drop(void *arg)
{
    periodic *p = arg;
    if (p->drop != NULL)
        p->drop(periodic_arg(p));
    p->drop = NULL;
}

static int check_function(const char *call, weft_fn *fn)
{
    return fn != NULL ? 0 : weft_fail(-EINVAL, "%s: fn is NULL", call);
}

static weft_fiber periodic_spin(weft_fn *run, const char *name, weft_fn *fn, void *arg,
                                double seconds_or_rate, const void *spun_at)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return 0;
    periodic p = {fn, arg, seconds_or_rate, weft__cord_now(c), NULL, false};
    weft_spin_options o = {.name = name, .arg_bytes = sizeof p};
    return weft__spin_at(run, &p, &o, spun_at);
}

/*
 * Return the start time: the time of the call that created the fiber, or the current time after a
 * restart.
 */
static int64_t periodic_begin(periodic *p)
{
    int64_t begin_ns = p->begin_ns;
    p->begin_ns = WEFT__NEVER;
    return begin_ns != WEFT__NEVER ? begin_ns : weft__cord_now(weft__cord_self);
}

/*
 * Wait until at_ns. If at_ns has passed, yield. Set *rc to 0 or to the error of the wait. Returns
 * false if the wait fails.
 */
static bool wait_until(weft__cord *c, int64_t at_ns, int *rc)
{
    *rc = at_ns <= weft__cord_now(c) ? weft_snooze() : weft__sleep_until(c, at_ns);
    return *rc == 0;
}

static weft_value run_after(void *arg)
{
    periodic *p = arg;
    int64_t delay_ns = weft__whole_ns(p->seconds_or_rate * 1e9);
    int rc;
    if (!wait_until(weft__cord_self, weft__ns_later(periodic_begin(p), delay_ns), &rc)) {
        periodic_drop(p);
        return rc;
    }
    p->drop = NULL; /* fn now owns its argument */
    return p->fn(periodic_arg(p));
}

/* Spin a fiber with a copy of p, followed by a copy of arg. */
static weft_fiber spin_after_copy(periodic p, const void *arg, weft_spin_options *o)
{
    char *copy = malloc(PERIODIC_BYTES + o->arg_bytes);
    if (copy == NULL) {
        weft_fail(-ENOMEM, "weft_after_with: memory is exhausted, arg_bytes is %zu", o->arg_bytes);
        return 0;
    }
    p.has_copy = true;
    memcpy(copy, &p, sizeof p);
    memcpy(copy + PERIODIC_BYTES, arg, o->arg_bytes);
    o->arg_bytes += PERIODIC_BYTES;
    weft_fiber f = weft_spin_with(run_after, copy, o);
    free(copy);
    return f;
}

static weft_fiber spin_after(periodic *p, weft_spin_options *o)
{
    if (o->arg_bytes > 0)
        return spin_after_copy(*p, p->arg, o);
    o->arg_bytes = sizeof *p;
    return weft_spin_with(run_after, p, o);
}

static weft_fiber after_at(double seconds, weft_fn *fn, void *arg, const weft_spin_options *options,
                           const void *spun_at)
{
    weft_spin_options o = options != NULL ? *options : (weft_spin_options){0};
    weft__cord *c = weft__cord_here();
    if (!(seconds >= 0))
        weft_fail(-EINVAL, "weft_after: seconds is %g", seconds);
    if (c == NULL || !(seconds >= 0) || check_function("weft_after", fn) < 0 ||
        weft__spin_check(fn, arg, &o) < 0)
        return 0;
    periodic p = {fn, arg, seconds, weft__cord_now(c), o.drop, false};
    o.name = o.name != NULL ? o.name : "after";
    o.drop = o.drop != NULL ? periodic_drop : NULL;
    weft_fiber id = spin_after(&p, &o);
    if (id != 0) {
        weft__fiber *f = weft__fiber_find(c, id);
        f->is_unawaited = true;
        f->live->spun_at = spun_at;
    }
    return id;
}

weft_fiber weft_after_with(double seconds, weft_fn *fn, void *arg, const weft_spin_options *options)
{
    return after_at(seconds, fn, arg, options, __builtin_return_address(0));
}

weft_fiber weft_after(double seconds, weft_fn *fn, void *arg)
{
    return after_at(seconds, fn, arg, NULL, __builtin_return_address(0));
}

/*
 * Return the start of the n-th period. The start is computed from begin_ns, because a sum of
 * rounded periods would drift.
 */
static int64_t period_time(int64_t n, int64_t begin_ns, double period_ns)
{
    return weft__ns_later(begin_ns, weft__whole_ns((double)n * period_ns));
}

/* Return the number of the first period after `last` that does not start in the past. */
static int64_t next_period(int64_t last, int64_t begin_ns, double period_ns)
{
    int64_t now_ns = weft__cord_now(weft__cord_self);
    int64_t n = (int64_t)((double)(now_ns - begin_ns) / period_ns);
    if (period_time(n, begin_ns, period_ns) < now_ns)
        n++;
    return n > last ? n : last + 1;
}

static weft_value run_every(void *arg)
{
    periodic *p = arg;
    int64_t begin_ns = periodic_begin(p);
    /* The period is at least 1 ns, the resolution of the clock. */
    double period_ns = p->seconds_or_rate > 1e-9 ? p->seconds_or_rate * 1e9 : 1;
    for (int64_t n = 1;; n = next_period(n, begin_ns, period_ns)) {
        int rc;
        if (!wait_until(weft__cord_self, period_time(n, begin_ns, period_ns), &rc))
            return rc;
        weft_value value = p->fn(p->arg);
        if (weft_is_error(value))
            return value;
        if (weft__cord_is_forbidden(weft__cord_self))
            return weft__no_cord();
    }
}

weft_fiber weft_every(double seconds, weft_fn *fn, void *arg)
{
    if (!(seconds > 0)) {
        weft_fail(-EINVAL, "weft_every: seconds is %g", seconds);
        return 0;
    }
    if (check_function("weft_every", fn) < 0)
        return 0;
    return periodic_spin(run_every, "every", fn, arg, seconds, __builtin_return_address(0));
}

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int check_loop(const char *call, weft_fn *fn, double rate)
{
    int rc = check_function(call, fn);
    if (rc < 0)
        return rc;
    return rate > 0 ? 0 : weft_fail(-EINVAL, "%s: rate is %g", call, rate);
}

int weft_throttled_loop(weft_fn *fn, void *arg, double rate, size_t count)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    int rc = check_loop("weft_throttled_loop", fn, rate);
    if (rc < 0)
        return rc;
    int64_t interval_ns = weft__whole_ns(1e9 / rate); /* rounded up; never exceed the rate */
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
    const periodic *p = arg;
    return weft_throttled_loop(p->fn, p->arg, p->seconds_or_rate, 0);
}

weft_fiber weft_spin_loop(weft_fn *fn, void *arg, double rate)
{
    if (check_loop("weft_spin_loop", fn, rate) < 0)
        return 0;
    return periodic_spin(run_loop, "loop", fn, arg, rate, __builtin_return_address(0));
}
