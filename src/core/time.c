/* The clock as people use it, and sleeping. */
#include "core/alarm.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/time.h>

#include <math.h>

double weft_now(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? (double)weft__cord_look(c) / 1e9 : 0;
}

static bool leave_sleep(weft__fiber *f)
{
    weft__unhold_timer(weft__cord_self, f, &f->life->timer);
    return true;
}

static const weft__wait_kind waits_sleep = {"sleep", .leave = leave_sleep};

void weft__sleep_over(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    weft__fiber *f = CONTAINER_OF(timer, weft__life, timer)->waiter.fiber;
    weft__fired_timer(c, f);
    weft__wake(c, f, 0, WEFT__TAIL);
}

/* To the back of the queue, and the backend is asked before anyone runs again. */
static int sleep_for_nothing(weft__cord *c)
{
    if (c->current->alarm)
        return (int)weft__refuse(c);
    c->must_poll = true;
    weft__set_turn(c, 1);
    return weft_snooze();
}

int weft__sleep_until(weft__cord *c, int64_t at_ns)
{
    weft__fiber *f = c->current;
    if (f->alarm)
        return (int)weft__refuse(c);
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(c, f, &f->life->timer, at_ns);
    return weft__wait_int(c, &waits_sleep, NULL);
}

int weft_sleep(double seconds)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(seconds >= 0))
        return weft_fail(-EINVAL, "sleeping for %g s", seconds);
    if (seconds == 0)
        return sleep_for_nothing(c);
    return weft__sleep_until(c, weft__deadline(c, seconds));
}

double weft_grace(void)
{
    weft__cord *c = weft__cord_here();
    int64_t by_ns = c != NULL ? c->current->life->grace_ns : 0;
    if (by_ns == 0)
        return 0;
    if (by_ns == WEFT__NEVER)
        return INFINITY;
    int64_t left_ns = by_ns - weft__cord_look(c);
    return left_ns > 0 ? (double)left_ns / 1e9 : 0;
}
