/* The Range field of a request: RFC 9110, 14.2. */
#ifndef WEFT_HTTP_RANGE_H
#define WEFT_HTTP_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* More than anybody needs who is no attacker. */
#define WEFT__RANGES_MAX 16

typedef struct weft__range {
    uint64_t first;
    uint64_t bytes; /* never 0 */
} weft__range;

typedef struct weft__ranges {
    weft__range at[WEFT__RANGES_MAX]; /* as they were asked for, in that order */
    size_t count;
} weft__ranges;

/*
 * What to answer with, of something that has so many bytes. 206: with these ranges, those that can
 * be satisfied, which do not overlap. 416: none can. 200: with all of it, because the field is not
 * there (NULL), malformed, of another unit, or asks for too many ranges or for the same bytes
 * twice, or because there are no bytes at all: some ask for a range of everything, and nothing is
 * wrong with an empty file. count is 0 unless it is 206.
 */
int weft__ranges_parse(weft__ranges *ranges, const char *value, uint64_t size);

#endif
