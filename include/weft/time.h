/*
 * Time: seconds as a double, from a monotonic clock that belongs to the backend. On the sim
 * backend it is virtual, and jumps to the next deadline whenever nothing can run.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/base.h>

WEFT_BEGIN

/** Monotonic seconds. */
WEFT_API double weft_now(void);

/**
 * Wait for at least so many seconds from now, however long the caller computed before. 0 polls
 * once and lets the others run; INFINITY waits until the caller is cancelled or interrupted.
 * Returns 0, or what weft_interrupt gave. -EINVAL if the time is negative or NaN.
 */
WEFT_SWITCHPOINT int weft_sleep(double seconds);

WEFT_END

#endif
