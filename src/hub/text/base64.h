/* Base64 and base64url (RFC 4648, 4 and 5). */
#ifndef WEFT_HUB_TEXT_BASE64_H
#define WEFT_HUB_TEXT_BASE64_H

#include "hub/text/slice.h"

#include <sys/types.h>

/* The length of the base64 code of a number of bytes, with its NUL. Also enough for base64url. */
#define WEFT__BASE64_BYTES(bytes) (((bytes) + 2) / 3 * 4 + 1)

/*
 * Encode data, with padding. out has WEFT__BASE64_BYTES(bytes). Returns the length without the NUL.
 */
size_t weft__base64_encode(const void *data, size_t bytes, char *out);

/* Like weft__base64_encode, with '-' and '_' instead of '+' and '/', and without padding. */
size_t weft__base64url_encode(const void *data, size_t bytes, char *out);

/*
 * Decode base64, strictly: with padding, without white space, and with zero bits after the last
 * byte. text and out may overlap if out does not start after text.
 *
 * Returns the number of bytes, or:
 * -EBADMSG if the text is not base64
 * -EMSGSIZE if the data is larger than room
 */
ssize_t weft__base64_decode(weft__slice text, void *out, size_t room);

#endif
