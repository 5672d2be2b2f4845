/* Cookies: found in a Cookie header, and written for a Set-Cookie header. */
#include "http/text/cookie.h"
#include "support/cases.h"
#include "support/suite.h"

#include <weft/web.h>

#include <limits.h>

/* Return the value of a cookie, or "(none)". */
static const char *cookie_of(const char *header, const char *name)
{
    static char out[64];
    weft__span value = {"(none)", 6};
    (void)weft__cookie_find(header, name, &value);
    snprintf(out, sizeof out, "%.*s", (int)value.bytes, value.at);
    return out;
}

PAIR_CHECK(assert_cookie_a, cookie_of(input, "a"))

/* Quotes do not protect a semicolon: RFC 6265, 5.2. */
TEST(a_cookie_is_found_by_its_name)
{
    EACH_PAIR(assert_cookie_a, "a=b -> b", "a=b; c=d -> b", "a=b ;\tc=d -> b", "  a=b   -> b",
              "a = b -> b", "a= -> ", "a=;b=c -> ", "a=b=c -> b=c", "a== -> =", "a=1; a=2 -> 1",
              "ab=1; a=2 -> 2", "xa=1; a=2 -> 2", "a; a=1 -> 1", "=b; a=c -> c", "a=\"b\" -> b",
              "a=\"\" -> ", "a=\" -> \"", "a=\"b -> \"b", "a=b\" -> b\"", "a=\"b c\" -> b c",
              "a=\"b; c=d\" -> \"b", "a=b, c=d -> b, c=d", "$Version=1; a=b -> b", "a=b c -> b c",
              "a -> (none)", " -> (none)", ";;; -> (none)", "=b -> (none)");
    ck_assert_str_eq(cookie_of("a=b", "b"), "(none)");
    ck_assert_str_eq(cookie_of("a=b", "A"), "(none)");
    ck_assert_str_eq(cookie_of("a=b", ""), "(none)");
    ck_assert_str_eq(cookie_of("a=b; c=d", "c"), "d");
    ck_assert_str_eq(cookie_of("a=b;c=d", "c"), "d");
    ck_assert_str_eq(cookie_of("a=b ;\tc=d", "c"), "d");
}

static const char *cookie_text(const char *name, const char *value,
                               weft_http_cookie_options options)
{
    static char out[1024];
    ssize_t bytes = weft__cookie_write(out, sizeof out, name, value, &options);
    if (bytes < 0)
        snprintf(out, sizeof out, "%zd", bytes);
    else
        ck_assert_uint_eq((size_t)bytes, strlen(out));
    return out;
}

