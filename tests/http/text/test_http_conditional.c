/* Request headers that select a reply: conditions, ranges, and accepted encodings. */
#include "http/text/accept.h"
#include "http/text/conditional.h"
#include "http/text/date.h"
#include "http/text/range.h"
#include "support/cases.h"
#include "support/suite.h"

#include <inttypes.h>

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define EXAMPLE 784111777

/* Return the status and the ranges as text, for example "206 0+5 7+1". */
static const char *ranges_of(const char *value, uint64_t size)
{
    static char out[1024];
    weft__ranges ranges;
    memset(&ranges, 0x5a, sizeof ranges);
    int bytes = sprintf(out, "%d", weft__ranges_parse(&ranges, value, size));
    for (size_t i = 0; i < ranges.count; i++)
        bytes +=
            sprintf(out + bytes, " %" PRIu64 "+%" PRIu64, ranges.at[i].first, ranges.at[i].bytes);
    return out;
}

PAIR_CHECK(assert_ranges_of_10, ranges_of(input, 10))
PAIR_CHECK(assert_ranges_of_max, ranges_of(input, UINT64_MAX))

TEST(ranges_are_clamped_to_the_size)
{
    EACH_PAIR(assert_ranges_of_10, "bytes=0-0 -> 206 0+1", "bytes=0-9 -> 206 0+10",
              "bytes=0-10 -> 206 0+10", "bytes=0- -> 206 0+10", "bytes=9- -> 206 9+1",
              "bytes=5-7 -> 206 5+3", "bytes=5-99999999999999999999999 -> 206 5+5",
              "bytes=5-18446744073709551615 -> 206 5+5", "bytes=-1 -> 206 9+1",
              "bytes=-10 -> 206 0+10", "bytes=-11 -> 206 0+10",
              "bytes=-99999999999999999999999 -> 206 0+10", "Bytes=1-2 -> 206 1+2",
              "bytes=0-1,3-4 -> 206 0+2 3+2", "bytes=3-4,0-1 -> 206 3+2 0+2",
              "bytes=0-1, 3-4 ,\t6-6 -> 206 0+2 3+2 6+1", "bytes=,0-1,,3-4, -> 206 0+2 3+2",
              "bytes=0-1,2-3 -> 206 0+2 2+2", "bytes=2-3,0-1 -> 206 2+2 0+2",
              "bytes=0-1,99-100 -> 206 0+2", "bytes=99-100,-2 -> 206 8+2",
              "bytes=0-1,-0 -> 206 0+2", "bytes=00-01 -> 206 0+2", "bytes=10- -> 416",
              "bytes=10-20 -> 416", "bytes=18446744073709551616- -> 416",
              "bytes=99999999999999999999-999999999999999999999 -> 416", "bytes=-0 -> 416",
              "bytes=10-,11- -> 416", "bytes=0-1, -> 206 0+2");
    EACH_PAIR(assert_ranges_of_max, "bytes=18446744073709551614- -> 206 18446744073709551614+1",
              "bytes=18446744073709551615- -> 416", "bytes=0- -> 206 0+18446744073709551615",
              "bytes=-2,0-0 -> 206 18446744073709551613+2 0+1");
    ck_assert_str_eq(ranges_of(NULL, 10), "200");
    ck_assert_str_eq(ranges_of("bytes=0-0", 1), "206 0+1");
    ck_assert_str_eq(ranges_of("bytes=0-", 0), "200");
    ck_assert_str_eq(ranges_of("bytes=-1", 0), "200");
}

TEXT_CHECK(assert_ignored, strcmp(ranges_of(text, 10), "200") == 0)

TEST(malformed_or_overlapping_ranges_are_ignored)
{
    EACH_TEXT(assert_ignored, "", "bytes", "bytes=", "bytes=,", "bytes= ", "bytes=-", "bytes=1",
              "bytes=a-b", "bytes=1-b", "bytes=a-1", "bytes=2-1", "bytes=1--2", "bytes=--1",
              "bytes=1-2-3", "bytes=1-2 3", "bytes=1 -2", "bytes=1- 2", "bytes=+1-2", "bytes=1-2x",
              "bytes=x1-2", "bytes:1-2", "bytes 1-2", "byte=1-2", "bytess=1-2", "items=1-2",
              " bytes=1-2", "bytes =1-2", "=1-2", "bytes=1-2;", "bytes=0x1-2");
    EACH_TEXT(assert_ignored, "bytes=0-,0-", "bytes=0-5,5-6", "bytes=5-6,0-5", "bytes=0-9,-1",
              "bytes=2-3,0-9", "bytes=0-9,2-3", "bytes=-1,-1", "bytes=0-1,2-3,1-2", "bytes=0-1,x",
              "bytes=99-,x", "bytes=99-,2-1", "bytes=0-1,4-3");
}

