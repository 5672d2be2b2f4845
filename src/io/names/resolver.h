/* The choice between DNS and the C library for the lookups of a thread. */
#ifndef WEFT_IO_NAMES_RESOLVER_H
#define WEFT_IO_NAMES_RESOLVER_H

#include "io/names/dns.h"

/*
 * Choose how to look up a name. The call stores the DNS client of the thread in *out. If *out is
 * NULL, the caller must use the C library.
 *
 * Returns 0, or:
 * -EINVAL if neither DNS nor the C library can do the lookup
 * -ENOMEM if memory is exhausted
 */
int weft__resolver_choose(weft__cord *c, const weft__lookup *l, weft__dns **out);

/*
 * Return whether weft_set_resolver has set options for the thread. The C library would ignore these
 * options.
 */
bool weft__resolver_is_custom(const weft__cord *c);

#endif
