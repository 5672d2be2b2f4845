/*
 * The alarm: the one question that every blocking call asks first, "may I?". A fiber's alarm is set
 * while it is stopped, while an error raised in it is undelivered, while a scope of its is
 * cancelled (unless a shield is in between), and where switching is forbidden.
 */
#ifndef WEFT_CORE_ALARM_H
#define WEFT_CORE_ALARM_H

#include "core/sched.h"

/* Work out the alarm again, after something that it depends on has changed. */
void weft__alarm_update(weft__fiber *f);

/*
 * The same, and if the alarm is set and the fiber waits, take it out of its wait: it is resumed
 * with the error. A fiber that never ran is left alone unless it is stopped.
 */
void weft__alarm_raise(weft__cord *c, weft__fiber *f, weft__where where);

/*
 * The error that the alarm stands for: consumed, if it is one that strikes once. The alarm is set.
 */
weft_value weft__alarm_take(weft__fiber *f);

/* Is the alarm set because the fiber is being stopped, and not only for a scope of its? */
bool weft__alarm_is_stop(const weft__fiber *f);

/* A blocking call of the current fiber, whose alarm is set, fails with this. */
weft_value weft__refuse(weft__cord *c);

/*
 * What a wait returns that could not be cut short at once (its leave said false) and ends with
 * result. A cancel that came in time, -ECANCELED, is told as what caused it; one that came too late
 * strikes at the next call.
 */
weft_value weft__settle(weft__fiber *f, weft_value result);

/* Deliver the last error of the current fiber again, to its next blocking call. */
void weft__raise_again(weft__fiber *f, int code);

/* Why a fiber is told to end. */
typedef enum weft__end {
    WEFT__END_AS_TOLD,     /* its value is the one it was given */
    WEFT__END_WITH_PARENT, /* the same, but a failure of its own counts */
    WEFT__END_TO_RESTART,  /* and then it runs again */
} weft__end;

/* Tell a fiber whose function has not returned yet to end. The only place where that is decided. */
void weft__fiber_end(weft__cord *c, weft__fiber *f, weft_value value, weft__end why);

#endif
