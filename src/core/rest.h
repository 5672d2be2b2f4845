/*
 * Giving memory back when the thread is idle: after a burst of fibers it has many free stacks and
 * records, and may not need them again for long. Where a period has passed (WEFT__REST_PERIOD_NS)
 * and the thread is idle, what nobody has used in that period goes back to the system, but for a
 * little: pages of stacks, chunks in which all records are free, the pages of the run queue.
 */
#ifndef WEFT_CORE_REST_H
#define WEFT_CORE_REST_H

#include "core/cord.h"

/* The cord uses more than before: look after a period whether it still does. */
void weft__rest_expect(weft__cord *c);

/* Put the records of a dormant chunk into the list of bare ones. False: there is none. */
bool weft__rest_wake(weft__cord *c);

/*
 * For an idle thread: is there something to give back by now? If so, give some back. False: no, it
 * may sleep until rest.due_ns (0: for as long as it likes).
 */
bool weft__rest_some(weft__cord *c);

#endif
