/* Handlers that weft installs once per process, for the exit of threads and of the process. */
#ifndef WEFT_CORE_CORD_THREAD_H
#define WEFT_CORE_CORD_THREAD_H

#include "core/cord/cord.h"

/*
 * Install handlers for the exit of threads and of the process, for fork(2) and for faults. Only the
 * first call has an effect. Return false if a handler cannot be installed.
 */
bool weft__process_init(void);

/* Make the handlers active in the calling process, which is a child of weft_fork. */
void weft__process_set_owner(void);

/* Close cord c when the calling thread ends. If c is NULL, close no cord. */
void weft__thread_close_at_exit(weft__cord *c);

/*
 * Wait until the process ends. Another thread must be ending the process. This function never
 * returns.
 */
void weft__thread_wait_forever(void);

#endif
