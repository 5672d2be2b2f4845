/* A line of an access log, as most programs that read one expect it. */
#ifndef WEFT_HTTP_LOG_H
#define WEFT_HTTP_LOG_H

#include <weft/http.h>

#include <time.h>

/*
 * Of each text that comes from outside so many bytes are taken; what is left out shows as "...". An
 * escaped byte takes four.
 */
#define WEFT__LOG_TARGET_BYTES_MAX 4096
#define WEFT__LOG_FIELD_BYTES_MAX 1024

/* The longest line there can be, with what is around those texts. */
#define WEFT__LOG_LINE_BYTES_MAX \
    (4 * (WEFT__LOG_TARGET_BYTES_MAX + 6 * WEFT__LOG_FIELD_BYTES_MAX) + 256)

/* "16/Nov/2026:11:12:13 +0000", in the time of this place, with its NUL. */
#define WEFT__LOG_TIME_BYTES 32
void weft__log_time(char out[WEFT__LOG_TIME_BYTES], time_t when);

/*
 * The line of a request, with its line break, in the Combined Log Format. If the server has refused
 * the request, the reason follows in quotes. No byte of a request can end a line
 * or a quoted text, or reach a terminal as anything but a printable character. Out has room for
 * WEFT__LOG_LINE_BYTES_MAX. Returns bytes; there is no NUL.
 */
size_t weft__log_line(char *out, const weft_http_record *record, const char *time_text);

#endif
