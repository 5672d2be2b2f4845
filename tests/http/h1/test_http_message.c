/*
 * The HTTP/1 parser: tables of messages, each with the result in the notation of message_feed.h:
 * "!400" is a request head refused with that status
 * "!0" is a refused response head
 * "!body" is a refused body
 * "{..}" is a body
 * "more" is an incomplete message
 * "|" separates messages
 * Each row is fed at once, byte by byte, and in two parts for every split.
 */
#include "http/h1/message_feed.h"
#include "http/text/field.h"
#include "support/cases.h"
#include "support/suite.h"

typedef struct row {
    const char *data;
    size_t bytes;
    const char *outcome;
} row;

#define ROW(data, outcome)              \
    {                                   \
        data, sizeof(data) - 1, outcome \
    }

static const weft__message_limits default_limits = {8192, 32768, 100};

static void check_split(feed_kind kind, const weft__message_limits *limits, const row *r,
                        size_t split, size_t step)
{
    size_t bytes;
    char *result = feed_all(kind, limits, r->data, r->bytes, split, step, &bytes);
    ck_assert_msg(strcmp(result, r->outcome) == 0,
                  "split %zu, step %zu: %s\nresult: %s\nexpected: %s", split, step, r->data, result,
                  r->outcome);
    free(result);
}

static void check_rows(feed_kind kind, const weft__message_limits *limits, const row *r,
                       size_t count)
{
    for (; count-- > 0; r++) {
        check_split(kind, limits, r, 0, SIZE_MAX);
        check_split(kind, limits, r, 0, 1);
        for (size_t split = 1; split < r->bytes; split++)
            check_split(kind, limits, r, split, SIZE_MAX);
    }
}

/*
 * Check the message of prefix, row and suffix for each row. The byte 0xfe in a row stands for NUL.
 * An @ in the outcome stands for the row.
 */
static void check_each(feed_kind kind, const char *form, const char *prefix, const char *suffix,
                       const char *const rows[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[512];
        size_t before = strcspn(form, "@");
        bool has_row = form[before] == '@';
        const char *expected =
            format("%.*s%s%s", (int)before, form, has_row ? rows[i] : "", form + before + has_row);
        int bytes = snprintf(text, sizeof text, "%s%s%s", prefix, rows[i], suffix);
        ck_assert_uint_lt((size_t)bytes, sizeof text);
        for (char *nul = text; (nul = strchr(nul, '\xfe')) != NULL;)
            *nul++ = '\0';
        check_rows(kind, &default_limits, &(row){text, (size_t)bytes, expected}, 1);
    }
}

#define EACH(kind, outcome, prefix, suffix, ...)                                  \
    check_each(kind, outcome, prefix, suffix, (const char *const[]){__VA_ARGS__}, \
               COUNT_OF(((const char *const[]){__VA_ARGS__})))

#define REQUESTS(outcome, ...) EACH(FEED_REQUEST, outcome, __VA_ARGS__)
#define REFUSED(...) REQUESTS("!400", __VA_ARGS__)
#define BAD_CHUNKS(...) REQUESTS("POST / 1.1 chunked !body", CHUNKS(""), "", __VA_ARGS__)

/* The rows of a table, and their number. */
#define ROWS(...) (const row[]){__VA_ARGS__}, COUNT_OF(((const row[]){__VA_ARGS__}))
#define CHECK_ROWS(kind, ...) check_rows(kind, &default_limits, ROWS(__VA_ARGS__))

/* A request with these fields, beside a valid request line and Host. */
#define LINE "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define WITH(fields) LINE HOST fields "\r\n"
#define POST_LINE "POST / HTTP/1.1\r\n"
#define POST(fields, body) POST_LINE HOST fields "\r\n" body
#define CHUNKS(body) POST("Transfer-Encoding: chunked\r\n", body)
#define TARGET(target) "GET " target " HTTP/1.1\r\n" HOST "\r\n"
#define HOSTED(host) LINE "Host: " host "\r\n\r\n"

