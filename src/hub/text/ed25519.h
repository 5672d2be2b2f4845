/*
 * Signatures with Ed25519 (RFC 8032), by OpenSSL. Without OpenSSL the functions return -ENOTSUP
 * (ed25519_none.c).
 */
#ifndef WEFT_HUB_TEXT_ED25519_H
#define WEFT_HUB_TEXT_ED25519_H

#include <stddef.h>

#define WEFT__ED25519_KEY_BYTES 32 /* of a private and of a public key */
#define WEFT__ED25519_SIGNATURE_BYTES 64

/* Both functions return 0, -ENOMEM, or -ENOTSUP. */

/* Derive the public key from the private key. */
int weft__ed25519_derive(const unsigned char private_key[WEFT__ED25519_KEY_BYTES],
                         unsigned char public_key[WEFT__ED25519_KEY_BYTES]);

/* Sign data. */
int weft__ed25519_sign(const unsigned char private_key[WEFT__ED25519_KEY_BYTES], const void *data,
                       size_t bytes, unsigned char signature[WEFT__ED25519_SIGNATURE_BYTES]);

#endif
