/* Dates as HTTP has them: RFC 9110, 5.6.7. Whatever the locale. */
#ifndef WEFT_HTTP_DATE_H
#define WEFT_HTTP_DATE_H

#include <stdint.h>
#include <time.h>

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
#define WEFT__DATE_LENGTH 29

/* No date. */
#define WEFT__DATE_NONE (-1)

/* Write it, with a NUL. Years below 0 or above 9999 become the first or the last that there is. */
void weft__date_write(char out[WEFT__DATE_LENGTH + 1], time_t when);

/*
 * The seconds since 1970 of a date in one of the three formats; WEFT__DATE_NONE if it is none: also
 * a day that the month has not, or a 25th hour. The name of the day need not be right. A leap
 * second is the one after it. What is before 1970 is negative, but never WEFT__DATE_NONE: that
 * second counts as the one before it.
 */
int64_t weft__date_parse(const char *text);

/* The same at another time than now, which matters to years of two digits. */
int64_t weft__date_parse_at(const char *text, int64_t now);

/* The present date, of WEFT__DATE_LENGTH; it is there until the thread's next call. */
const char *weft__date_now(void);

#endif
