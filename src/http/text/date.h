/* Write and parse dates of HTTP (RFC 9110, 5.6.7). The locale has no effect. */
#ifndef WEFT_HTTP_TEXT_DATE_H
#define WEFT_HTTP_TEXT_DATE_H

#include <stdint.h>
#include <time.h>

/* The length of "Sun, 06 Nov 1994 08:49:37 GMT". */
#define WEFT__DATE_LENGTH 29

/* The result of a failed parse. A valid date never has this value. */
#define WEFT__DATE_NONE (-1)

/*
 * Write a date with a NUL. If the date is before year 0 or after year 9999, write the first or the
 * last second of these years.
 */
void weft__date_write(char out[WEFT__DATE_LENGTH + 1], time_t when);

/*
 * Parse a date in one of the three formats of RFC 9110. Return the seconds since 1970. The result
 * is negative for a date before 1970. Return WEFT__DATE_NONE for a malformed date, an impossible
 * day or an impossible time.
 *
 * The call does not check the name of the day. A leap second counts as the following second. The
 * second -1 counts as -2, because -1 is WEFT__DATE_NONE. A year of two digits means the latest such
 * year that is at most 50 years in the future.
 */
int64_t weft__date_parse(const char *text);

/*
 * Like weft__date_parse, but use now instead of the current time to complete a year of two digits.
 */
int64_t weft__date_parse_at(const char *text, int64_t now);

/* Return the current date as text. The text is valid until the next call in this thread. */
const char *weft__date_now(void);

#endif
