/*
 * Timers: a hierarchical wheel with a resolution of one nanosecond. Arming and disarming are O(1)
 * and allocate nothing; a timer is moved at most once a level before it fires. Timers that are due
 * at the same time fire in the order in which they were armed.
 *
 * The level of a timer is the position of the highest 6-bit digit in which its deadline differs
 * from the wheel's own time. That time only moves forward inside weft__wheel_expire, which empties
 * each slot as it enters it: this is what keeps the order among equals.
 */
#ifndef WEFT_CORE_TIMER_H
#define WEFT_CORE_TIMER_H

#include "base/list.h"

#include <stdint.h>

#define WEFT__WHEEL_BITS 6
#define WEFT__WHEEL_SLOTS (1 << WEFT__WHEEL_BITS)
#define WEFT__WHEEL_LEVELS 11 /* 66 bits: every 64-bit deadline has a level */

/* A deadline that never comes. */
#define WEFT__NEVER INT64_MAX

/* So many nanoseconds in whole ones, rounded up; WEFT__NEVER if that is beyond the clock. */
static inline int64_t weft__whole_ns(double ns)
{
    const double limit_ns = 9e18; /* 285 years: what fits, with room for the clock's own value */
    if (!(ns < limit_ns))
        return WEFT__NEVER;
    int64_t whole = (int64_t)ns;
    return whole + (ns > (double)whole);
}

/* So much later; WEFT__NEVER if that is beyond the clock. */
static inline int64_t weft__ns_later(int64_t at_ns, int64_t ns)
{
    int64_t sum;
    return __builtin_add_overflow(at_ns, ns, &sum) ? WEFT__NEVER : sum;
}

typedef struct weft__timer {
    weft__list link;     /* in its slot; in no list: not armed */
    int64_t deadline_ns; /* on the backend's clock */
    void (*fire)(struct weft__timer
                     *timer); /* called once, already disarmed; may arm and disarm any timer */
} weft__timer;

typedef struct weft__wheel {
    int64_t now_ns;                        /* what has been expired up to */
    size_t count;                          /* armed timers */
    uint64_t occupied[WEFT__WHEEL_LEVELS]; /* a bit for each slot that is not empty */
    weft__list slots[WEFT__WHEEL_LEVELS][WEFT__WHEEL_SLOTS];
    int64_t earliest[WEFT__WHEEL_LEVELS]
                    [WEFT__WHEEL_SLOTS]; /* no deadline in the slot is before this */
    weft__list fresh; /* armed since the last expire or next: not in their slots yet */
} weft__wheel;

void weft__wheel_init(weft__wheel *wheel, int64_t now_ns);

void weft__timer_init(weft__timer *timer, void (*fire)(weft__timer *timer));

static inline bool weft__timer_is_armed(const weft__timer *timer)
{
    return !weft__list_is_empty(&timer->link);
}

/*
 * Arm a timer that is not armed. A deadline that is past counts as now: it fires at the next
 * expire, after those that were armed so before it. WEFT__NEVER leaves it as it is.
 *
 * Most deadlines are met: the timer is disarmed soon, and finding its slot would have been in vain.
 */
static inline void weft__timer_arm(weft__wheel *wheel, weft__timer *timer, int64_t deadline_ns)
{
    if (deadline_ns == WEFT__NEVER)
        return;
    timer->deadline_ns = deadline_ns;
    wheel->count++;
    weft__list_insert(&wheel->fresh, &timer->link);
}

/* A list of the wheel has become empty. */
void weft__wheel_emptied(weft__wheel *wheel, const weft__list *head);

/* Disarm it, if it is armed. */
static inline void weft__timer_disarm(weft__wheel *wheel, weft__timer *timer)
{
    if (!weft__timer_is_armed(timer))
        return;
    /* The last node of a list has the head on both sides. */
    weft__list *next = timer->link.next;
    bool is_last = next == timer->link.prev;
    weft__list_remove(&timer->link);
    wheel->count--;
    if (is_last && next != &wheel->fresh)
        weft__wheel_emptied(wheel, next);
}

/*
 * When the wheel should be expired next: the earliest deadline, or a time before it if a timer that
 * shared its slot was disarmed; expiring then makes the next answer better. WEFT__NEVER without
 * timers. O(levels).
 */
int64_t weft__wheel_next(weft__wheel *wheel);

/*
 * Are at least `count` timers due at or before until_ns? To be asked after weft__wheel_next. Looks
 * at a few timers only: if many share a slot that ends later, it may say no.
 */
bool weft__wheel_is_crowded(const weft__wheel *wheel, int64_t until_ns, unsigned count);

/*
 * Fire all timers whose deadline is at or before now_ns, in order of their deadlines. What a
 * callback arms for now_ns or before fires at the next expire. Time that goes backwards is ignored.
 */
void weft__wheel_expire(weft__wheel *wheel, int64_t now_ns);

#endif
