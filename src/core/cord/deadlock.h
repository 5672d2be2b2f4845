/*
 * Deadlock detection. If no event can wake a fiber of the process, wake a main fiber.
 *
 * A cord is quiescent if it has no runnable fiber, and only another thread can wake a fiber of the
 * cord. A quiescent cord cannot wake fibers of other cords. A foreign thread is a thread that runs
 * no fibers, and may send messages to cords. If all cords are quiescent and no foreign thread
 * exists, the process is deadlocked (docs/adr/0011, 0022, 0039).
 */
#ifndef WEFT_CORE_CORD_DEADLOCK_H
#define WEFT_CORE_CORD_DEADLOCK_H

#include "core/cord/cord.h"

/* The event sources that could still wake a fiber of an idle cord. */
typedef enum weft__wake_source {
    WEFT__WAKE_SOURCE_NONE,    /* the cord must call weft__deadlock_resolve */
    WEFT__WAKE_SOURCE_THREADS, /* a foreign thread */
    WEFT__WAKE_SOURCE_CORDS,   /* another cord */
    WEFT__WAKE_SOURCE_SELF,    /* a timer, an operation or a signal of the cord */
} weft__wake_source;

/*
 * Return the event source that could wake a fiber of the cord. The cord must have no runnable
 * fiber. Call weft__deadlock_clear before the next check.
 *
 * In a deadlock, choose a cord that must wake its main fiber. A main fiber in weft_suspend is
 * preferred to a main fiber in a call that can fail with -EDEADLK. If this cord and another cord
 * are equivalent, this cord is preferred. If this cord is chosen, return WEFT__WAKE_SOURCE_NONE.
 * Otherwise set is_deadlock_victim of the chosen cord, and wake that cord.
 */
weft__wake_source weft__deadlock_check(weft__cord *c);

/* Mark the cord as not quiescent. Call this function after each weft__deadlock_check. */
void weft__deadlock_clear(weft__cord *c);

/*
 * Wake the main fiber of the cord, or the fiber that ends all other fibers. weft_suspend and other
 * waits that weft_schedule may end return 0. Any other wait fails with -EDEADLK, and the deadlock
 * is reported.
 */
void weft__deadlock_resolve(weft__cord *c);

/* Count a cord before it is published in the registry. */
void weft__deadlock_add_cord(void);

/* Stop counting a cord that was removed from the registry. */
void weft__deadlock_remove_cord(void);

/* Reset the counters in a child of fork(2). has_cord is true if the child has a cord. */
void weft__deadlock_reset(bool has_cord);

#endif
