/* Content negotiation (RFC 9110, 12.5): choose a content coding for a client. */
#ifndef WEFT_HTTP_TEXT_ACCEPT_H
#define WEFT_HTTP_TEXT_ACCEPT_H

#include <stdbool.h>

/* Content codings. If a client accepts several equally, the server sends the last. */
typedef enum weft__coding {
    WEFT__CODING_IDENTITY,
    WEFT__CODING_GZIP,
    WEFT__CODING_BROTLI,
    WEFT__CODINGS, /* the number of codings */
} weft__coding;

/*
 * Return the coding that an Accept-Encoding field prefers. value is the value of the field. If the
 * request has no such field, value is NULL. codings has a bit 1 << coding for each available
 * coding. The identity coding is always available.
 *
 * - "x-gzip" means gzip.
 * - "*" means all codings that the field does not list.
 * - The result is never a coding with a q of 0, except the identity coding.
 * - The result is the identity coding if it has a higher q than the available codings.
 */
weft__coding weft__accept_choose(const char *value, unsigned codings);

/* Return whether an Accept-Encoding field prefers gzip to the identity coding. */
bool weft__accept_gzip(const char *value);

/*
 * Return whether an Accept field names text/html with a q above 0. Wildcards do not count, because
 * programs send them. value may be NULL.
 */
bool weft__accept_html(const char *value);

#endif
