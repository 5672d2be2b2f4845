/*
 * Signals: wait for signals, or run a fiber for each signal.
 *
 * The first call of weft in a process installs handlers for SIGSEGV and SIGBUS. These handlers
 * report overflows of fiber stacks (see weft_catch_faults). The first call also installs an exit
 * function (on_exit(3)) and fork handlers (pthread_atfork(3)). A thread that runs fibers gets an
 * alternate signal stack (sigaltstack(2)) if it has none. weft catches no other signal, unless the
 * program uses a function below, weft_shutdown_on_signals, weft_watchdog or WEFT_DUMP_SIGNAL. weft
 * does not change the signal mask of the program's threads. New threads and executed programs would
 * inherit the mask.
 *
 * The handler only counts the signal and posts a semaphore. A thread of weft then wakes the fibers.
 * A signal may therefore arrive at any time, in any thread that does not block the signal. The
 * kernel merges pending instances of a standard signal. Real-time signals (SIGRTMIN to SIGRTMAX)
 * queue. Each delivery counts as one occurrence.
 *
 * While weft catches a signal, the kernel does not call the previous handler of the program. The
 * kernel restarts interrupted system calls (SA_RESTART), and no call of weft fails because of a
 * signal. In a child of fork(2), caught signals have the dispositions from before weft. After
 * exec(3), caught signals have their default dispositions.
 *
 * Fibers cannot wait for synchronous faults: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP and SIGSYS.
 * SIGKILL and SIGSTOP cannot be caught.
 *
 * WEFT_DUMP_SIGNAL in the environment is the number or the name of a signal (10, USR1, SIGUSR1).
 * When this signal arrives, a thread of weft writes the fibers of all threads to stderr, as
 * weft_dump does, even if a fiber computes or blocks its thread.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/base.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/select.h> /* sigset_t, which <signal.h> does not define in strict C */

WEFT_BEGIN

/**
 * Wait for one of several signals.
 *
 * A signal wakes all fibers that wait for the signal, in all threads. weft catches a signal from
 * the first wait until weft_on_signal is called with NULL for the signal. weft stores occurrences
 * without a waiting fiber for later waits, even if weft_on_signal has set a function.
 *
 * If an occurrence is stored, the call returns without a switch, even in a fiber that is being
 * cancelled. The call returns the lowest signal number first. If the call fails, the call has taken
 * no occurrence.
 *
 * While a fiber is in this call, no wait fails with -EDEADLK, because a signal can always wake the
 * fiber. weft_suspend in the main fiber waits for the fiber, unless the fiber is a daemon.
 *
 * Returns the number of the signal, the error that ended the wait, or:
 * -EAGAIN if no thread can be created to receive signals
 * -EINVAL if set contains a signal that cannot be caught
 * -EINVAL if set is NULL or empty
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_wait_signal(const sigset_t *set);

/**
 * Run fn(arg) in a new fiber for each occurrence of a signal.
 *
 * The fiber is a child of the main fiber of the calling thread. fn may call all functions that a
 * fiber may call. An error that fn returns is raised in the main fiber. Five signals start five
 * fibers. The fibers run concurrently if they block. If a fiber cannot be created, weft reports the
 * failure on stderr. While fn is set, weft_suspend in the main fiber waits for signals, and no wait
 * fails with -EDEADLK.
 *
 * Each signal has one function in the whole process. A later call from any thread replaces the
 * function. When the thread that has set the function ends, weft removes the function before the
 * fibers of the thread end.
 *
 * If fn is NULL, the call removes the function. weft then starts no further fiber for the signal.
 * If no fiber waits for the signal, weft restores the disposition from before weft, and discards
 * stored occurrences. If the program has installed another handler since, weft does not replace
 * that handler.
 *
 * Returns 0, or:
 * -EAGAIN if no thread can be created to receive signals
 * -EINVAL if sig cannot be caught
 * -EINVAL if sig is not a signal
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_on_signal(int sig, weft_fn *fn, void *arg);

/**
 * Turn weft's handlers for SIGSEGV and SIGBUS on or off.
 *
 * The handlers are on, unless WEFT_CATCH_FAULTS in the environment is "0" or "off". This call
 * overrides the environment. Any thread may call this function, at any time.
 *
 * If a fault occurs in the guard of a fiber's stack, weft reports the name of the fiber on stderr.
 * The fault then occurs again with the disposition from before weft. The core dump and the exit
 * status are therefore the same as without weft.
 *
 * All other faults, and signals sent by kill(2), reach the handler from before weft. weft calls
 * that handler as the kernel does (mask, SA_SIGINFO, SA_RESETHAND, SA_NODEFER), but on the
 * alternate stack. A handler that the program installs later replaces the handler of weft. If the
 * new handler calls the handler of weft, weft still reports overflows.
 *
 * If is_on is false, the call restores the dispositions from before weft. If the program has
 * installed another handler since, weft does not replace that handler. A thread that first calls
 * weft while the handlers are off gets no alternate signal stack. weft never reports overflows in
 * such a thread.
 *
 * Returns 0, or an error of sigaction(2).
 */
WEFT_API int weft_catch_faults(bool is_on);

WEFT_END

#endif
