/*
 * Timers in a hierarchical wheel, with a resolution of 1 ns. Arming and disarming take O(1) time
 * and allocate nothing. A timer moves at most once per level before it fires. Timers with the same
 * deadline fire in the order in which they were armed.
 *
 * The level of a timer is the position of the highest 6-bit digit in which its deadline differs
 * from the time of the wheel. Only weft__wheel_expire advances the time of the wheel.
 * weft__wheel_expire empties each slot that it enters, which preserves the order of timers with
 * equal deadlines.
 */
#ifndef WEFT_CORE_SCHED_TIMER_H
#define WEFT_CORE_SCHED_TIMER_H

#include "base/list.h"

#include <stdint.h>

#define WEFT__WHEEL_BITS 6
#define WEFT__WHEEL_SLOTS (1 << WEFT__WHEEL_BITS)
#define WEFT__WHEEL_LEVELS 11 /* 66 bits, so that every 64-bit deadline has a level */

/* The deadline of a timer that never fires. */
#define WEFT__NEVER INT64_MAX

/*
 * Round nanoseconds up to an integer. Return WEFT__NEVER if the result is beyond the range of the
 * clock.
 */
static inline int64_t weft__whole_ns(double ns)
{
    const double limit_ns = 9e18; /* 285 years; adding the current time does not overflow */
    if (!(ns < limit_ns))
        return WEFT__NEVER;
    int64_t whole = (int64_t)ns;
    return whole + (ns > (double)whole);
}

/* Return at_ns + ns. Return WEFT__NEVER if the sum is beyond the range of the clock. */
static inline int64_t weft__ns_later(int64_t at_ns, int64_t ns)
{
    int64_t sum;
    return __builtin_add_overflow(at_ns, ns, &sum) ? WEFT__NEVER : sum;
}

typedef struct weft__timer {
    weft__list link;     /* in a list of the wheel; linked to itself: not armed */
    int64_t deadline_ns; /* on the clock of the backend */
    /*
     * The wheel calls this function when the timer expires. The timer is then disarmed. The
     * function may arm and disarm any timer.
     */
    void (*fire)(struct weft__timer *timer);
} weft__timer;

typedef struct weft__wheel {
    int64_t now_ns;                        /* all timers up to this time have fired */
    size_t count;                          /* armed timers */
    uint64_t occupied[WEFT__WHEEL_LEVELS]; /* a bit for each slot that is not empty */
    weft__list slots[WEFT__WHEEL_LEVELS][WEFT__WHEEL_SLOTS];
    /* A lower bound of the deadlines in each slot. */
    int64_t earliest[WEFT__WHEEL_LEVELS][WEFT__WHEEL_SLOTS];
    weft__list fresh; /* timers that are not in a slot yet */
} weft__wheel;

void weft__wheel_init(weft__wheel *wheel, int64_t now_ns);

void weft__timer_init(weft__timer *timer, void (*fire)(weft__timer *timer));

static inline bool weft__timer_is_armed(const weft__timer *timer)
{
    return !weft__list_is_empty(&timer->link);
}

/*
 * Arm a timer. The timer must not be armed. If the deadline is in the past, the timer fires in the
 * next call of weft__wheel_expire. If the deadline is WEFT__NEVER, the timer remains disarmed.
 *
 * Most timers are disarmed soon after they were armed. Therefore the slot of a timer is not
 * computed by this call, but by weft__wheel_expire or weft__wheel_next. Otherwise: timeout +34 %
 * instructions (docs/adr/0051).
 */
static inline void weft__timer_arm(weft__wheel *wheel, weft__timer *timer, int64_t deadline_ns)
{
    if (deadline_ns == WEFT__NEVER)
        return;
    timer->deadline_ns = deadline_ns;
    wheel->count++;
    weft__list_insert(&wheel->fresh, &timer->link);
}

/* Update `occupied` after a list of the wheel has become empty. */
void weft__wheel_list_emptied(weft__wheel *wheel, const weft__list *head);

/* Disarm a timer, if it is armed. */
static inline void weft__timer_disarm(weft__wheel *wheel, weft__timer *timer)
{
    if (!weft__timer_is_armed(timer))
        return;
    /* If the timer is the only node of its list, both neighbours are the head of the list. */
    weft__list *next = timer->link.next;
    bool is_last = next == timer->link.prev;
    weft__list_remove(&timer->link);
    wheel->count--;
    if (is_last && next != &wheel->fresh)
        weft__wheel_list_emptied(wheel, next);
}

/*
 * Return the time at which to expire the wheel next. This is the earliest deadline, or an earlier
 * time if a timer of the same slot was disarmed. After the wheel has been expired at this time, the
 * next result is more exact. Return WEFT__NEVER if no timer is armed. The call takes O(levels)
 * time, and O(1) time per timer that was armed since the last call.
 */
int64_t weft__wheel_next(weft__wheel *wheel);

/*
 * Return whether at least `count` timers are due at or before until_ns. Call weft__wheel_next
 * first. The call inspects only a few timers. Therefore the result may be wrongly false if many
 * timers of a slot are due after until_ns.
 */
bool weft__wheel_has_due(const weft__wheel *wheel, int64_t until_ns, unsigned count);

/*
 * Fire all timers with deadlines at or before now_ns, in the order of their deadlines. If a
 * callback arms a timer for now_ns or earlier, the timer fires in the next call. The time of the
 * wheel never decreases.
 */
void weft__wheel_expire(weft__wheel *wheel, int64_t now_ns);

#endif
