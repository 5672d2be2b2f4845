/* Character classes of HTTP and URLs. All grammars share one table. The locale has no effect. */
#ifndef WEFT_HTTP_TEXT_CTYPE_H
#define WEFT_HTTP_TEXT_CTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weft__ctype_kind {
    WEFT__CTYPE_ALPHA = 1,
    WEFT__CTYPE_DIGIT = 2,
    WEFT__CTYPE_HEX = 4,
    WEFT__CTYPE_TOKEN = 8,       /* RFC 9110, 5.6.2 */
    WEFT__CTYPE_UNRESERVED = 16, /* RFC 3986, 2.3 */
    WEFT__CTYPE_SUB_DELIM = 32,  /* RFC 3986, 2.2 */
    WEFT__CTYPE_COOKIE = 64,     /* cookie-octet: RFC 6265, 4.1.1 */
    WEFT__CTYPE_VALUE = 128,     /* in the value of a field: visible, space, tab, non-ASCII */
    WEFT__CTYPE_PATH = 256,      /* in the path of a target, except "%" */
    WEFT__CTYPE_QUERY = 512,     /* in the query of a target, with "?" and "%" */
    WEFT__CTYPE_HOST = WEFT__CTYPE_UNRESERVED | WEFT__CTYPE_SUB_DELIM, /* in a decoded host name */
};

extern const uint16_t weft__ctype_table[256];

/* Return whether a character has at least one of the kinds. */
static inline bool weft__ctype_is(char c, unsigned kinds)
{
    return (weft__ctype_table[(unsigned char)c] & kinds) != 0;
}

/* Return whether a character is white space within a field (RFC 9110, 5.6.3). */
static inline bool weft__ctype_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool weft__ctype_is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Convert an ASCII letter to lower case. Return other characters unchanged. */
static inline char weft__ctype_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/* Return whether two texts of equal length match. Ignore the case of ASCII letters. */
static inline bool weft__ctype_match(const char *text, const char *other, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != other[i] && weft__ctype_lower(text[i]) != weft__ctype_lower(other[i]))
            return false;
    }
    return true;
}

/* Return the value of a hexadecimal digit. */
static inline unsigned weft__ctype_hex(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(weft__ctype_lower(c) - 'a') + 10;
}

/* Return whether text starts with an escape, for example "%41". */
static inline bool weft__ctype_is_escape(const char *text)
{
    return text[0] == '%' && weft__ctype_is(text[1], WEFT__CTYPE_HEX) &&
           weft__ctype_is(text[2], WEFT__CTYPE_HEX);
}

/* Return the character that the escape at the start of text encodes. */
static inline char weft__ctype_unescape(const char *text)
{
    return (char)(weft__ctype_hex(text[1]) << 4 | weft__ctype_hex(text[2]));
}

#endif
