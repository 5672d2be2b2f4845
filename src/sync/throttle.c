/*
 * Throttles. A throttle is a bucket of tokens. Each interval adds a token, up to the burst. Each
 * pass takes a token. With a burst of 1, passes have even intervals. Waiting fibers queue in FIFO
 * order. Only the first waiter has an armed timer. While a fiber waits, the bucket is empty.
 */
#include "core/lifetime/cancel.h"

#include <weft/sync.h>

typedef struct throttle {
    weft__waitq waiters; /* data of a waiter is its throttle_waiter */
    int64_t interval_ns;
    int64_t next_ns; /* time of the next token, on the backend's clock; undefined if full */
    uint32_t burst;  /* the most tokens; 0: not open */
    uint32_t tokens;
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
 * Add the tokens of the intervals that have passed, up to tokens_max. If there are more, the next
 * token comes an interval from now.
 */
static void throttle_refill(throttle *t, int64_t now_ns, uint32_t tokens_max)
{
    if (t->next_ns > now_ns)
        return;
    uint64_t missed = t->interval_ns > 0 ? (uint64_t)((now_ns - t->next_ns) / t->interval_ns) : 0;
    if (t->interval_ns > 0 && missed < tokens_max - t->tokens) {
        t->tokens += (uint32_t)missed + 1;
        t->next_ns = weft__ns_later(t->next_ns, (int64_t)(missed + 1) * t->interval_ns);
    } else {
        t->tokens = tokens_max;
        t->next_ns = weft__ns_later(now_ns, t->interval_ns);
    }
}

/*
 * Let the first waiter pass with the token of next_ns. If this pass is late by less than an
 * interval, the next token keeps its time. The rate is therefore maintained. If whole intervals
 * were missed, further waiters pass, but not more than a burst in all.
 */
static void throttle_pass_first(weft__timer *timer)
{
    weft__cord *c = weft__cord_self;
    throttle_waiter *w = CONTAINER_OF(timer, throttle_waiter, timer);
    throttle *t = w->throttle;
    weft__timer_fired(c, w->fiber);
    t->next_ns = weft__ns_later(t->next_ns, t->interval_ns);
    throttle_refill(t, weft__cord_now(c), t->burst - 1);
    weft__waitq_wake(c, &w->fiber->live->waiter, 0);
    for (; t->tokens > 0 && !weft__waitq_is_empty(&t->waiters); t->tokens--)
        weft__waitq_wake(c, t->waiters.first, 0);
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
                                           .forget = throttle_leave,
                                           .describe = weft__describe_object};

int weft_throttle_open_with(weft_throttle *handle, double rate,
                            const weft_throttle_options *options)
{
    size_t burst = options != NULL && options->burst != 0 ? options->burst : 1;
    if (!(rate > 0))
        return weft_fail(-EINVAL, "weft_throttle: rate is %g", rate);
    if (burst > UINT32_MAX)
        return weft_fail(-EINVAL, "weft_throttle_open_with: burst is %zu, at most 2^32 - 1", burst);
    *throttle_of(handle) = (throttle){
        .interval_ns = weft__whole_ns(1e9 / rate), /* rounded up, so the rate is not exceeded */
        .burst = (uint32_t)burst,
        .tokens = (uint32_t)burst,
    };
    return 0;
}

int weft_throttle_open(weft_throttle *handle, double rate)
{
    return weft_throttle_open_with(handle, rate, NULL);
}

/* Take a token, if there is one. The tokens of a full bucket start a new interval. */
static bool throttle_take(throttle *t, int64_t now_ns)
{
    if (t->tokens < t->burst)
        throttle_refill(t, now_ns, t->burst);
    if (t->tokens == 0)
        return false;
    if (t->tokens == t->burst)
        t->next_ns = weft__ns_later(now_ns, t->interval_ns);
    t->tokens--;
    return true;
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
    if (UNLIKELY(t->burst == 0))
        return weft_fail(-EINVAL, "weft_throttle_wait: the throttle is not open");
    if (weft__waitq_is_empty(&t->waiters) && throttle_take(t, weft__cord_now(c)))
        return 0;
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    return throttle_wait(c, t);
}
