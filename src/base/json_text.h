/*
 * The characters of a JSON string (RFC 8259). The text is printable ASCII: other characters are
 * escapes. A text of a client or a program therefore cannot end a string, a line or an element of a
 * page.
 */
#ifndef WEFT_BASE_JSON_TEXT_H
#define WEFT_BASE_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The maximum length of one byte of a text after escaping. */
#define WEFT__JSON_ESCAPE_BYTES_MAX 6

/*
 * Decode one character of UTF-8 from a text with a NUL. Return its length. Return 0 if the bytes
 * are not valid UTF-8 (RFC 3629): too long, a surrogate, or above U+10FFFF.
 */
static inline size_t weft__utf8_decode(const char *text, uint32_t *character)
{
    const unsigned char *s = (const unsigned char *)text;
    static const uint32_t first_of_length[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (bytes < 2 || s[0] > 0xf4) {
        *character = s[0];
        return bytes == 1 ? 1 : 0;
    }
    uint32_t c = s[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80) /* also the NUL at the end */
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    *character = c;
    return c >= first_of_length[bytes] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? bytes : 0;
}

static inline char *weft__json_put_escape(char *end, uint32_t unit)
{
    *end++ = '\\';
    *end++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *end++ = "0123456789abcdef"[unit >> shift & 15];
    return end;
}

static inline char *weft__json_put_character(char *end, uint32_t c)
{
    if (c == '"' || c == '\\') {
        *end++ = '\\';
        *end++ = (char)c;
    } else if (c >= ' ' && c < 0x7f) {
        *end++ = (char)c;
    } else if (c < 0x10000) {
        end = weft__json_put_escape(end, c);
    } else { /* a surrogate pair */
        end = weft__json_put_escape(end, 0xd800 + ((c - 0x10000) >> 10));
        end = weft__json_put_escape(end, 0xdc00 + ((c - 0x10000) & 0x3ff));
    }
    return end;
}

/*
 * Write the characters of a text, without quotes and without a NUL. Return the end of the output.
 * If text has more than bytes_max bytes, "..." replaces the remaining bytes. text may be NULL.
 *
 * A byte that is not part of valid UTF-8 becomes the character with its number: the byte ff becomes
 * "\\u00ff".
 */
static inline char *weft__json_put_text(char *end, const char *text, size_t bytes_max)
{
    size_t i = 0;
    while (text != NULL && text[i] != '\0' && i < bytes_max) {
        uint32_t character;
        size_t bytes = weft__utf8_decode(text + i, &character);
        if (bytes == 0 || i + bytes > bytes_max) { /* not UTF-8, or cut off */
            character = (unsigned char)text[i];
            bytes = 1;
        }
        end = weft__json_put_character(end, character);
        i += bytes;
    }
    if (text != NULL && text[i] != '\0') {
        memcpy(end, "...", 3);
        end += 3;
    }
    return end;
}

#endif
