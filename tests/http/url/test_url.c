/* URLs: parsed, resolved against a base, and written. */
#include "support/cases.h"
#include "support/suite.h"

#include <weft/web.h>

/* Parse a URL and return it as text. Return the error as text if the URL is invalid. */
static const char *round_trip(const char *text)
{
    static char out[1024];
    weft_url url;
    memset(&url, 0x5a, sizeof url);
    int rc = weft_url_open(&url, text);
    if (rc < 0) {
        snprintf(out, sizeof out, "%d", rc);
        return out;
    }
    ck_assert_uint_eq(weft_url_write(out, sizeof out, &url), strlen(out));
    weft_url_close(&url);
    return out;
}

/* The parts are scheme, user, host, port, path, query with its mark, and fragment. */
static void assert_parts(const char *text, const char *parts)
{
    weft_url url;
    ck_assert_msg(weft_url_open(&url, text) == 0, "%s", text);
    const char *out = format("%s|%s|%s|%d|%s|%s%s|%s", url.scheme, url.user, url.host, url.port,
                             url.path, url.has_query ? "?" : "", url.query, url.fragment);
    ck_assert_str_eq(out, parts);
    weft_url_close(&url);
    ck_assert_ptr_null(url.scheme);
}

TEST(a_url_is_parsed_into_its_parts)
{
    EACH_PAIR(
        assert_parts, "http://a -> http||a|80|/||", "http://a/ -> http||a|80|/||",
        "HTTP://A/B -> http||a|80|/B||", "https://Example.ORG -> https||example.org|443|/||",
        "https://example.org:8443/x -> https||example.org|8443|/x||", "ws://a/b -> ws||a|80|/b||",
        "wss://a/b -> wss||a|443|/b||", "http://a:80/ -> http||a|80|/||",
        "http://a:/ -> http||a|80|/||", "http://a:0/ -> http||a|0|/||",
        "http://a:65535 -> http||a|65535|/||", "http://a:00080/ -> http||a|80|/||",
        "http://a?b -> http||a|80|/|?b|", "http://a? -> http||a|80|/|?|",
        "http://a/? -> http||a|80|/|?|", "http://a#b -> http||a|80|/||b",
        "http://a/# -> http||a|80|/||", "http://a/b?c#d -> http||a|80|/b|?c|d",
        "http://a/b#c?d -> http||a|80|/b||c?d", "http://a/b?c?d/e:f@g -> http||a|80|/b|?c?d/e:f@g|",
        "http://a/b#c#d -> http||a|80|/b||c#d", "http://me@a/ -> http|me|a|80|/||",
        "http://me:pw@a:81/ -> http|me:pw|a|81|/||",
        "http://m%40e:p%3aw@a/ -> http|m%40e:p%3aw|a|80|/||", "http://@a/ -> http||a|80|/||",
        "http://:@a/ -> http|:|a|80|/||", "http://a/b@c:d -> http||a|80|/b@c:d||",
        "http://127.0.0.1:8080/ -> http||127.0.0.1|8080|/||", "http://999.1/ -> http||999.1|80|/||",
        "http://[::1] -> http||::1|80|/||", "http://[::1]: -> http||::1|80|/||",
        "http://[::1]:81/x -> http||::1|81|/x||",
        "http://u@[2001:DB8::A]:81/x -> http|u|2001:db8::a|81|/x||",
        "http://[::ffff:1.2.3.4]/ -> http||::ffff:1.2.3.4|80|/||",
        "http://ex%61mple/ -> http||example|80|/||", "http://%45x/ -> http||ex|80|/||",
        "http://a_b.c-d~e/ -> http||a_b.c-d~e|80|/||",
        "http://a!$&'()*+,;=/ -> http||a!$&'()*+,;=|80|/||", "http://a./ -> http||a.|80|/||",
        "http://a//b/../c -> http||a|80|//b/../c||", "http://a/%7e%41 -> http||a|80|/%7e%41||",
        "http://a/[]|{}^`\"<> -> http||a|80|/[]|{}^`\"<>||",
        "http://a/?q[]=1|2 -> http||a|80|/|?q[]=1|2|", "file:///etc/x -> file|||0|/etc/x||",
        "file:/etc/x -> file|||0|/etc/x||", "x:// -> x|||0|/||", "x: -> x|||0|||",
        "x:?y -> x|||0||?y|", "x:#y -> x|||0|||y", "x://h:1 -> x||h|1|/||",
        "mailto:a@b.c -> mailto|||0|a@b.c||", "a1+-.:b:c -> a1+-.|||0|b:c||",
        "unix:/a/b -> unix|||0|/a/b||", "ftp://a/b -> ftp||a|0|/b||");
}

TEXT_CHECK(assert_refused, strcmp(round_trip(text), "-22") == 0)

