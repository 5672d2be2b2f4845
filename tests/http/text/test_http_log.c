/* Lines of the access log: their format, and escaping of hostile requests. */
#include "support/suite.h"

#include "http/text/log.h"

#include <weft/web.h>

static char line[WEFT__LOG_LINE_BYTES_MAX + 1];

#define TIME "16/Nov/2026:11:12:13 +0000"

static const weft_http_record ordinary = {.peer = "192.0.2.7",
                                          .method = "GET",
                                          .target = "/a?b=c",
                                          .host = "example.org",
                                          .referer = "http://example.org/",
                                          .user_agent = "curl/8",
                                          .version = 11,
                                          .status = 200,
                                          .bytes = 5000000000};

static const char *format_line(const weft_http_record *record, weft__log_format format)
{
    memset(line, '#', sizeof line);
    size_t bytes = weft__log_line(line, format, record, TIME);
    ck_assert_uint_le(bytes, WEFT__LOG_LINE_BYTES_MAX);
    ck_assert_int_eq(line[bytes], '#');
    line[bytes] = '\0';
    return line;
}

static const char *line_of(const weft_http_record *record)
{
    return format_line(record, WEFT__LOG_COMBINED);
}

TEST(a_line_has_the_combined_log_format)
{
    ck_assert_str_eq(line_of(&ordinary), "192.0.2.7 - - [" TIME "] \"GET /a?b=c HTTP/1.1\" 200 "
                                         "5000000000 \"http://example.org/\" \"curl/8\"\n");
}

TEST(unknown_values_are_dashes)
{
    const weft_http_record refused = {.peer = "", .method = "", .target = "", .status = 400};
    ck_assert_str_eq(line_of(&refused), "- - - [" TIME "] \"-\" 400 0 \"-\" \"-\"\n");
    const weft_http_record without_status = {
        .peer = "::1", .method = "GET", .target = "/", .version = 10};
    ck_assert_str_eq(line_of(&without_status),
                     "::1 - - [" TIME "] \"GET / HTTP/1.0\" 000 0 \"-\" \"-\"\n");
}

TEST(a_refused_request_has_its_reason_at_the_end)
{
    weft_http_record refused = {
        .peer = "::1", .method = "GET", .target = "/a", .reason = "no \"Host\"", .status = 400};
    ck_assert_str_eq(line_of(&refused),
                     "::1 - - [" TIME "] \"GET /a\" 400 0 \"-\" \"-\" \"no \\\"Host\\\"\"\n");
    refused.target = "";
    refused.method = "\x16";
    ck_assert_str_eq(line_of(&refused), "::1 - - [" TIME "] \"\\x16\" 400 0 \"-\" \"-\" "
                                        "\"no \\\"Host\\\"\"\n");
}

TEST(a_request_cannot_end_a_line_or_a_quoted_text)
{
    weft_http_record bad = ordinary;
    bad.peer = "1 2\n";
    bad.target = "/\"x\\\r\n";
    bad.referer = "\t\x1b[31m\x7f";
    bad.user_agent = "\xc3\xa4";
    ck_assert_str_eq(line_of(&bad),
                     "1\\x202\\x0a - - [" TIME "] \"GET /\\\"x\\\\\\x0d\\x0a HTTP/1.1\" "
                     "200 5000000000 \"\\x09\\x1b[31m\\x7f\" \"\\xc3\\xa4\"\n");
}

TEST(every_byte_becomes_printable)
{
    for (int byte = 1; byte < 256; byte++) {
        const char text[] = {(char)byte, '\0'};
        weft_http_record r = ordinary;
        r.peer = r.method = r.target = r.referer = r.user_agent = text;
        size_t bytes = strlen(line_of(&r));
        for (size_t i = 0; i + 1 < bytes; i++)
            ck_assert(line[i] >= ' ' && line[i] <= '~');
        ck_assert_int_eq(line[bytes - 1], '\n');
    }
}

TEST(long_values_are_truncated_and_the_line_fits)
{
    static char too_long[100000];
    memset(too_long, '\x01', sizeof too_long - 1);
    weft_http_record r = ordinary;
    r.peer = r.method = r.target = r.referer = r.user_agent = too_long;
    line_of(&r);
    ck_assert_ptr_nonnull(strstr(line, "\\x01... HTTP/1.1\" "));
    ck_assert_ptr_nonnull(strstr(line, "\\x01...\"\n"));
}

TEST(the_time_is_local)
{
    char text[WEFT__LOG_TIME_BYTES];
    setenv("TZ", "XYZ-05:30", 1);
    tzset();
    weft__log_time(text, WEFT__LOG_COMMON, 1700000000);
    weft__log_time_set_ms(text, WEFT__LOG_COMMON, 999);
    ck_assert_str_eq(text, "15/Nov/2023:03:43:20 +0530");
    weft__log_time(text, WEFT__LOG_COMMON, INT64_MAX); /* not representable as a year */
    ck_assert_uint_gt(strlen(text), 0);
}

