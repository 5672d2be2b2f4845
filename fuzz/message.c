/*
 * Fuzz the parser of messages. The first byte selects the kind of message:
 *
 * Q  a request
 * A  a response
 * H  a response to HEAD
 * C  a response to CONNECT
 *
 * Lower-case letters select tight limits. The result must not depend on how the input is split.
 * message_feed.h checks each result.
 */
#include "http/h1/message_feed.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const weft__message_limits roomy = {8192, 32768, 100};
static const weft__message_limits tight = {24, 96, 4};

static feed_kind kind_of(uint8_t letter)
{
    switch (letter | 0x20) {
    case 'a':
        return FEED_RESPONSE;
    case 'h':
        return FEED_RESPONSE_TO_HEAD;
    case 'c':
        return FEED_RESPONSE_TO_CONNECT;
    default:
        return FEED_REQUEST;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    feed_kind kind = kind_of(data[0]);
    const weft__message_limits *limits = (data[0] & 0x20) != 0 ? &tight : &roomy;
    const char *text = (const char *)data + 1;
    size_t rest = bytes - 1;
    /* Parse the whole input, then single bytes, then other steps that depend on the data. */
    size_t steps[] = {1, 2 + rest % 7, 3 + (data[bytes - 1] & 31)};
    size_t whole_bytes;
    char *whole = feed_all(kind, limits, text, rest, 0, SIZE_MAX, &whole_bytes);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t came_bytes;
        size_t split = i == 0 ? 0 : data[bytes / 2] % (rest + 1);
        char *came = feed_all(kind, limits, text, rest, split, steps[i], &came_bytes);
        FEED_CHECK(came_bytes == whole_bytes && memcmp(came, whole, whole_bytes) == 0);
        free(came);
    }
    free(whole);
    return 0;
}
