/* HTTP dates: written, and parsed in the three formats of RFC 9110, 5.6.7. */
#include "http/text/date.h"
#include "support/cases.h"
#include "support/suite.h"

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define EXAMPLE 784111777

TEST(a_date_is_written_in_the_format_of_the_rfc)
{
    static const struct {
        int64_t when;
        const char *text;
    } cases[] = {
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {-1, "Wed, 31 Dec 1969 23:59:59 GMT"},
        {EXAMPLE, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
        {1709251199, "Thu, 29 Feb 2024 23:59:59 GMT"},
        {1709251200, "Fri, 01 Mar 2024 00:00:00 GMT"},
        {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
        {2147483647, "Tue, 19 Jan 2038 03:14:07 GMT"},
        {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {253402300800, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {-62167219200, "Sat, 01 Jan 0000 00:00:00 GMT"},
        {INT64_MIN, "Sat, 01 Jan 0000 00:00:00 GMT"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char out[WEFT__DATE_LENGTH + 2];
        memset(out, '#', sizeof out);
        weft__date_write(out, cases[i].when);
        ck_assert_str_eq(out, cases[i].text);
        ck_assert_int_eq(out[WEFT__DATE_LENGTH + 1], '#');
    }
}

TEST(dates_equal_those_of_the_c_library_for_centuries)
{
    for (int64_t when = -70000000000; when < 90000000000; when += 1234567 * 5) {
        char out[WEFT__DATE_LENGTH + 1], expected[64];
        time_t t = when;
        struct tm tm;
        weft__date_write(out, t);
        if (when < -62167219200 + 86400)
            continue; /* before the year 0 */
        strftime(expected, sizeof expected, "%a, %d %b ", gmtime_r(&t, &tm));
        snprintf(expected + 12, sizeof expected - 12, "%04d %02d:%02d:%02d GMT", tm.tm_year + 1900,
                 tm.tm_hour, tm.tm_min, tm.tm_sec);
        ck_assert_str_eq(out, expected);
        ck_assert_int_eq(weft__date_parse(out), when);
    }
}

TEST(each_day_of_400_years_is_parsed_as_it_was_written)
{
    char before[WEFT__DATE_LENGTH + 1] = "";
    for (int64_t day = -1000; day < 146097; day++) {
        char out[WEFT__DATE_LENGTH + 1];
        weft__date_write(out, day * 86400 + 12345);
        ck_assert_int_eq(weft__date_parse(out), day * 86400 + 12345);
        ck_assert_str_ne(out, before);
        strcpy(before, out);
    }
}

TEST(all_three_formats_are_parsed)
{
    static const char *const same[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT",     "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",          "Sun Nov 06 08:49:37 1994",
        "Mon, 06 Nov 1994 08:49:37 GMT", /* the wrong weekday, which is ignored */
        "Wednesday, 06-Nov-94 08:49:37 GMT",
    };
    for (size_t i = 0; i < COUNT_OF(same); i++)
        ck_assert_int_eq(weft__date_parse(same[i]), EXAMPLE);
    static const struct {
        const char *text;
        int64_t when;
    } cases[] = {
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Thu Jan  1 00:00:01 1970", 1},
        {"Wed, 31 Dec 1969 23:59:58 GMT", -2},
        {"Wed, 31 Dec 1969 23:59:59 GMT", -2}, /* -1 is WEFT__DATE_NONE */
        {"Tue, 29 Feb 2000 00:00:00 GMT", 951782400},
        {"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799},
        {"Sat, 01 Jan 0000 00:00:00 GMT", -62167219200},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800},
        {"Sun Nov 16 08:49:37 1994", EXAMPLE + 10 * 86400},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_int_eq(weft__date_parse(cases[i].text), cases[i].when);
}

TEXT_CHECK(assert_no_date, weft__date_parse(text) == WEFT__DATE_NONE)

TEST(invalid_dates_are_refused)
{
    EACH_TEXT(assert_no_date, "", "0", "784111777", "1994-11-06T08:49:37Z",
              "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 gmt",
              "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000",
              "Sun, 06 Nov 1994 08:49:37 GMT ", " Sun, 06 Nov 1994 08:49:37 GMT",
              "Sun,06 Nov 1994 08:49:37 GMT", "Sun  06 Nov 1994 08:49:37 GMT",
              "sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT",
              "Xun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT",
              "Sunday, 06 Nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT",
              "Sun,  6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
              "Sun, 06 Nov 199 08:49:37 GMT", "Sun, 06 Nov 19944 08:49:37 GMT",
              "Sun, 06 Nov -994 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT",
              "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 08-49-37 GMT",
              "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 31 Nov 1994 08:49:37 GMT",
              "Sun, 32 Dec 1994 08:49:37 GMT", "Tue, 29 Feb 1994 08:49:37 GMT",
              "Tue, 29 Feb 1900 08:49:37 GMT", "Tue, 30 Feb 2000 08:49:37 GMT",
              "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
              "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49:99 GMT",
              "Sun, 0x Nov 1994 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT",
              "Sunday, 06-Nov-1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37",
              "Sunday 06-Nov-94 08:49:37 GMT", "Sunday, 6-Nov-94 08:49:37 GMT",
              "Sun Nov 6 08:49:37 1994", "Sun Nov  6 08:49:37 94", "Sun Nov  6 08:49:37 1994 GMT",
              "Sun Nov  0 08:49:37 1994", "Sun Nov 31 08:49:37 1994", "Sun, Nov  6 08:49:37 1994",
              "Sunday Nov  6 08:49:37 1994");
}

TEST(a_year_of_two_digits_is_at_most_50_years_ahead)
{
    static const int64_t second_2025 = 1735689600, second_2099 = 4070908800; /* on 1 January */
    static const struct {
        const char *text;
        int64_t now;
        const char *means;
    } cases[] = {
        {"Sunday, 06-Nov-94 08:49:37 GMT", second_2025, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {"Sunday, 06-Nov-25 08:49:37 GMT", second_2025, "Thu, 06 Nov 2025 08:49:37 GMT"},
        {"Sunday, 06-Nov-00 08:49:37 GMT", second_2025, "Mon, 06 Nov 2000 08:49:37 GMT"},
        {"Sunday, 01-Jan-75 00:00:00 GMT", second_2025, "Tue, 01 Jan 2075 00:00:00 GMT"},
        {"Sunday, 01-Jan-75 00:00:01 GMT", second_2025, "Wed, 01 Jan 1975 00:00:01 GMT"},
        {"Sunday, 01-Jan-76 00:00:00 GMT", second_2025, "Thu, 01 Jan 1976 00:00:00 GMT"},
        {"Sunday, 01-Jan-99 00:00:00 GMT", second_2025, "Fri, 01 Jan 1999 00:00:00 GMT"},
        {"Sunday, 01-Jan-05 00:00:00 GMT", second_2099, "Thu, 01 Jan 2105 00:00:00 GMT"},
        {"Sunday, 01-Jan-70 00:00:00 GMT", 0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"Sunday, 01-Jan-21 00:00:00 GMT", 0, "Sat, 01 Jan 1921 00:00:00 GMT"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_int_eq(weft__date_parse_at(cases[i].text, cases[i].now),
                         weft__date_parse(cases[i].means));
    /* 2000 has a leap day, 2100 does not. */
    ck_assert_int_eq(weft__date_parse_at("Monday, 29-Feb-00 00:00:00 GMT", second_2099),
                     WEFT__DATE_NONE);
    /* Extreme clocks must not overflow. */
    (void)weft__date_parse_at(cases[0].text, INT64_MAX);
    (void)weft__date_parse_at(cases[0].text, INT64_MIN);
}

TEST(the_current_date_is_between_two_readings_of_the_clock)
{
    struct timespec before, after;
    clock_gettime(CLOCK_REALTIME_COARSE, &before);
    const char *text = weft__date_now();
    clock_gettime(CLOCK_REALTIME_COARSE, &after);
    ck_assert_uint_eq(strlen(text), WEFT__DATE_LENGTH);
    ck_assert_int_ge(weft__date_parse(text), before.tv_sec);
    ck_assert_int_le(weft__date_parse(text), after.tv_sec);
    ck_assert_ptr_eq(weft__date_now(), text);
}
