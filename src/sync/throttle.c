/*
 * Throttles: so many times a second, evenly. Those who wait stand in line, and only for the first
 * of them a timer runs.
 */
#include "core/alarm.h"

#include <weft/sync.h>

typedef struct throttle {
    weft__line waiters; /* each has in data its turn */
    int64_t interval_ns;
    int64_t next_ns; /* when the next may pass, on the backend's clock */
    bool is_open;
} throttle;

_Static_assert(sizeof(throttle) <= sizeof(weft_throttle), "weft_throttle is too small");
_Static_assert(_Alignof(throttle) <= _Alignof(weft_throttle),
               "weft_throttle is aligned too little");

/* One who waits; on its stack. */
typedef struct turn {
    weft__timer timer; /* armed while it is the first, for next_ns */
    weft__fiber *fiber;
    throttle *throttle;
} turn;

static throttle *private_of(weft_throttle *handle)
{
    return (throttle *)(void *)handle;
}

/* Time runs for the first in line from now on. */
static void arm_first(weft__cord *c, throttle *t)
{
    weft__waiter *w = t->waiters.first;
    if (w != NULL && t->next_ns != WEFT__NEVER)
        weft__hold_timer(c, w->fiber, &((turn *)w->data)->timer, t->next_ns);
}

/*
 * It is time for the first in line. A pass that comes late does not delay the others, so the rate
 * is kept; but they are not let through in a bunch to make up for whole intervals missed.
 */
static void let_pass(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    turn *own = CONTAINER_OF(timer, turn, timer);
    throttle *t = own->throttle;
    weft__fired_timer(c, own->fiber);
    int64_t now_ns = weft__cord_now(c);
    t->next_ns = weft__ns_later(t->next_ns, t->interval_ns);
    if (t->next_ns <= now_ns)
        t->next_ns = weft__ns_later(now_ns, t->interval_ns);
    weft__serve(c, &own->fiber->life->waiter, 0);
    arm_first(c, t);
}

/* The time of one that gives up is the next one's. */
static bool leave(weft__fiber *f)
{
    weft__cord *c = weft__cord_self;
    throttle *t = f->wait_object;
    bool was_first = t->waiters.first == &f->life->waiter;
    weft__unhold_timer(c, f, &((turn *)f->life->waiter.data)->timer);
    weft__line_leave(&f->life->waiter);
    if (was_first)
        arm_first(c, t);
    return true;
}

static const weft__wait_kind waits_turn = {"its turn at a throttle", .leave = leave,
                                           .forget = leave};

int weft_throttle_open(weft_throttle *handle, double rate)
{
    if (!(rate > 0))
        return weft_fail(-EINVAL, "a throttle for %g times a second", rate);
    int64_t interval_ns = weft__whole_ns(1e9 / rate); /* rounded up: at most so many times */
    *private_of(handle) = (throttle){.interval_ns = interval_ns, .is_open = true};
    return 0;
}

static int wait_for_turn(weft__cord *c, throttle *t)
{
    weft__fiber *self = c->current;
    turn own = {.fiber = self, .throttle = t};
    weft__timer_init(&own.timer, let_pass);
    self->life->waiter.data = &own;
    weft__line_join(&t->waiters, &self->life->waiter);
    if (t->waiters.first == &self->life->waiter)
        arm_first(c, t);
    return weft__wait_int(c, &waits_turn, t);
}

int weft_throttle_wait(weft_throttle *handle)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    throttle *t = private_of(handle);
    if (UNLIKELY(!t->is_open))
        return weft_fail(-EINVAL, "the throttle is not open");
    int64_t now_ns = weft__cord_now(c);
    if (weft__line_is_empty(&t->waiters) && t->next_ns <= now_ns) {
        t->next_ns = weft__ns_later(now_ns, t->interval_ns);
        return 0;
    }
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return wait_for_turn(c, t);
}
