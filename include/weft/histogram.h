/*
 * Histograms of durations, for metrics. debug.h and http_metrics.h return histograms.
 *
 * The bounds of the buckets are 1, 2 and 5 times the powers of ten, from 1 us to 10 s. All
 * histograms of weft have the same bounds, so that they can be added.
 */
#ifndef WEFT_HISTOGRAM_H
#define WEFT_HISTOGRAM_H

#include <weft/base.h>

#include <stddef.h>
#include <stdint.h>

WEFT_BEGIN

/* The number of buckets. The last bucket contains the durations of more than 10 s. */
#define WEFT_HISTOGRAM_BUCKETS 23

/* A histogram. No field ever decreases. The sum of all buckets is the number of durations. */
typedef struct weft_histogram {
    /*
     * buckets[i] is the number of durations that are at most weft_histogram_bound(i), and more than
     * the bound of the previous bucket.
     */
    uint64_t buckets[WEFT_HISTOGRAM_BUCKETS];
    uint64_t sum_ns; /* the sum of all durations, in nanoseconds */
} weft_histogram;

/**
 * Return the upper bound of a bucket, in seconds.
 *
 * Returns INFINITY for the last bucket, and if index is not less than WEFT_HISTOGRAM_BUCKETS.
 */
WEFT_API double weft_histogram_bound(size_t index);

/** Return the number of durations in a histogram. */
WEFT_API uint64_t weft_histogram_count(const weft_histogram *histogram);

WEFT_END

#endif
