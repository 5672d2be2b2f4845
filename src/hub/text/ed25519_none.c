/* Ed25519 without OpenSSL: not supported. See ed25519.h. */
#include "hub/text/ed25519.h"

#include <errno.h>

int weft__ed25519_derive(const unsigned char private_key[WEFT__ED25519_KEY_BYTES],
                         unsigned char public_key[WEFT__ED25519_KEY_BYTES])
{
    (void)private_key;
    (void)public_key;
    return -ENOTSUP;
}

int weft__ed25519_sign(const unsigned char private_key[WEFT__ED25519_KEY_BYTES], const void *data,
                       size_t bytes, unsigned char signature[WEFT__ED25519_SIGNATURE_BYTES])
{
    (void)private_key;
    (void)data;
    (void)bytes;
    (void)signature;
    return -ENOTSUP;
}
