/* Ending fibers in the order in which a server ends. */
#ifndef WEFT_IO_SHUTDOWN_H
#define WEFT_IO_SHUTDOWN_H

#include "core/cord.h"

/*
 * End those who accept connections, by then (0: no time is given). Above the current fiber they
 * only return from it. May switch, to let them.
 */
void weft__shutdown_doors(weft__cord *c, int64_t grace_ns);

#endif
