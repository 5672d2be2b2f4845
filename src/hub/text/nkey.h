/*
 * Nkeys: the keys of NATS users. A key is an Ed25519 key pair. The text of the private key is the
 * seed, "SU..."; the text of the public key is "U...". Both are base32 (RFC 4648, 6, without
 * padding) of prefix bytes, the key and a CRC.
 */
#ifndef WEFT_HUB_TEXT_NKEY_H
#define WEFT_HUB_TEXT_NKEY_H

#include "hub/text/base64.h"
#include "hub/text/ed25519.h"
#include "hub/text/slice.h"

#define WEFT__NKEY_SEED_CHARACTERS 58
#define WEFT__NKEY_PUBLIC_CHARACTERS 56
#define WEFT__NKEY_SIGNATURE_TEXT_BYTES WEFT__BASE64_BYTES(WEFT__ED25519_SIGNATURE_BYTES)

/* The key of a user. weft__nkey_wipe removes the private key from memory. */
typedef struct weft__nkey {
    unsigned char private_key[WEFT__ED25519_KEY_BYTES];
    char public_text[WEFT__NKEY_PUBLIC_CHARACTERS + 1]; /* "U...", with a NUL */
} weft__nkey;

/*
 * Decode the seed of a user, and derive the public key. On failure, *key has no secret. Returns 0,
 * or:
 * -EINVAL if the text is not the seed of a user
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if weft was built without OpenSSL
 */
int weft__nkey_open(weft__nkey *key, weft__slice seed);

/*
 * Sign the nonce of a server. out is the signature as base64url, as CONNECT sends it. Returns 0,
 * -ENOMEM or -ENOTSUP.
 */
int weft__nkey_sign(const weft__nkey *key, weft__slice nonce,
                    char out[WEFT__NKEY_SIGNATURE_TEXT_BYTES]);

/* Overwrite the key. */
void weft__nkey_wipe(weft__nkey *key);

#endif
