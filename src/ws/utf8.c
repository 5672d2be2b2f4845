/* Check UTF-8. ASCII, which most texts are, is checked eight bytes at a time. */
#include "ws/utf8.h"

#include <string.h>

/* Return the end of the ASCII bytes at the start of a piece. */
static const uint8_t *skip_ascii(const uint8_t *p, const uint8_t *end)
{
    static const uint64_t high_bits = 0x8080808080808080;
    while (end - p >= 32) {
        uint64_t words[4];
        memcpy(words, p, sizeof words);
        if (((words[0] | words[1] | words[2] | words[3]) & high_bits) != 0)
            break;
        p += sizeof words;
    }
    while (end - p >= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        if ((word & high_bits) != 0)
            break;
        p += sizeof word;
    }
    while (p < end && *p < 0x80)
        p++;
    return p;
}

/*
 * Set the state after the first byte of a character. The second byte has a smaller range after some
 * first bytes. The ranges exclude overlong forms, surrogates and characters above U+10FFFF (RFC
 * 3629, 4). Return false for a byte that cannot be first.
 */
static bool start_character(weft__utf8 *u, uint8_t first)
{
    if (first < 0xc2 || first > 0xf4)
        return false;
    u->left = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    u->low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    u->high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return true;
}

bool weft__utf8_feed(weft__utf8 *u, const void *data, size_t bytes)
{
    const uint8_t *p = data, *end = p + bytes;
    while (p < end) {
        if (u->left == 0) {
            p = skip_ascii(p, end);
            if (p < end && !start_character(u, *p++))
                return false;
            continue;
        }
        if (*p < u->low || *p > u->high)
            return false;
        p++;
        u->left--;
        u->low = 0x80;
        u->high = 0xbf;
    }
    return true;
}
