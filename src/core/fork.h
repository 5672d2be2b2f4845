/*
 * Processes that are copies of this one. fork(2) copies the memory and the thread that calls it;
 * the other threads are gone in the middle of whatever they were at, and the kernel's objects
 * behind the descriptors are still the parent's.
 *
 * Of a plain fork(2) the child is a copy: every call is refused there, before it touches anything.
 * weft_fork makes what is left its own.
 *
 * So nobody has to be waited for before a fork, and no lock is taken for it: what other threads may
 * have been changing is not looked at afterwards, but begun anew. Files with such state of the
 * process (a lock, a list of threads) do that in a handler of pthread_atfork for the child, which
 * is called in either case, and before weft_fork goes on; what belongs to a cord is done here.
 */
#ifndef WEFT_CORE_FORK_H
#define WEFT_CORE_FORK_H

#include <weft/base.h>

/* How often weft_fork has made a child, from the first process that used weft to this one. */
extern uint32_t weft__fork_depth;

/* For pthread_atfork. */
void weft__fork_in_child(void);

/*
 * In a child: the function of the fiber or the thread that called fork has returned, and there is
 * nothing else to go on with. The process ends, and not well if value is an error.
 */
void weft__fork_return(weft_value value) __attribute__((noreturn));

/* In a copy: a fiber waits in a call that it was in before. There is nobody who could go on. */
void weft__fork_stop(void) __attribute__((noreturn));

#endif
