/*
 * What a request tells a handler, forms, cookies, hosts, forwarding proxies; and replies that go
 * on: another protocol, events.
 */
#include "http_support.h"

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"

static talk t;

static const char *or_none(const char *text)
{
    return text != NULL ? text : "-";
}

static int say_fields(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int error = 0;
    const char *a = or_none(weft_http_form(r, "a", &error));
    const char *b = or_none(weft_http_form(r, "b", NULL));
    return weft_http_reply_text(
        r, 200, "form %s %s %d query %s %s cookie %s %s", a, b, error,
        or_none(weft_http_query_param(r, "q")), or_none(weft_http_query_param(r, "none")),
        or_none(weft_http_cookie(r, "c")), or_none(weft_http_cookie(r, "d")));
}

START_TEST(forms_queries_and_cookies_are_taken_apart)
{
    talk_once(&t, say_fields, NULL, NULL,
              "POST /?q=%41+b&q=2&&= HTTP/1.1\r\n" HOST "Cookie: c=1; x\r\nCookie: d=\"2\"\r\n"
              "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
              "Content-Length: 13\r\n\r\na=x%26y&b=1+2");
    ck_assert_str_eq(body_of(t.heard), "form x&y 1 2 0 query A b - cookie 1 2");
    talk_once(&t, say_fields, NULL, NULL,
              "POST /?q HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\n"
              "Content-Length: 3\r\n\r\na=x");
    char expected[64];
    snprintf(expected, sizeof expected, "form - - %d query  - cookie - -", -EINVAL);
    ck_assert_str_eq(body_of(t.heard), expected);
}
END_TEST

static int set_cookies(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const weft_http_cookie_options o = {.path = "/", .is_http_only = true, .same_site = "Lax"};
    ck_assert_int_eq(weft_http_set_cookie(r, "a", "1", &o), 0);
    ck_assert_int_eq(weft_http_set_cookie(r, "b", "2", NULL), 0);
    return weft_http_reply_text(r, 200, "set");
}

START_TEST(cookies_are_set_beside_each_other)
{
    talk_once(&t, set_cookies, NULL, NULL, GET);
    ck_assert_uint_eq(count_in(t.heard, "\r\nSet-Cookie: "), 2);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nSet-Cookie: b=2\r\n"));
    ck_assert_ptr_nonnull(strstr(t.heard, "HttpOnly"));
}
END_TEST

static int say_origin(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%s %s %s", weft_http_scheme(r), weft_http_host(r),
                                weft_http_peer(r));
}

START_TEST(a_proxy_is_believed_only_if_it_is_trusted)
{
    static const char request[] =
        "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\n"
        "X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.org\r\n\r\n";
    const weft_http_options trusting = {.trusted_peers = "unix, 10.0.0.0/8"};
    const weft_http_options other = {.trusted_peers = "127.0.0.1"};
    talk_once(&t, say_origin, NULL, NULL, request);
    ck_assert_str_eq(body_of(t.heard), "http a unix");
    talk_once(&t, say_origin, NULL, &other, request);
    ck_assert_str_eq(body_of(t.heard), "http a unix");
    talk_once(&t, say_origin, NULL, &trusting, request);
    ck_assert_str_eq(body_of(t.heard), "http a 192.0.2.1"); /* nginx passes the others on */
}
END_TEST

