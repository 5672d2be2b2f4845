/* What a client accepts: RFC 9110, 12.5. */
#ifndef WEFT_HTTP_ACCEPT_H
#define WEFT_HTTP_ACCEPT_H

#include <stdbool.h>

/*
 * Does this Accept-Encoding want gzip rather than nothing done? NULL, the field is not there: no.
 * "x-gzip" is the same; "*" is it, too, if it is not named. Not if "identity" is named with a
 * higher q.
 */
bool weft__accept_gzip(const char *value);

#endif
