/*
 * The parts of a request that a handler reads: forms, cookies, hosts, and headers of trusted
 * proxies. Also upgrades to another protocol and server-sent events.
 */
#include "http/http_support.h"
#include "support/suite.h"

FIXTURE(NULL, end_test)

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"

static const char *text_or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

static int reply_fields(weft_http_request *r, void *ctx)
{
    int error = 0;
    const char *a = text_or_dash(weft_http_form(r, "a", &error));
    const char *b = text_or_dash(weft_http_form(r, "b", NULL));
    return weft_http_reply_text(
        r, 200, "form %s %s %d query %s %s cookie %s %s", a, b, error,
        text_or_dash(weft_http_query_param(r, "q")), text_or_dash(weft_http_query_param(r, "none")),
        text_or_dash(weft_http_cookie(r, "c")), text_or_dash(weft_http_cookie(r, "d")));
}

TEST(forms_queries_and_cookies_are_decoded)
{
    exchange(reply_fields,
             "POST /?q=%41+b&q=2&&= HTTP/1.1\r\n" HOST "Cookie: c=1; x\r\nCookie: d=\"2\"\r\n"
             "Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n"
             "Content-Length: 13\r\n\r\na=x%26y&b=1+2");
    ck_assert_str_eq(body_of(client.received), "form x&y 1 2 0 query A b - cookie 1 2");
    exchange(reply_fields, "POST /?q HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\n"
                           "Content-Length: 3\r\n\r\na=x");
    const char *expected = format("form - - %d query  - cookie - -", -EINVAL);
    ck_assert_str_eq(body_of(client.received), expected);
}

static int set_cookies(weft_http_request *r, void *ctx)
{
    const weft_http_cookie_options o = {.path = "/", .is_http_only = true, .same_site = "Lax"};
    ck_assert_int_eq(weft_http_set_cookie(r, "a", "1", &o), 0);
    ck_assert_int_eq(weft_http_set_cookie(r, "b", "2", NULL), 0);
    return weft_http_reply_text(r, 200, "set");
}

TEST(each_cookie_has_its_own_header)
{
    exchange(set_cookies, GET);
    ck_assert_uint_eq(count_in(client.received, "\r\nSet-Cookie: "), 2);
    ck_assert_has(client.received, "\r\nSet-Cookie: b=2\r\n", "HttpOnly");
}

static int reply_origin(weft_http_request *r, void *ctx)
{
    return weft_http_reply_text(r, 200, "%s %s %s", weft_http_scheme(r), weft_http_host(r),
                                weft_http_peer(r));
}

static void assert_origin(const weft_http_options *o, const char *request, const char *origin)
{
    client_exchange(&client, reply_origin, NULL, o, request);
    ck_assert_str_eq(body_of(client.received), origin);
}

/* By default only X-Forwarded-For is trusted: nginx forwards the other headers unchanged. */
TEST(only_trusted_headers_of_a_trusted_proxy_count)
{
    static const char request[] =
        "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\n"
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
        static const char *const others[] = {NULL, "::1", "127.0.0.1"};
        weft_http_options o = {.trusted_peers = "unix, 10.0.0.0/8",
                               .trusted_headers = cases[i].headers};
        assert_origin(&o, request, cases[i].origin);
        for (size_t k = 0; k < COUNT_OF(others); k++) {
            o.trusted_peers = others[k];
            assert_origin(&o, request, "http a unix");
        }
    }
    const weft_http_options bad = {.trusted_headers = "X-Forwarded-For, Host"};
    ck_assert_fails(weft_http_serve("127.0.0.1:0", reply_origin, NULL, &bad), -EINVAL);
}

TEST(forwarded_headers_form_one_list_and_entries_of_untrusted_peers_are_ignored)
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
        const char *text = format("GET / HTTP/1.1\r\n" HOST "%s\r\n", cases[i].fields);
        assert_origin(&o, text, cases[i].origin);
    }
}

