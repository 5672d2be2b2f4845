/* The clock, sleeping, and the grace time. */
#include "core/lifetime/cancel.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

#include <math.h>

double weft_now(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? (double)weft__cord_advance_now(c) / 1e9 : 0;
}

static bool leave_sleep(weft__fiber *f)
{
    weft__unhold_timer(weft__cord_self, f, &f->live->timer);
    return true;
}

static const weft__wait_kind waits_sleep = {"sleep", .leave = leave_sleep};

void weft__sleep_expired(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = CONTAINER_OF(timer, weft__fiber_live, timer)->waiter.fiber;
    weft__timer_fired(c, f);
    weft__wake(c, f, 0, WEFT__TAIL);
}

/*
 * Move the current fiber to the tail of the run queue. Poll the backend before another fiber runs.
 */
static int sleep_zero(weft__cord *c)
{
    if (c->current->pending)
        return (int)weft__call_refuse(c);
    c->must_poll = true;
    weft__tick_set(c, 1);
    return weft_snooze();
}

int weft__sleep_until(weft__cord *c, int64_t at_ns)
{
    weft__fiber *f = c->current;
    if (f->pending)
        return (int)weft__call_refuse(c);
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(c, f, &f->live->timer, at_ns);
    return weft__wait_int(c, &waits_sleep, NULL);
}

int weft_sleep(double seconds)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(seconds >= 0))
        return weft_fail(-EINVAL, "weft_sleep: seconds is %g", seconds);
    if (seconds == 0)
        return sleep_zero(c);
    return weft__sleep_until(c, weft__deadline(c, seconds));
}

/* Return the first nanosecond at which weft_now is not less than a time in seconds. */
static int64_t deadline_ns(double deadline)
{
    int64_t at_ns = weft__whole_ns(deadline * 1e9);
    bool is_early = at_ns != WEFT__NEVER && (double)at_ns / 1e9 < deadline; /* rounded down */
    return is_early ? at_ns + 1 : at_ns;
}

int weft_sleep_until(double deadline)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (isnan(deadline))
        return weft_fail(-EINVAL, "weft_sleep_until: deadline is %g", deadline);
    int64_t at_ns = deadline > 0 ? deadline_ns(deadline) : 0;
    return at_ns <= weft__cord_now(c) ? sleep_zero(c) : weft__sleep_until(c, at_ns);
}

double weft_grace(void)
{
    weft__cord *c = weft__cord_here();
    int64_t by_ns = c != NULL ? c->current->live->grace_ns : 0;
    if (by_ns == 0)
        return 0;
    if (by_ns == WEFT__NEVER)
        return INFINITY;
    int64_t left_ns = by_ns - weft__cord_advance_now(c);
    return left_ns > 0 ? (double)left_ns / 1e9 : 0;
}
