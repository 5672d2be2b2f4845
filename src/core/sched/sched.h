/*
 * Switching: choose the next fiber, wait, wake a fiber.
 *
 * A switchpoint checks f->pending, puts the fiber into a wait queue or another wait, and tail-calls
 * weft__switch. weft__switch switches directly to the next fiber. The waker completes the
 * operation, so the woken fiber only returns. The switch passes the result of the wait in the
 * return register.
 */
#ifndef WEFT_CORE_SCHED_SCHED_H
#define WEFT_CORE_SCHED_SCHED_H

#include "arch/calling.h"
#include "core/cord/cord.h"

/*
 * Run the next runnable fiber. If no fiber is runnable, run the idle loop until a fiber is
 * runnable. The current fiber must be on the run queue or in a wait. Returns the value with which
 * the current fiber resumes.
 */
weft_value weft__switch(weft__cord *c);

/*
 * Like weft__switch, but return an int. Because of the alias, a tail call remains a jump. A
 * conversion of the result would prevent the jump.
 */
#if WEFT__INT_IS_LOWER_HALF
int weft__switch_int(weft__cord *c);
#else
#define weft__switch_int(c) ((int)weft__switch(c))
#endif

/* Like weft__switch, but from a fiber that has ended. */
void weft__switch_away(weft__cord *c) __attribute__((noreturn));

/*
 * The fast path of weft__switch_away, in two functions. The running fiber must have ended, and its
 * record must be free. weft__switch_away_fast wakes a fiber with a value and switches away. It
 * calls no function that could reuse the record or its stack.
 *
 * weft__can_switch_away_fast returns whether the fast path is possible. It sets *first to the next
 * fiber on the run queue. If the run queue is empty, it sets *first to NULL, and the woken fiber
 * runs next.
 */
static inline bool weft__can_switch_away_fast(const weft__cord *c, const weft__fiber *woken,
                                              weft__runnable **first)
{
    const weft__runqueue *q = &c->runqueue;
    *first = NULL;
    /* While weft_account is on, every tick has one switch, so the function returns false. */
    if (woken->is_parked || c->tick_left <= 1 || c->has_slow_switch)
        return false;
    return LIKELY(q->head == q->tail) || (*first = q->ring[q->head & q->mask]) != NULL;
}

__attribute__((noreturn)) static inline void
weft__switch_away_fast(weft__cord *c, weft__fiber *woken, weft_value value, weft__runnable *first)
{
    weft__fiber *from = c->current, *to = woken;
    if (UNLIKELY(first != NULL)) {
        woken->value = value;
        weft__runqueue_rotate(&c->runqueue, &woken->queued, first);
        to = weft__fiber_of_queued(first);
        value = to->value;
    }
    c->tick_left--;
    c->current = to;
    weft__context_leave(&from->context, &to->context, value);
}

/* Add the switches of the current tick to the total. Begin a new tick with `switches` switches. */
static inline void weft__tick_set(weft__cord *c, uint32_t switches)
{
    c->switches += c->tick_span - c->tick_left;
    c->tick_span = c->tick_left = c->traced_span = c->traced_left = switches;
}

/*
 * Add the time since the last switch to the current fiber. Call this function only while
 * weft_account is on.
 */
void weft__account(weft__cord *c);

/*
 * Add the time since the last switch to the idle time. Call this function only while weft_account
 * is on, in the idle loop. (idle.c)
 */
void weft__account_idle(weft__cord *c);

/* Read the clock, and account the time of the running fiber. */
static inline void weft__cord_update_time(weft__cord *c)
{
    weft__cord_now(c);
    if (c->is_accounting)
        weft__account(c);
}

/*
 * Wait for events until a fiber is runnable. Remove this fiber from the run queue, and return it.
 * (idle.c)
 */
weft__runnable *weft__idle(weft__cord *c);

