/*
 * The text format of Prometheus (version 0.0.4) and of OpenMetrics (version 1.0).
 *
 * A metric is a family of samples with one name, one help text and one type. In OpenMetrics, the
 * name of the family of a counter lacks the suffix "_total", and the text ends with "# EOF".
 */
#ifndef WEFT_HTTP_METRICS_TEXT_H
#define WEFT_HTTP_METRICS_TEXT_H

#include "base/buffer.h"

#include <weft/histogram.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct weft__metrics {
    weft__buffer text;
    bool is_openmetrics;
    bool has_failed; /* memory is exhausted, and text is incomplete */
} weft__metrics;

/*
 * Begin a metric. type is "counter", "gauge" or "histogram". The name of a counter ends in _total.
 */
void weft__metrics_begin(weft__metrics *m, const char *name, const char *type, const char *help);

/* Add a sample. labels is "" or a list such as `cord="0"`. */
void weft__metrics_add(weft__metrics *m, const char *name, const char *labels, uint64_t value);

/* Add a sample in seconds. */
void weft__metrics_add_seconds(weft__metrics *m, const char *name, const char *labels, uint64_t ns);

/* A metric with one sample. */
void weft__metrics_counter(weft__metrics *m, const char *name, const char *help, uint64_t value);
void weft__metrics_gauge(weft__metrics *m, const char *name, const char *help, uint64_t value);

/* A metric that is a histogram, in seconds. */
void weft__metrics_histogram(weft__metrics *m, const char *name, const char *help,
                             const weft_histogram *h);

/* End the text. Returns 0, or -ENOMEM if memory was exhausted. */
int weft__metrics_end(weft__metrics *m);

/* process.c */

/* Add the start time, the CPU time and the memory of the process, as far as they are known. */
void weft__metrics_add_process(weft__metrics *m);

#endif