TEST(valid_requests_are_accepted)
{
    CHECK_ROWS(FEED_REQUEST,
               ROW("HEAD /a/b?c=d&e HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /a/b?c=d&e 1.1"),
               ROW("DELETE / HTTP/1.1\r\nhOST: a\r\n\r\n", "DELETE / 1.1"),
               ROW("M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n", "M-SEARCH / 1.1"),
               ROW(WITH("") WITH(""), "GET / 1.1 | GET / 1.1"),
               ROW(WITH("") "\r\n" WITH("") "GET", "GET / 1.1 | GET / 1.1 | more"));
    REQUESTS("GET / 1.1", LINE HOST, "\r\n", "",
             "A:b\r\nC: d\r\nE:\tf\r\nG:  h \t \r\nI:\r\nJ: \r\n", "A: \x80\xff \"'!\r\n",
             "!#$%&'*+-.^_`|~09azAZ: b\r\n", "A: b: c\r\n");
    REQUESTS("GET / 1.0 close", "", "", "GET / HTTP/1.0\r\n\r\n",
             "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    REQUESTS("GET / 1.1", "", "", "\r\n" WITH(""), "\r\n\r\n" WITH(""));
    REQUESTS("more", "", "", "GET / HTTP/1.1\r\nHost: a\r\n", "G", "\r", "\r\n");
}

TEST(a_line_must_end_with_crlf)
{
    REFUSED("", "", "GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\rHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n", "GET / HTTP/1.1\r\nHost: a\n\n",
            "GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\n\n", "GET / HTTP/1.0\r\n\n",
            "GET / HTTP/1.0\n\n", "\n" WITH(""), "\n", "\r\r\n" WITH(""),
            "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", "\r\n\n" WITH(""), "\r\n\r\n\r\n" WITH(""),
            " \r\n" WITH(""));
    REFUSED(LINE HOST, "\r\n", "A: b\rC: d\r\n", "A: b\nC: d\r\n", "A: b\n\rC: d\r\n", "A\r: b\r\n",
            "A\n: b\r\n", "A:\rb\r\n", "A:\nb\r\n", "A:\n", "A: \n", "Connection: close\n",
            "Connection: close\rx\r\n", "Content-Length: 1\n", "Transfer-Encoding: chunked\n",
            "Upgrade: x\n");
}

TEST(a_field_is_a_name_a_colon_and_a_value)
{
    CHECK_ROWS(FEED_REQUEST, ROW(WITH("A: b\r\n\r\n c"), "GET / 1.1 | !400"));
    REFUSED(LINE HOST, "\r\n", "A : b\r\n", "A\t: b\r\n", ": b\r\n", "A\r\n", "A b: c\r\n",
            "A(b): c\r\n", "A\x80: c\r\n", "A\x01: c\r\n", "A\376: c\r\n", "\"A\": c\r\n",
            "A/b: c\r\n", "A@: c\r\n", "{A}: c\r\n", "A: b\r\n c\r\n", "A: b\r\n\tc\r\n",
            "A: b\r\n \r\n", "A:\r\n b\r\n", "Content-Length:\r\n 0\r\n",
            "Transfer-Encoding:\r\n chunked\r\n", "Transfer-Encoding: chunked\r\n , identity\r\n",
            "Connection: keep-alive,\r\n close\r\n", "A: \376\r\n", "A: b\376c\r\n", "A: b\x01\r\n",
            "A: b\x0b\r\n", "A: b\x0c\r\n", "A: b\x1f\r\n", "A: b\x7f\r\n", "A: b\x08\r\n",
            "Connection: \x01\r\n", "Connection: close\x7f\r\n", "Connection: \376close\r\n",
            "Upgrade: \x01\r\n");
    REFUSED("", "", LINE ": b\r\n\r\n", LINE ":\r\n\r\n", LINE " Host: a\r\n\r\n",
            LINE "\tHost: a\r\n\r\n", LINE " \r\nHost: a\r\n\r\n", LINE " a\r\nHost: a\r\n\r\n",
            "\376" WITH(""), "GET / HTTP/1.1\r\n\376Host: a\r\n\r\n");
}

TEST(the_request_line_has_one_space_on_each_side_of_the_target)
{
    REFUSED("", "\r\n" HOST "\r\n", "GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET\t/ HTTP/1.1",
            "GET /\tHTTP/1.1", "GET / HTTP/1.1 ", "GET / HTTP/1.1\t", " GET / HTTP/1.1",
            "\tGET / HTTP/1.1", "GET / x HTTP/1.1", "GET\x0b/ HTTP/1.1", "GET\376/ HTTP/1.1",
            "GET HTTP/1.1", "GET  HTTP/1.1", "GET", "/ HTTP/1.1");
    REFUSED("", "", "GET \r\n", "HTTP/1.1 200 OK\r\n\r\n");
}

#define METHOD_32 "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"

TEST(any_token_is_a_method)
{
    CHECK_ROWS(FEED_REQUEST, ROW("FOO / HTTP/1.0\r\n\r\n", "FOO / 1.0 close"),
               ROW("\r\nFOO / HTTP/1.1\r\n" HOST "\r\n", "FOO / 1.1"),
               ROW("FOO http://a/b HTTP/1.1\r\n" HOST "\r\n", "FOO http://a/b 1.1"),
               ROW(METHOD_32 " / HTTP/1.1\r\n" HOST "\r\n", METHOD_32 " / 1.1"),
               ROW("FOO / HTTP/1.1\r\n" HOST "\r\nBAR /b HTTP/1.1\r\n" HOST "\r\n" WITH(""),
                   "FOO / 1.1 | BAR /b 1.1 | GET / 1.1"));
    REQUESTS("@ / 1.1", "", " / HTTP/1.1\r\n" HOST "\r\n", "get", "Get", "FOO", "F", "GETX", "GE",
             "HEADS", "CONNECTED", "X!#$%&'*+-.^_`|~", "DESCRIBE", "QUERY", "SOURCE");
    REQUESTS("more", "", "", "FOO", "FOO / HTTP/1.1\r");
}

TEST(a_method_unknown_to_llhttp_does_not_change_the_framing)
{
    CHECK_ROWS(FEED_REQUEST,
               ROW("FOO / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc" WITH(""),
                   "FOO / 1.1 length=3 {abc} | GET / 1.1"),
               ROW("FOO / HTTP/1.1\r\n" HOST
                   "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" WITH(""),
                   "FOO / 1.1 chunked {abc} | GET / 1.1"));
    REFUSED("", "",
            "FOO / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "FOO / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            "FOO / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n",
            "FOO / HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\nabc",
            "FOO / HTTP/1.1\r\n" HOST "A : b\r\n\r\n",
            "FOO / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", "FOO / HTTP/1.1\r\n\r\n");
    REFUSED("", "\r\n" HOST "\r\n", "FOO a:80 HTTP/1.1", "FOO * HTTP/1.1", "FOO /%zz HTTP/1.1");
}

TEST(an_invalid_method_is_refused)
{
    CHECK_ROWS(FEED_REQUEST, ROW("PRI / HTTP/1.1\r\n" HOST "\r\n", "!501"),
               ROW("FOO / HTTP/2.0\r\n", "!505"));
    REQUESTS("!501", "", "", METHOD_32 "6 / HTTP/1.1\r\n" HOST "\r\n",
             "PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n");
    REFUSED("", "", "FOO / HTTP/1.1\n", "FOO /\r\n", "FOO\r\n", "FOO  / HTTP/1.1\r\n",
            "FOO / HTTP/x\r\n", "FOO /\x01 HTTP/1.1\r\n", "FOO /< HTTP/1.1\r\n",
            "\x16\x03\x01\x02");
    REFUSED("", "\r\n" HOST "\r\n", "G(T / HTTP/1.1", "\"GET\" / HTTP/1.1", "G\376T / HTTP/1.1",
            "G\x80T / HTTP/1.1", "GET: / HTTP/1.1");
}

TEST(versions_beyond_1_x_are_not_supported)
{
    REQUESTS("GET / 1.1", "", "\r\n" HOST "\r\n", "GET / HTTP/1.2", "GET / HTTP/1.9");
    REFUSED("", "", "GET / HTTP/1.2\r\n\r\n", "GET /\r\n", "GET / \r\n", "GET /\n");
    REQUESTS("!505", "", "\r\n" HOST "\r\n", "GET / HTTP/2.0", "GET / HTTP/3.0", "GET / HTTP/9.9",
             "GET / HTTP/0.9", "GET / HTTP/0.0");
    REQUESTS("!505", "", "", "GET / HTTP/2.0\r\nBad Name: x\r\n",
             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/5.6", "FOO / HTTP/5.6",
             "GET / HTTP/2.0 \r\n");
    REQUESTS("more", "", "", "GET / HTTP/1.1", "GET / HTTP/5");
    REFUSED("", "\r\n" HOST "\r\n", "GET / HTTP/2", "GET / HTTP/1", "GET / HTTP/1.",
            "GET / HTTP/.1", "GET / HTTP/1.10", "GET / HTTP/1.1.1", "GET / HTTP/11",
            "GET / HTTP/1.11", "GET / HTTP/1.01", "GET / HTTP/01.1", "GET / HTTP/11.1",
            "GET / HTTP/+1.1", "GET / HTTP/1,1", "GET / HTTP/1.x", "GET / HTTP 1.1",
            "GET / HTTP/ 1.1", "GET / http/1.1", "GET / Http/1.1", "GET / HTTPS/1.1",
            "GET / XTTP/1.1", "GET / HTP/1.1", "GET / RTSP/1.0", "DESCRIBE / RTSP/1.0",
            "SOURCE / ICE/1.0", "GET /");
}

TEST(targets_have_the_form_that_their_method_requires)
{
    CHECK_ROWS(FEED_REQUEST, ROW("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * 1.1"),
               ROW("OPTIONS / HTTP/1.1\r\n" HOST "\r\n", "OPTIONS / 1.1"),
               ROW("CONNECT b:443 HTTP/1.1\r\n" HOST "\r\nxyz", "CONNECT b:443 1.1 upgrade +3"),
               ROW("CONNECT [::1]:443 HTTP/1.1\r\n" HOST "\r\n", "CONNECT [::1]:443 1.1 upgrade"),
               ROW("GET http://b/ HTTP/1.1\r\n\r\n", "!400"));
    REQUESTS("GET @ 1.1", "GET ", " HTTP/1.1\r\n" HOST "\r\n", "//a//b", "/a%20b%2F",
             "/-._~!$&'()*+,;=:@", "/|[]{}^`", "/?a=|[]{}^`\\/?%", "/?", "/??", "http://b/c?d",
             "http://b", "http://b?c", "HTTPS://[::1]:80/", "http://b:/");
    REFUSED("GET ", " HTTP/1.1\r\n" HOST "\r\n", "*", "*a", "a", "a:80", "a/b", "?a", "ftp://b/",
            "http:/b/", "http:///b", "http://?b", "http://", "http://:80/", "http://u@b/",
            "http://u:p@b/", "http://b c/", "http://b:x/", "http://b:99999/", "http://[::g]/",
            "http://[::1/", "http://b\\c/", "http://b/#c", "httpx://b/", "file:///etc/passwd");
    REFUSED("", "\r\n" HOST "\r\n", "OPTIONS ** HTTP/1.1", "OPTIONS */ HTTP/1.1",
            "CONNECT / HTTP/1.1", "CONNECT * HTTP/1.1", "CONNECT b HTTP/1.1", "CONNECT b: HTTP/1.1",
            "CONNECT :1 HTTP/1.1", "CONNECT b:1/ HTTP/1.1", "CONNECT b:x HTTP/1.1",
            "CONNECT b:65536 HTTP/1.1", "CONNECT u@b:1 HTTP/1.1", "CONNECT http://b:1 HTTP/1.1");
}

TEST(characters_that_are_invalid_in_a_uri_are_refused)
{
    REFUSED("GET ", " HTTP/1.1\r\n" HOST "\r\n", "/#", "/a#b", "/?#", "/\"", "/<", "/>", "/?\"",
            "/?<", "/\\", "/\x7f", "/\x01", "/\376", "/\x80", "/?\xc3\xa9", "/a\tb", "/a\x0c", "/%",
            "/%2", "/%zz", "/%2g?a", "/%?ab");
}

TEST(an_http_1_1_request_has_exactly_one_host)
{
    CHECK_ROWS(FEED_REQUEST, ROW("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", "OPTIONS * 1.1"));
    REQUESTS("GET / 1.1", LINE "Host: ", "\r\n\r\n", "example.org", "example.org:8080",
             "example.org:", "example.org:65535", "127.0.0.1:80", "[::1]", "[fe80::1]:80",
             "[::ffff:127.0.0.1]", "a_b-c.d", "a%41", "  a  ");
    REFUSED("", "", LINE "\r\n", LINE "A: b\r\n\r\n", LINE "Host: a\r\nHost: a\r\n\r\n",
            LINE "Host: a\r\nA: b\r\nhost: c\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.0\r\nHost:\r\n\r\n", LINE "Host:\r\n\r\n");
    REFUSED(LINE "Host: ", "\r\n\r\n", "", "a b", "a, b", "a/b", "a?b", "a#b", "a@b", "a\\b", "a<b",
            "a\"b", "a|b", "http://a", ":80", "a:b", "a:80:80", "a:-1", "a:8 0", "a:65536",
            "a:4294967376", "a:18446744073709551696", "::1", "[::1", "[::1]x", "[]", "[a]",
            "[127.0.0.1]", "[fe80::1%25eth0]",
            "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", "a%4", "a%zz", "\xc3\xa9");
}

TEST(a_content_length_is_one_decimal_number)
{
    CHECK_ROWS(
        FEED_REQUEST, ROW(POST("content-length:5\r\n", "hello"), "POST / 1.1 length=5 {hello}"),
        ROW(POST("Content-Length: 5\r\n", "hell"), "POST / 1.1 length=5 {hell} more"),
        ROW(POST("Content-Length: 5\r\n", ""), "POST / 1.1 length=5 more"),
        ROW(POST("Content-Length: 3\r\n", "\r\n\n") WITH(""),
            "POST / 1.1 length=3 {\r\n\n} | GET / 1.1"),
        ROW(POST("Content-Length: 1\r\n", "x") POST("Content-Length: 2\r\n", "yz") WITH(""),
            "POST / 1.1 length=1 {x} | POST / 1.1 length=2 {yz} | GET / 1.1"),
        ROW(WITH("Content-Length: 2\r\n") "ab", "GET / 1.1 length=2 {ab}"),
        ROW("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", "POST / 1.0 close length=2 {ab}"),
        ROW(POST("Content-Length: 9223372036854775807\r\n", "a"),
            "POST / 1.1 length=9223372036854775807 {a} more"));
    REQUESTS("POST / 1.1 length=5 {hello}", POST_LINE HOST "Content-Length: ", "\r\n\r\nhello", "5",
             "005 ");
    REQUESTS("POST / 1.1", "", "", POST("Content-Length: 0\r\n", ""), POST("", ""),
             POST("Content_Length: 5\r\n", ""));
    REFUSED("", "", POST("Content-Length: 9223372036854775808\r\n", "a"),
            POST("Content-Length: 18446744073709551615\r\n", "a"),
            POST("Content-Length: 18446744073709551616\r\n", "a"),
            POST("Content-Length: 99999999999999999999999999\r\n", "a"),
            POST("Content-Length: 0\r\ncontent-LENGTH: 0\r\n", ""),
            POST("Content-Length: -0\r\n", ""),
            POST("Content-Length: \x0b"
                 "5\r\n",
                 "hello"),
            POST("Content-Length:\r\n", "hello"), POST("Content-Length : 5\r\n", "hello"),
            POST("Content-Length\r\n", "hello"));
    REFUSED(POST_LINE HOST "Content-Length: ", "\r\n\r\nhello", "18446744073709551621",
            "5\r\nContent-Length: 5", "5\r\nContent-Length: 6", "5, 5", "5,5", "5,", ",5", "5 5",
            "+5", "-5", "0x5", "5.0", "5e0", "5;", "\"5\"", "a", "5a", "5\x0b", "5\376", "");
}

TEST(the_only_transfer_encoding_is_chunked)
{
    CHECK_ROWS(FEED_REQUEST, ROW(CHUNKS("5\r\nhello\r\n0\r\n\r\n"), "POST / 1.1 chunked {hello}"),
               ROW(POST("transfer-encoding: CHUNKED \r\n", "0\r\n\r\n"), "POST / 1.1 chunked"),
               ROW(POST("Transfer_Encoding: chunked\r\n", ""), "POST / 1.1"));
    REFUSED("", "", POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
            POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            POST("Content-Length: 5\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"),
            POST("Content-Length: 5\r\nTransfer-Encoding:\r\n", "0\r\n\r\n"),
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            POST("Transfer-Encoding: \x0b"
                 "chunked\r\n",
                 ""),
            POST("Transfer-Encoding:\r\n", ""), POST("Transfer-Encoding : chunked\r\n", ""),
            POST("Transfer-Encoding\t: chunked\r\n", ""),
            POST(" Transfer-Encoding: chunked\r\n", ""));
    REQUESTS("!501", POST_LINE HOST "Transfer-Encoding: ", "\r\n\r\n", "gzip, chunked",
             "gzip;q=1, chunked", "identity, chunked", "gzip\r\nTransfer-Encoding: chunked");
    REFUSED(POST_LINE HOST "Transfer-Encoding: ", "\r\n\r\n", "gzip", "identity", "chunked, gzip",
            "chunked, identity", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked",
            "chunked\r\nTransfer-Encoding: identity", "chunked\r\nA: b\r\nTransfer-Encoding: gzip",
            "identity\r\nTransfer-Encoding: chunked, gzip", "xchunked", "chunkedx", "chunke",
            "x chunked", "chunked x", "gzip chunked", "chunked;foo", "chunked; q=1", "chunked,",
            ",chunked", ", chunked", "\"chunked\"", "'chunked'", "chunked\x0b", "chunked\376",
            "\376chunked", "", "ch\xc3\xbcnked");
}

TEST(valid_chunks_are_accepted)
{
    CHECK_ROWS(
        FEED_REQUEST, ROW(CHUNKS("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), "POST / 1.1 chunked {abc}"),
        ROW(CHUNKS("00000000000000000002\r\n\r\n\r\n0\r\n\r\n"), "POST / 1.1 chunked {\r\n}"),
        ROW(CHUNKS("1\r\na\r\n0\r\n\r\n") WITH(""), "POST / 1.1 chunked {a} | GET / 1.1"),
        ROW(CHUNKS("0\r\n\r\n") CHUNKS("1\r\nx\r\n0\r\nA: b\r\n\r\n") CHUNKS("0\r\n\r\n"),
            "POST / 1.1 chunked | POST / 1.1 chunked {x} A=b | POST / 1.1 chunked"),
        ROW(CHUNKS("1;a=b\r\nx\r\n0;c=d;e=f\r\nA: b;c\r\n\r\n") WITH(""),
            "POST / 1.1 chunked {x} A=b;c | GET / 1.1"));
    REQUESTS("POST / 1.1 chunked {0123456789}", CHUNKS(""), "", "a\r\n0123456789\r\n00\r\n\r\n",
             "a;x=\"\xff b\t\" ; c\r\n0123456789\r\n0\r\n\r\n");
    REQUESTS("POST / 1.1 chunked {x}", CHUNKS(""), "", "1;a=b;c=\"d e;\\\"\";f\r\nx\r\n0;g\r\n\r\n",
             "1; a = b ;\tc = \"\" ; d ;e\r\nx\r\n0\r\n\r\n");
}

TEST(malformed_chunks_are_refused)
{
    CHECK_ROWS(FEED_REQUEST, ROW(CHUNKS(""), "POST / 1.1 chunked more"),
               ROW(CHUNKS("2\r\na\r\n0\r\n\r\n"), "POST / 1.1 chunked {a\r} !body"));
    REQUESTS("POST / 1.1 chunked {a} more", CHUNKS(""), "", "1\r\na\r\n", "1\r\na\r\n0\r\n");
    REQUESTS("POST / 1.1 chunked !body", CHUNKS(""), "\r\na\r\n0\r\n\r\n", "+1", "-1", "0x1", "1h",
             " 1", "\t1", "1 ", "1\t", "1 ;a", "1_0", "1.0", "1,1", "10000000000000001", "1;",
             "1; ", "1;;a", "1;a;", "1;=b", "1;a=", "1;a=b=c", "1;a b", "1;a=b c", "1;a ",
             "1;a=\"b\"c", "1;\"a\"", "1;a=b\"c\"", "1;a\rb", "1;a=b\nc", "1;a=\"\n\"",
             "1;a=\"\r\n\"", "1;a=\"\\\"", "1;a=\"\\\n\"", "1;a\xff", "1;a,b", "1;\x01", "1;a\376",
             "1;a=\"\x7f\"", "1\376");
    BAD_CHUNKS("\r\n", ";a\r\n", "g\r\n", "10000000000000000\r\na", "fffffffffffffffff\r\na",
               "1\na\r\n0\r\n\r\n", "1\ra\r\n0\r\n\r\n", "0\n\r\n", "0\r\n\n", "0\r\n\rX", "0\n\n",
               "0\r\r\n\r\n", "1;a\na\r\n0\r\n\r\n", "1;a=\"b\n", "1;a=\"b\"\na\r\n0\r\n\r\n");
    REQUESTS("POST / 1.1 chunked {a} !body", CHUNKS(""), "", "1\r\na\n0\r\n\r\n",
             "1\r\na\r0\r\n\r\n", "1\r\na0\r\n\r\n", "1\r\naXX0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n",
             "1\r\na\r\n\r\n0\r\n\r\n");
}

TEST(trailers_must_not_affect_the_framing)
{
    CHECK_ROWS(FEED_REQUEST,
               ROW(CHUNKS("0\r\nA: b\r\nC:d \t\r\nE:\r\n\r\n"), "POST / 1.1 chunked A=b C=d E="),
               ROW(CHUNKS("1\r\nx\r\n0\r\nA: b\r\n\r\n") WITH(""),
                   "POST / 1.1 chunked {x} A=b | GET / 1.1"),
               ROW(CHUNKS("0\r\nConnection: close\r\nUpgrade: x\r\n\r\n") WITH(""),
                   "POST / 1.1 chunked Connection=close Upgrade=x | GET / 1.1"),
               ROW(CHUNKS("0\r\nA: b\r\n"), "POST / 1.1 chunked more"));
    BAD_CHUNKS("0\r\nContent-Length: 5\r\n\r\n", "0\r\ncontent-length:\r\n\r\n",
               "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nTransfer-Encoding: gzip\r\n\r\n",
               "0\r\nHost: b\r\n\r\n", "0\r\nA : b\r\n\r\n", "0\r\n A: b\r\n\r\n",
               "0\r\nA: b\r\n c\r\n\r\n", "0\r\nA: b\r\n\tc\r\n\r\n", "0\r\nA:\r\n b\r\n\r\n",
               "0\r\nA b\r\n\r\n", "0\r\nA\r\n\r\n", "0\r\n: b\r\n\r\n", "0\r\nA: b\n\r\n",
               "0\r\nA: b\r\n\n", "0\r\nA: b\rc\r\n\r\n", "0\r\nA: \x01\r\n\r\n",
               "0\r\nA: b\376\r\n\r\n", "0\r\nA\x80: b\r\n\r\n", "0\r\nGET / HTTP/1.1\r\n\r\n");
}

TEST(connections_are_keep_alive_unless_a_field_or_http_1_0_closes_them)
{
    CHECK_ROWS(FEED_REQUEST,
               ROW(WITH("Connection: close\r\n") WITH(""), "GET / 1.1 close | GET / 1.1"));
    REQUESTS("GET / 1.1 close", LINE HOST, "\r\n", "Connection: close\r\n", "connection: CLOSE\r\n",
             "Connection: foo, close\r\n", "Connection: close , foo\r\n",
             "Connection: ,,close,\r\n", "Connection: foo\r\nConnection: close\r\n",
             "Connection: close\r\nConnection: keep-alive\r\n");
    REQUESTS("GET / 1.1", LINE HOST, "\r\n", "Connection: keep-alive\r\n", "Connection: closed\r\n",
             "Connection: xclose, clos, close x\r\n", "Connection:\r\n",
             "Proxy-Connection: close\r\n");
    REQUESTS("GET / 1.0", "", "", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
             "GET / HTTP/1.0\r\nConnection: foo, Keep-Alive\r\n\r\n");
    REQUESTS("GET / 1.0 close", "", "", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
             "GET / HTTP/1.0\r\nConnection: keep-alivex\r\n\r\n");
}

TEST(an_upgrade_requires_upgrade_and_connection)
{
    CHECK_ROWS(
        FEED_REQUEST,
        ROW(WITH("Connection: upgrade\r\nUpgrade: x\r\n") "abc", "GET / 1.1 upgrade +3"),
        ROW(WITH("Upgrade: x\r\nConnection: keep-alive, Upgrade\r\n"), "GET / 1.1 upgrade"),
        ROW("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "GET / 1.0 close"),
        ROW(POST("Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n", "abcde"),
            "POST / 1.1 upgrade length=3 {abc} +2"),
        ROW(POST("Connection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n",
                 "1\r\na\r\n0\r\n\r\nXY"),
            "POST / 1.1 upgrade chunked {a} +2"),
        ROW("CONNECT b:1 HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabcd",
            "CONNECT b:1 1.1 upgrade length=3 {abc} +1"),
        ROW("CONNECT b:1 HTTP/1.1\r\n" HOST
            "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nXY",
            "CONNECT b:1 1.1 upgrade chunked {a} +2"),
        ROW("CONNECT b:1 HTTP/1.0\r\n\r\n", "CONNECT b:1 1.0 close upgrade"));
    REQUESTS("GET / 1.1 | GET / 1.1", "", "", WITH("Upgrade: x\r\n") WITH(""),
             WITH("Connection: upgrade\r\n") WITH(""));
}

TEST(only_100_continue_can_be_expected)
{
    CHECK_ROWS(FEED_REQUEST,
               ROW(POST("Content-Length: 1\r\nExpect: 100-continue\r\n", "a"),
                   "POST / 1.1 expect length=1 {a}"),
               ROW(POST("expect: 100-CONTINUE\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
                   "POST / 1.1 expect chunked"),
               ROW(POST("Expect: x\r\nContent-Length: x\r\n", ""), "!400"),
               ROW("POST / HTTP/1.0\r\nExpect: x\r\n\r\n", "POST / 1.0 close"),
               ROW("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
                   "POST / 1.0 close length=1 {a}"));
    REQUESTS("POST / 1.1", "", "", POST("Expect: 100-continue\r\n", ""),
             POST("Expect: 100-continue\r\nContent-Length: 0\r\n", ""));
    REQUESTS("!417", "", "", POST("Expect: 200-ok\r\n", ""),
             POST("Expect: 100-continue, x\r\n", ""),
             POST("Expect: 100-continue\r\nExpect: x\r\n", ""), POST("Expect:\r\n", ""),
             POST("Expect: 100-continue;q\r\n", ""));
}

#define OK "HTTP/1.1 200 OK\r\n"

TEST(a_response_ends_according_to_its_framing)
{
    CHECK_ROWS(
        FEED_RESPONSE, ROW(OK "Content-Length: 2\r\n\r\nab", "200 1.1 length=2 {ab}"),
        ROW(OK "Content-Length: 0\r\n\r\n" OK "Content-Length: 1\r\n\r\nx",
            "200 1.1 | 200 1.1 length=1 {x}"),
        ROW(OK "Content-Length: 2\r\n\r\na", "200 1.1 length=2 {a} more"),
        ROW(OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\n\r\n",
            "200 1.1 chunked {a} A=b"),
        ROW(OK "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "200 1.1 chunked {a} more"),
        ROW(OK "\r\n", "200 1.1 close endless end"),
        ROW(OK "\r\nabc\r\n\r\n", "200 1.1 close endless {abc\r\n\r\n} end"),
        ROW("HTTP/1.0 200 OK\r\n\r\nabc", "200 1.0 close endless {abc} end"),
        ROW("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "200 1.0 close length=1 {a}"),
        ROW("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na",
            "200 1.0 length=1 {a}"),
        ROW(OK "Connection: close\r\nContent-Length: 1\r\n\r\na", "200 1.1 close length=1 {a}"),
        ROW("HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 1\r\n\r\na",
            "100 1.1 | 200 1.1 length=1 {a}"),
        ROW("HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "103 1.1 | 204 1.1"),
        ROW("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
            "101 1.1 upgrade +3"),
        ROW(OK "Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\na",
            "200 1.1 length=1 {a}"),
        ROW("HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", "999 1.1"),
        ROW(OK "Host: \xff\r\nHost: b\r\nExpect: x\r\nContent-Length: 0\r\n\r\n", "200 1.1"),
        ROW("HTTP/1.1 2", "more"));
    EACH(FEED_RESPONSE, "204 1.1", "", "", "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
         "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n");
    EACH(FEED_RESPONSE, "304 1.1", "", "", "HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n",
         "HTTP/1.1 304 Not\r\n\r\n");
    EACH(FEED_RESPONSE, "200 1.1", "", "", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 200 \x80 b\tc\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.2 200 x\r\nContent-Length: 0\r\n\r\n");
}

TEST(an_ambiguous_response_is_refused)
{
    EACH(FEED_RESPONSE, "!0", OK, "", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
         "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
         "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", "Content-Length: 1, 1\r\n\r\na",
         "Content-Length: x\r\n\r\na", "Transfer-Encoding: gzip\r\n\r\na",
         "Transfer-Encoding: gzip, chunked\r\n\r\na", "Transfer-Encoding: chunked, gzip\r\n\r\na",
         "A: b\nContent-Length: 0\r\n\r\n", "A: b\r\n c\r\n\r\n", "A : b\r\n\r\n", " A: b\r\n\r\n",
         "A: b\376\r\n\r\n", "Content-Length: 0\r\n\n");
    EACH(FEED_RESPONSE, "!0", "", "",
         "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 200 OK\r\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 O\x01K\r\n\r\n",
         "HTTP/1.1 200 O\376K\r\n\r\n", "HTTP/1.1 200 O\rK\r\n\r\n", "HTTP/1.1 200OK\r\n\r\n",
         "HTTP/1.1 200\tOK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1\t200 OK\r\n\r\n",
         "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n",
         "HTTP/1.1 000 OK\r\n\r\n", "HTTP/1.1 -20 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
         "HTTP/1.1 OK\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n",
         "HTTP/0.9 200 OK\r\n\r\n", "HTTP/1.10 200 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n",
         "ICY 200 OK\r\n\r\n", "RTSP/1.0 200 OK\r\n\r\n", "\r\n" OK "\r\n", " " OK "\r\n",
         "GET / HTTP/1.1\r\n\r\n", "<html>");
}

TEST(responses_to_head_and_connect_have_no_body)
{
    CHECK_ROWS(FEED_RESPONSE_TO_HEAD, ROW(OK "Content-Length: 5\r\n\r\n", "200 1.1"),
               ROW(OK "Transfer-Encoding: chunked\r\n\r\n", "200 1.1"), ROW(OK "\r\n", "200 1.1"),
               ROW("HTTP/1.1 100 C\r\n\r\n" OK "Content-Length: 5\r\n\r\n", "100 1.1 | 200 1.1"),
               ROW(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "!0"));
    CHECK_ROWS(FEED_RESPONSE_TO_CONNECT, ROW(OK "\r\nabc", "200 1.1 upgrade +3"),
               ROW(OK "Content-Length: 5\r\n\r\nabc", "200 1.1 upgrade +3"),
               ROW("HTTP/1.1 299 x\r\nTransfer-Encoding: chunked\r\n\r\nabc", "299 1.1 upgrade +3"),
               ROW("HTTP/1.1 407 x\r\nContent-Length: 1\r\n\r\na", "407 1.1 length=1 {a}"));
}

TEST(limits_do_not_depend_on_the_split)
{
    /* A line of 20 bytes, a head of 60 bytes, and 3 fields. */
    static const weft__message_limits small_limits = {20, 60, 3};
    check_rows(
        FEED_REQUEST, &small_limits,
        ROWS(ROW("GET /345678 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /345678 1.1"),
             ROW("GET /3456789 HTTP/1.1\r\nHost: a\r\n\r\n", "!414"),
             ROW("\r\n\r\nGET /345678 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /345678 1.1"),
             ROW("\r\n\r\nGET /3456789 HTTP/1.1\r\nHost: a\r\n\r\n", "!414"),
             ROW("GET /3456789012345678901234567890", "!414"),
             ROW("GETGETGETGETGETGETGETGETGETGET", "!400"), ROW("GET /345678 HTTP/1.1\r\r", "!414"),
             ROW("FOO /345678901234567", "more"), ROW("FOO /3456789012345678901234567890", "!414"),
             ROW("FOO /34567890123456789 HTTP/1.1\r\n", "!414"), ROW("FOO /345\x01", "!400"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA: 45678901234567890123456789012\r\n\r\n", "!431"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA: 4567890123456789012345678901\r\n\r\n",
                 "GET / 1.1"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA: 34567890123456789012345678901234567890", "!431"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA: 3456789012345678901234567890 xyz12\x01", "!431"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA: 3456789\x01", "!400"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\n\r\n", "GET / 1.1"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\n\r\n", "!431"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\nD: d\r\n\r\n", "!431"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nCD\xaa: d\r\n\r\n", "!400"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nCD: d", "more"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nCD: d\x01\r\n\r\n", "!400"),
             ROW("GET / HTTP/3.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\n\r\n", "!505"),
             ROW("GET /< HTTP/1.1\r\nHost: a\r\nA: 34567890123456789012345678901234567890", "!400"),
             ROW("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n"
                 "01234567890123456789012345678901234567890123456789",
                 "GET / 1.1 length=50 {01234567890123456789012345678901234567890123456789}")));
}

/* Return a message with chunks that have an extension of that length, and with trailers. */
static char *new_chunked_message(size_t chunks, size_t extension, size_t trailers, size_t *bytes)
{
    char *text;
    FILE *f = open_memstream(&text, bytes);
    fputs(CHUNKS(""), f);
    for (size_t i = 0; i < chunks; i++)
        fprintf(f, "1;%0*d\r\nx\r\n", (int)extension, 0);
    fputs("0\r\n", f);
    for (size_t i = 0; i < trailers; i++)
        fputs("A: b\r\n", f);
    fputs("\r\n", f);
    fclose(f);
    return text;
}

static bool are_chunks_accepted(size_t chunks, size_t extension, size_t trailers, size_t step)
{
    static const weft__message_limits limits = {100, 100, 4};
    size_t bytes, outcome_bytes;
    char *text = new_chunked_message(chunks, extension, trailers, &bytes);
    char *result = feed_all(FEED_REQUEST, &limits, text, bytes, 0, step, &outcome_bytes);
    bool is_refused = strstr(result, "!body") != NULL;
    free(text);
    free(result);
    return !is_refused;
}

TEST(extensions_and_trailers_together_are_limited_to_the_size_of_a_head)
{
    static const size_t steps[] = {SIZE_MAX, 7, 1};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        ck_assert(are_chunks_accepted(10000, 1, 0, steps[i]));
        ck_assert(are_chunks_accepted(1, 110, 0, steps[i]));
        ck_assert(!are_chunks_accepted(1, 150, 0, steps[i]));
        ck_assert(!are_chunks_accepted(20, 40, 0, steps[i]));
        ck_assert(are_chunks_accepted(1, 1, 4, steps[i]));
        ck_assert(!are_chunks_accepted(1, 1, 5, steps[i]));
        ck_assert(!are_chunks_accepted(1, 110, 4, steps[i]));
    }
}

TEST(fields_are_found_by_name_and_values_are_trimmed)
{
    static const char data[] = LINE "Host: a\r\nX:  one two \t\r\nY:\r\nx:\tthree\r\nLong-Name: "
                                    "v\r\n\r\n";
    char head[sizeof data];
    memcpy(head, data, sizeof data);
    weft__message m;
    weft__message_open(&m, WEFT__REQUEST, &default_limits);
    ck_assert_int_eq(weft__message_head(&m, head, sizeof data - 1), sizeof data - 1);
    weft__message_nul_terminate(&m, head);
    ck_assert_str_eq(head + m.method.at, "GET");
    ck_assert_str_eq(head + m.target.at, "/");
    ck_assert_uint_eq(m.fields_count, 5);
    uint32_t index = 0;
    ck_assert_str_eq(head + weft__message_field(&m, head, "x", &index)->value.at, "one two");
    ck_assert_str_eq(head + weft__message_field(&m, head, "X", &index)->value.at, "three");
    ck_assert_ptr_null(weft__message_field(&m, head, "x", &index));
    index = 0;
    ck_assert_str_eq(head + weft__message_field(&m, head, "Y", &index)->value.at, "");
    index = 0;
    ck_assert_str_eq(head + weft__message_field(&m, head, "LONG-name", &index)->value.at, "v");
    index = 0;
    ck_assert_ptr_null(weft__message_field(&m, head, "Lon", &index));
    weft__message_close(&m);
}

TEST(a_hundred_fields_are_stored_in_order)
{
    char data[4096];
    size_t bytes = (size_t)sprintf(data, LINE HOST);
    for (int i = 0; i < 99; i++)
        bytes += (size_t)sprintf(data + bytes, "F%d: v%d\r\n", i, i);
    bytes += (size_t)sprintf(data + bytes, "\r\n");
    weft__message m;
    weft__message_open(&m, WEFT__REQUEST, &default_limits);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(weft__message_head(&m, data, bytes), bytes);
        ck_assert_uint_eq(m.fields_count, 100);
        ck_assert_uint_eq(m.fields_capacity, 100);
        for (uint32_t i = 0; i < 99; i++) {
            weft__field f = m.fields[i + 1];
            char name[8];
            ck_assert_int_eq(sprintf(name, "F%u", i), f.name.bytes);
            ck_assert_mem_eq(data + f.name.at, name, f.name.bytes);
        }
        weft__message_reset(&m);
    }
    weft__message_close(&m);
    ck_assert_ptr_null(m.fields);
}

static void assert_has_token(const char *list, const char *token)
{
    ck_assert_msg(weft__field_has_token(list, strlen(list), token), "%s in %s", token, list);
}

static void assert_lacks_token(const char *list, const char *token)
{
    ck_assert_msg(!weft__field_has_token(list, strlen(list), token), "%s in %s", token, list);
}

TEST(tokens_are_found_in_lists)
{
    EACH_PAIR(assert_has_token, "close -> close", "Close -> close", "a, close -> close",
              "a,close,b -> CLOSE", " \tclose\t , -> close", "gzip;q=1, br -> gzip",
              "gzip ;q=1 -> gzip");
    EACH_PAIR(assert_lacks_token, "x;gzip -> gzip", " -> close", ", -> close", "closed -> close",
              "clos -> close", "a close -> close", "a\xffgzip -> gzip");
    ck_assert(!weft__field_has_token("close, x", 4, "close"));
}