/* Handle completed operations without waiting. */
static inline void weft__poll_nowait(weft__cord *c)
{
    c->polls++;
    int rc = c->backend->type->poll(c->backend, 0);
    if (UNLIKELY(rc < 0))
        weft__cord_recover(c, rc);
}

/* Switch to the given fiber. The fiber must be on no queue, and its value must be set. */
weft_value weft__switch_to(weft__cord *c, weft__fiber *to);

typedef enum weft__queue_end {
    WEFT__TAIL,
    WEFT__FRONT,
} weft__queue_end;

/*
 * Put a fiber on the run queue, like weft__make_runnable. Use this function only if the wake-up
 * needs no event of a trace.
 */
static inline void weft__make_runnable_untraced(weft__cord *c, weft__fiber *f, weft_value value,
                                                weft__queue_end where)
{
    f->value = value;
    if (UNLIKELY(f->is_parked))
        return;
    if (where == WEFT__FRONT)
        weft__runqueue_push_front(&c->runqueue, &f->queued);
    else
        weft__runqueue_push(&c->runqueue, &f->queued);
}

/* The slow path of weft__make_runnable: the fiber is parked, or its wake-up is traced. */
void weft__make_runnable_slow(weft__cord *c, weft__fiber *f, weft__queue_end where);

/*
 * Put a fiber on the run queue. The fiber must not be waiting or queued. The fiber resumes with
 * value. A parked fiber is queued when it is unparked.
 */
static inline void weft__make_runnable(weft__cord *c, weft__fiber *f, weft_value value,
                                       weft__queue_end where)
{
    f->value = value;
    if (UNLIKELY(f->wake_flags != 0))
        weft__make_runnable_slow(c, f, where);
    else if (where == WEFT__FRONT)
        weft__runqueue_push_front(&c->runqueue, &f->queued);
    else
        weft__runqueue_push(&c->runqueue, &f->queued);
}

/* Park a fiber. A parked fiber does not run until weft__unpark. */
void weft__park(weft__cord *c, weft__fiber *f);

/* Move the current fiber to the tail of the run queue. The fiber resumes with value. */
static inline weft_value weft__yield(weft__cord *c, weft_value value)
{
    c->current->is_wait_open = false;
    weft__make_runnable_untraced(c, c->current, value, WEFT__TAIL);
    return weft__switch(c);
}

/* Unpark a fiber. If the fiber is not parked, the call does nothing. */
void weft__unpark(weft__cord *c, weft__fiber *f);

/* Wake a waiting fiber. The caller must have removed the fiber from the object of its wait. */
static inline void weft__wake(weft__cord *c, weft__fiber *f, weft_value value,
                              weft__queue_end where)
{
    f->waits_in = NULL;
    weft__make_runnable(c, f, value, where);
}

/*
 * Wake a fiber that has left its wait because of a cancellation, an interrupt, a raised error or a
 * deadlock. value is the error.
 */
static inline void weft__wake_aborted(weft__cord *c, weft__fiber *f, weft_value value,
                                      weft__queue_end where)
{
    f->was_interrupted = true;
    weft__wake(c, f, value, where);
}

/* Mark the current fiber as waiting. The caller must switch away next. */
static inline void weft__wait_begin(weft__cord *c, const weft__wait_kind *kind, void *object)
{
    weft__fiber *f = c->current;
    f->waits_in = kind;
    f->is_wait_open = kind->is_open;
    f->wait_object = object;
    f->wait_since_ns = c->now_ns;
}

/* Wait in the current fiber until the fiber is woken. */
static inline weft_value weft__wait(weft__cord *c, const weft__wait_kind *kind, void *object)
{
    weft__wait_begin(c, kind, object);
    return weft__switch(c);
}

static inline int weft__wait_int(weft__cord *c, const weft__wait_kind *kind, void *object)
{
    weft__wait_begin(c, kind, object);
    return weft__switch_int(c);
}

