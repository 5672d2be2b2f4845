/*
 * Signals as values: a fiber waits for them, or one is made for each.
 *
 * The first call of weft in a process installs handlers for SIGSEGV and SIGBUS, which report the
 * overflow of a fiber's stack (see weft_catch_faults), a function for the end of the process
 * (on_exit(3)) and one for children of fork (pthread_atfork(3)). A thread that runs fibers gets an
 * alternate signal stack (sigaltstack(2)) if it has none. No other signal is caught unless a
 * function below, weft_shutdown_on_signals, weft_watchdog or WEFT_DUMP_SIGNAL asks for it. No
 * thread's mask is changed: masks are inherited by threads and children, handlers are not.
 *
 * The handler only counts and rings a bell, on which a thread of weft's own tells the fibers; so a
 * signal may come at any time, to any thread of the program that does not block it. Of a signal
 * that comes again before it was delivered, the kernel itself makes one, unless it is a real-time
 * signal (SIGRTMIN to SIGRTMAX, which queue); every delivery is then one occurrence here.
 *
 * A handler that the program had for such a signal before is not called meanwhile. System calls
 * that a signal interrupts are resumed (SA_RESTART), and no weft call fails because of one. A child
 * made by fork has the dispositions from before weft; a program that is executed in place of this
 * one has the default for what was caught, as always.
 *
 * Synchronous faults (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS) cannot wait for a fiber and
 * are refused, and so are SIGKILL and SIGSTOP, which nobody can have.
 *
 * WEFT_DUMP_SIGNAL in the environment, a number or a name (10, USR1, SIGUSR1), makes that signal
 * write the fibers of the thread that called weft first to stderr, as weft_dump does.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/base.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/select.h> /* sigset_t, which <signal.h> keeps back in strict C */

WEFT_BEGIN

/**
 * Wait for one of these signals; returns its number. It goes to all fibers that wait for it, in
 * every thread. From the first wait for it on, a signal is caught for good: one that comes while
 * nobody waits is kept for the next wait, as often as it came, also beside weft_on_signal. What was
 * kept is returned without a switch, even to a fiber that is being cancelled, the lowest number
 * first.
 *
 * A fiber that waits here can always be woken: the program is in no deadlock then, and main's
 * weft_suspend waits for it, unless it is a daemon.
 *
 * -EINVAL for a set that is NULL or empty, or that contains a signal which cannot be waited for;
 * -ENOMEM; -EAGAIN if no thread can be had for the bell; or why the wait was cut short: then no
 * signal was taken.
 */
WEFT_SWITCHPOINT int weft_wait_signal(const sigset_t *set);

/**
 * For each occurrence of a signal run fn(arg) in a fiber of its own, a child of the main fiber of
 * the calling thread. It may do whatever a fiber may; an error that it returns goes to main. Five
 * signals are five runs, side by side if they block. As long as it is registered main's
 * weft_suspend waits for signals, and nothing is a deadlock.
 *
 * There is one such function for a signal in the whole process: another one, from whichever thread,
 * replaces it. NULL removes it: no run is begun afterwards, and unless a fiber just waits for the
 * signal, the disposition from before weft is back and what was kept for weft_wait_signal is
 * forgotten. (If something else has been installed over ours meanwhile, that stays.) When the
 * thread that registered it ends, it is removed, before the thread's fibers end.
 *
 * Returns 0. -EINVAL for a number that is no signal or one that cannot be handled; -ENOMEM; -EAGAIN
 * if no thread can be had for the bell. If a fiber cannot be made when a signal comes, that is said
 * on stderr.
 */
WEFT_API int weft_on_signal(int sig, weft_fn *fn, void *arg);

/**
 * Turn weft's handlers for SIGSEGV and SIGBUS off or on again, at any time and from any thread.
 * They are on unless WEFT_CATCH_FAULTS in the environment is "0" or "off"; this call overrides it.
 *
 * A fault in the guard of a fiber's stack is reported on stderr with the fiber's name. The fault
 * then happens again with the disposition from before weft: core dump and exit status are those of
 * any fault. Every other fault, and a signal sent by kill(2), goes to the handler from before weft,
 * called as the kernel would call it (mask, SA_SIGINFO, SA_RESETHAND, SA_NODEFER), but on the
 * alternate stack. A handler that the program installs later replaces weft's. If that handler calls
 * the one it has replaced, overflows are still reported.
 *
 * Turning the handlers off restores the dispositions from before weft, except where the program has
 * installed another handler since. Threads that first call weft while the handlers are off get no
 * alternate signal stack: their overflows are not reported later either.
 *
 * Returns 0, or the error of sigaction(2).
 */
WEFT_API int weft_catch_faults(bool is_on);

WEFT_END

#endif
