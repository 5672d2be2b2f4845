/* The first step of a shutdown: end the fibers that accept connections. */
#ifndef WEFT_CORE_SIGNAL_SHUTDOWN_H
#define WEFT_CORE_SIGNAL_SHUTDOWN_H

#include "core/cord/cord.h"

/*
 * Cancel the fibers that accept connections. Their grace time ends at grace_ns (0: no grace time).
 * An ancestor of the current fiber is not cancelled, but its accept returns -ECANCELED. Then poll a
 * few times, so that these fibers run.
 */
void weft__shutdown_listeners(weft__cord *c, int64_t grace_ns);

#endif
