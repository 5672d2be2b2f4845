/* Assertions of fuzz targets, which are also active with NDEBUG. */
#ifndef FUZZ_REQUIRE_H
#define FUZZ_REQUIRE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* Return the input as a new string, up to its first NUL. The caller frees the string. */
static inline char *text_of(const uint8_t *data, size_t bytes)
{
    const uint8_t *end = bytes > 0 ? memchr(data, '\0', bytes) : NULL;
    size_t length = end != NULL ? (size_t)(end - data) : bytes;
    char *text = malloc(length + 1);
    REQUIRE(text != NULL);
    if (length > 0)
        memcpy(text, data, length);
    text[length] = '\0';
    return text;
}

#endif