TEST(the_last_value_of_a_forwarding_header_and_an_absolute_target_count)
{
    ONLY_HTTP_1;
    const weft_http_options o = {.trusted_peers = "unix",
                                 .trusted_headers =
                                     "X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto"};
    assert_origin(&o,
                  "GET / HTTP/1.1\r\n" HOST "X-Forwarded-For: 6.6.6.6\r\n"
                  "X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.org\r\n"
                  "X-Forwarded-For: 192.0.2.1\r\n"
                  "X-Forwarded-Proto: http\r\nX-Forwarded-Host: evil.org, b.org\r\n\r\n",
                  "http b.org 192.0.2.1");
    assert_origin(NULL, "GET http://B.org:81/ HTTP/1.1\r\n" HOST "\r\n", "http b.org unix");
    assert_origin(NULL, "GET / HTTP/1.0\r\n\r\n", "http  unix");
}

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

TEST(an_upgraded_stream_includes_input_that_already_arrived)
{
    ONLY_HTTP_1;
    int rc = 0;
    start_client(upgrade_to_echo, &rc, NULL,
                 "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\n"
                 "Upgrade: other, Echo\r\n\r\none\nGET / HTTP/1.1\nthr");
    client_expect(&client, "<GET / HTTP/1.1>\n");
    client_send(&client, "ee\n");
    weft_shutdown(client.fd, SHUT_WR);
    expect_status(101);
    ck_assert_has(client.received, "\r\nUpgrade: echo\r\n");
    ck_assert_str_eq(body_of(client.received), "<one>\n<GET / HTTP/1.1>\n<three>\n");
}

TEST(an_upgrade_that_the_client_did_not_request_is_einval)
{
    ONLY_HTTP_1;
    static const char *const requests[] = {
        GET,
        "GET / HTTP/1.1\r\n" HOST "Upgrade: echo\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: other\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n"
        "Content-Length: 5\r\n\r\nhello",
    };
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        int rc = 0;
        client_exchange(&client, upgrade_to_echo, &rc, NULL, requests[i]);
        ck_assert_int_eq(rc, -EINVAL);
        ck_assert_int_eq(status_of(client.received), 400);
    }
}

static int hijack(weft_http_request *r, void *ctx)
{
    int *rc = ctx;
    weft_stream *stream;
    char *line;
    *rc = weft_http_hijack(r, &stream);
    if (*rc < 0)
        return *rc;
    ck_assert_int_eq(weft_http_reply_text(r, 200, "late"), -EALREADY);
    ck_assert_int_eq(weft_http_hijack(r, &stream), -EALREADY);
    ck_assert_int_gt(weft_stream_line(stream, &line, NULL), 0);
    ck_assert_int_ge(weft_stream_printf(stream, "own protocol: %s\n", line), 0);
    return weft_stream_flush(stream);
}

TEST(a_hijacked_connection_sends_only_what_the_handler_writes)
{
    ONLY_HTTP_1;
    int rc = 0;
    client_exchange(&client, hijack, &rc, NULL,
                    "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\none\n" GET);
    ck_assert_int_eq(rc, 0);
    ck_assert_str_eq(client.received, "own protocol: one\n");
}

static int read_then_hijack(weft_http_request *r, void *ctx)
{
    char byte;
    ck_assert_int_eq(weft_http_read(r, &byte, 1), 1);
    return hijack(r, ctx);
}

TEST(a_request_whose_body_was_read_in_part_cannot_be_hijacked)
{
    ONLY_HTTP_1;
    int rc = 0;
    client_exchange(&client, read_then_hijack, &rc, NULL,
                    "POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\none\n");
    ck_assert_int_eq(rc, -EALREADY);
}

static int reply_path(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%s?%s", weft_http_path(r), weft_http_query(r));
}

TEST(a_raw_path_is_neither_decoded_nor_resolved)
{
    const weft_http_options o = {.has_raw_path = true};
    client_exchange(&client, reply_path, NULL, &o,
                    "GET /a%2Fb/../%20c//d?q=%2F HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_str_eq(body_of(client.received), "/a%2Fb/../%20c//d?q=%2F");
}

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

TEST(events_are_sent_without_buffering_until_the_client_closes)
{
    int rc = 0;
    start_client(send_events, &rc, NULL, GET);
    client_expect(&client, "data: again\n\n");
    ck_assert_has(client.received, "\r\nContent-Type: text/event-stream\r\n", "event: name\n",
                  "id: 7\n", "data: two\n");
    ck_assert_uint_eq(count_in(client.received, "data: again"), 1);
    client_close(&client);
    ck_assert_int_lt(rc, 0);
}
