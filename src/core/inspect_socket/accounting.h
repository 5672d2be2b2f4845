/*
 * Measure the CPU time of fibers in all cords while a client needs it (weft_account). Only the
 * thread of the inspection socket calls these functions.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_ACCOUNTING_H
#define WEFT_CORE_INSPECT_SOCKET_ACCOUNTING_H

/* Ask all cords that exist to measure. Repeat the call to include new cords. */
void weft__accounting_start(void);

/* Ask the cords that have started to measure because of weft__accounting_start to stop. */
void weft__accounting_stop(void);

/* Stop measuring in the calling thread, in a child of fork(2). */
void weft__accounting_after_fork(void);

#endif
