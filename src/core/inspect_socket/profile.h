/*
 * Profiles: CPU time by fiber and stack, and time in waits by fiber, stack and reason. There is at
 * most one profile at a time. Only the thread of the inspection socket calls these functions.
 *
 * CPU time is sampled by signals (cpu_sampler.h). Waits are sampled by snapshots. Each snapshot
 * adds the time since the last snapshot to the stacks of all waiting fibers. The interval grows
 * with the time that a snapshot takes, so that snapshots use at most 1/20 of the time.
 *
 * The result has these lines. Frames are names of functions, or MODULE+0xOFFSET, and the outermost
 * is the first. COUNT is a number of samples. REASON is the reason of a wait.
 *
 *     profile SECONDS HZ CPU_SAMPLES WAIT_SAMPLES LOST
 *     cpu COUNT CORD FIBER REASON FRAME...
 *     wait MICROSECONDS CORD FIBER REASON FRAME...
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_PROFILE_H
#define WEFT_CORE_INSPECT_SOCKET_PROFILE_H

#include "core/inspect_socket/reply.h"

#include <stdint.h>

#define WEFT__PROFILE_HZ_DEFAULT 99
#define WEFT__PROFILE_HZ_MAX 1000

/*
 * Start a profile of CPU time, of waits or of both.
 *
 * Returns 0, an error of weft__cpu_sampler_start, or:
 * -EALREADY if a profile runs
 * -ENOMEM if memory is exhausted
 */
int weft__profile_start(bool has_cpu, bool has_waits, unsigned hz);

/* Take samples that are due. Return the time of the next call in ns. INT64_MAX: no profile. */
int64_t weft__profile_run(int64_t now_ns);

/*
 * Append the result since the start or the last call. If has_snapshot is true, first take a last
 * sample of the waits. If no profile runs, do nothing.
 */
void weft__profile_read(weft__inspect_reply *r, bool has_snapshot);

/* End the profile. If no profile runs, do nothing. */
void weft__profile_stop(void);

/* Return whether a profile runs. Any thread may call this function. */
bool weft__profile_is_running(void);

/* Forget the profile in a child of fork(2). */
void weft__profile_after_fork(void);

#endif
