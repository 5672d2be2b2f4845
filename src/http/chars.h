/* Which characters may stand where: one table for all that HTTP and URLs make of ASCII. */
#ifndef WEFT_HTTP_CHARS_H
#define WEFT_HTTP_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weft__char_kind {
    WEFT__CHAR_ALPHA = 1,
    WEFT__CHAR_DIGIT = 2,
    WEFT__CHAR_HEX = 4,
    WEFT__CHAR_TOKEN = 8,       /* RFC 9110, 5.6.2 */
    WEFT__CHAR_UNRESERVED = 16, /* RFC 3986, 2.3 */
    WEFT__CHAR_SUB_DELIM = 32,  /* RFC 3986, 2.2 */
    WEFT__CHAR_COOKIE = 64,     /* cookie-octet: RFC 6265, 4.1.1 */
    WEFT__CHAR_VALUE = 128,     /* in a field's value: visible, space, tab, above ASCII */
    WEFT__CHAR_PATH = 256,      /* of a request's target, but for what is encoded */
    WEFT__CHAR_QUERY = 512,     /* the same, with the question mark and what is encoded */
    WEFT__CHAR_HOST = WEFT__CHAR_UNRESERVED | WEFT__CHAR_SUB_DELIM, /* of a name, decoded */
};

extern const uint16_t weft__chars[256];

/* Is it of one of these kinds? */
static inline bool weft__char_is(char c, unsigned kinds)
{
    return (weft__chars[(unsigned char)c] & kinds) != 0;
}

/* White space inside a field: RFC 9110, 5.6.3. */
static inline bool weft__char_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool weft__char_is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* In lower case, whatever the locale. */
static inline char weft__char_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

/* The same text, whatever the case? */
static inline bool weft__chars_match(const char *text, const char *other, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != other[i] && weft__char_lower(text[i]) != weft__char_lower(other[i]))
            return false;
    }
    return true;
}

/* What a hexadecimal digit stands for. */
static inline unsigned weft__char_hex(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(weft__char_lower(c) - 'a') + 10;
}

/* Is there an escape, %41? */
static inline bool weft__char_is_escape(const char *text)
{
    return text[0] == '%' && weft__char_is(text[1], WEFT__CHAR_HEX) &&
           weft__char_is(text[2], WEFT__CHAR_HEX);
}

/* What it stands for. */
static inline char weft__char_unescape(const char *text)
{
    return (char)(weft__char_hex(text[1]) << 4 | weft__char_hex(text[2]));
}

#endif
