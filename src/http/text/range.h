/* The Range field of a request (RFC 9110, 14.2). */
#ifndef WEFT_HTTP_TEXT_RANGE_H
#define WEFT_HTTP_TEXT_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* The maximum number of ranges in one request. Common clients request fewer. */
#define WEFT__RANGES_MAX 16

typedef struct weft__range {
    uint64_t first;
    uint64_t bytes; /* never 0 */
} weft__range;

typedef struct weft__ranges {
    weft__range at[WEFT__RANGES_MAX]; /* in the order of the request */
    size_t count;
} weft__ranges;

/*
 * Parse a Range field for a resource of size bytes. Return the status of the reply:
 *
 * - 206: send the ranges in *ranges. The ranges do not overlap. *ranges omits ranges that start
 *   after the end of the resource.
 * - 416: no range can be satisfied.
 * - 200: send the whole resource.
 *
 * The status is 200 in these cases:
 *
 * - value is NULL or malformed.
 * - The unit of value is not "bytes".
 * - value has more than WEFT__RANGES_MAX ranges.
 * - Two of the ranges overlap.
 * - size is 0. Clients that request the whole of an empty resource then succeed.
 *
 * Unless the status is 206, ranges->count is 0.
 */
int weft__ranges_parse(weft__ranges *ranges, const char *value, uint64_t size);

#endif