TEST(too_many_ranges_are_ignored)
{
    char value[256] = "bytes=";
    for (int i = 0; i <= WEFT__RANGES_MAX; i++) {
        sprintf(value + strlen(value), "%d-%d,", i * 2, i * 2);
        ck_assert_int_eq(strncmp(ranges_of(value, 100), i < WEFT__RANGES_MAX ? "206" : "200", 3),
                         0);
    }
    /* Ranges that cannot be satisfied count as well. */
    strcpy(value, "bytes=0-0");
    for (int i = 0; i < WEFT__RANGES_MAX; i++)
        strcat(value, ",100-");
    ck_assert_str_eq(ranges_of(value, 100), "200");
}

static const char since[] = "Sun, 06 Nov 1994 08:49:37 GMT";
static const char before[] = "Sun, 06 Nov 1994 08:49:36 GMT";
static const char after[] = "Sun, 06 Nov 1994 08:49:38 GMT";

/* By default a condition is that of a GET for a file with mtime EXAMPLE. */
static weft__conditional with_defaults(weft__conditional c)
{
    c.method = c.method != NULL ? c.method : "GET";
    c.mtime = c.mtime != 0 ? c.mtime : EXAMPLE;
    return c;
}

static int check_condition(weft__conditional c)
{
    c = with_defaults(c);
    return weft__conditional_check(&c);
}

#define NONE_MATCH(tags) \
    check_condition((weft__conditional){.etag = "\"a\"", .if_none_match = tags})
#define MATCH(tags) check_condition((weft__conditional){.etag = "\"a\"", .if_match = tags})

TEXT_CHECK(assert_none_match_is_304, NONE_MATCH(text) == 304)
TEXT_CHECK(assert_none_match_passes, NONE_MATCH(text) == 0)
TEXT_CHECK(assert_match_passes, MATCH(text) == 0)
TEXT_CHECK(assert_match_is_412, MATCH(text) == 412)

