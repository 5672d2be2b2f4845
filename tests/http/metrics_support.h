/*
 * A strict parser of the text formats of metrics: Prometheus 0.0.4 and OpenMetrics 1.0. The parser
 * asserts that the text follows the format, and finds values.
 */
#ifndef TESTS_HTTP_METRICS_SUPPORT_H
#define TESTS_HTTP_METRICS_SUPPORT_H

#include <check.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The metric that the parser is reading. */
typedef struct metric_family {
    char name[128];
    char type[16];
    bool has_sample;
    /* Of a histogram. */
    double last_bound, last_count;
    bool has_sum, has_infinity;
} metric_family;

#define ck_assert_line(condition, line) ck_assert_msg(condition, "%s: '%.120s'", #condition, line)

static inline size_t metric_name_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == ':')
        n++;
    return isdigit((unsigned char)at[0]) ? 0 : n;
}

/* Return the text after the labels. *bound is the value of the label le, or "". */
static inline const char *metric_skip_labels(const char *at, const char *line, char bound[64])
{
    bound[0] = '\0';
    if (*at != '{')
        return at;
    do {
        const char *name = ++at;
        size_t n = metric_name_length(name);
        ck_assert_line(n > 0 && name[n] == '=' && name[n + 1] == '"', line);
        const char *value = name + n + 2;
        size_t bytes = strcspn(value, "\"\\\n"); /* the page needs no escapes */
        ck_assert_line(value[bytes] == '"', line);
        if (n == 2 && strncmp(name, "le", 2) == 0)
            snprintf(bound, 64, "%.*s", (int)bytes, value);
        at = value + bytes + 1;
    } while (*at == ',');
    ck_assert_line(*at == '}', line);
    return at + 1;
}

static inline double metric_number(const char *at, const char *line)
{
    char *end;
    size_t digits = strspn(at, "0123456789");
    size_t bytes = at[digits] == '.' ? digits + 1 + strspn(at + digits + 1, "0123456789") : digits;
    double value = strtod(at, &end);
    ck_assert_line(digits > 0 && end == at + bytes && *end == '\n',
                   line); /* no sign, no exponent */
    return value;
}

static inline void metric_family_end(const metric_family *f)
{
    ck_assert_msg(f->has_sample || f->name[0] == '\0', "%s has no sample", f->name);
    bool is_histogram = strcmp(f->type, "histogram") == 0;
    ck_assert_msg(!is_histogram || (f->has_sum && f->has_infinity), "%s is incomplete", f->name);
}

/* Read "# HELP name text\n# TYPE name type\n". Return the next line. */
static inline const char *metric_family_begin(metric_family *f, const char *at, const char *text)
{
    metric_family_end(f);
    *f = (metric_family){.last_bound = -1};
    ck_assert_line(strncmp(at, "# HELP ", 7) == 0, at);
    size_t n = metric_name_length(at + 7);
    ck_assert_line(n > 0 && n < sizeof f->name && at[7 + n] == ' ', at);
    memcpy(f->name, at + 7, n);
    char header[160];
    snprintf(header, sizeof header, "\n# HELP %s ", f->name);
    const char *first = strstr(text, header);
    ck_assert_line(first == NULL || first + 1 == at || at == text, at); /* a family occurs once */
    const char *type = strchr(at, '\n') + 1;
    ck_assert_line(type - at > 7 + (ptrdiff_t)n + 1, at);
    snprintf(header, sizeof header, "# TYPE %s ", f->name);
    ck_assert_line(strncmp(type, header, strlen(header)) == 0, type);
    type += strlen(header);
    size_t bytes = strcspn(type, "\n");
    ck_assert_line(bytes < sizeof f->type, type);
    memcpy(f->type, type, bytes);
    ck_assert_msg(strcmp(f->type, "counter") == 0 || strcmp(f->type, "gauge") == 0 ||
                      strcmp(f->type, "histogram") == 0,
                  "%s: %s", f->name, f->type);
    return type + bytes + 1;
}

/* Check a sample of a histogram, with the suffix of its name. */
static inline void metric_histogram_sample(metric_family *f, const char *suffix, const char *bound,
                                           double value, const char *line)
{
    if (strcmp(suffix, "_bucket") == 0) {
        bool is_last = strcmp(bound, "+Inf") == 0;
        ck_assert_line(bound[0] != '\0' && !f->has_infinity && !f->has_sum, line);
        ck_assert_line(is_last || atof(bound) > f->last_bound, line);
        ck_assert_line(value >= f->last_count, line); /* cumulative */
        f->last_bound = atof(bound);
        f->last_count = value;
        f->has_infinity = is_last;
    } else if (strcmp(suffix, "_sum") == 0) {
        ck_assert_line(f->has_infinity && !f->has_sum && bound[0] == '\0', line);
        f->has_sum = true;
    } else {
        ck_assert_line(strcmp(suffix, "_count") == 0 && f->has_sum, line);
        ck_assert_line(value == f->last_count, line);
    }
}

/* Assert that no other line begins with the name and the labels of this line. */
static inline void metric_assert_unique(const char *line, size_t bytes, const char *text)
{
    char series[256] = "\n";
    ck_assert_line(bytes < sizeof series - 2, line);
    memcpy(series + 1, line, bytes);
    for (const char *at = text; (at = strstr(at, series)) != NULL; at++)
        ck_assert_line(at + 1 == line || at[1 + bytes] != ' ', line);
}

static inline const char *metric_sample(metric_family *f, const char *line, const char *text,
                                        bool is_openmetrics)
{
    char suffix[64], bound[64];
    size_t n = metric_name_length(line), family = strlen(f->name);
    ck_assert_line(n >= family && strncmp(line, f->name, family) == 0, line);
    snprintf(suffix, sizeof suffix, "%.*s", (int)(n - family), line + family);
    const char *at = metric_skip_labels(line + n, line, bound);
    ck_assert_line(*at == ' ', line);
    metric_assert_unique(line, (size_t)(at - line), text);
    double value = metric_number(at + 1, line);
    if (strcmp(f->type, "histogram") == 0) {
        metric_histogram_sample(f, suffix, bound, value, line);
    } else {
        bool is_counter = strcmp(f->type, "counter") == 0;
        ck_assert_str_eq(suffix, is_counter && is_openmetrics ? "_total" : "");
        size_t total = n - strlen("_total");
        ck_assert_line(is_counter == (n > 6 && strncmp(line + total, "_total", 6) == 0), line);
    }
    f->has_sample = true;
    return strchr(at, '\n') + 1;
}

/* Assert that a text follows the format. */
static inline void assert_metrics(const char *text, bool is_openmetrics)
{
    metric_family f = {.name = ""};
    size_t bytes = strlen(text);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_int_eq(text[bytes - 1], '\n');
    const char *at = text;
    while (*at != '\0' && strcmp(at, "# EOF\n") != 0)
        at = *at == '#' ? metric_family_begin(&f, at, text)
                        : metric_sample(&f, at, text, is_openmetrics);
    metric_family_end(&f);
    ck_assert_int_eq(*at != '\0', is_openmetrics);
}

/* Return the value of a series, for example `weft_cords` or `weft_cord_fibers{cord="0"}`. */
static inline double metric_of(const char *text, const char *series)
{
    size_t bytes = strlen(series);
    for (const char *at = text; (at = strstr(at, series)) != NULL; at++)
        if ((at == text || at[-1] == '\n') && at[bytes] == ' ')
            return atof(at + bytes + 1);
    ck_abort_msg("%s is missing", series);
    return 0;
}

#endif
