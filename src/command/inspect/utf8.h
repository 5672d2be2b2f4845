/* Characters of UTF-8, in texts of other programs. */
#ifndef WEFT_COMMAND_INSPECT_UTF8_H
#define WEFT_COMMAND_INSPECT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Decode the first character of a text that ends with 0. Return its length, or 0 if it is invalid:
 * cut, too long, a surrogate, or beyond Unicode.
 */
static inline size_t weft__utf8_decode(const char *text, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *b = (const unsigned char *)text;
    size_t length = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    *out = b[0];
    if (length <= 1 || b[0] > 0xf4)
        return length == 1;
    uint32_t c = b[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (b[i] & 0x3f);
    }
    *out = c;
    return c >= least[length] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? length : 0;
}

#endif
