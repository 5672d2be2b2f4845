/*
 * Time: seconds as a double, from a monotonic clock that belongs to the backend. On the sim
 * backend it is virtual, and jumps to the next deadline whenever nothing can run.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/fiber.h>

WEFT_BEGIN

/** Monotonic seconds. */
WEFT_API double weft_now(void);

/**
 * Wait for at least so many seconds from now, however long the caller computed before. 0 polls
 * once and lets the others run; INFINITY waits until the caller is cancelled or interrupted.
 * Where four timers or more fire in every millisecond, they fire together, up to a millisecond
 * late. A timer that is alone is as exact as the kernel.
 * Returns 0.
 * -EINVAL if seconds is negative or NaN
 */
WEFT_SWITCHPOINT int weft_sleep(double seconds);

/**
 * Run fn(arg) once, in a fiber of its own, seconds from now. The fiber is a child of the caller:
 * weft_cancel calls it off, weft_await waits for it. As with weft_go nothing is kept of an ended
 * fiber: weft_await must begin before the end. Its error goes to its parent if nobody awaits it.
 * Fails as weft_spin does, and with
 * -EINVAL if seconds is negative or NaN
 */
WEFT_API weft_fiber weft_after(double seconds, weft_fn *fn, void *arg);

/**
 * The same with the options of weft_spin_with; NULL for none. drop is called with arg, or its copy,
 * if the fiber is cancelled before its time.
 */
WEFT_API weft_fiber weft_after_with(double seconds, weft_fn *fn, void *arg,
                                    const weft_spin_options *options);

/**
 * Run fn(arg) again and again, in a fiber of its own, the first time seconds from now. Without
 * drift: the times are multiples of seconds from the beginning. A run that takes longer makes those
 * ticks be skipped that have passed meanwhile; they are never made up for. An error that fn returns
 * ends it, and is the fiber's. Fails as weft_spin does; -EINVAL unless seconds > 0.
 */
WEFT_API weft_fiber weft_every(double seconds, weft_fn *fn, void *arg);

/**
 * Run fn(arg) again and again, in a fiber of its own, at most rate times a second; the first time
 * at once. INFINITY: without holding it back, letting the others run in between. An error that fn
 * returns ends it, and is the fiber's. Fails as weft_spin does; -EINVAL unless rate > 0.
 */
WEFT_API weft_fiber weft_spin_loop(weft_fn *fn, void *arg, double rate);

/**
 * The same in the caller, count times; 0: for ever. Returns 0, the error of fn, or why it was cut
 * short between two runs.
 */
WEFT_SWITCHPOINT int weft_throttled_loop(weft_fn *fn, void *arg, double rate, size_t count);

WEFT_END

#endif
