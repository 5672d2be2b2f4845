/* Which way a thread's lookups go. */
#ifndef WEFT_IO_RESOLVE_NAMES_H
#define WEFT_IO_RESOLVE_NAMES_H

#include "io/resolve_dns.h"

/*
 * Who looks this up: *out is the thread's DNS, or NULL: the C library has to. 0; -ENOMEM, -EINVAL
 * with words for what can be done neither way.
 */
int weft__names_choose(weft__cord *c, const weft__lookup *l, weft__dns **out);

/* Has the thread settings of its own, which the C library would not know? */
bool weft__names_are_own(const weft__cord *c);

#endif
