/* Snapshots for callers that must not switch, and their state in a child of fork(2). */
#ifndef WEFT_CORE_INSPECT_SNAPSHOT_H
#define WEFT_CORE_INSPECT_SNAPSHOT_H

#include <weft/snapshot.h>

/*
 * Like weft_snapshot_take, but block the thread instead of switching. While the thread waits, it
 * replies to requests of other threads. The thread may be a cord in the middle of a report. A
 * cancellation or weft_no_switch_begin does not make the call fail.
 */
int weft__snapshot_take_blocking(const weft_snapshot_options *options, weft_snapshot **out);

/* Reset the locks of core/inspect/ in a child of fork(2). */
void weft__snapshot_after_fork(void);

#endif
