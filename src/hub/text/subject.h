/*
 * Subjects of NATS: tokens with dots between them. In a pattern, the token "*" matches one token,
 * and the token ">" at the end matches all remaining tokens, at least one.
 */
#ifndef WEFT_HUB_TEXT_SUBJECT_H
#define WEFT_HUB_TEXT_SUBJECT_H

#include "hub/text/slice.h"

#include <stdbool.h>

#define WEFT__NAME_BYTES_MAX 200 /* of a name of the API */
#define WEFT__TOKEN_BYTES_MAX 64 /* of the name of a queue or log */

/*
 * Return whether text is a name of the API (hub.h): tokens of letters, digits, '-', '_' and '=', at
 * most WEFT__NAME_BYTES_MAX bytes, not reserved. NULL is not valid.
 */
bool weft__name_is_valid(const char *text);

/* Return whether text is one token of a name, of at most WEFT__TOKEN_BYTES_MAX bytes. */
bool weft__token_is_valid(const char *text);

/*
 * Return whether a subject has no empty token, no white space and no control characters. If
 * may_have_wildcards is false, the tokens "*" and ">" are not valid. Otherwise ">" is valid at the
 * end. As in nats-server, '*' and '>' inside of a longer token have no special meaning.
 */
bool weft__subject_is_valid(weft__slice subject, bool may_have_wildcards);

/* Return whether a pattern matches a subject without wildcards. Both must be valid. */
bool weft__subject_matches(weft__slice pattern, weft__slice subject);

#endif
