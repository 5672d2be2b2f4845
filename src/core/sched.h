/*
 * Switching: who runs next, how a fiber waits and how it is woken.
 *
 * A switchpoint checks the alarm, puts the fiber where it waits, and tail-calls weft__switch, which
 * goes straight to the next fiber. Whoever wakes it completes the operation, so that nothing is
 * left to do after the switch: the value arrives in the register in which the call returns it.
 */
#ifndef WEFT_CORE_SCHED_H
#define WEFT_CORE_SCHED_H

#include "core/cord.h"

/*
 * Run the next runnable fiber, polling the backend until there is one. The current fiber is on the
 * run queue, waits, or has nothing left to do. Returns what it is resumed with.
 */
weft_value weft__switch(weft__cord *c);

/*
 * The same function for calls that return an int: it is the lower half of the same register, and
 * the call remains a jump, which it would not be behind a conversion. Elsewhere that may not hold.
 */
#if defined(__x86_64__) || defined(__aarch64__)
#define WEFT__IS_INT_A_HALF 1
int weft__switch_int(weft__cord *c);
#else
#define WEFT__IS_INT_A_HALF 0
#define weft__switch_int(c) ((int)weft__switch(c))
#endif

/* The same from a fiber that has ended. */
void weft__switch_away(weft__cord *c) __attribute__((noreturn));

/*
 * Leave the fiber that runs for good, whose record is free already, with another one woken: the
 * same as its being put on the run queue, with value, and weft__switch_away. Only where it can be
 * done without calling anything, as that might want the record, and the stack. *first: who is the
 * next on the queue; NULL: nobody, so the woken one is.
 */
static inline bool weft__can_leave_simply(const weft__cord *c, const weft__fiber *woken,
                                          weft__runnable **first)
{
    const weft__runqueue *q = &c->runqueue;
    *first = NULL;
    /* While time is accounted for, a turn is one switch. */
    if (woken->is_parked || c->turn_left <= 1 || c->has_more_to_swap)
        return false;
    return LIKELY(q->head == q->tail) || (*first = q->ring[q->head & q->mask]) != NULL;
}

__attribute__((noreturn)) static inline void
weft__leave_simply(weft__cord *c, weft__fiber *woken, weft_value value, weft__runnable *first)
{
    weft__fiber *from = c->current, *to = woken;
    if (UNLIKELY(first != NULL)) {
        woken->value = value;
        woken->woken_open = false;
        weft__runqueue_rotate(&c->runqueue, &woken->queued, first);
        to = weft__fiber_of_queued(first);
        value = to->value;
    }
    c->turn_left--;
    c->current = to;
    weft__context_leave(&from->context, &to->context, value);
}

/* Count the switches of this turn so far, and look at the clock after so many more. */
static inline void weft__set_turn(weft__cord *c, uint32_t switches)
{
    c->switches += c->turn_span - c->turn_left;
    c->turn_span = c->turn_left = switches;
}

/* While time is measured: count what the current fiber has used of it so far. */
void weft__account(weft__cord *c);

/* The run queue is empty: wait for the outside world, and pop the first fiber. (idle.c) */
weft__runnable *weft__idle(weft__cord *c);

/* Handle completed operations, without waiting. */
static inline void weft__poll_quickly(weft__cord *c)
{
    c->polls++;
    int rc = c->backend->type->poll(c->backend, 0);
    if (UNLIKELY(rc < 0))
        weft__cord_recover(c, rc);
}

/* Switch to this fiber now, which is another one, on no queue, with its value set. */
weft_value weft__switch_to(weft__cord *c, weft__fiber *to);

typedef enum weft__where {
    WEFT__TAIL,
    WEFT__FRONT,
} weft__where;

/* Put a fiber that waits nowhere on the run queue, to be resumed with value. */
static inline void weft__make_runnable(weft__cord *c, weft__fiber *f, weft_value value,
                                       weft__where where)
{
    f->value = value;
    if (UNLIKELY(f->is_parked))
        return;
    if (where == WEFT__FRONT)
        weft__runqueue_push_front(&c->runqueue, &f->queued);
    else
        weft__runqueue_push(&c->runqueue, &f->queued);
}

/* Park a fiber: it does not run until it is let go on. */
void weft__park(weft__cord *c, weft__fiber *f);