TEST(invalid_urls_are_refused)
{
    EACH_TEXT(assert_refused, "", "a", "/", "//a", "//a/b", "?a", "#a", "a/b:c", ":", ":a", "1:a",
              "+a:b", "-a:b", "a_b:c", "a%41:c", "h ttp://a", " http://a", "http://a ",
              "http://a b/", "http://a/b c", "http://a/?b c", "http://a/#b c", "http://a/\t",
              "http://a/\n", "http://a/\r\nHost: b", "http://a/\x01", "http://a/\x7f",
              "http://a/\x80", "http://a/\xc3\xa4", "http://\xc3\xa4/", "http://a/?\xff",
              "http:\\\\a", "http://a\\b", "http://a/b\\c", "http://a/?b\\c", "http://a/#\\",
              "http://a\\@b/", "http:", "http:/", "http:a", "http:/a", "http://", "http:///",
              "http:///a", "https:///a", "ws://", "wss:a", "http://?a", "http://#a", "http://@",
              "http://@/", "http://u@/", "http://:80/", "http://u@:80/", "x://u@/", "x://:80",
              "x://@", "http://a:b/", "http://a:8b/", "http://a:-1/", "http://a:+1/",
              "http://a:65536/", "http://a:99999999999999999999/", "http://a:4294967376/",
              "http://a:80:80/", "http://a:80@b:81@c/", "http://a@b@c/", "http://[::1/",
              "http://::1]/", "http://::1/", "http://[]/", "http://[::1]a/", "http://[::1]80/",
              "http://[::1]:x/", "http://[[::1]]/", "http://a[::1]/", "http://[1.2.3.4]/",
              "http://[:1]/", "http://[1::2::3]/", "http://[::12345]/", "http://[fe80::1%25eth0]/",
              "http://[fe80::1%eth0]/", "http://[v1.x]/", "http://[g::]/", "http://[::1%00]/",
              "http://[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]/", "http://a%/",
              "http://a%4/", "http://a%4g/", "http://a%zz/", "http://a%00/", "http://a%20b/",
              "http://a%2fb/", "http://a%2Fb/", "http://a%3a80/", "http://a%40b/", "http://a%5cb/",
              "http://a%25/", "http://a%c3%a4/", "http://a%0d%0a/", "http://%5b::1%5d/",
              "http://a|b/", "http://a^b/", "http://a<b/", "http://a\"b/", "http://a{b}/",
              "http://a`b/", "http://u|v@a/", "http://u[@a/", "http://u%4@a/", "http://a/%",
              "http://a/%4", "http://a/%4x", "http://a/%%41", "http://a/?%", "http://a/?%g1",
              "http://a/#%", "x:%", "x:%1");
}

TEST(a_refused_url_leaves_all_arguments_unchanged)
{
    weft_url url, before, base;
    memset(&url, 0x5a, sizeof url);
    before = url;
    ck_assert_int_eq(weft_url_open(&url, "http://a:b/"), -EINVAL);
    ck_assert_mem_eq(&url, &before, sizeof url);
    ck_assert_int_eq(weft_url_open(&base, "http://a/b"), 0);
    ck_assert_int_eq(weft_url_open_in(&url, &base, "c d"), -EINVAL);
    ck_assert_mem_eq(&url, &before, sizeof url);
    ck_assert_str_eq(base.path, "/b");
    weft_url_close(&base);
}

TEST(a_host_has_at_most_255_bytes)
{
    for (size_t bytes = 250; bytes < 270; bytes++) {
        char text[300] = "http://";
        memset(text + 7, 'a', bytes);
        strcpy(text + 7 + bytes, "/");
        ck_assert_str_eq(round_trip(text), bytes < 256 ? text : "-22");
    }
}

static void assert_written(const char *text, const char *written)
{
    char once[256];
    ck_assert_str_eq(round_trip(text), written);
    strcpy(once, written);
    ck_assert_str_eq(round_trip(once), once);
}

TEST(a_url_is_written_in_canonical_form)
{
    EACH_PAIR(assert_written, "HTTP://A:80/b -> http://a/b", "http://a -> http://a/",
              "http://a:81 -> http://a:81/", "https://a:443/ -> https://a/",
              "https://a:80/ -> https://a:80/", "http://[::A]:81/b -> http://[::a]:81/b",
              "http://u:p@a/?# -> http://u:p@a/?", "http://@a:/#x -> http://a/#x",
              "http://%61/%61?%61#%61 -> http://a/%61?%61#%61", "file:///a -> file:/a",
              "file:////a -> file:////a", "x: -> x:", "x:a -> x:a", "x:? -> x:?",
              "mailto:a@b -> mailto:a@b");
}

TEST(writing_truncates_to_the_buffer)
{
    static const char text[] = "http://u@[::1]:81/a?b#c";
    weft_url url;
    ck_assert_int_eq(weft_url_open(&url, text), 0);
    for (size_t room = 0; room < sizeof text + 2; room++) {
        char out[sizeof text + 4];
        memset(out, '#', sizeof out);
        ck_assert_uint_eq(weft_url_write(out, room, &url), sizeof text - 1);
        size_t written_bytes = room < sizeof text ? room : sizeof text;
        if (written_bytes > 0) {
            ck_assert_mem_eq(out, text, written_bytes - 1);
            ck_assert_int_eq(out[written_bytes - 1], '\0');
        }
        ck_assert_int_eq(out[written_bytes], '#');
    }
    weft_url_close(&url);
}

