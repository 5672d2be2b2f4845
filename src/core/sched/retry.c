/* weft_retry: call a function again after a failure, with growing delays. */
#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/sched/backoff.h"

#include <weft/error.h>
#include <weft/time.h>

#include <limits.h>
#include <math.h>

/* Defaults of weft_retry_options. */
#define ATTEMPTS_MAX 5
#define FIRST_S 0.1

static bool is_delay(double s)
{
    return s >= 0 && !isinf(s);
}

static int retry_check(weft_fn *fn, const weft_retry_options *o)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "weft_retry: fn is NULL");
    if (!is_delay(o->first_s) || !(o->delay_s_max >= 0))
        return weft_fail(-EINVAL, "weft_retry: first_s is %g, delay_s_max is %g", o->first_s,
                         o->delay_s_max);
    if (o->factor != 0 && (!(o->factor >= 1) || isinf(o->factor)))
        return weft_fail(-EINVAL, "weft_retry: factor is %g, which is not 0 and not 1 or more",
                         o->factor);
    if (!(o->jitter >= 0 && o->jitter <= 1))
        return weft_fail(-EINVAL, "weft_retry: jitter is %g, which is not in 0..1", o->jitter);
    return 0;
}

static void retry_set_defaults(weft_retry_options *o)
{
    if (o->attempts_max == 0)
        o->attempts_max = ATTEMPTS_MAX;
    if (o->first_s == 0)
        o->first_s = FIRST_S;
    if (o->factor == 0)
        o->factor = WEFT__BACKOFF_FACTOR;
    if (o->delay_s_max == 0)
        o->delay_s_max = WEFT__BACKOFF_MAX_S;
}

/*
 * Return a random number below 1. With a virtual clock, the numbers depend only on the seed. With a
 * real clock, the time makes the numbers of two processes different.
 */
static double random_share(weft__cord *c)
{
    weft__backend *b = weft__cord_backend(c);
    uint64_t random = weft__cord_random(c);
    if (!weft__backend_is_virtual(b))
        random = (random ^ (uint64_t)weft__cord_now(c)) * UINT64_C(0x9e3779b97f4a7c15);
    else if (b->type->choose != NULL)
        b->type->choose(b, &random); /* without a seed, random does not change */
    return (double)(random >> 11) * 0x1p-53;
}

/* Wait before the next attempt. The jitter only shortens the delay. */
static int retry_wait(weft__cord *c, double delay_s, double jitter)
{
    if (jitter > 0)
        delay_s *= 1 - jitter * random_share(c);
    int64_t at_ns = weft__ns_later(weft__cord_now(c), weft__whole_ns(delay_s * 1e9));
    return weft__sleep_until(c, at_ns);
}

/* Return the error of the last attempt. Record a message if fn has recorded none. */
static weft_value retry_fail(const weft__cord *c, int code, unsigned attempts)
{
    const weft__error *e = c->current->error;
    if (e != NULL && e->info.code == code)
        return code;
    return weft_fail(code, "weft_retry: attempt %u failed: %s", attempts, weft__error_text(code));
}

static bool should_retry(const weft_retry_options *o, int code, unsigned attempts)
{
    bool is_last = o->attempts_max != UINT_MAX && attempts >= o->attempts_max;
    return !is_last && (o->should_retry == NULL || o->should_retry(code, o->context));
}

weft_value weft_retry(weft_fn *fn, void *arg, const weft_retry_options *options)
{
    weft__cord *c = weft__cord_here();
    weft_retry_options o = options != NULL ? *options : (weft_retry_options){0};
    if (c == NULL)
        return weft__no_cord();
    int rc = retry_check(fn, &o);
    if (rc < 0)
        return rc;
    retry_set_defaults(&o);
    weft__backoff backoff = {o.first_s, o.factor, o.delay_s_max};
    double delay_s = 0;
    for (unsigned attempts = 1;; attempts += attempts < UINT_MAX) {
        weft_error_clear();
        weft_value value = fn(arg);
        if (!weft_is_error(value))
            return value;
        if (weft__cord_is_forbidden(weft__cord_self))
            return weft__no_cord();
        if (!should_retry(&o, (int)value, attempts))
            return retry_fail(c, (int)value, attempts);
        delay_s = weft__backoff_next(&backoff, delay_s);
        rc = retry_wait(c, delay_s, o.jitter);
        if (rc < 0)
            return rc;
    }
}