TEST(a_common_line_has_neither_referer_nor_user_agent)
{
    weft_http_record r = ordinary;
    r.reason = "not logged";
    ck_assert_str_eq(format_line(&r, WEFT__LOG_COMMON),
                     "192.0.2.7 - - [" TIME "] \"GET /a?b=c HTTP/1.1\" 200 5000000000\n");
}

TEST(http_2_has_its_version_in_the_line)
{
    weft_http_record r = ordinary;
    r.version = 20;
    ck_assert_ptr_nonnull(strstr(line_of(&r), "GET /a?b=c HTTP/2.0\""));
}

TEST(a_json_line_is_one_object_with_all_fields)
{
    weft_http_record r = ordinary;
    r.seconds = 0.0125;
    ck_assert_str_eq(format_line(&r, WEFT__LOG_JSON),
                     "{\"time\":\"" TIME "\",\"peer\":\"192.0.2.7\",\"method\":\"GET\","
                     "\"target\":\"/a?b=c\",\"host\":\"example.org\",\"protocol\":\"HTTP/1.1\","
                     "\"status\":200,\"bytes\":5000000000,\"seconds\":0.012500,"
                     "\"referer\":\"http://example.org/\",\"user_agent\":\"curl/8\","
                     "\"reason\":\"\"}\n");
    const weft_http_record empty = {.status = 408, .reason = "slow"};
    ck_assert_str_eq(format_line(&empty, WEFT__LOG_JSON),
                     "{\"time\":\"" TIME "\",\"peer\":\"\",\"method\":\"\",\"target\":\"\","
                     "\"host\":\"\",\"protocol\":\"\",\"status\":408,\"bytes\":0,"
                     "\"seconds\":0.000000,\"referer\":\"\",\"user_agent\":\"\","
                     "\"reason\":\"slow\"}\n");
}

static const char *json_target(const char *target)
{
    static char text[256];
    weft_http_record r = ordinary;
    r.target = target;
    format_line(&r, WEFT__LOG_JSON);
    const char *begin = strstr(line, "\"target\":\"") + strlen("\"target\":\"");
    snprintf(text, sizeof text, "%.*s", (int)(strstr(begin, "\",\"host") - begin), begin);
    return text;
}

TEST(json_escapes_quotes_controls_and_all_bytes_that_are_not_ascii)
{
    static const char *const cases[][2] = {
        {"\"\\/", "\\\"\\\\/"},
        {"\x01\t\r\n\x1f\x7f", "\\u0001\\u0009\\u000d\\u000a\\u001f\\u007f"},
        {"\xc3\xa4", "\\u00e4"},
        {"\xe2\x82\xac", "\\u20ac"},
        {"\xf0\x9f\x98\x80", "\\ud83d\\ude00"},
        {"\xf4\x8f\xbf\xbf", "\\udbff\\udfff"},
        {"\xff", "\\u00ff"},
        {"\xc3", "\\u00c3"},
        {"\xc3x", "\\u00c3x"},
        {"\x80", "\\u0080"},
        {"\xc0\xaf", "\\u00c0\\u00af"},                       /* too long */
        {"\xe0\x80\xaf", "\\u00e0\\u0080\\u00af"},            /* too long */
        {"\xed\xa0\x80", "\\u00ed\\u00a0\\u0080"},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\\u00f4\\u0090\\u0080\\u0080"}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", "\\u00f5\\u0080\\u0080\\u0080"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_str_eq(json_target(cases[i][0]), cases[i][1]);
}

TEST(long_values_of_json_are_truncated_and_the_line_fits)
{
    static char too_long[100000];
    for (size_t i = 0; i + 2 < sizeof too_long; i += 2)
        memcpy(too_long + i, "\xc3\xa4", 2);
    weft_http_record r = ordinary;
    too_long[0] = 'x'; /* the limit cuts a character */
    r.peer = r.method = r.target = r.host = r.referer = r.user_agent = r.reason = too_long;
    format_line(&r, WEFT__LOG_JSON);
    ck_assert_ptr_nonnull(strstr(line, "\\u00e4...\",\"host\":"));
    memset(too_long, '\xff', sizeof too_long - 1);
    format_line(&r, WEFT__LOG_JSON);
    ck_assert_ptr_nonnull(strstr(line, "\\u00ff...\"}\n"));
}

TEST(the_time_in_json_is_utc_with_milliseconds)
{
    char text[WEFT__LOG_TIME_BYTES];
    setenv("TZ", "XYZ-05:30", 1);
    tzset();
    weft__log_time(text, WEFT__LOG_JSON, 1700000000);
    ck_assert_str_eq(text, "2023-11-14T22:13:20.000Z");
    weft__log_time_set_ms(text, WEFT__LOG_JSON, 42);
    ck_assert_str_eq(text, "2023-11-14T22:13:20.042Z");
    weft__log_time(text, WEFT__LOG_JSON, INT64_MAX);
    ck_assert_uint_eq(strlen(text), strlen("2023-11-14T22:13:20.042Z"));
    weft__log_time(text, WEFT__LOG_JSON, 253402300800); /* the year 10000 */
    ck_assert_uint_eq(strlen(text), strlen("2023-11-14T22:13:20.042Z"));
}
