/* The web client sent elsewhere: how it asks there, what it does not tell there, where it ends. */
#include "fetch_support.h"

#define TO(status, location) \
    "HTTP/1.1 " status " Go\r\nLocation: " location "\r\nContent-Length: 4\r\n\r\ngone"

START_TEST(a_redirect_is_followed_as_its_status_says)
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
        const turn turns[] = {{.says = first}, {.says = "HTTP/1.1 204 OK\r\n\r\n"}};
        web sv;
        start_server(&sv, turns, 2);
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
        ck_assert_seen(&sv, line);
        ck_assert_uint_eq(count_in(sv.seen, "body"), has_body + rows[i].has_body);
        ck_assert_uint_eq(count_in(sv.seen, "Content-Type: text/x"), has_body + rows[i].has_body);
        ck_assert_uint_eq(count_in(sv.seen, "Content-Language: en\r\n"), 1 + rows[i].has_body);
        ck_assert_uint_eq(count_in(sv.seen, "X-Mine: 1\r\n"), 2);
        ck_assert_uint_eq(sv.conns, 1);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}
END_TEST

START_TEST(a_location_is_resolved_and_keeps_the_fragment)
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
        char answer[256], location[128], host[64];
        turn turns[] = {{.says = answer}, {.says = OK("there", "5")}};
        web sv;
        start_server(&sv, turns, 2);
        snprintf(host, sizeof host, "127.0.0.1:%d", sv.port);
        snprintf(location, sizeof location, rows[i].location, host);
        snprintf(answer, sizeof answer,
                 "HTTP/1.1 302 Go\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", location);
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, rows[i].url), &f), 200);
        ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, rows[i].then));
        weft_fetch_close(f);
        stop_server(&sv);
    }
}
END_TEST

START_TEST(a_redirect_that_cannot_be_followed_is_the_answer)
{
    static const char *const answers[] = {
        "HTTP/1.1 302 Go\r\nContent-Length: 4\r\n\r\ngone",
        TO("300", "/b"),
        TO("304", "/b"),
        TO("305", "/b"),
        TO("302", "ftp://127.0.0.1/"),
        TO("302", "mailto:someone"),
        TO("302", "http://[::1/"),
        TO("302", "/a b"),
    };
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        const turn turns[] = {{.says = answers[i]}};
        web sv;
        start_server(&sv, turns, 1);
        weft_fetch *f;
        int status = weft_fetch_get(NULL, url_of(&sv, "/a"), &f);
        ck_assert_msg(status >= 300 && status < 400, "row %zu: %d", i, status);
        weft_fetch_close(f);
        ck_assert_uint_eq(sv.asked, 1);
        stop_server(&sv);
    }
}
END_TEST

START_TEST(redirects_have_an_end)
{
    static const turn turns[] = {{.says = TO("302", "/again")}};
    web sv;
    start_server(&sv, turns, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, "/"), &f), -ELOOP);
    ck_assert_any_words(-ELOOP);
    ck_assert_uint_eq(sv.asked, 11);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.redirects_max = 2});
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -ELOOP);
    ck_assert_uint_eq(sv.asked, 14);
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
END_TEST

/* What was said to one server, and is no other's business. */
static const weft_fetch_field private_fields[] = {
    {"Authorization", "Bearer x"}, {"Cookie", "a=b"}, {"Host", "mine.test"}, {"X-Other", "y"}};

START_TEST(another_origin_is_not_told_the_secrets_of_the_first)
{
    char answer[256];
    turn from[] = {{.says = answer}};
    static const turn to[] = {{.says = TO("302", "/further")}, {.says = OK("there", "5")}};
    web one, two;
    start_server(&one, from, 1);
    start_server(&two, to, 2);
    snprintf(answer, sizeof answer, "HTTP/1.1 307 Go\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n",
             two.base);
    const weft_fetch_request r = {.url = url_of(&one, "/"),
                                  .fields = private_fields,
                                  .fields_count = COUNT_OF(private_fields)};
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &f), 200);
    weft_fetch_close(f);
    ck_assert_seen(&one, "Authorization: Bearer x\r\nCookie: a=b\r\nHost: mine.test\r\n");
    ck_assert_uint_eq(two.asked, 2);
    ck_assert_unseen(&two, "uthorization");
    ck_assert_unseen(&two, "Cookie");
    ck_assert_unseen(&two, "mine.test");
    ck_assert_uint_eq(count_in(two.seen, "X-Other: y\r\n"), 2);
    ck_assert_uint_eq(count_in(two.seen, "Host: 127.0.0.1:"), 2);
    stop_server(&one);
    stop_server(&two);
}
END_TEST

START_TEST(the_user_of_a_url_is_told_to_its_origin_only)
{
    char answer[256], url[128];
    turn from[] = {{.says = TO("302", "/b")}, {.says = answer}};
    static const turn to[] = {{.says = OK("there", "5")}};
    web one, two;
    start_server(&one, from, 2);
    start_server(&two, to, 1);
    snprintf(answer, sizeof answer, "HTTP/1.1 302 Go\r\nLocation: %s/\r\nContent-Length: 0\r\n\r\n",
             two.base);
    snprintf(url, sizeof url, "http://u:p@127.0.0.1:%d/a", one.port);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url, &f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(count_in(one.seen, "Authorization: Basic dTpw\r\n"), 2);
    ck_assert_unseen(&two, "uthorization");
    stop_server(&one);
    stop_server(&two);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_redirect_is_followed_as_its_status_says,
        &a_location_is_resolved_and_keeps_the_fragment,
        &a_redirect_that_cannot_be_followed_is_the_answer,
        &redirects_have_an_end,
        &another_origin_is_not_told_the_secrets_of_the_first,
        &the_user_of_a_url_is_told_to_its_origin_only,
    };
    forget_proxies();
    return run_suite("fetch_redirect", tests, COUNT_OF(tests));
}
