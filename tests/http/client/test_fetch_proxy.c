/* The HTTP client with the proxies of the environment. */
#include "http/fetch_support.h"

#include "http/client/fetch.h"
#include "support/suite.h"

static const script_step hello[] = {{.reply = OK("by proxy", "8")}};

static void set_proxy(const char *name, const script_server *proxy, const char *user)
{
    char value[128];
    snprintf(value, sizeof value, "http://%s127.0.0.1:%d", user, proxy->port);
    setenv(name, value, 1);
}

TEST(a_plain_request_is_sent_to_the_proxy_with_the_whole_url)
{
    script_server proxy;
    start_server(&proxy, hello, 1);
    set_proxy("http_proxy", &proxy, "us%65r:pa%3Ass@");
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_fetch(fetcher, "http://nowhere.test/a?b#c", "by proxy");
    ck_assert_fetch(fetcher, "http://nowhere.test:81/", "by proxy");
    ck_assert_server_received(&proxy,
                              "GET http://nowhere.test/a?b HTTP/1.1\r\nHost: nowhere.test\r\n");
    ck_assert_server_received(&proxy,
                              "GET http://nowhere.test:81/ HTTP/1.1\r\nHost: nowhere.test:81\r\n");
    ck_assert_uint_eq(count_in(proxy.received, "Proxy-Authorization: Basic dXNlcjpwYTpzcw==\r\n"),
                      2);
    weft_fetcher_free(fetcher);
    stop_server(&proxy);
}

TEST(proxy_variables_work_as_in_other_clients)
{
    static const struct {
        const char *name, *url;
        bool is_used;
    } rows[] = {
        {"http_proxy", "http://a.test/", true},   {"http_proxy", "https://a.test/", false},
        {"HTTP_PROXY", "http://a.test/", false},  {"https_proxy", "https://a.test/", true},
        {"HTTPS_PROXY", "https://a.test/", true}, {"https_proxy", "http://a.test/", false},
        {"all_proxy", "http://a.test/", true},    {"all_proxy", "https://a.test/", true},
        {"ALL_PROXY", "http://a.test/", true},    {"ALL_PROXY", "https://a.test/", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft_url url;
        weft__proxy p;
        unset_proxies();
        setenv(rows[i].name, "proxy.test:3128", 1);
        ck_assert_int_eq(weft_url_open(&url, rows[i].url), 0);
        ck_assert_int_eq(weft__proxy_open(&p, &url), 0);
        ck_assert_msg(p.is_used == rows[i].is_used, "row %zu", i);
        if (p.is_used) {
            ck_assert_str_eq(p.url.host, "proxy.test");
            ck_assert_int_eq(p.url.port, 3128);
        }
        weft__proxy_close(&p);
        weft_url_close(&url);
    }
}

TEST(an_invalid_proxy_is_an_error)
{
    weft_fetch *f;
    setenv("http_proxy", "socks5://127.0.0.1:1080", 1);
    ck_assert_int_eq(weft_fetch_get(NULL, "http://a.test/", &f), -ENOTSUP);
    ck_assert_any_error(-ENOTSUP);
    setenv("http_proxy", "http://a b", 1);
    ck_assert_int_eq(weft_fetch_get(NULL, "http://a.test/", &f), -EINVAL);
    setenv("http_proxy", "", 1);
    weft_url url;
    weft__proxy p;
    ck_assert_int_eq(weft_url_open(&url, "http://a.test/"), 0);
    ck_assert_int_eq(weft__proxy_open(&p, &url), 0);
    ck_assert(!p.is_used);
    weft_url_close(&url);
}

TEST(no_proxy_lists_hosts_to_reach_directly)
{
    static const struct {
        const char *list, *url;
        bool is_direct;
    } rows[] = {
        {"*", "http://any.test/", true},
        {"a.test", "http://a.test/", true},
        {"a.test", "http://A.Test/", true},
        {"A.TEST", "http://a.test/", true},
        {"a.test", "http://b.a.test/", true},
        {".a.test", "http://b.a.test/", true},
        {".a.test", "http://a.test/", true},
        {"a.test", "http://ba.test/", false},
        {"b.a.test", "http://a.test/", false},
        {"x.test, a.test", "http://a.test/", true},
        {"x.test a.test", "http://a.test/", true},
        {"x.test,,", "http://a.test/", false},
        {"", "http://a.test/", false},
        {".", "http://a.test/", false},
        {"a.test:80", "http://a.test/", true},
        {"a.test:81", "http://a.test/", false},
        {"a.test:81", "http://a.test:81/", true},
        {"127.0.0.1", "http://127.0.0.1:8080/", true},
        {"127.0.0.1", "http://127.0.0.2/", false},
        {"0.0.1", "http://127.0.0.1/", true}, /* a suffix, as in other clients */
        {"10.0.0.0/8", "http://10.9.8.7/", true},
        {"10.0.0.0/8", "http://11.0.0.1/", false},
        {"10.0.0.0/9", "http://10.128.0.0/", false},
        {"10.0.0.0/33", "http://10.0.0.0/", false},
        {"10.0.0.0/x", "http://10.0.0.0/", false},
        {"0.0.0.0/0", "http://10.0.0.1/", true},
        {"0.0.0.0/0", "http://[::1]/", false},
        {"::1", "http://[::1]/", true},
        {"[::1]:81", "http://[::1]:81/", true},
        {"[::1]:81", "http://[::1]:82/", false},
        {"fe80::/10", "http://[fe80::1]/", true},
        {"fe80::/10", "http://[fec0::1]/", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft_url url;
        weft__proxy p;
        setenv("http_proxy", "http://proxy.test", 1);
        setenv(i % 2 ? "no_proxy" : "NO_PROXY", rows[i].list, 1);
        unsetenv(i % 2 ? "NO_PROXY" : "no_proxy");
        ck_assert_int_eq(weft_url_open(&url, rows[i].url), 0);
        ck_assert_int_eq(weft__proxy_open(&p, &url), 0);
        ck_assert_msg(p.is_used != rows[i].is_direct, "row %zu", i);
        weft__proxy_close(&p);
        weft_url_close(&url);
    }
}

TEST(a_fetcher_can_ignore_the_proxies_of_the_environment)
{
    script_server proxy, sv;
    static const script_step direct[] = {{.reply = OK("direct", "6")}};
    start_server(&proxy, hello, 1);
    start_server(&sv, direct, 1);
    set_proxy("http_proxy", &proxy, "");
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.has_no_proxy = true});
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "direct");
    weft_fetcher_free(fetcher);
    ck_assert_fetch(NULL, url_of(&sv, "/"), "by proxy");
    setenv("no_proxy", "127.0.0.1", 1);
    ck_assert_fetch(NULL, url_of(&sv, "/"), "direct");
    const weft_fetch_field field = {"Proxy-Authorization", "Basic x"};
    const weft_fetch_request r = {.url = url_of(&sv, "/"), .fields = &field, .fields_count = 1};
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &f), 200);
    weft_fetch_close(f);
    ck_assert_server_not_received(&sv, "Proxy-Authorization");
    stop_server(&proxy);
    stop_server(&sv);
}

