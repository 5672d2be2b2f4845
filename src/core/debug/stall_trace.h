/*
 * Backtraces of threads that do not switch, for the watchdog and for snapshots.
 *
 * Only a thread can take its own backtrace. Therefore weft sends a signal to the stalled thread,
 * and the signal handler takes the backtrace. weft uses the highest real-time signal below SIGRTMAX
 * that has the default disposition.
 */
#ifndef WEFT_CORE_DEBUG_STALL_TRACE_H
#define WEFT_CORE_DEBUG_STALL_TRACE_H

#include "core/cord/cord.h"

/* The reply of a stalled thread. */
typedef struct weft__stall_trace {
    bool has_moved; /* the thread has switched or polled since the request; no frames */
    int count;
    void *frames[WEFT__WATCHDOG_FRAMES_MAX]; /* the innermost first, without the handler */
} weft__stall_trace;

/* The running fiber of another thread. */
typedef struct weft__stalled_fiber {
    weft_fiber id;
    weft_fn *fn;
    char name[WEFT__NAME_BYTES];
} weft__stalled_fiber;

/* Return the progress of a cord. Any thread that has acquired the cord may call this function. */
weft__progress weft__progress_of(const weft__cord *c);
bool weft__progress_is_same(const weft__progress *a, const weft__progress *b);

/*
 * Read the current fiber of a cord that the caller has acquired. The memory of the record remains
 * valid while the cord exists. If the cord switches during this function, the fields may belong to
 * two fibers.
 */
void weft__stalled_fiber_read(const weft__cord *c, weft__stalled_fiber *out);

/*
 * Reserve the signal. Each successful call needs a weft__stall_signal_release. The last release
 * restores the disposition of the signal.
 *
 * Returns the number of the signal, or:
 * -EBUSY if no real-time signal has the default disposition
 * -ENOMEM if memory is exhausted
 */
int weft__stall_signal_reserve(void);
void weft__stall_signal_release(void);

/*
 * Request the backtrace of a cord that the caller has acquired. The caller must have reserved the
 * signal. The call waits for requests of other threads. If the call returns true, the caller must
 * call weft__stall_trace_end, in the same thread. The call returns false if the thread of the cord
 * has not handled an earlier signal.
 */
bool weft__stall_trace_begin(weft__cord *c, const weft__progress *progress);

/*
 * Wait for the backtrace. Return false if the thread does not handle the signal within timeout_ns,
 * or if must_stop returns true after weft__stall_trace_wake. must_stop may be NULL.
 */
bool weft__stall_trace_end(int64_t timeout_ns, bool (*must_stop)(void), weft__stall_trace *out);

/* Make weft__stall_trace_end of another thread call must_stop. */
void weft__stall_trace_wake(void);

#endif
