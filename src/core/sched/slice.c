/*
 * Time slices. A slice limits the time that a fiber computes without a switch. weft does not
 * preempt fibers. Therefore code that computes for a long time must call weft_check_slice.
 *
 * Reading the clock at every switch would be slow. Therefore a slice begins at the first call of
 * weft_check_slice or weft_extend_slice after a switch, instead of at the switch.
 */
#include "core/debug/diag.h"

#include <math.h>

weft__slice weft__slice_of(const weft__cord *c, const weft__fiber *f)
{
    const weft__extras *x = f->live != NULL ? f->live->extras : NULL;
    return x != NULL && x->slice.fail_s > 0 ? x->slice : c->slice;
}

/* Check the limits of a slice. If a limit is 0, the slice has no such limit. */
static int check_times(const char *call, double warn_s, double fail_s, weft__slice *out)
{
    if (!(warn_s >= 0) || !(fail_s >= 0))
        return weft_fail(-EINVAL, "%s: warn_s is %g, fail_s is %g", call, warn_s, fail_s);
    *out = (weft__slice){warn_s > 0 ? warn_s : INFINITY, fail_s > 0 ? fail_s : INFINITY};
    return 0;
}

int weft_set_slice(double warn_s, double fail_s)
{
    weft__slice slice;
    int rc = check_times("weft_set_slice", warn_s, fail_s, &slice);
    if (rc < 0)
        return rc;
    weft__extras *x = weft__extras_here();
    if (x == NULL)
        return -ENOMEM;
    x->slice = slice;
    return 0;
}

int weft_set_default_slice(double warn_s, double fail_s)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? check_times("weft_set_default_slice", warn_s, fail_s, &c->slice)
                     : weft__no_cord();
}

/* If the fiber has switched since its last call, begin a new slice. */
static void slice_begin_if_new(weft__cord *c, int64_t now_ns)
{
    const weft__fiber *f = c->current;
    weft__slice_run *run = &c->slice_run;
    if (run->fiber == f->id && run->switches == f->switches)
        return;
    *run = (weft__slice_run){.fiber = f->id, .switches = f->switches, .begin_ns = now_ns};
}

int weft_extend_slice(double seconds)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(seconds >= 0))
        return weft_fail(-EINVAL, "weft_extend_slice: seconds is %g", seconds);
    slice_begin_if_new(c, weft__cord_advance_now(c));
    c->slice_run.more_s += seconds;
    return 0;
}

int weft_check_slice(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    int64_t now_ns = weft__cord_advance_now(c);
    slice_begin_if_new(c, now_ns);
    weft__slice_run *run = &c->slice_run;
    weft__slice slice = weft__slice_of(c, c->current);
    double used_s = (double)(now_ns - run->begin_ns) / 1e9 - run->more_s;
    if (used_s > slice.warn_s && !run->has_warned) {
        run->has_warned = true;
        weft__diag(LOG_WARNING, "fiber #%llu '%s' has run for %.3f s without a switch",
                   (unsigned long long)c->current->id, c->current->name, used_s + run->more_s);
    }
    return used_s > slice.fail_s ? -ETIME : 0;
}
