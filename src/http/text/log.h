/* Lines of an access log in the Combined Log Format. */
#ifndef WEFT_HTTP_TEXT_LOG_H
#define WEFT_HTTP_TEXT_LOG_H

#include <weft/http.h>

#include <time.h>

/*
 * The maximum lengths of texts from a request, before escaping. If the target, the method or a
 * quoted text is longer, "..." replaces its remaining bytes. An escape sequence has at most 4
 * bytes.
 */
#define WEFT__LOG_TARGET_BYTES_MAX 4096
#define WEFT__LOG_FIELD_BYTES_MAX 1024

/* The maximum length of a line. */
#define WEFT__LOG_LINE_BYTES_MAX \
    (4 * (WEFT__LOG_TARGET_BYTES_MAX + 6 * WEFT__LOG_FIELD_BYTES_MAX) + 256)

/* Format a time with a NUL, in the local time zone: "16/Nov/2026:11:12:13 +0000". */
#define WEFT__LOG_TIME_BYTES 32
void weft__log_time(char out[WEFT__LOG_TIME_BYTES], time_t when);

/*
 * Format the line of a request, with a newline and without a NUL. Return the length of the line.
 * out must have space for WEFT__LOG_LINE_BYTES_MAX bytes.
 *
 * If record has a reason, the line ends with the quoted reason. The line is printable ASCII. A
 * request therefore cannot forge a line or send escape sequences to a terminal.
 */
size_t weft__log_line(char *out, const weft_http_record *record, const char *time_text);

#endif
