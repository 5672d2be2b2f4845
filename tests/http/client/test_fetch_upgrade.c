/* The HTTP client switches a connection to another protocol. */
#include "http/fetch_support.h"
#include "support/suite.h"

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
#define SWITCHED(protocol) \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " protocol "\r\n\r\n"

static weft_stream *upgraded;

/* Switch to "echo", send a greeting in the same packet, and echo lines until the client closes. */
static bool switch_to_echo(script_server *sv, weft_stream *s)
{
    char line[64];
    weft_stream_puts(s, "HTTP/1.1 103 Early Hints\r\n\r\n" SWITCH "hello\n");
    while (weft_stream_gets(s, line, sizeof line) > 0)
        weft_stream_puts(s, line);
    return false;
}

static void open_lines(void)
{
    open_site(STEPS({.handle = switch_to_echo}));
}

FIXTURE(open_lines, close_site)

static int upgrade_url(const char *url, const char *protocol)
{
    close_fetch();
    return weft_fetch_upgrade(fetcher, &(weft_fetch_request){.url = url}, protocol, &fetch,
                              &upgraded);
}

static int upgrade(void)
{
    return upgrade_url(url_of(&site, "/chat?a=b"), "echo");
}

static void assert_line(const char *expected)
{
    char line[64];
    ck_assert_int_eq(weft_stream_gets(upgraded, line, sizeof line), (ssize_t)strlen(expected));
    ck_assert_str_eq(line, expected);
}

TEST(a_switch_returns_the_stream_with_the_input_that_has_arrived)
{
    ck_assert_int_eq(upgrade(), 101);
    ck_assert_int_eq(weft_fetch_status(fetch), 101);
    ck_assert_str_eq(weft_fetch_header(fetch, "upgrade"), "echo");
    assert_line("hello\n");
    weft_stream_puts(upgraded, "one\n");
    assert_line("one\n");
    ck_assert_has(site.received, "GET /chat?a=b HTTP/1.1\r\n",
                  "Connection: Upgrade\r\nUpgrade: echo\r\n");
    close_fetch();
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

TEST(an_upgrade_never_uses_an_idle_connection_and_is_never_reused)
{
    static const char refusal[] = "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno";
    open_site(STEPS({.reply = OK("hello", "5")}, {.reply = refusal}, {.reply = OK("again", "5")}));
    assert_page("/", "hello");
    ck_assert_int_eq(upgrade(), 403);
    ck_assert_ptr_null(upgraded);
    assert_body("no");
    ck_assert_uint_eq(site.conns, 2);
    close_fetch();
    assert_page("/", "again");
    ck_assert_uint_eq(site.conns, 2);
}

TEST(a_switched_connection_holds_no_slot_of_its_origin)
{
    use_fetcher((weft_fetcher_options){.connections_per_origin_max = 1});
    weft_fetch *first;
    ck_assert_int_eq(upgrade(), 101);
    first = fetch;
    fetch = NULL;
    ck_assert_int_eq(upgrade(), 101);
    ck_assert_uint_eq(site.conns, 2);
    ck_assert_int_eq(weft_fetcher_free(fetcher), -EBUSY);
    weft_fetch_close(first);
}

TEST(a_redirect_is_not_followed)
{
    open_site(STEPS({.reply = "HTTP/1.1 302 Go\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"}));
    ck_assert_int_eq(upgrade(), 302);
    ck_assert_str_eq(weft_fetch_header(fetch, "Location"), "/x");
    ck_assert_uint_eq(site.requests, 1);
}

TEST(an_invalid_switch_is_an_error)
{
    static const struct {
        const char *reply;
        int rc;
    } rows[] = {
        {SWITCHED("other"), -EBADMSG},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n", -EBADMSG},
        {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n", -EBADMSG},
        {"HTTP/1.1 101 Switching", -ECONNRESET},
        {"", -ECONNRESET},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_site(STEPS({.reply = rows[i].reply, .closes = true}));
        int rc = upgrade();
        ck_assert_msg(rc == rows[i].rc, "row %zu: %d", i, rc);
        ck_assert_ptr_null(fetch);
        ck_assert_ptr_null(upgraded);
        let_run();
        ck_assert_uint_eq(site.open_conns, 0);
    }
}

TEST(a_101_without_a_request_to_switch_is_an_error)
{
    ck_assert_int_eq(get("/"), -EBADMSG);
}

TEST(an_invalid_request_sends_nothing)
{
    const weft_fetch_field field = {"Connection", "close"};
    weft_fetch_request r = {.url = url_of(&site, "/"), .fields = &field, .fields_count = 1};
    ck_assert_int_eq(weft_fetch_upgrade(fetcher, &r, "echo", &fetch, &upgraded), -EPERM);
    r = (weft_fetch_request){.url = url_of(&site, "/"), .body = "x", .body_bytes = 1};
    ck_assert_int_eq(weft_fetch_upgrade(fetcher, &r, "echo", &fetch, &upgraded), -EINVAL);
    ck_assert_int_eq(upgrade_url(url_of(&site, "/"), "a\r\nb"), -EINVAL);
    ck_assert_int_eq(upgrade_url(url_of(&site, "/"), NULL), -EINVAL);
    ck_assert_int_eq(upgrade_url(url_of(&site, "/"), ""), -EINVAL);
    ck_assert_int_eq(upgrade_url("ftp://a.test/", "echo"), -EINVAL);
    ck_assert_uint_eq(site.conns, 0);
}

/* Open the tunnel of a proxy. The next request of the connection then comes through the tunnel. */
static const script_step proxy_steps[] = {{.reply = "HTTP/1.1 200 OK\r\n\r\n"},
                                          {.handle = switch_to_echo}};

TEST(an_upgrade_of_a_plain_url_uses_a_tunnel_of_the_proxy)
{
    open_site(proxy_steps, 2);
    setenv("http_proxy", format("http://u:p@127.0.0.1:%d", site.port), 1);
    ck_assert_int_eq(upgrade_url("http://nowhere.test/chat", "echo"), 101);
    assert_line("hello\n");
    ck_assert_has(site.received, "CONNECT nowhere.test:80 HTTP/1.1\r\nHost: nowhere.test:80\r\n"
                                 "Proxy-Authorization: Basic dTpw\r\n\r\n"
                                 "GET /chat HTTP/1.1\r\nHost: nowhere.test\r\n");
    ck_assert_uint_eq(count_in(site.received, "Proxy-Authorization"), 1);
    unset_proxies();
}

TEST(a_cancelled_upgrade_closes_its_connection)
{
    open_site(STEPS({.reply = OK("", "0"), .is_held = true}));
    WEFT_MOVE_ON_AFTER(0.001)
        ck_assert_int_eq(upgrade(), -ECANCELED);
    ck_assert_ptr_null(fetch);
    release_replies(&site, 1);
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}
