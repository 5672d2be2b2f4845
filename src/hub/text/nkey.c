/* Decode nkeys. See nkey.h. */
#include "hub/text/nkey.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* The values of prefix bytes. Base32 shows their upper five bits as the letters 'S' and 'U'. */
#define PREFIX_SEED (18 << 3)
#define PREFIX_USER (20 << 3)

#define CRC_BYTES 2
/* Two prefix bytes, which hold the five bits of 'S' and the eight bits of PREFIX_USER. */
#define SEED_BYTES (2 + WEFT__ED25519_KEY_BYTES + CRC_BYTES)
#define PUBLIC_BYTES (1 + WEFT__ED25519_KEY_BYTES + CRC_BYTES)

static const char base32_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/* CRC-16/XMODEM: polynomial 0x1021, initial value 0. */
static uint16_t crc16(const unsigned char *data, size_t bytes)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < bytes; i++) {
        crc = (uint16_t)(crc ^ data[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

static void base32_encode(const unsigned char *data, size_t bytes, char *out)
{
    uint32_t bits = 0;
    unsigned count = 0; /* of bits that are not written yet */
    for (size_t i = 0; i < bytes; i++) {
        bits = bits << 8 | data[i];
        for (count += 8; count >= 5; count -= 5)
            *out++ = base32_alphabet[bits >> (count - 5) & 31];
    }
    if (count > 0)
        *out++ = base32_alphabet[bits << (5 - count) & 31];
    *out = '\0';
}

/* Decode exactly bytes bytes. Returns false if the text is not their base32 code. */
static bool base32_decode(weft__slice text, unsigned char *out, size_t bytes)
{
    uint32_t bits = 0;
    unsigned count = 0;
    if (text.bytes != (bytes * 8 + 4) / 5)
        return false;
    for (size_t i = 0; i < text.bytes; i++) {
        const char *found = memchr(base32_alphabet, text.data[i], sizeof base32_alphabet - 1);
        if (found == NULL)
            return false;
        bits = bits << 5 | (uint32_t)(found - base32_alphabet);
        count += 5;
        if (count >= 8) {
            count -= 8;
            *out++ = (unsigned char)(bits >> count);
        }
    }
    return (bits & ((1u << count) - 1)) == 0;
}

/* Return whether bytes are a seed of a user, with a valid CRC (little-endian). */
static bool is_user_seed(const unsigned char raw[SEED_BYTES])
{
    uint16_t crc = crc16(raw, SEED_BYTES - CRC_BYTES);
    return raw[0] == (PREFIX_SEED | PREFIX_USER >> 5) && raw[1] == (PREFIX_USER & 31) << 3 &&
           raw[SEED_BYTES - 2] == (crc & 255) && raw[SEED_BYTES - 1] == crc >> 8;
}

/* Derive the public key of key->private_key, and write its text. */
static int nkey_write_public(weft__nkey *key)
{
    unsigned char raw[PUBLIC_BYTES] = {PREFIX_USER};
    int rc = weft__ed25519_derive(key->private_key, raw + 1);
    uint16_t crc = crc16(raw, PUBLIC_BYTES - CRC_BYTES);
    raw[PUBLIC_BYTES - 2] = (unsigned char)(crc & 255);
    raw[PUBLIC_BYTES - 1] = (unsigned char)(crc >> 8);
    base32_encode(raw, sizeof raw, key->public_text);
    return rc;
}

int weft__nkey_open(weft__nkey *key, weft__slice seed)
{
    unsigned char raw[SEED_BYTES];
    bool is_valid = base32_decode(seed, raw, sizeof raw) && is_user_seed(raw);
    if (is_valid)
        memcpy(key->private_key, raw + 2, sizeof key->private_key);
    explicit_bzero(raw, sizeof raw);
    int rc = is_valid ? nkey_write_public(key) : -EINVAL;
    if (rc < 0)
        weft__nkey_wipe(key);
    return rc;
}

int weft__nkey_sign(const weft__nkey *key, weft__slice nonce,
                    char out[WEFT__NKEY_SIGNATURE_TEXT_BYTES])
{
    unsigned char signature[WEFT__ED25519_SIGNATURE_BYTES];
    int rc = weft__ed25519_sign(key->private_key, nonce.data, nonce.bytes, signature);
    if (rc == 0)
        weft__base64url_encode(signature, sizeof signature, out);
    return rc;
}

void weft__nkey_wipe(weft__nkey *key)
{
    explicit_bzero(key, sizeof *key);
}
