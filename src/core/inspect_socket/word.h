/*
 * Words of the protocol of the inspection socket (request.h): %XX is the byte XX. Servers and
 * clients use these functions.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_WORD_H
#define WEFT_CORE_INSPECT_SOCKET_WORD_H

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

/* Return whether a byte of a word must be sent as %XX. */
static inline bool weft__word_must_escape(unsigned char byte)
{
    return byte <= ' ' || byte == '%' || byte == 0x7f;
}

/* Replace each %XX by its byte, in place. An invalid escape and %00 remain. */
static inline void weft__word_unescape(char *word)
{
    char *to = word;
    for (const char *from = word; *from != '\0'; from++) {
        unsigned long byte = 0;
        if (*from == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]))
            byte = strtoul((char[]){from[1], from[2], '\0'}, NULL, 16);
        *to++ = byte != 0 ? (char)byte : *from;
        from += byte != 0 ? 2 : 0;
    }
    *to = '\0';
}

#endif