static const struct {
    weft__conditional c;
    int result;
} conditions[] = {
    {{.etag = "\"a\""}, 0},
    {{.etag = NULL}, 0},
    {{.etag = "W/\"a\"", .if_none_match = "\"a\""}, 304},
    {{.etag = "W/\"a\"", .if_none_match = "W/\"a\""}, 304},
    {{.etag = "\"aa\"", .if_none_match = "\"a\""}, 0},
    {{.etag = "\"a,b\"", .if_none_match = "\"x\", \"a,b\""}, 304},
    {{.etag = "\"b\"", .if_none_match = "\"a,\"b\",c\""}, 0},
    {{.etag = "\"\"", .if_none_match = "\"\""}, 304},
    {{.etag = "\"\xe4\"", .if_none_match = "\"\xe4\""}, 304},
    {{.etag = NULL, .if_none_match = "*"}, 304},
    {{.etag = NULL, .if_none_match = "\"a\""}, 0},
    {{.method = "HEAD", .etag = "\"a\"", .if_none_match = "\"a\""}, 304},
    {{.method = "PUT", .etag = "\"a\"", .if_none_match = "\"a\""}, 412},
    {{.method = "PUT", .etag = "\"a\"", .if_none_match = "*"}, 412},
    {{.method = "DELETE", .etag = "\"a\"", .if_none_match = "\"b\""}, 0},
    {{.method = "get", .etag = "\"a\"", .if_none_match = "\"a\""}, 412},
    {{.if_modified_since = since}, 304},
    {{.if_modified_since = after}, 304},
    {{.if_modified_since = before}, 0},
    {{.if_modified_since = "Sunday, 06-Nov-94 08:49:37 GMT"}, 304},
    {{.if_modified_since = "Sun Nov  6 08:49:37 1994"}, 304},
    {{.if_modified_since = "yesterday"}, 0},
    {{.if_modified_since = ""}, 0},
    {{.if_modified_since = since, .mtime = WEFT__DATE_NONE}, 0},
    {{.method = "HEAD", .if_modified_since = since}, 304},
    {{.method = "POST", .if_modified_since = since}, 0},
    {{.etag = "\"a\"", .if_none_match = "\"b\"", .if_modified_since = since}, 0},
    {{.etag = "\"a\"", .if_none_match = "\"a\"", .if_modified_since = before}, 304},
    {{.etag = "W/\"a\"", .if_match = "W/\"a\""}, 412},
    {{.etag = "W/\"a\"", .if_match = "\"a\""}, 412},
    {{.etag = NULL, .if_match = "*"}, 0},
    {{.etag = NULL, .if_match = "\"a\""}, 412},
    {{.method = "PUT", .etag = "\"a\"", .if_match = "\"a\""}, 0},
    {{.method = "PUT", .etag = "\"a\"", .if_match = "\"b\""}, 412},
    {{.if_unmodified_since = since}, 0},
    {{.if_unmodified_since = after}, 0},
    {{.if_unmodified_since = before}, 412},
    {{.if_unmodified_since = "Thu, 01 Jan 1960 00:00:00 GMT"}, 412},
    {{.if_unmodified_since = "never"}, 0},
    {{.if_unmodified_since = before, .mtime = WEFT__DATE_NONE}, 0},
    {{.method = "PUT", .if_unmodified_since = before}, 412},
    {{.etag = "\"a\"", .if_match = "\"a\"", .if_unmodified_since = before}, 0},
    {{.etag = "\"a\"", .if_match = "\"b\"", .if_unmodified_since = since}, 412},
    {{.etag = "\"a\"", .if_match = "\"b\"", .if_none_match = "\"a\""}, 412},
    {{.etag = "\"a\"", .if_match = "\"a\"", .if_none_match = "\"a\""}, 304},
    {{.etag = "\"a\"", .if_unmodified_since = before, .if_none_match = "\"a\""}, 412},
    {{.if_unmodified_since = since, .if_modified_since = since}, 304},
    {{.if_unmodified_since = before, .if_modified_since = since}, 412},
};

TEST(conditions_are_checked_in_the_order_of_the_rfc)
{
    EACH_TEXT(assert_none_match_is_304, "\"a\"", "\"b\", \"a\"", "\"b\",\"c\" ,W/\"a\"",
              ",, \"a\",", "W/\"a\"", "*", " * ");
    EACH_TEXT(assert_none_match_passes, "\"b\"", "w/\"a\"", "\"A\"", "\"aa\"", "a", "\"a", "a\"",
              "x, \"a\"", "\"b\"\"a\"", "\"a\"x", "", "*, \"b\"");
    EACH_TEXT(assert_match_passes, "\"a\"", "\"b\", \"a\"", "W/\"a\", \"a\"", "*");
    EACH_TEXT(assert_match_is_412, "\"b\"", "W/\"a\"", "junk", "");
    for (size_t i = 0; i < COUNT_OF(conditions); i++)
        ck_assert_msg(check_condition(conditions[i].c) == conditions[i].result, "row %zu: %d", i,
                      check_condition(conditions[i].c));
}

