/* Keys and JWTs of NATS: what nsc(1) would generate for a server with an operator. */
#ifndef TESTS_HUB_CLIENT_JWT_SUPPORT_H
#define TESTS_HUB_CLIENT_JWT_SUPPORT_H

#include "hub/text/base64.h"
#include "hub/text/nkey.h"
#include "support/support.h"

/* The first bytes of public keys. Base32 shows them as O, A and U. */
enum { JWT_OPERATOR = 14 << 3, JWT_ACCOUNT = 0, JWT_USER = 20 << 3 };

#define USER_SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"

typedef struct jwt_key {
    unsigned char private_key[WEFT__ED25519_KEY_BYTES];
    char text[WEFT__NKEY_PUBLIC_CHARACTERS + 1];
} jwt_key;

static inline unsigned jwt_crc16(const unsigned char *data, size_t bytes)
{
    unsigned crc = 0;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= (unsigned)data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc;
}

static inline void jwt_base32(const unsigned char *data, size_t bytes, char *out)
{
    size_t digits = (bytes * 8 + 4) / 5;
    for (size_t i = 0; i < digits; i++) {
        unsigned digit = 0;
        for (size_t bit = 5 * i; bit < 5 * i + 5; bit++)
            digit = digit << 1 | (bit < 8 * bytes ? data[bit / 8] >> (7 - bit % 8) & 1 : 0u);
        out[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[digit];
    }
    out[digits] = '\0';
}

/* Make a key of a kind from a number. */
static inline jwt_key jwt_key_make(int kind, unsigned char number)
{
    jwt_key key;
    unsigned char raw[1 + WEFT__ED25519_KEY_BYTES + 2] = {(unsigned char)kind};
    memset(key.private_key, number, sizeof key.private_key);
    ck_assert_int_eq(weft__ed25519_derive(key.private_key, raw + 1), 0);
    unsigned crc = jwt_crc16(raw, sizeof raw - 2);
    raw[sizeof raw - 2] = (unsigned char)crc;
    raw[sizeof raw - 1] = (unsigned char)(crc >> 8);
    jwt_base32(raw, sizeof raw, key.text);
    return key;
}

/* Sign claims about a subject. The caller frees the result. */
static inline char *jwt_make(const jwt_key *issuer, const char *subject, const char *claims)
{
    unsigned char signature[WEFT__ED25519_SIGNATURE_BYTES];
    char *text = calloc(1, 8192), *end = text;
    const char *header = "{\"typ\":\"JWT\",\"alg\":\"ed25519-nkey\"}";
    const char *body =
        format("{\"jti\":\"x\",\"iat\":1,\"iss\":\"%s\",\"sub\":\"%s\",\"name\":\"n\","
               "\"nats\":{\"version\":2,%s}}",
               issuer->text, subject, claims);
    end += weft__base64url_encode(header, strlen(header), end);
    *end++ = '.';
    end += weft__base64url_encode(body, strlen(body), end);
    ck_assert_int_eq(weft__ed25519_sign(issuer->private_key, text, (size_t)(end - text), signature),
                     0);
    *end++ = '.';
    weft__base64url_encode(signature, sizeof signature, end);
    return text;
}

#endif