TEST(connections_are_not_shared_between_proxies_or_users_of_a_proxy)
{
    script_server one, two;
    start_server(&one, hello, 1);
    start_server(&two, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 2; i++) {
        set_proxy("http_proxy", &one, "");
        ck_assert_fetch(fetcher, "http://a.test/", "by proxy");
        set_proxy("http_proxy", &two, "");
        ck_assert_fetch(fetcher, "http://a.test/", "by proxy");
        set_proxy("http_proxy", &two, "u:p@");
        ck_assert_fetch(fetcher, "http://a.test/", "by proxy");
    }
    ck_assert_uint_eq(one.conns, 1);
    ck_assert_uint_eq(two.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&one);
    stop_server(&two);
}

TEST(a_refused_or_malformed_tunnel_is_an_error)
{
    static const struct {
        const char *reply;
        int rc;
    } rows[] = {
        {"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\nContent-Length: 3\r\n\r\nwho", -EACCES},
        {"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n", -ECONNREFUSED},
        {"HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", -ECONNREFUSED},
        {"nonsense\r\n\r\n", -EBADMSG},
        {"", -ECONNRESET},
        {"HTTP/1.1 200 OK\r\n\r\nspeaks first", -EBADMSG},
    };
    warm_up();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const script_step steps[] = {{.reply = rows[i].reply, .closes = true}};
        script_server proxy;
        start_server(&proxy, steps, 1);
        set_proxy("https_proxy", &proxy, "u:p@");
        weft_fetch *f;
        int rc = weft_fetch_get(NULL, "https://a.test:8443/x", &f);
        ck_assert_msg(rc == rows[i].rc, "row %zu: %d", i, rc);
        ck_assert_str_eq(proxy.received, "CONNECT a.test:8443 HTTP/1.1\r\nHost: a.test:8443\r\n"
                                         "Proxy-Authorization: Basic dTpw\r\n\r\n");
        let_run();
        ck_assert_uint_eq(proxy.open_conns, 0);
        stop_server(&proxy);
    }
}