/* Remove a waiter from its queue, and wake its fiber. value is the result of the wait. */
static inline void weft__waitq_wake(weft__cord *c, weft__waiter *w, weft_value value)
{
    /* Read on_wake first, because some callers have already loaded on_wake. */
    void (*on_wake)(weft__waiter *, weft_value) = w->on_wake;
    weft__waitq_leave(w);
    if (UNLIKELY(on_wake != NULL)) {
        on_wake(w, value);
        return;
    }
    /* While the cord has a trace, on_wake is weft__trace_on_wake. */
    w->fiber->waits_in = NULL;
    weft__make_runnable_untraced(c, w->fiber, value, WEFT__TAIL);
}

/* Wake all waiters of a queue with value. */
static inline void weft__waitq_wake_all(weft__cord *c, weft__waitq *waitq, weft_value value)
{
    weft__waiter *w;
    while ((w = weft__waitq_next(waitq)) != NULL)
        weft__waitq_wake(c, w, value);
}

/* Remove the waiter of a fiber from its queue. Most wait kinds use this function as `leave`. */
bool weft__waitq_abort_wait(weft__fiber *f);

/*
 * Wait in a wait queue until the current fiber is woken. Returns the value that the waker passes.
 * The caller must have checked f->pending. kind->leave must be weft__waitq_abort_wait, or a
 * function that calls weft__waitq_leave.
 */
static inline weft_value weft__waitq_wait(weft__cord *c, weft__waitq *waitq,
                                          const weft__wait_kind *kind, void *object)
{
    weft__waitq_join(waitq, &c->current->live->waiter);
    return weft__wait(c, kind, object);
}

static inline int weft__waitq_wait_int(weft__cord *c, weft__waitq *waitq,
                                       const weft__wait_kind *kind, void *object)
{
    weft__waitq_join(waitq, &c->current->live->waiter);
    return weft__wait_int(c, kind, object);
}

/*
 * Arm a timer of a fiber, disarm the timer, or record that the timer has fired. These functions
 * count the timers of fibers that are not daemons, because weft_suspend in the main fiber waits for
 * these timers.
 */
static inline void weft__hold_timer(weft__cord *c, weft__fiber *f, weft__timer *t, int64_t at_ns)
{
    weft__timer_arm(&c->wheel, t, at_ns);
    c->held_timers += !f->is_daemon;
}

static inline void weft__unhold_timer(weft__cord *c, weft__fiber *f, weft__timer *t)
{
    if (!weft__timer_is_armed(t))
        return;
    weft__timer_disarm(&c->wheel, t);
    c->held_timers -= !f->is_daemon;
}

static inline void weft__timer_fired(weft__cord *c, weft__fiber *f)
{
    c->held_timers -= !f->is_daemon;
}

/*
 * Return the time `seconds` from now. Return WEFT__NEVER if the time is beyond the range of the
 * clock. `seconds` must not be negative or NaN.
 */
static inline int64_t weft__deadline(weft__cord *c, double seconds)
{
    int64_t ns = weft__whole_ns(seconds * 1e9);
    if (ns == WEFT__NEVER)
        return WEFT__NEVER;
    bool is_virtual = UNLIKELY(weft__backend_is_virtual(c->backend));
    return weft__ns_later(is_virtual ? weft__cord_now(c) : weft__fast_clock_ns(&c->fast_clock), ns);
}

/*
 * Like weft_sleep, but until a time on the clock of the backend. If at_ns is WEFT__NEVER, the fiber
 * sleeps until it is cancelled or interrupted.
 */
int weft__sleep_until(weft__cord *c, int64_t at_ns);

/* Set waits_on to the wait object. Many wait kinds use this function as `describe`. */
void weft__describe_object(const weft__fiber *f, struct weft_info *out);

/* The wait of a fiber that weft_new created, and the wait in weft_suspend. */
extern const weft__wait_kind weft__waits_new, weft__waits_suspend;

#endif
