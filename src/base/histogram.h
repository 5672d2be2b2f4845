/*
 * Add values to a weft_histogram (include/weft/histogram.h). The bounds are 1, 2 and 5 times the
 * powers of ten, from 1 us to 10 s.
 */
#ifndef WEFT_BASE_HISTOGRAM_H
#define WEFT_BASE_HISTOGRAM_H

#include <weft/histogram.h>

#include <stddef.h>
#include <stdint.h>

/* The upper bound of a bucket in ns. The last bucket has no bound. */
static const uint64_t weft__histogram_bounds_ns[WEFT_HISTOGRAM_BUCKETS - 1] = {
    1000,
    2000,
    5000,
    10000,
    20000,
    50000,
    100000,
    200000,
    500000,
    1000000,
    2000000,
    5000000,
    10000000,
    20000000,
    50000000,
    100000000,
    200000000,
    500000000,
    UINT64_C(1000000000),
    UINT64_C(2000000000),
    UINT64_C(5000000000),
    UINT64_C(10000000000),
};

/* Return the index of the bucket for a value in ns. */
static inline size_t weft__histogram_bucket(uint64_t ns)
{
    /* For each power of two, the first bucket whose bound is not less than the power. */
    static const uint8_t first[64] = {
        0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  1,  2,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
        11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22,
        22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22, 22};
    size_t i = first[63 - __builtin_clzll(ns | 1)];
    while (i < WEFT_HISTOGRAM_BUCKETS - 1 && ns > weft__histogram_bounds_ns[i])
        i++;
    return i;
}

#endif