static const char *resolve(const char *base_text, const char *reference)
{
    static char out[1024];
    weft_url base, url;
    ck_assert_int_eq(weft_url_open(&base, base_text), 0);
    int rc = weft_url_open_in(&url, &base, reference);
    weft_url_close(&base);
    if (rc < 0) {
        snprintf(out, sizeof out, "%d", rc);
        return out;
    }
    weft_url_write(out, sizeof out, &url);
    weft_url_close(&url);
    return out;
}

PAIR_CHECK(assert_rfc_example, resolve("http://a/b/c/d;p?q", input))

/*
 * RFC 3986, 5.4.1 and 5.4.2. The result of "//g" is "http://g" there, which is equivalent. The
 * result of "http:g" is "http:g" for a strict parser, which has no host.
 */
TEST(references_are_resolved_as_in_the_examples_of_rfc_3986)
{
    EACH_PAIR(
        assert_rfc_example, "g:h -> g:h", "g -> http://a/b/c/g", "./g -> http://a/b/c/g",
        "g/ -> http://a/b/c/g/", "/g -> http://a/g", "//g -> http://g/", "?y -> http://a/b/c/d;p?y",
        "g?y -> http://a/b/c/g?y", "#s -> http://a/b/c/d;p?q#s", "g#s -> http://a/b/c/g#s",
        "g?y#s -> http://a/b/c/g?y#s", ";x -> http://a/b/c/;x", "g;x -> http://a/b/c/g;x",
        "g;x?y#s -> http://a/b/c/g;x?y#s", " -> http://a/b/c/d;p?q", ". -> http://a/b/c/",
        "./ -> http://a/b/c/", ".. -> http://a/b/", "../ -> http://a/b/", "../g -> http://a/b/g",
        "../.. -> http://a/", "../../ -> http://a/", "../../g -> http://a/g",
        "../../../g -> http://a/g", "../../../../g -> http://a/g", "/./g -> http://a/g",
        "/../g -> http://a/g", "g. -> http://a/b/c/g.", ".g -> http://a/b/c/.g",
        "g.. -> http://a/b/c/g..", "..g -> http://a/b/c/..g", "./../g -> http://a/b/g",
        "./g/. -> http://a/b/c/g/", "g/./h -> http://a/b/c/g/h", "g/../h -> http://a/b/c/h",
        "g;x=1/./y -> http://a/b/c/g;x=1/y", "g;x=1/../y -> http://a/b/c/y",
        "g?y/./x -> http://a/b/c/g?y/./x", "g?y/../x -> http://a/b/c/g?y/../x",
        "g#s/./x -> http://a/b/c/g#s/./x", "g#s/../x -> http://a/b/c/g#s/../x", "http:g -> -22");
    ck_assert_str_eq(resolve("x://a/b/c/d;p?q", "x:g"), "x:g");
}

static const char *base_text;

PAIR_CHECK(assert_resolved, resolve(base_text, input))

/* The base and the reference are separated by a space. */
static void assert_resolved_from(const char *pair, const char *result)
{
    size_t bytes = strcspn(pair, " ");
    const char *base = format("%.*s", (int)bytes, pair);
    ck_assert_str_eq(resolve(base, pair + bytes + 1), result);
}

TEST(a_reference_inherits_missing_parts_from_its_base)
{
    base_text = "https://u:p@a:81/b?c#d";
    EACH_PAIR(assert_resolved, " -> https://u:p@a:81/b?c", "e -> https://u:p@a:81/e",
              "? -> https://u:p@a:81/b?", "# -> https://u:p@a:81/b?c", "//x -> https://x/",
              "//x:82?y -> https://x:82/?y", "//v@[::1]/y -> https://v@[::1]/y",
              "http://x -> http://x/", "http://x/a/../b -> http://x/b");
    base_text = "http://a/b";
    EACH_PAIR(assert_resolved, "%2e%2e/c -> http://a/%2e%2e/c", "/c//d/../e -> http://a/c//e",
              "// -> -22", "///c -> -22", "//c:x -> -22", "c:d -> c:d", "1:d -> -22",
              "./1:d -> http://a/1:d", "c% -> -22", "c\\d -> -22", "\thttp://x -> -22");
    EACH_PAIR(assert_resolved_from, "http://a b -> http://a/b", "http://a?x b -> http://a/b",
              "http://a/b/ c -> http://a/b/c", "http://a/b/ .. -> http://a/",
              "http://a/b/../c  -> http://a/b/../c", "http://a/b/../c d -> http://a/d",
              "http://a/b/c/ ../../../.. -> http://a/", "http://[::1]:81/b c -> http://[::1]:81/c",
              "file:///a/b c -> file:/a/c", "file:///a/b ..//c -> file:////c", "x:a b -> x:b",
              "x:a/b c -> x:a/c", "x:a/b ../../c -> x:/c", "x: a -> x:a",
              "x: .. -> x:", "x:a?b  -> x:a?b");
}