START_TEST(a_trusted_proxy_is_believed_only_in_headers_that_are_named)
{
    static const char request[] = "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 192.0.2.1\r\n"
                                  "X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.org\r\n"
                                  "Forwarded: for=192.0.2.2;host=c.org;proto=https\r\n\r\n";
    static const struct {
        const char *headers, *origin;
    } cases[] = {
        {NULL, "http a 192.0.2.1"},
        {"", "http a unix"},
        {"X-Forwarded-For", "http a 192.0.2.1"},
        {"x-forwarded-proto", "https a unix"},
        {"X-Forwarded-Host , X-Forwarded-For", "http b.org 192.0.2.1"},
        {"X-Forwarded-For,X-Forwarded-Host,X-Forwarded-Proto", "https b.org 192.0.2.1"},
        {"Forwarded", "https c.org 192.0.2.2"},
        {"X-Forwarded-For, Forwarded", "https c.org 192.0.2.2"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const weft_http_options o = {.trusted_peers = "unix", .trusted_headers = cases[i].headers};
        talk_once(&t, say_origin, NULL, &o, request);
        ck_assert_str_eq(body_of(t.heard), cases[i].origin);
        const weft_http_options other = {.trusted_peers = "::1",
                                         .trusted_headers = cases[i].headers};
        talk_once(&t, say_origin, NULL, &other, request);
        ck_assert_str_eq(body_of(t.heard), "http a unix");
    }
    const weft_http_options bad = {.trusted_headers = "X-Forwarded-For, Host"};
    ck_assert_int_eq(weft_http_serve("127.0.0.1:0", say_origin, NULL, &bad), -EINVAL);
    ck_assert_any_words(-EINVAL);
}
END_TEST

START_TEST(fields_of_forwarded_are_one_list_and_a_strangers_do_not_count)
{
    static const struct {
        const char *fields, *origin;
    } cases[] = {
        {"Forwarded: for=1.1.1.1;proto=https;host=evil\r\nForwarded: for=192.0.2.1;host=b.org\r\n",
         "http b.org 192.0.2.1"},
        {"Forwarded: for=192.0.2.1;proto=https;host=b.org\r\nForwarded: for=10.0.0.1\r\n",
         "https b.org 192.0.2.1"},
        {"Forwarded: for=\"x\r\nForwarded: for=192.0.2.1\r\n", "http a 192.0.2.1"},
        {"Forwarded: bad\r\n", "http a unix"},
        {"Forwarded: for=192.0.2.1;host=\"<\";proto=gopher\r\n", "http  192.0.2.1"},
        {"X-Forwarded-For: 1.1.1.1\r\n", "http a unix"},
    };
    const weft_http_options o = {.trusted_peers = "unix, 10.0.0.0/8",
                                 .trusted_headers = "Forwarded"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\n" HOST "%s\r\n", cases[i].fields);
        talk_once(&t, say_origin, NULL, &o, text);
        ck_assert_str_eq(body_of(t.heard), cases[i].origin);
    }
}
END_TEST

START_TEST(of_what_proxies_say_the_last_counts)
{
    const weft_http_options trusting = {.trusted_peers = "unix",
                                        .trusted_headers =
                                            "X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto"};
    talk_once(&t, say_origin, NULL, &trusting,
              "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 6.6.6.6\r\n"
              "X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.org\r\n"
              "X-Forwarded-For: 192.0.2.1\r\n"
              "X-Forwarded-Proto: http\r\nX-Forwarded-Host: evil.org, b.org\r\n\r\n");
    ck_assert_str_eq(body_of(t.heard), "http b.org 192.0.2.1");
}
END_TEST

START_TEST(the_host_of_an_absolute_target_counts)
{
    talk_once(&t, say_origin, NULL, NULL, "GET http://B.org:81/ HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_str_eq(body_of(t.heard), "http b.org unix");
    talk_once(&t, say_origin, NULL, NULL, "GET / HTTP/1.0\r\n\r\n");
    ck_assert_str_eq(body_of(t.heard), "http  unix");
}
END_TEST

static int upgrade_to_echo(weft_http_request *r, void *ctx)
{
    int *rc = ctx;
    weft_stream *stream;
    char *line;
    *rc = weft_http_upgrade(r, "echo", &stream);
    if (*rc < 0)
        return *rc;
    while (weft_stream_line(stream, &line, NULL) > 0)
        ck_assert_int_ge(weft_stream_printf(stream, "<%s>\n", line), 0);
    ck_assert_int_eq(weft_http_reply_text(r, 200, "late"), -EALREADY);
    return weft_stream_flush(stream);
}

START_TEST(a_connection_is_handed_over_with_what_has_come)
{
    int rc = 0;
    talk_open(&t, upgrade_to_echo, &rc, NULL);
    talk_send(&t, "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\n"
                  "Upgrade: other, Echo\r\n\r\none\nGET / HTTP/1.1\nthr");
    talk_hear(&t, "<GET / HTTP/1.1>\n");
    talk_send(&t, "ee\n");
    weft_shutdown(t.fd, SHUT_WR);
    talk_hear_all(&t);
    ck_assert_int_eq(status_of(t.heard), 101);
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nUpgrade: echo\r\n"));
    ck_assert_str_eq(body_of(t.heard), "<one>\n<GET / HTTP/1.1>\n<three>\n");
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(a_connection_is_not_handed_over_unasked)
{
    static const char *const unasked[] = {
        GET,
        "GET / HTTP/1.1\r\n" HOST "Upgrade: echo\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: other\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n"
        "Content-Length: 5\r\n\r\nhello",
    };
    for (size_t i = 0; i < COUNT_OF(unasked); i++) {
        int rc = 0;
        talk_once(&t, upgrade_to_echo, &rc, NULL, unasked[i]);
        ck_assert_int_eq(rc, -EINVAL);
        ck_assert_int_eq(status_of(t.heard), 400);
    }
}
END_TEST

static int send_events(weft_http_request *r, void *ctx)
{
    int *rc = ctx;
    *rc = weft_http_events(r);
    ck_assert_int_eq(weft_http_event(r, "a\nb", NULL, "x"), -EINVAL);
    ck_assert_int_eq(weft_http_event(r, NULL, "a\rb", "x"), -EINVAL);
    ck_assert_int_eq(weft_http_event(r, "name", "7", "one\ntwo\r\nthree\rfour\n"), 0);
    while (*rc == 0) {
        *rc = weft_http_event(r, NULL, NULL, "again");
        weft_sleep(0.001);
    }
    return *rc;
}

START_TEST(events_go_out_at_once_until_nobody_listens)
{
    int rc = 0;
    talk_open(&t, send_events, &rc, NULL);
    talk_send(&t, GET);
    talk_hear(&t, "data: again\n\n");
    ck_assert_ptr_nonnull(strstr(t.heard, "\r\nContent-Type: text/event-stream\r\n"));
    ck_assert_ptr_nonnull(strstr(t.heard, "event: name\n"));
    ck_assert_ptr_nonnull(strstr(t.heard, "id: 7\n"));
    ck_assert_ptr_nonnull(strstr(t.heard, "data: two\n"));
    ck_assert_uint_eq(count_in(t.heard, "data: again"), 1);
    talk_close(&t);
    ck_assert_int_lt(rc, 0);
    assert_nothing_pending();
}
END_TEST

static const TTest *const *const tests[] = {
    &forms_queries_and_cookies_are_taken_apart,
    &cookies_are_set_beside_each_other,
    &a_proxy_is_believed_only_if_it_is_trusted,
    &a_trusted_proxy_is_believed_only_in_headers_that_are_named,
    &fields_of_forwarded_are_one_list_and_a_strangers_do_not_count,
    &of_what_proxies_say_the_last_counts,
    &the_host_of_an_absolute_target_counts,
    &a_connection_is_handed_over_with_what_has_come,
    &a_connection_is_not_handed_over_unasked,
    &events_go_out_at_once_until_nobody_listens,
};

int main(void)
{
    return run_suite("http_request", tests, COUNT_OF(tests));
}
