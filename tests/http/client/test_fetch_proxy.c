/* The HTTP client with the proxies of the environment. */
#include "http/client/fetch.h"
#include "http/fetch_support.h"
#include "support/suite.h"

static const script_step by_proxy[] = {{.reply = OK("by proxy", "8")}};

static void open_proxy(void)
{
    open_site(by_proxy, 1);
}

FIXTURE(open_proxy, close_site)

static void set_proxy(const char *name, const script_server *proxy, const char *user)
{
    const char *value = format("http://%s127.0.0.1:%d", user, proxy->port);
    setenv(name, value, 1);
}

/* Return the proxy for a URL according to the environment, "" if there is none. */
static const char *proxy_for(const char *text)
{
    static char host[64];
    weft_url url;
    weft__proxy p;
    ck_assert_int_eq(weft_url_open(&url, text), 0);
    ck_assert_int_eq(weft__proxy_open(&p, &url), 0);
    snprintf(host, sizeof host, "%s", p.is_used ? p.url.host : "");
    ck_assert(!p.is_used || p.url.port == 3128);
    weft__proxy_close(&p);
    weft_url_close(&url);
    return host;
}

TEST(a_plain_request_is_sent_to_the_proxy_with_the_whole_url)
{
    set_proxy("http_proxy", &site, "us%65r:pa%3Ass@");
    ck_assert_fetch(fetcher, "http://nowhere.test/a?b#c", "by proxy");
    ck_assert_fetch(fetcher, "http://nowhere.test:81/", "by proxy");
    ck_assert_has(site.received, "GET http://nowhere.test/a?b HTTP/1.1\r\nHost: nowhere.test\r\n",
                  "GET http://nowhere.test:81/ HTTP/1.1\r\nHost: nowhere.test:81\r\n");
    ck_assert_uint_eq(count_in(site.received, "Proxy-Authorization: Basic dXNlcjpwYTpzcw==\r\n"),
                      2);
}

static void assert_proxy(const char *name, const char *schemes)
{
    unset_proxies();
    setenv(name, "proxy.test:3128", 1);
    ck_assert_msg(proxy_for("http://a.test/")[0] == (strchr(schemes, 'h') ? 'p' : '\0'), "%s",
                  name);
    ck_assert_msg(proxy_for("https://a.test/")[0] == (strchr(schemes, 's') ? 'p' : '\0'), "%s",
                  name);
}

/* h is http, s is https. HTTP_PROXY could be a header of a CGI request. */
TEST(proxy_variables_work_as_in_other_clients)
{
    EACH_PAIR(assert_proxy, "http_proxy -> h", "HTTP_PROXY -> ", "https_proxy -> s",
              "HTTPS_PROXY -> s", "all_proxy -> hs", "ALL_PROXY -> hs");
}

TEST(an_invalid_proxy_is_an_error)
{
    setenv("http_proxy", "socks5://127.0.0.1:1080", 1);
    ck_assert_fails(weft_fetch_get(NULL, "http://a.test/", &fetch), -ENOTSUP);
    setenv("http_proxy", "http://a b", 1);
    ck_assert_int_eq(weft_fetch_get(NULL, "http://a.test/", &fetch), -EINVAL);
    setenv("http_proxy", "", 1);
    ck_assert_str_eq(proxy_for("http://a.test/"), "");
}

static void assert_no_proxy(const char *list, const char *url, bool is_direct)
{
    static int calls;
    setenv("http_proxy", "http://proxy.test:3128", 1);
    setenv(calls % 2 ? "no_proxy" : "NO_PROXY", list, 1);
    unsetenv(calls++ % 2 ? "NO_PROXY" : "no_proxy");
    ck_assert_msg((proxy_for(url)[0] == '\0') == is_direct, "%s, %s", list, url);
}

static void assert_direct(const char *list, const char *url)
{
    assert_no_proxy(list, url, true);
}

static void assert_by_proxy(const char *list, const char *url)
{
    assert_no_proxy(list, url, false);
}

/* 0.0.1 is a suffix of 127.0.0.1, as in other clients. */
TEST(no_proxy_lists_hosts_to_reach_directly)
{
    EACH_PAIR(assert_direct, "* -> http://any.test/", "a.test -> http://a.test/",
              "a.test -> http://A.Test/", "A.TEST -> http://a.test/", "a.test -> http://b.a.test/",
              ".a.test -> http://b.a.test/", ".a.test -> http://a.test/",
              "x.test, a.test -> http://a.test/", "x.test a.test -> http://a.test/",
              "a.test:80 -> http://a.test/", "a.test:81 -> http://a.test:81/",
              "127.0.0.1 -> http://127.0.0.1:8080/", "0.0.1 -> http://127.0.0.1/",
              "10.0.0.0/8 -> http://10.9.8.7/", "0.0.0.0/0 -> http://10.0.0.1/",
              "::1 -> http://[::1]/", "[::1]:81 -> http://[::1]:81/",
              "fe80::/10 -> http://[fe80::1]/");
    EACH_PAIR(assert_by_proxy, "a.test -> http://ba.test/", "b.a.test -> http://a.test/",
              "x.test,, -> http://a.test/", " -> http://a.test/", ". -> http://a.test/",
              "a.test:81 -> http://a.test/", "127.0.0.1 -> http://127.0.0.2/",
              "10.0.0.0/8 -> http://11.0.0.1/", "10.0.0.0/9 -> http://10.128.0.0/",
              "10.0.0.0/33 -> http://10.0.0.0/", "10.0.0.0/x -> http://10.0.0.0/",
              "0.0.0.0/0 -> http://[::1]/", "[::1]:81 -> http://[::1]:82/",
              "fe80::/10 -> http://[fec0::1]/");
}

TEST(a_fetcher_can_ignore_the_proxies_of_the_environment)
{
    const weft_fetch_field field = {"Proxy-Authorization", "Basic x"};
    open_site(STEPS({.reply = OK("direct", "6")}));
    start_server(&other, by_proxy, 1);
    set_proxy("http_proxy", &other, "");
    assert_page("/", "by proxy");
    use_fetcher((weft_fetcher_options){.has_no_proxy = true});
    assert_page("/", "direct");
    setenv("no_proxy", "127.0.0.1", 1);
    use_fetcher((weft_fetcher_options){0});
    assert_page("/", "direct");
    weft_fetch_request r = {.url = url_of(&site, "/"), .fields = &field, .fields_count = 1};
    ck_assert_int_eq(send_request(r), 200);
    ck_assert_lacks(site.received, "Proxy-Authorization");
}

TEST(connections_are_not_shared_between_proxies_or_users_of_a_proxy)
{
    start_server(&other, by_proxy, 1);
    for (int i = 0; i < 6; i++) {
        set_proxy("http_proxy", i % 3 == 0 ? &site : &other, i % 3 == 2 ? "u:p@" : "");
        ck_assert_fetch(fetcher, "http://a.test/", "by proxy");
    }
    ck_assert_uint_eq(site.conns, 1);
    ck_assert_uint_eq(other.conns, 2);
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
        open_site(STEPS({.reply = rows[i].reply, .closes = true}));
        set_proxy("https_proxy", &site, "u:p@");
        int rc = weft_fetch_get(NULL, "https://a.test:8443/x", &fetch);
        ck_assert_msg(rc == rows[i].rc, "row %zu: %d", i, rc);
        ck_assert_str_eq(site.received, "CONNECT a.test:8443 HTTP/1.1\r\nHost: a.test:8443\r\n"
                                        "Proxy-Authorization: Basic dTpw\r\n\r\n");
        let_run();
        ck_assert_uint_eq(site.open_conns, 0);
    }
}
