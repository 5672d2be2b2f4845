/*
 * SHA-1 (RFC 3174) of a short text, for the handshake. The handshake does not rely on the security
 * of the hash (RFC 6455, 10.8). weft may be built without OpenSSL.
 */
#ifndef WEFT_HTTP_MESSAGE_SHA1_H
#define WEFT_HTTP_MESSAGE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define WEFT__SHA1_BYTES 20

/* Compute the hash of data. */
void weft__sha1(const void *data, size_t bytes, uint8_t hash[WEFT__SHA1_BYTES]);

#endif
