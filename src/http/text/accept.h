/* Content negotiation (RFC 9110, 12.5): find out whether a client prefers gzip. */
#ifndef WEFT_HTTP_TEXT_ACCEPT_H
#define WEFT_HTTP_TEXT_ACCEPT_H

#include <stdbool.h>

/*
 * Return whether an Accept-Encoding field prefers gzip to the identity coding. value is the value
 * of the field. If the request has no such field, value is NULL.
 *
 * - "x-gzip" means gzip.
 * - "*" means gzip if the field does not list gzip.
 * - The result is false if the q of gzip is 0.
 * - The result is false if "identity" has a higher q than gzip.
 */
bool weft__accept_gzip(const char *value);

#endif
