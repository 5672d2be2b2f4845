/*
 * Give memory back to the kernel when the thread is idle. After a burst of fibers a cord has many
 * free stacks and records. When a period is over (WEFT__REST_PERIOD_NS) and the thread is idle, the
 * memory that was not used in that period goes back, except a small reserve: pages of stacks,
 * chunks in which all records are free, pages of the run queue.
 */
#ifndef WEFT_CORE_REST_H
#define WEFT_CORE_REST_H

#include "core/cord.h"

/* The cord takes more memory: check after a period whether it still uses it. */
void weft__rest_expect(weft__cord *c);

/* Put the records of a dormant chunk into the list of bare ones. False: there is none. */
bool weft__rest_wake(weft__cord *c);

/*
 * For an idle thread: give some memory back, if a period is over. False: nothing is left to give
 * back, and the thread may sleep until rest.due_ns (0: without limit).
 */
bool weft__rest_some(weft__cord *c);

#endif
