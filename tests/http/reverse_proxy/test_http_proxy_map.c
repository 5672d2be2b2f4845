/* The reverse proxy for a part of a site: replaced prefixes, Location, and Unix sockets. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

#include <sys/stat.h>

/* Forward requests below prefix to the path base of the upstream server. */
static void open_mapped(const char *prefix, const char *base)
{
    chain_close();
    start_server(&upstream, hello, 1);
    chain_open_at(format("%s%s", upstream.base, base),
                  &(weft_http_proxy_options){.prefix = prefix});
    let_run(); /* a test may close the front server immediately */
}

static void open_api(void)
{
    open_mapped("/api", "/v1/");
}

FIXTURE(open_api, chain_close)

static void send_target(const char *target, int status)
{
    upstream.received_bytes = 0;
    assert_reply(format("GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", target), status);
}

static const char *upstream_target(const char *target)
{
    static char line[512];
    send_target(target, 200);
    ck_assert_int_eq(sscanf(upstream.received, "GET %511s", line), 1);
    return line;
}

PAIR_CHECK(assert_target, upstream_target(input))

TEST(the_path_of_the_upstream_server_replaces_the_prefix)
{
    EACH_PAIR(assert_target, "/api/users -> /v1/users", "/api -> /v1", "/api/ -> /v1/",
              "/api?q=/api -> /v1?q=/api",
              "/api/a%20b%2Bc;d=1?x=%2e%2e -> /v1/a%20b%2Bc;d=1?x=%2e%2e",
              "http://a/api/x -> /v1/x", "/api/api/x -> /v1/api/x",
              "/api/.well-known/x -> /v1/.well-known/x", "/apis/x -> /apis/x", "/x -> /x",
              "/api/a..b/c. -> /v1/a..b/c.", "/api/... -> /v1/...");
}

TEST(a_request_cannot_leave_the_replaced_path)
{
    EACH_PAIR(assert_target, "/api/../api/x -> /v1/x", "/api/%2e%2e/api/x?y -> /v1/x?y",
              "/x/../api/y -> /v1/y", "//api//y -> /v1/y", "/%61pi/y -> /v1/y", "/api/./y -> /v1/y",
              "/api/a/.. -> /v1/", "/api/a/%2E -> /v1/a/", "/api/x%3F/%2e/y?z -> /v1/x%3F/y?z");
    send_target("/api/../../api/x", 400);
    send_target("/api/a%2fb", 400);
    ck_assert_uint_eq(upstream.received_bytes, 0);
}

TEST(the_root_replaces_a_prefix_and_a_path_the_root)
{
    open_mapped("/api", "/");
    EACH_PAIR(assert_target, "/api/x -> /x", "/api -> /", "/api/ -> /", "/api?q -> /?q");
    open_mapped("/", "/v1");
    EACH_PAIR(assert_target, "/x -> /v1/x", "/ -> /v1/", "/?q -> /v1/?q");
}

TEST(without_a_path_of_the_upstream_server_the_target_does_not_change)
{
    open_mapped("/api", "");
    EACH_PAIR(assert_target, "/api/x -> /api/x", "/api/../api/y -> /api/../api/y");
}

/* @ in a Location is the origin of the upstream server. */
static const char *mapped_location(const char *location)
{
    static char text[256];
    bool is_of_upstream = location[0] == '@';
    upstream.steps[0].reply =
        format("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s%s\r\n\r\n",
               is_of_upstream ? upstream.base : "", location + is_of_upstream);
    send_target("/api/x", 302);
    ck_assert_int_eq(sscanf(strstr(client.received, "Location: "), "Location: %255s", text), 1);
    return text;
}

PAIR_CHECK(assert_location, mapped_location(input))

TEST(redirects_of_the_upstream_server_stay_below_the_prefix)
{
    EACH_PAIR(assert_location, "/v1/login?a=b -> /api/login?a=b", "/v1 -> /api",
              "@/v1/login -> /api/login", "http://a/v1/x -> /api/x", "HTTPS://A/v1/x -> /api/x",
              "/v1#part -> /api#part", "/v12/x -> /v12/x", "/other -> /other",
              "http://elsewhere/v1/x -> http://elsewhere/v1/x", "//a/v1/x -> //a/v1/x",
              "next -> next", "ftp://a/v1/x -> ftp://a/v1/x");
    open_mapped("/api", "/");
    EACH_PAIR(assert_location, "/login -> /api/login", "/ -> /api/", "@ -> /api",
              "http://elsewhere/x -> http://elsewhere/x");
}

TEST(prefixes_and_paths_that_do_not_fit_are_refused)
{
    static const struct {
        const char *upstream, *prefix;
    } cases[] = {{"http://a/v1", NULL},      {"http://a/v1", "api"},   {"http://a/v1", "/a//b"},
                 {"http://a/v1", "/a/../b"}, {"http://a/v1", "/%61"},  {"http://a/v1", ""},
                 {"http://a/v1?q", "/api"},  {"http://a/v1#f", "/api"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const weft_http_proxy_options o = {.prefix = cases[i].prefix};
        ck_assert_ptr_null(weft_http_proxy_new(cases[i].upstream, &o));
        ck_assert_int_eq(weft_error()->code, -EINVAL);
    }
}

static int reply_host(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%s from %s", weft_http_host(r), weft_http_peer(r));
}

static weft_value serve_unix(void *path)
{
    return weft_http_serve(path, reply_host, NULL, NULL);
}

TEST(a_unix_socket_is_the_upstream_server)
{
    char folder[] = "/tmp/weft-proxy-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    weft_fiber server = weft_spin(serve_unix, path);
    while (access(path, F_OK) < 0)
        let_run();
    chain_close();
    chain_open_at("http://none.invalid:1", &(weft_http_proxy_options){.unix_socket = path});
    assert_reply("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", 200);
    ck_assert_str_eq(body_of(client.received), "a.example from unix");
    chain_close_front();
    fetcher = weft_fetcher_new(&(weft_fetcher_options){.unix_socket = path});
    char *text;
    ck_assert_int_eq(weft_fetch_get(fetcher, "http://b.example/", &fetch), 200);
    ck_assert_int_gt(weft_fetch_read_all(fetch, &text), 0);
    ck_assert_str_eq(text, "b.example from unix");
    weft_fetch_close(fetch);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    fetch = NULL;
    fetcher = NULL;
    weft_terminate(server, INFINITY);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}
