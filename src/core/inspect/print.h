/* Snapshots as text: the only printer of fibers, for weft_dump and for reports. */
#ifndef WEFT_CORE_INSPECT_PRINT_H
#define WEFT_CORE_INSPECT_PRINT_H

#include "core/debug/report.h"

#include <weft/snapshot.h>

/*
 * Print the trees of fibers of all cords in a snapshot. Fibers with the same parent, function,
 * state, reason and backtrace are one paragraph. The first line begins with prefix. Returns 0, or
 * the error of the first write.
 */
int weft__print_snapshot(weft__report *r, const weft_snapshot *s, const char *prefix);

/*
 * Print one fiber, which need not be in a snapshot. The call needs no memory: names that cannot be
 * looked up are printed as an offset in a module.
 */
void weft__print_fiber(weft__report *r, const weft_snapshot_fiber *f);

/*
 * Print each cycle of fibers that wait for each other. Print nothing if no cycle is known, or if
 * memory is exhausted.
 */
void weft__print_cycles(weft__report *r, const weft_snapshot *s);

/*
 * Return the words between the reason of a wait and the fiber in waits_for_fiber, for example
 * " held by". Return "" if the reason needs no words, for example "the end of".
 */
const char *weft__wait_joint(const weft_info *i);

/* Print the name of a function or of a call site, without a newline. */
void weft__print_address(weft__report *r, const void *address, bool is_return);

/* Print the function of fibers, and the call that created them. spun_at may be NULL. */
void weft__print_origin(weft__report *r, const void *fn, const void *spun_at);

/*
 * Print frames with their names, one per line. The frames inside of weft that belong to the
 * innermost call are omitted.
 */
void weft__print_frames(weft__report *r, void *const *frames, unsigned count);

/* Return the number of leading frames that weft__print_frames omits. */
unsigned weft__frames_hidden(void *const *frames, unsigned count);

#endif
