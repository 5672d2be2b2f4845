/*
 * Child processes of a process that uses weft. fork(2) copies the memory and the calling thread.
 * The other threads do not exist in the child. Each of them may have been in the middle of any
 * function. The child shares the kernel objects of its descriptors with the parent.
 *
 * In a child of plain fork(2), every call of weft fails without an effect. A child of weft_fork
 * takes over the memory, and can use weft.
 *
 * A fork does not wait for other threads. A fork takes only the lock of core/signal/signal.c.
 * Another thread may have been changing state of the process during the fork, for example a lock or
 * a list of threads. The child does not read such state, but initialises it again. Each file
 * initialises its state in a child handler of pthread_atfork. Both kinds of fork run these
 * handlers. fork.c resets the state of a cord.
 */
#ifndef WEFT_CORE_CORD_FORK_H
#define WEFT_CORE_CORD_FORK_H

#include <weft/base.h>

/* The number of weft_fork calls between the first process that used weft and this process. */
extern uint32_t weft__fork_depth;

/* The child handler of pthread_atfork for cords. */
void weft__fork_in_child(void);

/*
 * End a child process, because the function of the fiber or thread that called fork has returned
 * value. The exit status is EXIT_FAILURE if value is an error.
 */
void weft__fork_exit(weft_value value) __attribute__((noreturn));

/*
 * End a child of plain fork(2), because its only fiber waits in a call that began before the fork.
 */
void weft__fork_stop(void) __attribute__((noreturn));

#endif
