/* Base64. See base64.h. */
#include "hub/text/base64.h"

#include <errno.h>
#include <stdint.h>

static const char standard_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Encode data without padding. Returns the length. */
static size_t encode_with(const char *alphabet, const unsigned char *data, size_t bytes, char *out)
{
    uint32_t bits = 0;
    unsigned count = 0; /* of bits that are not written yet */
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        bits = bits << 8 | data[i];
        for (count += 8; count >= 6; count -= 6)
            out[length++] = alphabet[bits >> (count - 6) & 63];
    }
    if (count > 0)
        out[length++] = alphabet[bits << (6 - count) & 63];
    return length;
}

size_t weft__base64_encode(const void *data, size_t bytes, char *out)
{
    size_t length = encode_with(standard_alphabet, data, bytes, out);
    while (length % 4 != 0)
        out[length++] = '=';
    out[length] = '\0';
    return length;
}

size_t weft__base64url_encode(const void *data, size_t bytes, char *out)
{
    size_t length = encode_with(url_alphabet, data, bytes, out);
    out[length] = '\0';
    return length;
}

/* Return the value of a character, or 64 if it is not in the alphabet. */
static inline unsigned value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0' + 52);
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

ssize_t weft__base64_decode(weft__slice text, void *out, size_t room)
{
    unsigned char *to = out;
    size_t characters = text.bytes, bytes = 0;
    if (characters % 4 != 0)
        return -EBADMSG;
    for (int i = 0; i < 2 && characters > 0 && text.data[characters - 1] == '='; i++)
        characters--;
    if (characters * 3 / 4 > room)
        return -EMSGSIZE;
    uint32_t bits = 0;
    unsigned count = 0; /* of bits that are not written yet */
    for (size_t i = 0; i < characters; i++) {
        unsigned value = value_of(text.data[i]);
        if (value == 64)
            return -EBADMSG;
        bits = bits << 6 | value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            to[bytes++] = (unsigned char)(bits >> count);
        }
    }
    return (bits & ((1u << count) - 1)) == 0 ? (ssize_t)bytes : -EBADMSG;
}
