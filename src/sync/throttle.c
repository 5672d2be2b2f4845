/*
 * Throttles. A throttle limits the rate of calls, with even intervals. Waiting fibers queue in FIFO
 * order. Only the first waiter has an armed timer.
 */
#include "core/lifetime/cancel.h"

#include <weft/sync.h>

typedef struct throttle {
    weft__waitq waiters; /* data of a waiter is its throttle_waiter */
    int64_t interval_ns;
    int64_t next_ns; /* when the next fiber may pass, on the backend's clock; 0: at once */
    bool is_open;
} throttle;

_Static_assert(sizeof(throttle) <= sizeof(weft_throttle), "weft_throttle is too small");
_Static_assert(_Alignof(throttle) <= _Alignof(weft_throttle),
               "weft_throttle is aligned too little");

/* A waiting fiber, on the stack of that fiber. */
typedef struct throttle_waiter {
    weft__timer timer; /* armed for next_ns while this waiter is the first */
    weft__fiber *fiber;
    throttle *throttle;
} throttle_waiter;

static throttle *throttle_of(weft_throttle *handle)
{
    return (throttle *)(void *)handle;
}

/* Arm the timer of the first waiter, if any. */
static void throttle_arm_first(weft__cord *c, throttle *t)
{
    weft__waiter *w = t->waiters.first;
    if (w != NULL && t->next_ns != WEFT__NEVER)
        weft__hold_timer(c, w->fiber, &((throttle_waiter *)w->data)->timer, t->next_ns);
}

/*
 * Let the first waiter pass. If this pass is late by less than an interval, the next pass keeps its
 * time. The rate is therefore maintained. If whole intervals were missed, skip them, so that no
 * burst follows a delay.
 */
static void throttle_pass_first(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    throttle_waiter *w = CONTAINER_OF(timer, throttle_waiter, timer);
    throttle *t = w->throttle;
    weft__timer_fired(c, w->fiber);
    int64_t now_ns = weft__cord_now(c);
    t->next_ns = weft__ns_later(t->next_ns, t->interval_ns);
    if (t->next_ns <= now_ns)
        t->next_ns = weft__ns_later(now_ns, t->interval_ns);
    weft__waitq_wake(c, &w->fiber->live->waiter, 0);
    throttle_arm_first(c, t);
}

/* Stop waiting. If the first waiter stops waiting, the next waiter takes over its time. */
static bool throttle_leave(weft__fiber *f)
{
    weft__cord *c = weft__cord_self;
    throttle *t = f->wait_object;
    bool was_first = t->waiters.first == &f->live->waiter;
    weft__unhold_timer(c, f, &((throttle_waiter *)f->live->waiter.data)->timer);
    weft__waitq_leave(&f->live->waiter);
    if (was_first)
        throttle_arm_first(c, t);
    return true;
}

static const weft__wait_kind waits_pass = {"a throttle", .leave = throttle_leave,
                                           .forget = throttle_leave};

int weft_throttle_open(weft_throttle *handle, double rate)
{
    if (!(rate > 0))
        return weft_fail(-EINVAL, "weft_throttle_open: rate is %g", rate);
    int64_t interval_ns = weft__whole_ns(1e9 / rate); /* rounded up, so the rate is not exceeded */
    *throttle_of(handle) = (throttle){.interval_ns = interval_ns, .is_open = true};
    return 0;
}

static int throttle_wait(weft__cord *c, throttle *t)
{
    weft__fiber *self = c->current;
    throttle_waiter w = {.fiber = self, .throttle = t};
    weft__timer_init(&w.timer, throttle_pass_first);
    self->live->waiter.data = &w;
    weft__waitq_join(&t->waiters, &self->live->waiter);
    if (t->waiters.first == &self->live->waiter)
        throttle_arm_first(c, t);
    return weft__wait_int(c, &waits_pass, t);
}

int weft_throttle_wait(weft_throttle *handle)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    throttle *t = throttle_of(handle);
    if (UNLIKELY(!t->is_open))
        return weft_fail(-EINVAL, "weft_throttle_wait: the throttle is not open");
    int64_t now_ns = weft__cord_now(c);
    if (weft__waitq_is_empty(&t->waiters) && t->next_ns <= now_ns) {
        t->next_ns = weft__ns_later(now_ns, t->interval_ns);
        return 0;
    }
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    return throttle_wait(c, t);
}
