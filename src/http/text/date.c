/*
 * Write and parse dates of HTTP (RFC 9110, 5.6.7). This file does not use strftime(3) and
 * strptime(3), because they depend on the locale.
 */
#include "http/text/date.h"

#include <stdbool.h>
#include <string.h>

#define DAY_S 86400
#define ERA_DAYS 146097 /* the calendar repeats after 400 years */

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const long_day_names[7] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

typedef struct date_time {
    int64_t year;
    int month; /* from 0 */
    int day;   /* from 1 */
    int hour, minute, second;
    bool has_short_year;
} date_time;

/*
 * The calendar. In these functions a year starts in March, so that the leap day is the last day of
 * the year. The expression (153 m + 2) / 5 then gives the first day of month m.
 */

/* Return the number of days since 1970-01-01. year must be at least 0. */
static int64_t days_since_epoch(int64_t year, int month, int day)
{
    int64_t y = month < 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * ((month + 10) % 12) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * ERA_DAYS + day_of_era - 719468;
}

static void set_day(date_time *m, int64_t days)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - (ERA_DAYS - 1)) / ERA_DAYS;
    int64_t day_of_era = days - era * ERA_DAYS;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / (ERA_DAYS - 1)) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;
    m->day = (int)(day_of_year - (153 * from_march + 2) / 5 + 1);
    m->month = (int)((from_march + 2) % 12);
    m->year = year_of_era + era * 400 + (m->month < 2);
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in(int64_t year, int month)
{
    static const unsigned char days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && is_leap(year));
}

/*
 * Writing.
 */

static char *put_digits(char *out, int64_t number, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        out[i] = (char)('0' + number % 10);
        number /= 10;
    }
    return out + count;
}

static char *put_text(char *out, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(out, text, bytes);
    return out + bytes;
}

static char *put_time(char *out, int64_t second)
{
    out = put_digits(out, second / 3600, 2);
    *out++ = ':';
    out = put_digits(out, second / 60 % 60, 2);
    *out++ = ':';
    return put_digits(out, second % 60, 2);
}

static int64_t clamp_time(int64_t when)
{
    const int64_t first = -62167219200, last = 253402300799; /* years 0 and 9999 */
    return when < first ? first : when > last ? last : when;
}

void weft__date_write(char out[WEFT__DATE_LENGTH + 1], time_t when)
{
    int64_t seconds = clamp_time(when);
    int64_t days = seconds / DAY_S - (seconds % DAY_S < 0);
    date_time m;
    set_day(&m, days);
    out = put_text(out, day_names[((days + 4) % 7 + 7) % 7]); /* 1970 started on a Thursday */
    out = put_text(out, ", ");
    out = put_digits(out, m.day, 2);
    *out++ = ' ';
    out = put_text(out, month_names[m.month]);
    *out++ = ' ';
    out = put_digits(out, m.year, 4);
    *out++ = ' ';
    out = put_time(out, seconds - days * DAY_S);
    memcpy(out, " GMT", 5);
}

/*
 * Reading.
 */

/* Parse a number of count digits and advance *text. Return -1 if a character is not a digit. */
static int take_digits(const char **text, int count)
{
    int number = 0;
    for (; count > 0; count--, (*text)++) {
        if (**text < '0' || **text > '9')
            return -1;
        number = number * 10 + (**text - '0');
    }
    return number;
}

/* Parse a day of the month. asctime(3) writes a space before a day below 10. */
static int take_day(const char **text)
{
    if (**text != ' ')
        return take_digits(text, 2);
    (*text)++;
    return take_digits(text, 1);
}

static int take_short_name(const char **text, const char (*names)[4], int count)
{
    for (int i = 0; i < count; i++)
        if (strncmp(*text, names[i], 3) == 0) {
            *text += 3;
            return i;
        }
    return -1;
}

static int take_long_day(const char **text)
{
    for (int i = 0; i < 7; i++) {
        size_t bytes = strlen(long_day_names[i]);
        if (strncmp(*text, long_day_names[i], bytes) == 0) {
            *text += bytes;
            return i;
        }
    }
    return -1;
}

/* Parse one conversion of a format. The letters have the meaning of strptime(3). */
static bool take_conversion(const char **text, char conversion, date_time *m)
{
    switch (conversion) {
    case 'a':
        return take_short_name(text, day_names, 7) >= 0;
    case 'A':
        return take_long_day(text) >= 0;
    case 'd':
        return (m->day = take_digits(text, 2)) >= 0;
    case 'e':
        return (m->day = take_day(text)) >= 0;
    case 'b':
        return (m->month = take_short_name(text, month_names, 12)) >= 0;
    case 'Y':
        return (m->year = take_digits(text, 4)) >= 0;
    case 'y':
        m->has_short_year = true;
        return (m->year = take_digits(text, 2)) >= 0;
    case 'H':
        return (m->hour = take_digits(text, 2)) >= 0;
    case 'M':
        return (m->minute = take_digits(text, 2)) >= 0;
    default:
        return (m->second = take_digits(text, 2)) >= 0;
    }
}

static bool scan_date(const char *text, const char *format, date_time *m)
{
    for (; *format != '\0'; format++) {
        if (*format == '%') {
            if (!take_conversion(&text, *++format, m))
                return false;
        } else if (*text++ != *format) {
            return false;
        }
    }
    return *text == '\0';
}

static bool date_is_valid(const date_time *m)
{
    return m->day >= 1 && m->day <= days_in(m->year, m->month) && m->hour <= 23 &&
           m->minute <= 59 && m->second <= 60;
}

static int64_t seconds_since_epoch(const date_time *m)
{
    return days_since_epoch(m->year, m->month, m->day) * DAY_S + m->hour * 3600 + m->minute * 60 +
           m->second;
}

/* Return whether the date is more than 50 years in the future. */
static bool is_far_ahead(const date_time *m, int64_t now)
{
    date_time then = *m;
    then.year -= 50;
    return seconds_since_epoch(&then) > now;
}

/* Complete a year of two digits. Choose the latest year that is at most 50 years in the future. */
static void complete_year(date_time *m, int64_t now)
{
    date_time then;
    now = clamp_time(now);
    set_day(&then, now / DAY_S - (now % DAY_S < 0));
    m->year += then.year - then.year % 100 + 100;
    while (is_far_ahead(m, now))
        m->year -= 100;
}

int64_t weft__date_parse_at(const char *text, int64_t now)
{
    date_time m = {0};
    if (!scan_date(text, "%a, %d %b %Y %H:%M:%S GMT", &m) &&
        !scan_date(text, "%A, %d-%b-%y %H:%M:%S GMT", &m) &&
        !scan_date(text, "%a %b %e %H:%M:%S %Y", &m))
        return WEFT__DATE_NONE;
    if (m.has_short_year)
        complete_year(&m, now);
    if (!date_is_valid(&m))
        return WEFT__DATE_NONE;
    int64_t when = seconds_since_epoch(&m);
    return when == WEFT__DATE_NONE ? when - 1 : when;
}

/*
 * The current time.
 */

/*
 * Read the coarse clock. The coarse clock needs no system call, and dates have whole seconds only.
 */
static time_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec;
}

int64_t weft__date_parse(const char *text)
{
    return weft__date_parse_at(text, clock_now());
}

const char *weft__date_now(void)
{
    static _Thread_local struct {
        time_t second;
        char text[WEFT__DATE_LENGTH + 1];
    } last;
    time_t now = clock_now();
    if (now != last.second || last.text[0] == '\0') {
        weft__date_write(last.text, now);
        last.second = now;
    }
    return last.text;
}