/* The current fiber goes to the tail of the queue, and is resumed with value. */
static inline weft_value weft__yield(weft__cord *c, weft_value value)
{
    c->current->woken_open = false;
    weft__make_runnable(c, c->current, value, WEFT__TAIL);
    return weft__switch(c);
}

/* Let a parked fiber go on; nothing happens to one that is not parked. */
void weft__unpark(weft__cord *c, weft__fiber *f);

/* Wake a fiber that has been taken out of the place in which it waited. */
static inline void weft__wake(weft__cord *c, weft__fiber *f, weft_value value, weft__where where)
{
    f->woken_open = f->waits_in->is_open;
    f->waits_in = NULL;
    weft__make_runnable(c, f, value, where);
}

/* The current fiber is in this place from now on; it is to switch away next. */
static inline void weft__enter(weft__cord *c, const weft__wait_kind *kind, void *object)
{
    weft__fiber *f = c->current;
    f->waits_in = kind;
    f->wait_object = object;
    f->wait_since_ns = c->now_ns;
}

/* The current fiber waits in this place until it is woken. */
static inline weft_value weft__wait(weft__cord *c, const weft__wait_kind *kind, void *object)
{
    weft__enter(c, kind, object);
    return weft__switch(c);
}

static inline int weft__wait_int(weft__cord *c, const weft__wait_kind *kind, void *object)
{
    weft__enter(c, kind, object);
    return weft__switch_int(c);
}

/* Take a waiter out of its line: what it waited for has happened, and value says what. */
static inline void weft__serve(weft__cord *c, weft__waiter *w, weft_value value)
{
    void (*served)(weft__waiter *, weft_value) = w->served; /* known to some callers already */
    weft__line_leave(w);
    if (LIKELY(served == NULL))
        weft__wake(c, w->fiber, value, WEFT__TAIL);
    else
        served(w, value);
}

/* The same for one that is in line, with nothing to be called, in a wait that is not open. */
static inline void weft__serve_plainly(weft__cord *c, weft__waiter *w, weft_value value)
{
    weft__fiber *f = w->fiber;
    weft__line_leave_it(w->line, w);
    f->woken_open = false;
    f->waits_in = NULL;
    weft__make_runnable(c, f, value, WEFT__TAIL);
}

/* The same for all who wait. */
static inline void weft__serve_all(weft__cord *c, weft__line *line, weft_value value)
{
    weft__waiter *w;
    while ((w = weft__line_next(line)) != NULL)
        weft__serve(c, w, value);
}

/* A wait in line is cut short; for weft__wait_kind. */
bool weft__leave_line(weft__fiber *f);

/*
 * The current fiber, whose alarm is not set, waits in line until it is served; returns what with.
 * The leave of kind is weft__leave_line, or does the same and more.
 */
static inline weft_value weft__line_wait(weft__cord *c, weft__line *line,
                                         const weft__wait_kind *kind, void *object)
{
    weft__line_join_again(line, &c->current->life->waiter);
    return weft__wait(c, kind, object);
}

static inline int weft__line_wait_int(weft__cord *c, weft__line *line, const weft__wait_kind *kind,
                                      void *object)
{
    weft__line_join_again(line, &c->current->life->waiter);
    return weft__wait_int(c, kind, object);
}

/*
 * Arm a timer of a fiber, disarm it, or note that it has fired: a timer that is not a daemon's is
 * something that main's suspend waits for.
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

static inline void weft__fired_timer(weft__cord *c, weft__fiber *f)
{
    c->held_timers -= !f->is_daemon;
}

/*
 * When a wait of so many seconds from now is over; WEFT__NEVER if that is beyond the clock.
 * The caller has seen to it that seconds is neither negative nor NaN.
 */
static inline int64_t weft__deadline(weft__cord *c, double seconds)
{
    int64_t ns = weft__whole_ns(seconds * 1e9);
    if (ns == WEFT__NEVER)
        return WEFT__NEVER;
    bool is_virtual = UNLIKELY(c->backend->type->follow != NULL);
    return weft__ns_later(is_virtual ? weft__cord_now(c) : weft__quick_ns(&c->quick), ns);
}

/* weft_sleep, until a time on the backend's clock; WEFT__NEVER: without end. */
int weft__sleep_until(weft__cord *c, int64_t at_ns);

/* The wait of a fiber made by weft_new, and of weft_suspend. */
extern const weft__wait_kind weft__waits_new, weft__waits_suspend;

#endif
