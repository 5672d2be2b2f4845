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

static const char *line_of(const weft_http_record *record)
{
    memset(line, '#', sizeof line);
    size_t bytes = weft__log_line(line, record, TIME);
    ck_assert_uint_le(bytes, WEFT__LOG_LINE_BYTES_MAX);
    ck_assert_int_eq(line[bytes], '#');
    line[bytes] = '\0';
    return line;
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
    weft__log_time(text, 1700000000);
    ck_assert_str_eq(text, "15/Nov/2023:03:43:20 +0530");
    weft__log_time(text, INT64_MAX); /* not representable as a year */
    ck_assert_uint_gt(strlen(text), 0);
}
