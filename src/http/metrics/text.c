/* The text format of metrics. See text.h. */
#include "http/metrics/text.h"

#include "base/histogram.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The maximum length of a line. Names, labels and help texts are constants of this folder. */
#define LINE_BYTES 512
/* The size of a number as text, with its NUL. */
#define TIME_BYTES 40
#define NS_PER_S UINT64_C(1000000000)

__attribute__((format(printf, 2, 3))) static void text_add(weft__metrics *m, const char *format,
                                                           ...)
{
    if (m->has_failed || weft__buffer_reserve(&m->text, LINE_BYTES) < 0) {
        m->has_failed = true;
        return;
    }
    va_list list;
    va_start(list, format);
    int n = vsnprintf(m->text.data + m->text.bytes, LINE_BYTES, format, list);
    va_end(list);
    m->text.bytes += (size_t)n;
}

/* Write a time in seconds, with a point even if the program has set another locale. */
static void write_seconds(char out[TIME_BYTES], uint64_t ns)
{
    int n = snprintf(out, TIME_BYTES, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, ns % NS_PER_S);
    while (out[n - 1] == '0' && out[n - 2] != '.')
        out[--n] = '\0';
}

void weft__metrics_begin(weft__metrics *m, const char *name, const char *type, const char *help)
{
    int n = (int)strlen(name);
    if (m->is_openmetrics && strcmp(type, "counter") == 0)
        n -= (int)strlen("_total");
    text_add(m, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, name, help, n, name, type);
}

static void add_line(weft__metrics *m, const char *name, const char *labels, const char *value)
{
    if (labels[0] != '\0')
        text_add(m, "%s{%s} %s\n", name, labels, value);
    else
        text_add(m, "%s %s\n", name, value);
}

void weft__metrics_add(weft__metrics *m, const char *name, const char *labels, uint64_t value)
{
    char text[TIME_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    add_line(m, name, labels, text);
}

void weft__metrics_add_seconds(weft__metrics *m, const char *name, const char *labels, uint64_t ns)
{
    char text[TIME_BYTES];
    write_seconds(text, ns);
    add_line(m, name, labels, text);
}

void weft__metrics_counter(weft__metrics *m, const char *name, const char *help, uint64_t value)
{
    weft__metrics_begin(m, name, "counter", help);
    weft__metrics_add(m, name, "", value);
}

void weft__metrics_gauge(weft__metrics *m, const char *name, const char *help, uint64_t value)
{
    weft__metrics_begin(m, name, "gauge", help);
    weft__metrics_add(m, name, "", value);
}

void weft__metrics_histogram(weft__metrics *m, const char *name, const char *help,
                             const weft_histogram *h)
{
    char series[128], bound[TIME_BYTES], label[TIME_BYTES + 8];
    weft__metrics_begin(m, name, "histogram", help);
    snprintf(series, sizeof series, "%s_bucket", name);
    uint64_t count = 0;
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++) {
        count += h->buckets[i]; /* buckets of the format are cumulative */
        if (i < WEFT_HISTOGRAM_BUCKETS - 1)
            write_seconds(bound, weft__histogram_bounds_ns[i]);
        else
            strcpy(bound, "+Inf");
        snprintf(label, sizeof label, "le=\"%s\"", bound);
        weft__metrics_add(m, series, label, count);
    }
    snprintf(series, sizeof series, "%s_sum", name);
    weft__metrics_add_seconds(m, series, "", h->sum_ns);
    snprintf(series, sizeof series, "%s_count", name);
    weft__metrics_add(m, series, "", count);
}

int weft__metrics_end(weft__metrics *m)
{
    if (m->is_openmetrics)
        text_add(m, "# EOF\n");
    return m->has_failed ? -ENOMEM : 0;
}
