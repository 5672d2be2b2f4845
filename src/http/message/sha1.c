/* SHA-1, as in RFC 3174, 6.1. */
#include "http/message/sha1.h"

#include <string.h>

#define BLOCK_BYTES 64

static uint32_t rotate_left(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

/* The function and the constant of a round (RFC 3174, 5). */
static uint32_t round_term(int t, uint32_t b, uint32_t c, uint32_t d)
{
    if (t < 20)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (t < 40)
        return (b ^ c ^ d) + 0x6ed9eba1;
    if (t < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void hash_block(uint32_t h[5], const uint8_t *block)
{
    uint32_t w[80];
    for (int t = 0; t < 16; t++)
        w[t] = load_be32(block + 4 * t);
    for (int t = 16; t < 80; t++)
        w[t] = rotate_left(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int t = 0; t < 80; t++) {
        uint32_t next = rotate_left(a, 5) + round_term(t, b, c, d) + e + w[t];
        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void weft__sha1(const void *data, size_t bytes, uint8_t hash[WEFT__SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const uint8_t *p = data;
    size_t left = bytes;
    for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, p += BLOCK_BYTES)
        hash_block(h, p);
    /* The padding: 0x80, zeros, and the length in bits. It may need a second block. */
    uint8_t last[2 * BLOCK_BYTES] = {0};
    memcpy(last, p, left);
    last[left] = 0x80;
    size_t padded = left + 9 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    store_be32(last + padded - 8, (uint32_t)((uint64_t)bytes >> 29));
    store_be32(last + padded - 4, (uint32_t)(bytes << 3));
    for (size_t at = 0; at < padded; at += BLOCK_BYTES)
        hash_block(h, last + at);
    for (int i = 0; i < 5; i++)
        store_be32(hash + 4 * i, h[i]);
}
