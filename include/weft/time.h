/*
 * The clock, sleeping, and functions that run later, periodically, or again after a failure.
 *
 * Times are in seconds and have the type double. The clock is monotonic and belongs to the backend.
 * On the sim backend, the clock is virtual. If no fiber can run, the virtual clock jumps to the
 * next deadline.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/fiber.h>

WEFT_BEGIN

/** Return the monotonic time in seconds. */
WEFT_API double weft_now(void);

/**
 * Wait for at least the given number of seconds.
 *
 * The time counts from the call. If seconds is 0, the call polls the backend once and lets other
 * fibers run. If seconds is INFINITY, the call waits until the caller is cancelled or interrupted.
 *
 * While 4 or more timers fire in each millisecond, weft coalesces timers. A coalesced timer fires
 * up to 1 ms late. Other timers are as exact as timers of the kernel.
 *
 * Returns 0, or:
 * -EINVAL if seconds is negative or NaN
 */
WEFT_SWITCHPOINT int weft_sleep(double seconds);

/**
 * Wait until a time on the clock of weft_now.
 *
 * When the call returns 0, weft_now has reached deadline. A loop that adds a period to its deadline
 * does not drift. If deadline has passed, the call behaves like weft_sleep(0). If deadline is
 * INFINITY, the call waits until the caller is cancelled or interrupted.
 *
 * Returns 0, or:
 * -EINVAL if deadline is NaN
 */
WEFT_SWITCHPOINT int weft_sleep_until(double deadline);

/**
 * Run fn(arg) once in a new fiber, after a delay.
 *
 * The delay counts from the call. The fiber is a child of the caller. weft_cancel cancels the
 * fiber, even before weft has called fn. As with weft_go, weft does not store the value. To get the
 * value, call weft_await before the fiber ends. If no fiber awaits the new fiber, weft raises its
 * error in the parent.
 *
 * Returns the id, or 0 on failure. Errors in addition to those of weft_spin:
 * -EINVAL if seconds is negative or NaN
 */
WEFT_API weft_fiber weft_after(double seconds, weft_fn *fn, void *arg);

/**
 * Like weft_after, but with options.
 *
 * The options are those of weft_spin_with. If options is NULL, the defaults apply. If the fiber is
 * cancelled before weft calls fn, weft calls drop with arg, or with the copy of arg.
 */
WEFT_API weft_fiber weft_after_with(double seconds, weft_fn *fn, void *arg,
                                    const weft_spin_options *options);

/**
 * Run fn(arg) periodically in a new fiber.
 *
 * The parameter seconds is the period. The first run starts one period after the call. Each run
 * starts at a multiple of the period after the call. Therefore the runs do not drift. If a run
 * takes longer than a period, weft skips the periods that have passed. If fn returns an error, the
 * fiber ends with this error.
 *
 * Returns the id, or 0 on failure. Errors in addition to those of weft_spin:
 * -EINVAL if seconds is 0, negative or NaN
 */
WEFT_API weft_fiber weft_every(double seconds, weft_fn *fn, void *arg);

/**
 * Run fn(arg) repeatedly in a new fiber, at a limited rate.
 *
 * The fiber calls fn at most rate times per second. The first run has no delay. If rate is
 * INFINITY, the rate is unlimited. Other fibers run between two runs. If fn returns an error, the
 * fiber ends with this error.
 *
 * Returns the id, or 0 on failure. Errors in addition to those of weft_spin:
 * -EINVAL if rate is 0, negative or NaN
 */
WEFT_API weft_fiber weft_spin_loop(weft_fn *fn, void *arg, double rate);

/**
 * Like weft_spin_loop, but in the calling fiber, and count times.
 *
 * If count is 0, the number of runs is unlimited. If fn returns an error, the loop ends and the
 * call returns this error. The loop also ends if the wait between two runs fails.
 *
 * Returns 0, the error of fn, the error of the wait, or:
 * -EINVAL if fn is NULL
 * -EINVAL if rate is 0, negative or NaN
 */
WEFT_SWITCHPOINT int weft_throttled_loop(weft_fn *fn, void *arg, double rate, size_t count);

/* Options of weft_retry. All-zero is the default. */
typedef struct weft_retry_options {
    unsigned attempts_max; /* calls of fn, including the first; 0: 5; UINT_MAX: unlimited */
    double first_s;        /* the delay after the first call; 0: 0.1 s */
    double factor;         /* each delay is this factor times the previous delay; 0: 2 */
    double delay_s_max;    /* the longest delay; 0: 60 s; INFINITY: unlimited */
    /*
     * The share of each delay that is random, 0 to 1. With 0.25, a delay has 75 to 100 percent of
     * its length. Use a jitter if many processes retry at the same time. 0: none.
     */
    double jitter;
    /* Return whether an error is temporary. NULL: all errors are temporary. */
    bool (*should_retry)(int code, void *context);
    void *context; /* the argument of should_retry */
} weft_retry_options;

/**
 * Call fn(arg) until fn succeeds, at most attempts_max times.
 *
 * The call runs fn in the calling fiber. The delays after failures grow. Each delay counts from the
 * end of the failed call. If options is NULL, the defaults apply. On the sim backend, WEFT_SEED
 * determines the jitter.
 *
 * The call ends at once if the caller is cancelled or interrupted during a delay, or before a
 * delay. So a cancelled caller never calls fn again. Before each call of fn, weft clears the last
 * error. If fn fails for the last time without a message, weft records a message.
 *
 * Returns the value of fn, the error of the last call of fn, the error of the wait, or:
 * -EINVAL if factor is INFINITY or NaN
 * -EINVAL if factor is less than 1, and not 0
 * -EINVAL if first_s or delay_s_max is negative or NaN, or first_s is INFINITY
 * -EINVAL if fn is NULL
 * -EINVAL if jitter is not in 0..1
 * -ENOTRECOVERABLE if the process is a child of plain fork(2)
 */
WEFT_SWITCHPOINT weft_value weft_retry(weft_fn *fn, void *arg, const weft_retry_options *options);

WEFT_END

#endif