TEST(if_range_allows_a_range_only_if_the_file_is_unchanged)
{
    static const struct {
        weft__conditional c;
        bool result;
    } cases[] = {
        {{.etag = "\"a\""}, true},
        {{.etag = NULL}, true},
        {{.method = "HEAD"}, false},
        {{.method = "POST"}, false},
        {{.etag = "\"a\"", .if_range = "\"a\""}, true},
        {{.etag = "\"a\"", .if_range = "\"b\""}, false},
        {{.etag = "\"a\"", .if_range = "W/\"a\""}, false},
        {{.etag = "W/\"a\"", .if_range = "W/\"a\""}, false},
        {{.etag = "W/\"a\"", .if_range = "\"a\""}, false},
        {{.etag = "\"a\"", .if_range = "\"a\", \"b\""}, false},
        {{.etag = "\"a\"", .if_range = "\"a\"x"}, false},
        {{.etag = "\"a\"", .if_range = "*"}, false},
        {{.etag = "\"a\"", .if_range = "a"}, false},
        {{.etag = "\"a\"", .if_range = ""}, false},
        {{.etag = NULL, .if_range = "\"a\""}, false},
        {{.if_range = since}, true},
        {{.if_range = "Sunday, 06-Nov-94 08:49:37 GMT"}, true},
        {{.if_range = after}, false},
        {{.if_range = before}, false},
        {{.if_range = since, .mtime = WEFT__DATE_NONE}, false},
        {{.if_range = since, .now = EXAMPLE + 1}, true},
        {{.if_range = since, .now = EXAMPLE}, false}, /* may change again within this second */
        {{.if_range = since, .now = EXAMPLE - 1}, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft__conditional c = with_defaults(cases[i].c);
        ck_assert_msg(weft__conditional_allows_range(&c) == cases[i].result, "row %zu", i);
    }
}

TEXT_CHECK(assert_accepts_gzip, weft__accept_gzip(text))
TEXT_CHECK(assert_refuses_gzip, !weft__accept_gzip(text))

TEST(gzip_is_accepted_if_accept_encoding_allows_it)
{
    EACH_TEXT(assert_accepts_gzip, "gzip", "GZIP", "x-gzip", "gzip, deflate, br", "br, gzip",
              "deflate,gzip;q=0.5", "gzip;q=1", "gzip;q=1.0", "gzip;q=1.000", "gzip;q=0.001",
              "gzip ; q=0.1", "gzip;Q=0.1", "gzip;\tq=0.1", "*", "*;q=0.1", "br;q=1.0, *;q=0.1",
              "gzip, *;q=0", "identity;q=0, gzip", "identity;q=0, *", "gzip;q=0.5, identity;q=0.5",
              "gzip;x=y", "gzip;x=y;q=0.5", "gzip;", ",gzip,", "identity, gzip", "gzip;q=1.",
              "gzip;q=0.5, identity;q=0.4");
    EACH_TEXT(assert_refuses_gzip, "", " ", ",", "identity", "br", "deflate", "gzip;q=0",
              "gzip;q=0.0", "gzip;q=0.000", "gzip ; q=0", "gzip;q=0, *", "*;q=0", "gzipp", "gzi",
              "x-gzi", "gzip;q=", "gzip;q=x", "gzip;q=2", "gzip;q=1.5", "gzip;q=1.001",
              "gzip;q=0.0001", "gzip;q=-1", "gzip;q=.5", "gzip;q=0,5", "gzip;q=10", "gzip;q=0x1",
              "identity;q=0", "identity;q=1, gzip;q=0.5", "gzip;q=0.4, identity;q=0.5",
              "br, identity;q=0.5, *;q=0.1", "gzip;x=y;q=0", "\"gzip\"", "x;gzip", "gzip x");
    ck_assert(!weft__accept_gzip(NULL));
}

static const char *best_of_all(const char *accept)
{
    static const char *const names[] = {"identity", "gzip", "br"};
    return names[weft__accept_choose(accept, 7)];
}

PAIR_CHECK(assert_coding, best_of_all(input))

TEST(the_coding_with_the_highest_q_is_chosen_and_brotli_of_equal_codings)
{
    EACH_PAIR(assert_coding, "br -> br", "gzip -> gzip", "gzip, br -> br", "br, gzip -> br",
              "BR;q=0.8, gzip;q=0.8 -> br", "br;q=0.5, gzip;q=0.8 -> gzip", "br;q=0, gzip -> gzip",
              "* -> br", "*, br;q=0 -> gzip", "*;q=0.5, gzip -> gzip", "*;q=0 -> identity",
              "gzip;q=0.2, *;q=0.5 -> br", "identity -> identity",
              "br;q=0.1, identity;q=0.2 -> identity", "deflate -> identity",
              "gzip;q=0, br;q=0 -> identity", "identity;q=0, br;q=0 -> identity", "zstd, br -> br",
              "br x -> identity", "br;q=2 -> identity");
    ck_assert_int_eq(weft__accept_choose(NULL, 7), WEFT__CODING_IDENTITY);
    ck_assert_int_eq(weft__accept_choose("br, gzip;q=0.1", 3), WEFT__CODING_GZIP);
    ck_assert_int_eq(weft__accept_choose("br, gzip", 1), WEFT__CODING_IDENTITY);
}
