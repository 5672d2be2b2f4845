/* Ed25519 by OpenSSL. See ed25519.h. */
#include "hub/text/ed25519.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdbool.h>

/* Return the code of a failure of OpenSSL. Remove its errors from the queue of the thread. */
static int ed25519_failure(void)
{
    ERR_clear_error();
    return -ENOMEM; /* the only reason with a key and a buffer of the right size */
}

static EVP_PKEY *ed25519_key(const unsigned char private_key[WEFT__ED25519_KEY_BYTES])
{
    return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, private_key,
                                        WEFT__ED25519_KEY_BYTES);
}

int weft__ed25519_derive(const unsigned char private_key[WEFT__ED25519_KEY_BYTES],
                         unsigned char public_key[WEFT__ED25519_KEY_BYTES])
{
    EVP_PKEY *key = ed25519_key(private_key);
    size_t bytes = WEFT__ED25519_KEY_BYTES;
    bool is_derived = key != NULL && EVP_PKEY_get_raw_public_key(key, public_key, &bytes) == 1;
    EVP_PKEY_free(key); /* OpenSSL wipes its copy of the private key */
    return is_derived ? 0 : ed25519_failure();
}

int weft__ed25519_sign(const unsigned char private_key[WEFT__ED25519_KEY_BYTES], const void *data,
                       size_t bytes, unsigned char signature[WEFT__ED25519_SIGNATURE_BYTES])
{
    EVP_PKEY *key = ed25519_key(private_key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t signature_bytes = WEFT__ED25519_SIGNATURE_BYTES;
    bool is_signed = key != NULL && context != NULL &&
                     EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
                     EVP_DigestSign(context, signature, &signature_bytes, data, bytes) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return is_signed ? 0 : ed25519_failure();
}
