/* Subjects of NATS: tokens with dots between them; "*" matches one token, ">" all remaining ones. */
#ifndef WEFT_HUB_TEXT_SUBJECT_H
#define WEFT_HUB_TEXT_SUBJECT_H

#include "hub/text/slice.h"

#include <stdbool.h>

#define WEFT__NAME_BYTES_MAX 200  /* of a name of the API */
#define WEFT__TOKEN_BYTES_MAX 64  /* of the name of a queue or log */

/* Return whether text is a name of the API (hub.h): valid tokens, no wildcard, not reserved. */
bool weft__name_is_valid(const char *text);

/* Return whether text is one token: letters, digits, '-', '_' and '=', at most 64 bytes. */
bool weft__token_is_valid(const char *text);

/* Return whether a subject has no empty token and no white space. With wildcards: also patterns. */
bool weft__subject_is_valid(weft__slice subject, bool may_have_wildcards);

/* Return whether a pattern matches a subject without wildcards. Both must be valid. */
bool weft__subject_matches(weft__slice pattern, weft__slice subject);

#endif
