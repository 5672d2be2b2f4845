/* Lines of an access log: the Common and the Combined Log Format of Apache, and JSON. */
#ifndef WEFT_HTTP_TEXT_LOG_H
#define WEFT_HTTP_TEXT_LOG_H

#include <weft/http.h>

#include <time.h>

typedef enum weft__log_format {
    WEFT__LOG_COMBINED, /* Common, with the quoted referer, user agent and reason at the end */
    WEFT__LOG_COMMON,
    WEFT__LOG_JSON, /* one object */
} weft__log_format;

/*
 * The maximum lengths of texts from a request, before escaping. If the target, the method or a
 * quoted text is longer, "..." replaces its remaining bytes. An escape sequence has at most 6
 * bytes.
 */
#define WEFT__LOG_TARGET_BYTES_MAX 4096
#define WEFT__LOG_FIELD_BYTES_MAX 1024

/* The maximum length of a line. */
#define WEFT__LOG_LINE_BYTES_MAX \
    (6 * (WEFT__LOG_TARGET_BYTES_MAX + 6 * WEFT__LOG_FIELD_BYTES_MAX) + 512)

/*
 * Format a time with a NUL: "16/Nov/2026:11:12:13 +0000" in the local time zone, and in JSON
 * "2026-11-16T11:12:13.000Z".
 */
#define WEFT__LOG_TIME_BYTES 32
void weft__log_time(char out[WEFT__LOG_TIME_BYTES], weft__log_format format, time_t when);

/* Replace the milliseconds of a time in JSON. In other formats, do nothing. */
void weft__log_time_set_ms(char text[WEFT__LOG_TIME_BYTES], weft__log_format format, unsigned ms);

/*
 * Format the line of a request, with a newline and without a NUL. Return the length of the line.
 * out must have space for WEFT__LOG_LINE_BYTES_MAX bytes.
 *
 * If record has a reason, a combined line ends with the quoted reason. The line is printable ASCII.
 * A request therefore cannot forge a line or send escape sequences to a terminal.
 *
 * In JSON, texts in UTF-8 keep their characters, as escapes. A byte that is not part of valid UTF-8
 * becomes the character with its number: the byte ff becomes "\u00ff". Unknown texts are "".
 */
size_t weft__log_line(char *out, weft__log_format format, const weft_http_record *record,
                      const char *time_text);

#endif
