/* Text of HTTP: characters, fields, paths, hosts, types, and statuses. */
#include "http/text/ctype.h"
#include "http/text/field.h"
#include "http/text/mime.h"
#include "http/text/status.h"
#include "http/url/host.h"
#include "http/url/path.h"
#include "support/cases.h"
#include "support/suite.h"

static const char token_characters[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

TEST(a_token_has_the_characters_of_rfc_9110)
{
    for (int c = 0; c < 256; c++) {
        char text[1] = {(char)c};
        bool is_expected = c != 0 && c < 128 && strchr(token_characters, c) != NULL;
        ck_assert_int_eq(weft__field_is_token(text, 1), is_expected);
    }
    ck_assert(weft__field_is_token("Content-Type", 12));
    ck_assert(!weft__field_is_token("Content-Type:", 13));
    ck_assert(!weft__field_is_token("", 0));
}

TEST(a_value_has_no_control_characters_except_tabs)
{
    for (int c = 0; c < 256; c++) {
        char text[3] = {'a', (char)c, 'b'};
        bool is_expected = c == '\t' || (c >= 0x20 && c != 0x7f);
        ck_assert_int_eq(weft__field_is_value(text, 3), is_expected);
    }
    ck_assert(weft__field_is_value("", 0));
    ck_assert(!weft__field_is_value("a\r\nSet-Cookie: b", 16));
}

/* Long values are checked by words. The result must be that of each byte. */
TEST(each_byte_of_a_long_value_counts)
{
    for (size_t bytes = 1; bytes <= 40; bytes++)
        for (size_t at = 0; at < bytes; at++)
            for (int c = 0; c < 256; c++) {
                char text[40];
                memset(text, c % 2 == 0 ? 'a' : 0xff, sizeof text);
                text[at] = (char)c;
                bool is_expected = weft__field_is_value(&text[at], 1);
                ck_assert_int_eq(weft__field_is_value(text, bytes), is_expected);
            }
}

TEST(cookies_and_urls_have_the_characters_of_their_rfcs)
{
    for (int c = 0; c < 256; c++) {
        bool is_cookie = c == 0x21 || (c >= 0x23 && c <= 0x2b) || (c >= 0x2d && c <= 0x3a) ||
                         (c >= 0x3c && c <= 0x5b) || (c >= 0x5d && c <= 0x7e);
        bool is_sub = c != 0 && c < 128 && strchr("!$&'()*+,;=", c) != NULL;
        bool is_hex = c != 0 && c < 128 && strchr("0123456789abcdefABCDEF", c) != NULL;
        ck_assert_int_eq(weft__ctype_is((char)c, WEFT__CTYPE_COOKIE), is_cookie);
        ck_assert_int_eq(weft__ctype_is((char)c, WEFT__CTYPE_SUB_DELIM), is_sub);
        ck_assert_int_eq(weft__ctype_is((char)c, WEFT__CTYPE_HEX), is_hex);
        if (is_hex)
            ck_assert_int_eq(weft__ctype_hex((char)c), strtol((char[]){(char)c, 0}, NULL, 16));
    }
}

TEST(words_are_compared_without_case)
{
    ck_assert(weft__field_is_word("gzip, x", 4, "GZIP"));
    ck_assert(weft__field_is_word("", 0, ""));
    ck_assert(!weft__field_is_word("gzi", 3, "gzip"));
    ck_assert(!weft__field_is_word("gzipp", 5, "gzip"));
    ck_assert(!weft__field_is_word("a", 1, ""));
    ck_assert(!weft__field_is_word("", 0, "a"));
    ck_assert(!weft__field_is_word("a\0", 2, "a"));
    ck_assert(!weft__field_is_word("[", 1, "{")); /* differ by the same bit as letters */
    ck_assert(!weft__field_is_word("@", 1, "`"));
}

static void assert_items(const char *list, const char *items)
{
    char out[64] = "";
    weft__span item;
    while (weft__field_next(&list, &item)) {
        strncat(out, item.at, item.bytes);
        strcat(out, "|");
    }
    ck_assert_str_eq(out, items);
}

TEST(list_items_are_trimmed_and_empty_items_are_skipped)
{
    EACH_PAIR(assert_items, " -> ", "a -> a|", "a,b -> a|b|", " a , b  -> a|b|",
              ",,a,\t,b,, -> a|b|", " ,  -> ", "a b,c -> a b|c|", "\ta\t -> a|");
}

/* Return the cleaned path, or "-". The input is in an allocation of its exact size, for ASan. */
static const char *clean_path(const char *text)
{
    static char out[512];
    char *copy = strdup(text);
    ssize_t bytes = weft__path_clean(copy);
    if (bytes >= 0)
        ck_assert_int_eq(bytes, (int)strlen(copy));
    else
        ck_assert_int_eq(bytes, -EINVAL);
    strcpy(out, bytes >= 0 ? copy : "-");
    free(copy);
    return out;
}

PAIR_CHECK(assert_cleaned, clean_path(input))
TEXT_CHECK(assert_path_refused, strcmp(clean_path(text), "-") == 0)

/* %c0%ae is overlong UTF-8, not a dot. */
TEST(a_path_is_decoded_once_and_dot_segments_are_removed)
{
    EACH_PAIR(assert_cleaned, "/ -> /", "/a -> /a", "/a/ -> /a/", "/a/b -> /a/b", "/. -> /",
              "/./ -> /", "/./a -> /a", "/a/. -> /a/", "/a/./ -> /a/", "/a/./b -> /a/b",
              "/a/.. -> /", "/a/../ -> /", "/a/../b -> /b", "/a/b/.. -> /a/", "/a/b/../ -> /a/",
              "/a/b/../c -> /a/c", "/a/b/../../c -> /c", "/a/b/c/../../d/../e -> /a/e",
              "/a/./../b/. -> /b/", "// -> /", "/// -> /", "//a -> /a", "/a//b -> /a/b",
              "/a// -> /a/", "/a//../b -> /b", "/a/.//../b -> /b", "//a/..// -> /", "/%2e -> /",
              "/a/%2e -> /a/", "/a/%2E%2e/b -> /b", "/a/.%2e/b -> /b", "/a/%2e./b -> /b",
              "/... -> /...", "/a/.../b -> /a/.../b", "/..a -> /..a", "/a.. -> /a..", "/.a -> /.a",
              "/a. -> /a.", "/.  -> /. ", "/%61 -> /a", "/a%20b -> /a b", "/a+b -> /a+b",
              "/%2561 -> /%61", "/%252e%252e/a -> /%2e%2e/a", "/%252f -> /%2f", "/%25 -> /%",
              "/%c3%a4 -> /\303\244", "/\303\244 -> /\303\244",
              "/%c0%ae%c0%ae/ -> /\xc0\xae\xc0\xae/", "/%ff -> /\xff", "/a%3fb%23c -> /a?b#c",
              "/a;b=c -> /a;b=c", "/a:b@c -> /a:b@c", "/~a -> /~a");
}

TEST(a_path_above_the_root_or_with_hidden_separators_is_refused)
{
    EACH_TEXT(assert_path_refused, "", "a", ".", "..", "*", "a/b", "%2f", "?", "/..", "/../",
              "/../a", "/./..", "/a/../..", "/a/../../a", "/a/../../a/b/c", "/a/b/../../..", "//..",
              "//../a", "/a//../..", "/%2e%2e", "/%2e%2e/a", "/.%2e/a", "/%2e./a",
              "/a/%2e%2e/%2E%2E/b", "/%2f", "/a%2fb", "/a%2Fb", "/..%2fa", "/%2e%2e%2fa", "/\\",
              "/a\\b", "/..\\a", "/%5c", "/a%5Cb", "/..%5c..", "/%00", "/a%00b", "/a%00",
              "/a.html%00.png", "/%0a", "/%0d", "/a%0d%0ab", "/%01", "/%09", "/%1f", "/%7f",
              "/\x01", "/\n", "/\t", "/\x7f", "/%", "/a%", "/%4", "/%4/", "/%g0", "/%0g", "/%%41",
              "/% 41", "/%/41");
}

/* Return "host port", or "-". */
static const char *host_of(const char *text)
{
    static char out[512];
    weft__host host;
    memset(&host, 0x5a, sizeof host);
    if (weft__host_parse(&host, text, strlen(text)) < 0)
        return "-";
    snprintf(out, sizeof out, "%s %d", host.name, host.port);
    return out;
}

#define LONGEST_IP "0000:0000:0000:0000:0000:ffff:255.255.255.255"

PAIR_CHECK(assert_host, host_of(input))

TEST(a_host_is_separated_from_its_port)
{
    EACH_PAIR(assert_host, " ->  -1", "a -> a -1", "Example.ORG -> example.org -1", "a:80 -> a 80",
              "a: -> a -1", "a:0 -> a 0", "a:65535 -> a 65535", "127.0.0.1:8080 -> 127.0.0.1 8080",
              "[::1] -> ::1 -1", "[::1]: -> ::1 -1", "[2001:DB8::1]:443 -> 2001:db8::1 443",
              "[" LONGEST_IP "] -> " LONGEST_IP " -1", "a. -> a. -1", "a_b -> a_b -1",
              "xn--a-b.c -> xn--a-b.c -1", "%41 -> a -1", "* -> * -1");
}

TEXT_CHECK(assert_no_host, strcmp(host_of(text), "-") == 0)

TEST(invalid_hosts_are_refused)
{
    EACH_TEXT(assert_no_host, ":", ":80", "a:b", "a:80:80", "a:65536", "a:655360000000000000000",
              "a:-1", "a: 80", " a", "a ", "a b", "a/b", "a@b", "a?b", "a#b", "a\\b", "a,b c",
              "\"a\"", "<a>", "a\tb", "a\nb", "a\x7f", "\xc3\xa4", "a%", "a%4", "a%zz", "a%00",
              "a%2f", "a%40", "a%20", "[", "]", "[]", "[a]", "[::1", "::1", "[::1]a", "[::1]:a",
              "[1.2.3.4]", "[::1%25eth0]", "[::g]", "[[::1]]");
    weft__host host;
    ck_assert_int_eq(weft__host_parse(&host, "a\0b", 3), -EINVAL);
    ck_assert_int_eq(weft__host_parse(&host, "[::1\0]", 6), -EINVAL);
    ck_assert_int_eq(weft__host_parse(&host, "a%41:80", 3), -EINVAL); /* ends within the escape */
    ck_assert_int_eq(weft__host_parse(&host, "a:80", 3), 0);
    ck_assert_int_eq(host.port, 8);
}

TEST(the_table_of_types_is_sorted)
{
    for (size_t i = 0; i < weft__mime_count; i++) {
        const weft__mime *row = &weft__mime_table[i];
        if (i > 0)
            ck_assert_msg(strcmp(row[-1].extension, row->extension) < 0, "%s", row->extension);
        for (const char *c = row->extension; *c != '\0'; c++)
            ck_assert(weft__ctype_lower(*c) == *c);
        bool is_text = strncmp(row->type, "text/", 5) == 0;
        ck_assert_int_eq(strstr(row->type, "; charset=utf-8") != NULL, is_text);
        ck_assert(weft__field_is_value(row->type, strlen(row->type)));
    }
    ck_assert_uint_gt(weft__mime_count, 90);
}

TEST(each_extension_is_found_without_case)
{
    for (size_t i = 0; i < weft__mime_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "/a.b/c.%s", weft__mime_table[i].extension);
        ck_assert_str_eq(weft__mime_of(name), weft__mime_table[i].type);
        for (char *c = name; *c != '\0'; c++)
            if (*c >= 'a' && *c <= 'z')
                *c = (char)(*c - 32);
        ck_assert_str_eq(weft__mime_of(name), weft__mime_table[i].type);
    }
}

