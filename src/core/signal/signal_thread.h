/*
 * The real signal handler, which the kernel calls, and the signal thread. The handler counts a
 * signal, and wakes the signal thread. The thread calls a function of signal.c, which wakes fibers.
 * The callers of all functions below must hold the lock of signal.c.
 */
#ifndef WEFT_CORE_SIGNAL_SIGNAL_THREAD_H
#define WEFT_CORE_SIGNAL_SIGNAL_THREAD_H

#include <signal.h>
#include <stdbool.h>

/* One more than the highest signal number, which is 64 on Linux. */
#define WEFT__SIGNALS_END 65

/*
 * A function that the handler calls before it counts the signal. If the function returns true, the
 * handler does not count the signal. The function must be async-signal-safe.
 */
typedef bool weft__signal_in_handler(int sig, const siginfo_t *info);

/*
 * Catch a signal, unless it is already caught. The signal thread calls on_wake when signals may
 * have been counted. on_wake must be the same function in all calls.
 *
 * Returns 0, or:
 * -EAGAIN if no thread can be created
 * -EINVAL if the C library reserves the signal
 * -ENOMEM if memory is exhausted
 */
int weft__signal_thread_catch(int sig, void (*on_wake)(void));

/* Return true if the signal is caught. */
bool weft__signal_thread_catches(int sig);

/* Set the function that the handler calls for a signal. NULL: none. */
void weft__signal_thread_set_hook(int sig, weft__signal_in_handler *fn);

/* Return the number of occurrences that the handler has counted since the last call. */
unsigned weft__signal_thread_take(int sig);

/* Restore the previous disposition, unless the program has changed the disposition since then. */
void weft__signal_thread_release(int sig);

/* Release all signals in a child of fork(2). The signal thread does not exist in the child. */
void weft__signal_thread_reset(void);

#endif
