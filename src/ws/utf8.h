/*
 * An incremental check of UTF-8 (RFC 3629). A text may arrive in pieces that divide a character.
 * The check fails at the first byte that no valid text can contain.
 */
#ifndef WEFT_WS_UTF8_H
#define WEFT_WS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The state between two pieces. All-zero is the start of a text. */
typedef struct weft__utf8 {
    uint8_t left; /* missing bytes of a character; 0: the text ends with a whole character */
    uint8_t low;  /* the range of the next byte; valid if left is not 0 */
    uint8_t high;
} weft__utf8;

/* Check the next piece. Return false if the text is not UTF-8. */
bool weft__utf8_feed(weft__utf8 *u, const void *data, size_t bytes);

/* Return whether the bytes are a whole text in UTF-8. */
static inline bool weft__utf8_is_text(const void *data, size_t bytes)
{
    weft__utf8 u = {0};
    return weft__utf8_feed(&u, data, bytes) && u.left == 0;
}

#endif