PAIR_CHECK(assert_type, weft__mime_of(input))
TEXT_CHECK(assert_unknown_type, strcmp(weft__mime_of(text), "application/octet-stream") == 0)

TEST(the_extension_determines_the_type)
{
    EACH_PAIR(assert_type, "index.html -> text/html; charset=utf-8", "a.tar.gz -> application/gzip",
              "a.min.js -> text/javascript; charset=utf-8",
              "a.mjs -> text/javascript; charset=utf-8", "a.json -> application/json",
              "a.wasm -> application/wasm", "a.webmanifest -> application/manifest+json",
              "a.avif -> image/avif", "a.svg -> image/svg+xml", "a.woff2 -> font/woff2",
              "A.JPG -> image/jpeg", "a.htm -> text/html; charset=utf-8");
    EACH_TEXT(assert_unknown_type, "a.htmlx", "a.ht", "a.", "a", "", ".", "..", ".html", "/x/.html",
              "/x.html/a", "html", "a.\xc3\xa4");
}

TEXT_CHECK(assert_compressible, weft__mime_is_compressible(text))
TEXT_CHECK(assert_incompressible, !weft__mime_is_compressible(text))

TEST(text_is_compressible_and_pictures_are_not)
{
    EACH_TEXT(assert_compressible, "text/html", "text/html; charset=utf-8", "TEXT/CSS",
              "application/json", "application/json;x=y", "Application/JSON ; x", "image/svg+xml",
              "application/ld+json", "application/wasm", "application/xml", "text/x", "font/ttf");
    EACH_TEXT(assert_incompressible, "", "text", "image/png", "image/jpeg", "video/mp4",
              "application/gzip", "application/zip", "font/woff2", "application/octet-stream",
              "text/event-stream", "text/event-stream; charset=utf-8", "application/jsonx", "xml",
              "application/pdf");
}

TEST(each_status_has_a_reason_phrase_and_a_status_line)
{
    size_t known = 0;
    for (int status = -10; status < 1100; status++) {
        const char *text = weft__status_text(status);
        size_t bytes = 1;
        const char *line = weft__status_line(status, &bytes);
        if (text[0] == '\0') {
            ck_assert_ptr_null(line);
            ck_assert_uint_eq(bytes, 0);
            continue;
        }
        known++;
        const char *expected = format("HTTP/1.1 %d %s\r\n", status, text);
        ck_assert_str_eq(line, expected);
        ck_assert_uint_eq(bytes, strlen(expected));
    }
    ck_assert_uint_eq(known, 61);
    ck_assert_str_eq(weft__status_text(200), "OK");
    ck_assert_str_eq(weft__status_text(404), "Not Found");
    ck_assert_str_eq(weft__status_text(511), "Network Authentication Required");
    ck_assert_str_eq(weft__status_text(418), "");
    ck_assert_str_eq(weft__status_text(599), "");
}