TEST(a_cookie_is_written_with_its_options)
{
    static const struct {
        weft_http_cookie_options o;
        const char *text;
    } cases[] = {
        {{0}, "a=b"},
        {{.path = "/"}, "a=b; Path=/"},
        {{.path = "/x y,z="}, "a=b; Path=/x y,z="},
        {{.domain = "example.org"}, "a=b; Domain=example.org"},
        {{.domain = ".example.org"}, "a=b; Domain=.example.org"},
        {{.max_age_s = 3600}, "a=b; Max-Age=3600"},
        {{.max_age_s = 0.1}, "a=b; Max-Age=1"},
        {{.max_age_s = 1.5}, "a=b; Max-Age=2"},
        {{.max_age_s = 2}, "a=b; Max-Age=2"},
        {{.max_age_s = 1e300}, "a=b; Max-Age=2147483647"},
        {{.max_age_s = INFINITY}, "a=b; Max-Age=2147483647"},
        {{.max_age_s = -0.0}, "a=b"},
        {{.max_age_s = -1}, "a=b; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
        {{.max_age_s = -INFINITY}, "a=b; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT"},
        {{.is_secure = true}, "a=b; Secure"},
        {{.is_http_only = true}, "a=b; HttpOnly"},
        {{.same_site = "Lax"}, "a=b; SameSite=Lax"},
        {{.same_site = "strict"}, "a=b; SameSite=Strict"},
        {{.same_site = "None", .is_secure = true}, "a=b; Secure; SameSite=None"},
        {{"/p", "d", 5, true, true, "Lax"},
         "a=b; Path=/p; Domain=d; Max-Age=5; Secure; HttpOnly; SameSite=Lax"},
    };
    static const weft_http_cookie_options bad[] = {
        {.path = ""},          {.path = "x"},
        {.path = "/;x"},       {.path = "/\r\n"},
        {.path = "/\x7f"},     {.path = "/\xc3\xa4"},
        {.domain = ""},        {.domain = "a b"},
        {.domain = "a;b"},     {.domain = "a\nb"},
        {.domain = "a,b"},     {.domain = "\xc3\xa4"},
        {.max_age_s = NAN},    {.same_site = ""},
        {.same_site = "Laxx"}, {.same_site = "Lax; Secure"},
        {.same_site = "None"}, {.same_site = "none"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        ck_assert_str_eq(cookie_text("a", "b", bad[i]), "-22");
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_str_eq(cookie_text("a", "b", cases[i].o), cases[i].text);
    char out[8];
    ck_assert_int_eq(weft__cookie_write(out, sizeof out, "a", "b", NULL), 3);
    ck_assert_str_eq(out, "a=b");
}

TEST(invalid_characters_in_a_name_or_value_are_refused)
{
    const weft_http_cookie_options none = {0};
    ck_assert_str_eq(cookie_text("a", "", none), "a=");
    ck_assert_str_eq(cookie_text("", "b", none), "-22");
    for (int c = 1; c < 256; c++) {
        char text[4] = {'x', (char)c, 'y', '\0'};
        bool is_token = weft__field_is_token(text, 3);
        bool is_value = c > 0x20 && c < 0x7f && strchr("\",;\\", c) == NULL;
        ck_assert_int_eq(strcmp(cookie_text(text, "b", none), "-22") != 0, is_token);
        ck_assert_int_eq(strcmp(cookie_text("a", text, none), "-22") != 0, is_value);
    }
}

TEST(prefixes_of_names_require_their_attributes)
{
    static const struct {
        const char *name;
        weft_http_cookie_options o;
        bool is_good;
    } cases[] = {
        {"__Secure-a", {0}, false},
        {"__Secure-a", {.is_secure = true}, true},
        {"__Secure-a", {.is_secure = true, .path = "/x", .domain = "d"}, true},
        {"__secure-a", {0}, false},
        {"__SECURE-a", {0}, false},
        {"__Secure", {0}, true},
        {"x__Secure-a", {0}, true},
        {"__Host-a", {0}, false},
        {"__Host-a", {.is_secure = true}, false},
        {"__Host-a", {.is_secure = true, .path = "/"}, true},
        {"__Host-a", {.is_secure = true, .path = "/x"}, false},
        {"__Host-a", {.is_secure = true, .path = "/", .domain = "d"}, false},
        {"__Host-a", {.path = "/"}, false},
        {"__host-a", {.path = "/"}, false},
        {"__Host", {0}, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_int_eq(strcmp(cookie_text(cases[i].name, "b", cases[i].o), "-22") != 0,
                         cases[i].is_good);
}

TEST(a_cookie_is_truncated_to_the_buffer)
{
    static const char whole[] = "name=value; Path=/; Secure";
    const weft_http_cookie_options o = {.path = "/", .is_secure = true};
    for (size_t room = 0; room < sizeof whole + 3; room++) {
        char out[sizeof whole + 8];
        memset(out, '#', sizeof out);
        ck_assert_int_eq(weft__cookie_write(out, room, "name", "value", &o), sizeof whole - 1);
        size_t written_bytes = room < sizeof whole ? room : sizeof whole;
        if (written_bytes > 0) {
            ck_assert_mem_eq(out, whole, written_bytes - 1);
            ck_assert_int_eq(out[written_bytes - 1], '\0');
        }
        ck_assert_int_eq(out[written_bytes], '#');
    }
}
