/*
 * The copy of the fibers of one cord, for a snapshot. The thread of the cord makes the copy between
 * two switches. The thread that takes the snapshot adds the facts that need system calls
 * (complete.c).
 */
#ifndef WEFT_CORE_INSPECT_COPY_H
#define WEFT_CORE_INSPECT_COPY_H

#include "core/inspect/frames.h"

#include <weft/snapshot.h>

/* A fiber, and the facts from which the snapshot is completed. */
typedef struct weft__fiber_copy {
    weft_snapshot_fiber fiber; /* without stack_used, local and peer; name is not valid */
    char name[WEFT__NAME_BYTES];
    weft__stack stack;      /* low is NULL: none */
    uint32_t fd_generation; /* of info.fd; undefined if info.fd is -1 */
} weft__fiber_copy;

/* All-zero is an empty copy. */
typedef struct weft__cord_copy {
    weft_snapshot_cord cord; /* name is not valid */
    char thread_name[16];
    weft__fiber_copy *fibers; /* NULL: none */
    size_t fibers_count;
    size_t fibers_capacity;
    weft__frames *frames; /* NULL: none */
    bool is_traced;       /* weft__cord_copy_add_trace must be called */
} weft__cord_copy;

/*
 * Copy the fibers of the calling thread's cord, as the options ask.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 * -ESRCH if options->fiber does not exist
 */
int weft__cord_copy_make(weft__cord *c, const weft_snapshot_options *options, weft__cord_copy *out);

/*
 * Copy the running fiber of a cord that does not reply. The caller must have acquired the cord, and
 * may be any thread. posted_ns is the time of the request. If has_frames is true, the call requests
 * a backtrace, and the caller must have reserved the signal (stall_trace.h).
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__cord_copy_stalled(weft__cord *c, int64_t posted_ns, bool has_frames,
                            weft__cord_copy *out);

/*
 * Wait for the requested backtrace of a stalled cord. The cord need not be acquired.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__cord_copy_add_trace(weft__cord_copy *copy, unsigned frames_max);

/* Free the memory of a copy. */
void weft__cord_copy_free(weft__cord_copy *copy);

/*
 * Make a snapshot of the copies, and add the facts that need system calls: the use of stacks, and
 * the addresses of sockets. The call moves the frames to the snapshot, so that the copies do not
 * free them.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__snapshot_make(weft__cord_copy **copies, size_t count,
                        const weft_snapshot_options *options, weft_snapshot **out);

#endif
