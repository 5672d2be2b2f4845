/*
 * Release memory to the kernel while the thread is idle. After a burst of fibers, a cord has many
 * free stacks and records. When a period (WEFT__TRIM_PERIOD_NS) is over and the thread is idle, the
 * cord releases memory that was unused in the period. A small reserve remains. The cord releases
 * pages of stacks, chunks with only free records, and pages of the run queue. A chunk is dormant
 * after its pages have been released.
 */
#ifndef WEFT_CORE_SCHED_TRIM_H
#define WEFT_CORE_SCHED_TRIM_H

#include "core/cord/cord.h"

/*
 * Schedule a check of memory use after a period. Call this function when the cord allocates more
 * memory.
 */
void weft__trim_schedule(weft__cord *c);

/*
 * Put the records of a dormant chunk on the list of uncached records. Returns false if no chunk is
 * dormant.
 */
bool weft__trim_restore_chunk(weft__cord *c);

/*
 * If a period is over, release some memory to the kernel. Call this function in an idle thread.
 * Returns false if no further memory can be released. The thread may then sleep until trim.due_ns,
 * or indefinitely if trim.due_ns is 0.
 */
bool weft__trim_step(weft__cord *c);

#endif
