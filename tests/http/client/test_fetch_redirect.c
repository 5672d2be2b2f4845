/* Redirects of the HTTP client: methods, locations, limits, and secrets of the first origin. */
#include "http/fetch_support.h"
#include "support/suite.h"

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
        char first[128], line[64];
        snprintf(first, sizeof first,
                 "HTTP/1.1 %s Go\r\nLocation: /b\r\nContent-Length: 4\r\n\r\n%s", rows[i].status,
                 is_head ? "" : "gone");
        const script_step steps[] = {{.reply = first}, {.reply = "HTTP/1.1 204 OK\r\n\r\n"}};
        script_server sv;
        start_server(&sv, steps, 2);
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        const weft_fetch_field fields[] = {{"X-Mine", "1"}, {"Content-Language", "en"}};
        const weft_fetch_request r = {.method = rows[i].method,
                                      .url = url_of(&sv, "/a"),
                                      .type = "text/x",
                                      .fields = fields,
                                      .fields_count = 2,
                                      .body = has_body ? "body" : NULL,
                                      .body_bytes = has_body ? 4 : 0};
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 204);
        ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, "/b"));
        weft_fetch_close(f);
        snprintf(line, sizeof line, "%s /b HTTP/1.1\r\n", rows[i].then);
        ck_assert_server_received(&sv, line);
        ck_assert_uint_eq(count_in(sv.received, "body"), has_body + rows[i].has_body);
        ck_assert_uint_eq(count_in(sv.received, "Content-Type: text/x"),
                          has_body + rows[i].has_body);
        ck_assert_uint_eq(count_in(sv.received, "Content-Language: en\r\n"), 1 + rows[i].has_body);
        ck_assert_uint_eq(count_in(sv.received, "X-Mine: 1\r\n"), 2);
        ck_assert_uint_eq(sv.conns, 1);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}

TEST(a_location_is_resolved_and_keeps_the_fragment)
{
    static const struct {
        const char *url, *location, *then;
    } rows[] = {
        {"/d/e?q", "f", "/d/f"},
        {"/d/e", "../g?h=i", "/g?h=i"},
        {"/d/e#x", "/y", "/y#x"},
        {"/d/e#x", "/y#z", "/y#z"},
        {"/d/e", "?only", "/d/e?only"},
        {"/d/e#x", "//%s/z", "/z#x"},
        {"/", "http://%s/whole", "/whole"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char reply[256], location[128], host[64];
        script_step steps[] = {{.reply = reply}, {.reply = OK("there", "5")}};
        script_server sv;
        start_server(&sv, steps, 2);
        snprintf(host, sizeof host, "127.0.0.1:%d", sv.port);
        snprintf(location, sizeof location, rows[i].location, host);
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 302 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", location);
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, rows[i].url), &f), 200);
        ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, rows[i].then));
        weft_fetch_close(f);
        stop_server(&sv);
    }
}

TEST(a_redirect_that_cannot_be_followed_is_the_response)
{
    static const char *const replies[] = {
        "HTTP/1.1 302 Go\r\nContent-Length: 4\r\n\r\ngone",
        REDIRECT("300", "/b"),
        REDIRECT("304", "/b"),
        REDIRECT("305", "/b"),
        REDIRECT("302", "ftp://127.0.0.1/"),
        REDIRECT("302", "mailto:someone"),
        REDIRECT("302", "http://[::1/"),
        REDIRECT("302", "/a b"),
    };
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        const script_step steps[] = {{.reply = replies[i]}};
        script_server sv;
        start_server(&sv, steps, 1);
        weft_fetch *f;
        int status = weft_fetch_get(NULL, url_of(&sv, "/a"), &f);
        ck_assert_msg(status >= 300 && status < 400, "row %zu: %d", i, status);
        weft_fetch_close(f);
        ck_assert_uint_eq(sv.requests, 1);
        stop_server(&sv);
    }
}

TEST(too_many_redirects_are_eloop)
{
    static const script_step steps[] = {{.reply = REDIRECT("302", "/again")}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, "/"), &f), -ELOOP);
    ck_assert_any_error(-ELOOP);
    ck_assert_uint_eq(sv.requests, 11);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.redirects_max = 2});
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -ELOOP);
    ck_assert_uint_eq(sv.requests, 14);
    weft_fetcher_free(fetcher);
    fetcher = weft_fetcher_new(&(weft_fetcher_options){.redirects_max = -1});
    char *text;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 302);
    ck_assert_str_eq(weft_fetch_header(f, "Location"), "/again");
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 4);
    ck_assert_str_eq(text, "gone");
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

/* Fields that another origin must not receive, except X-Other. */
static const weft_fetch_field origin_fields[] = {
    {"Authorization", "Bearer x"}, {"Cookie", "a=b"}, {"Host", "mine.test"}, {"X-Other", "y"}};

TEST(another_origin_does_not_receive_the_secrets_of_the_first)
{
    char reply[256];
    script_step from[] = {{.reply = reply}};
    static const script_step to[] = {{.reply = REDIRECT("302", "/further")},
                                     {.reply = OK("there", "5")}};
    script_server one, two;
    start_server(&one, from, 1);
    start_server(&two, to, 2);
    snprintf(reply, sizeof reply, "HTTP/1.1 307 Go\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n",
             two.base);
    const weft_fetch_request r = {
        .url = url_of(&one, "/"), .fields = origin_fields, .fields_count = COUNT_OF(origin_fields)};
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&one,
                              "Authorization: Bearer x\r\nCookie: a=b\r\nHost: mine.test\r\n");
    ck_assert_uint_eq(two.requests, 2);
    ck_assert_server_not_received(&two, "uthorization");
    ck_assert_server_not_received(&two, "Cookie");
    ck_assert_server_not_received(&two, "mine.test");
    ck_assert_uint_eq(count_in(two.received, "X-Other: y\r\n"), 2);
    ck_assert_uint_eq(count_in(two.received, "Host: 127.0.0.1:"), 2);
    stop_server(&one);
    stop_server(&two);
}

TEST(the_user_of_a_url_is_sent_to_its_origin_only)
{
    char reply[256], url[128];
    script_step from[] = {{.reply = REDIRECT("302", "/b")}, {.reply = reply}};
    static const script_step to[] = {{.reply = OK("there", "5")}};
    script_server one, two;
    start_server(&one, from, 2);
    start_server(&two, to, 1);
    snprintf(reply, sizeof reply, "HTTP/1.1 302 Go\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n",
             two.base);
    snprintf(url, sizeof url, "http://u:p@127.0.0.1:%d/a", one.port);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url, &f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(count_in(one.received, "Authorization: Basic dTpw\r\n"), 2);
    ck_assert_server_not_received(&two, "uthorization");
    stop_server(&one);
    stop_server(&two);
}
