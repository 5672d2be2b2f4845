/* Calls of name functions of libc in worker threads. */
#ifndef WEFT_POSIX_NAMES_LOOKUP_H
#define WEFT_POSIX_NAMES_LOOKUP_H

#include <weft/base.h>

/*
 * Call run(call) in a worker thread. Returns 0, or -errno if the wait is cancelled or no worker is
 * available. On success, the caller owns call again. On failure, `drop` frees call, later if the
 * worker still runs. Signal handlers do not end the wait, as in libc.
 */
int weft__lookup_run(weft_fn *run, void *call, void (*drop)(void *call));

/* Return whether the host is an address as text. libc then needs no server. */
bool weft__is_numeric_host(const char *host);

#endif
