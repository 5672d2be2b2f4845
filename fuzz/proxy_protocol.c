/*
 * Fuzz headers of the PROXY protocol. A valid or invalid header stays so when more bytes follow.
 */
#include "http/proxy_protocol/proxy_protocol.h"

#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft__proxy_header whole, part;
    if (bytes > WEFT__PROXY_HEADER_BYTES)
        bytes = WEFT__PROXY_HEADER_BYTES;
    /* A copy of the exact length, so that ASan sees reads beyond the end. */
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
    REQUIRE(copy != NULL);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    ssize_t n = weft__proxy_header_parse(&whole, copy, bytes);
    REQUIRE(n >= 0 || n == -EBADMSG || n == -EMSGSIZE);
    REQUIRE(n > 0 || !whole.has_client);
    REQUIRE(n <= WEFT__PROXY_V2_BYTES + WEFT__PROXY_V2_LENGTH_MAX);
    REQUIRE(n <= WEFT__PROXY_V1_BYTES_MAX || copy[0] == '\r');
    for (size_t i = 0; i < bytes; i++) {
        ssize_t m = weft__proxy_header_parse(&part, copy, i);
        if (m != 0) { /* decided earlier; a malformed header may also be too long */
            REQUIRE(m == n || (m < 0 && n < 0));
            REQUIRE(memcmp(&part, &whole, sizeof part) == 0);
            break;
        }
    }
    free(copy);
    return 0;
}
