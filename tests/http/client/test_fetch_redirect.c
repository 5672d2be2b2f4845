/* Redirects of the HTTP client: methods, locations, limits, and secrets of the first origin. */
#include "http/fetch_support.h"
#include "support/suite.h"

FIXTURE(open_hello, close_site)

#define REDIRECT(status, location) \
    "HTTP/1.1 " status " Go\r\nLocation: " location "\r\nContent-Length: 4\r\n\r\ngone"

TEST(a_redirect_is_followed_according_to_its_status)
{
    static const struct {
        const char *method, *status, *then;
        bool has_body;
    } rows[] = {
        {"GET", "301", "GET", false},       {"GET", "302", "GET", false},
        {"GET", "303", "GET", false},       {"GET", "307", "GET", false},
        {"GET", "308", "GET", false},       {"HEAD", "301", "HEAD", false},
        {"HEAD", "303", "HEAD", false},     {"POST", "301", "GET", false},
        {"POST", "302", "GET", false},      {"POST", "303", "GET", false},
        {"POST", "307", "POST", true},      {"POST", "308", "POST", true},
        {"PUT", "301", "PUT", true},        {"PUT", "302", "PUT", true},
        {"PUT", "303", "GET", false},       {"PUT", "308", "PUT", true},
        {"DELETE", "302", "DELETE", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_head = strcmp(rows[i].method, "HEAD") == 0;
        bool has_body = rows[i].method[0] == 'P';
        char first[128];
        snprintf(first, sizeof first,
                 "HTTP/1.1 %s Go\r\nLocation: /b\r\nContent-Length: 4\r\n\r\n%s", rows[i].status,
                 is_head ? "" : "gone");
        const script_step steps[] = {{.reply = first}, {.reply = "HTTP/1.1 204 OK\r\n\r\n"}};
        open_site(steps, 2);
        const weft_fetch_field fields[] = {{"X-Mine", "1"}, {"Content-Language", "en"}};
        const weft_fetch_request r = {.method = rows[i].method,
                                      .url = url_of(&site, "/a"),
                                      .type = "text/x",
                                      .fields = fields,
                                      .fields_count = 2,
                                      .body = has_body ? "body" : NULL,
                                      .body_bytes = has_body ? 4 : 0};
        ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 204);
        ck_assert_str_eq(weft_fetch_url(fetch), url_of(&site, "/b"));
        close_fetch();
        ck_assert_has(site.received, format("%s /b HTTP/1.1\r\n", rows[i].then));
        ck_assert_uint_eq(count_in(site.received, "body"), has_body + rows[i].has_body);
        ck_assert_uint_eq(count_in(site.received, "Content-Type: text/x"),
                          has_body + rows[i].has_body);
        ck_assert_uint_eq(count_in(site.received, "Content-Language: en\r\n"),
                          1 + rows[i].has_body);
        ck_assert_uint_eq(count_in(site.received, "X-Mine: 1\r\n"), 2);
        ck_assert_uint_eq(site.conns, 1);
    }
}

TEST(a_location_is_resolved_and_keeps_the_fragment)
{
    static const struct {
        const char *url, *location, *then;
    } rows[] = {
        {"/d/e?q", "fetch", "/d/fetch"},    {"/d/e", "../g?h=i", "/g?h=i"},
        {"/d/e#x", "/y", "/y#x"},           {"/d/e#x", "/y#z", "/y#z"},
        {"/d/e", "?only", "/d/e?only"},     {"/d/e#x", "//%s/z", "/z#x"},
        {"/", "http://%s/whole", "/whole"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char reply[256];
        script_step steps[] = {{.reply = reply}, {.reply = OK("there", "5")}};
        open_site(steps, 2);
        const char *location = format(rows[i].location, format("127.0.0.1:%d", site.port));
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 302 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", location);
        ck_assert_int_eq(weft_fetch_get(NULL, url_of(&site, rows[i].url), &fetch), 200);
        ck_assert_str_eq(weft_fetch_url(fetch), url_of(&site, rows[i].then));
        close_fetch();
    }
}

static void assert_not_followed(const char *reply)
{
    open_site(STEPS({.reply = reply}));
    int status = get("/a");
    ck_assert_msg(status >= 300 && status < 400, "%s: %d", reply, status);
    close_fetch();
    ck_assert_uint_eq(site.requests, 1);
}

TEST(a_redirect_that_cannot_be_followed_is_the_response)
{
    EACH_TEXT(assert_not_followed, "HTTP/1.1 302 Go\r\nContent-Length: 4\r\n\r\ngone",
              REDIRECT("300", "/b"), REDIRECT("304", "/b"), REDIRECT("305", "/b"),
              REDIRECT("302", "ftp://127.0.0.1/"), REDIRECT("302", "mailto:someone"),
              REDIRECT("302", "http://[::1/"), REDIRECT("302", "/a b"));
}

TEST(too_many_redirects_are_eloop)
{
    open_site(STEPS({.reply = REDIRECT("302", "/again")}));
    ck_assert_fails(get("/"), -ELOOP);
    ck_assert_uint_eq(site.requests, 11);
    use_fetcher((weft_fetcher_options){.redirects_max = 2});
    ck_assert_int_eq(get("/"), -ELOOP);
    ck_assert_uint_eq(site.requests, 14);
    use_fetcher((weft_fetcher_options){.redirects_max = -1});
    ck_assert_int_eq(get("/"), 302);
    ck_assert_str_eq(weft_fetch_header(fetch, "Location"), "/again");
    assert_body("gone");
}

static char to_other[256]; /* a redirect to the other server */

static void open_two_sites(const script_step *from, size_t from_count, const script_step *to,
                           size_t to_count)
{
    open_site(from, from_count);
    start_server(&other, to, to_count);
    snprintf(to_other, sizeof to_other,
             "HTTP/1.1 307 Go\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n", other.base);
}

TEST(another_origin_does_not_receive_the_secrets_of_the_first)
{
    static const weft_fetch_field fields[] = {
        {"Authorization", "Bearer x"}, {"Cookie", "a=b"}, {"Host", "mine.test"}, {"X-Other", "y"}};
    open_two_sites(STEPS({.reply = to_other}),
                   STEPS({.reply = REDIRECT("302", "/further")}, {.reply = OK("there", "5")}));
    weft_fetch_request r = {.url = url_of(&site, "/"), .fields = fields, .fields_count = 4};
    ck_assert_int_eq(send_request(r), 200);
    ck_assert_has(site.received, "Authorization: Bearer x\r\nCookie: a=b\r\nHost: mine.test\r\n");
    ck_assert_uint_eq(other.requests, 2);
    ck_assert_lacks(other.received, "uthorization", "Cookie", "mine.test");
    ck_assert_uint_eq(count_in(other.received, "X-Other: y\r\n"), 2);
    ck_assert_uint_eq(count_in(other.received, "Host: 127.0.0.1:"), 2);
}

TEST(the_user_of_a_url_is_sent_to_its_origin_only)
{
    open_two_sites(STEPS({.reply = REDIRECT("302", "/b")}, {.reply = to_other}),
                   STEPS({.reply = OK("there", "5")}));
    const char *url = format("http://u:p@127.0.0.1:%d/a", site.port);
    ck_assert_int_eq(send_request((weft_fetch_request){.method = "GET", .url = url}), 200);
    ck_assert_uint_eq(count_in(site.received, "Authorization: Basic dTpw\r\n"), 2);
    ck_assert_lacks(other.received, "uthorization");
}
