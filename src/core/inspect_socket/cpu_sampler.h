/*
 * Samples of CPU time. Each cord has a timer on the CPU clock of its thread. The timer sends a
 * real-time signal to the thread. The handler stores the fiber and its backtrace in a ring of the
 * cord. The thread of the inspection socket reads the rings.
 *
 * The timer runs only while the thread computes. Therefore the signal rarely interrupts a system
 * call that waits.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_CPU_SAMPLER_H
#define WEFT_CORE_INSPECT_SOCKET_CPU_SAMPLER_H

#include "core/inspect_socket/stack_table.h"

/*
 * Start to sample all cords, hz times per second of CPU time. hz is at most 1000. Only one sampler
 * can run.
 *
 * Returns 0, or:
 * -EBUSY if no real-time signal has the default disposition
 */
int weft__cpu_sampler_start(unsigned hz);

/*
 * Add the samples of all rings to a table, and create timers for new cords. Call this function at
 * least every WEFT__CPU_SAMPLER_READ_NS. Return the number of samples that did not fit in a ring.
 */
uint64_t weft__cpu_sampler_read(weft__stack_table *t);
#define WEFT__CPU_SAMPLER_READ_NS 100000000

/* Delete the timers, and restore the disposition of the signal. */
void weft__cpu_sampler_stop(void);

/* Turn the sampler off in a child of fork(2), which inherits no timers. */
void weft__cpu_sampler_after_fork(void);

#endif
