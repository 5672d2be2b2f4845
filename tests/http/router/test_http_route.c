/* Routes: the handler for a method, host and path, and the replies if there is none. */
#include "http/http_support.h"
#include "support/suite.h"

static weft_http_router *routes;

static void free_routes(void)
{
    weft_http_router_free(routes);
}

static void open_routes(void)
{
    routes = weft_http_router_new();
    ck_assert_ptr_nonnull(routes);
}

FIXTURE(open_routes, free_routes)

/* Reply with the name of the route, and with the parameters a, b and rest. */
static int reply_route(weft_http_request *r, void *name)
{
    static const char *const names[] = {"a", "b", "rest"};
    weft_http_printf(r, "%s", (const char *)name);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (weft_http_param(r, names[i]) != NULL)
            weft_http_printf(r, " %s=%s", names[i], weft_http_param(r, names[i]));
    return 0;
}

static void add_route(const char *method, const char *pattern, const char *name)
{
    ck_assert_int_eq(weft_http_route(routes, method, pattern, reply_route, (void *)(uintptr_t)name),
                     0);
}

/* Send a request for "host/path" and return the response. */
static const char *request_route(const char *method, const char *url)
{
    size_t host = strcspn(url, "/");
    const char *text =
        format("%s %s HTTP/1.1\r\nHost: %.*s\r\n\r\n", method, url + host, (int)host, url);
    return client_exchange(&client, weft_http_serve_routes, routes, NULL, text);
}

static void assert_route(const char *url, const char *expected)
{
    ck_assert_str_eq(body_of(request_route("GET", url)), expected);
}

static void assert_404(const char *url)
{
    ck_assert_msg(status_of(request_route("GET", url)) == 404, "%s: %s", url, client.received);
}

TEST(literals_and_parameters_match_segments)
{
    add_route("GET", "/", "root");
    add_route("GET", "/users", "users");
    add_route("GET", "/users/", "users, slash");
    add_route("GET", "/users/{a}", "user");
    add_route("GET", "/users/{a}/photos/{b}", "photo");
    EACH_PAIR(assert_route, "h/ -> root", "h/users -> users", "h/users/ -> users, slash",
              "h/users/42 -> user a=42", "h/users/a%20b%25 -> user a=a b%",
              "h/users/42/photos/7.jpg?x=y -> photo a=42 b=7.jpg");
    EACH_TEXT(assert_404, "h/users/42/photos", "h/users/42/", "h/user", "h/users/42/photos/7/8");
}

TEST(the_last_parameter_may_match_the_rest_of_the_path)
{
    add_route(NULL, "/files/{rest...}", "files");
    add_route("GET", "/{a}/x/{rest...}", "deep");
    EACH_PAIR(assert_route,
              "h/files/ -> files rest=", "h/files -> files rest=", "h/files/a -> files rest=a",
              "h/files/a/b%2Ec/ -> files rest=a/b.c/", "h/q/x/y/z -> deep a=q rest=y/z",
              "h/q/x -> deep a=q rest=");
    ck_assert_int_eq(status_of(request_route("GET", "h/filesystem")), 404);
}

static void add_by_index(size_t i)
{
    static const struct {
        const char *method, *pattern;
    } all[] = {
        {NULL, "/{rest...}"},   {NULL, "/{a}"},       {"GET", "/{a}"},
        {"GET", "/one"},        {"GET", "/one/{a}"},  {"GET", "/one/{rest...}"},
        {"GET", "/{a}/two"},    {"GET", "h.org/{a}"}, {"GET", "*.org/{rest...}"},
        {"GET", "*.h.org/one"}, {"POST", "/{a}/{b}"}, {"POST", "/one/two"},
    };
    add_route(all[i].method, all[i].pattern, all[i].pattern);
}

/* The order in which routes are added makes no difference. */
TEST(the_most_specific_route_wins)
{
    static const size_t count = 12, steps[] = {1, 5, 7, 11}; /* coprime to 12: all orders differ */
    for (size_t s = 0; s < COUNT_OF(steps); s++) {
        free_routes();
        open_routes();
        for (size_t i = 0; i < count; i++)
            add_by_index(i * steps[s] % count);
        EACH_PAIR(assert_route, "q/one -> /one", "q/else -> /{a} a=else",
                  "q/one/two -> /one/{a} a=two", "q/one/two/three -> /one/{rest...} rest=two/three",
                  "q/other/two -> /{a}/two a=other", "q/other/three -> /{rest...} rest=other/three",
                  "h.org/one -> h.org/{a} a=one", "h.org/one/two -> *.org/{rest...} rest=one/two",
                  "w.h.org/one -> *.h.org/one", "v.w.h.org:8080/one -> *.h.org/one",
                  "w.h.org/two -> *.org/{rest...} rest=two", "H.ORG/one -> h.org/{a} a=one",
                  "org/one -> /one");
        ck_assert_str_eq(body_of(request_route("POST", "q/one")), "/{a} a=one");
        ck_assert_str_eq(body_of(request_route("POST", "q/one/two")), "/one/two");
        ck_assert_str_eq(body_of(request_route("POST", "q/one/three")), "/{a}/{b} a=one b=three");
    }
}

TEST(get_routes_serve_head_unless_head_has_its_own_route)
{
    add_route("GET", "/a", "get");
    add_route("GET", "/b", "get");
    add_route("HEAD", "/b", "a head of its own");
    request_route("HEAD", "h/a");
    ck_assert_str_eq(body_of(client.received), "");
    ck_assert_has(client.received, "Content-Length: 3\r\n");
    request_route("HEAD", "h/b");
    ck_assert_has(client.received, "Content-Length: 17\r\n");
}

TEST(another_method_is_405_with_an_allow_header)
{
    add_route("GET", "/a", "get");
    add_route("PUT", "/{a}", "put");
    add_route("DELETE", "h/a", "delete");
    add_route("POST", "/b", "post");
    ck_assert_int_eq(status_of(request_route("PATCH", "h/a")), 405);
    ck_assert_has(client.received, "Allow: DELETE, GET, HEAD, PUT, OPTIONS\r\n");
    ck_assert_int_eq(status_of(request_route("GET", "h/c")), 405);
    ck_assert_has(client.received, "Allow: PUT, OPTIONS\r\n");
    ck_assert_int_eq(status_of(request_route("GET", "h/c/d")), 404);
    ck_assert_lacks(client.received, "Allow");
}

TEST(options_gets_a_reply_unless_it_has_a_route)
{
    add_route("GET", "/a", "get");
    add_route("OPTIONS", "/b", "options");
    add_route("POST", "/c", "post");
    ck_assert_int_eq(status_of(request_route("OPTIONS", "h/a")), 204);
    ck_assert_has(client.received, "Allow: GET, HEAD, OPTIONS\r\n");
    ck_assert_str_eq(body_of(request_route("OPTIONS", "h/b")), "options");
    ck_assert_int_eq(status_of(request_route("OPTIONS", "h/d")), 404);
    client_exchange(&client, weft_http_serve_routes, routes, NULL,
                    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 204);
    ck_assert_has(client.received, "GET", "POST");
}

static void assert_bad_pattern(const char *pattern)
{
    int rc = weft_http_route(routes, "GET", pattern, reply_route, NULL);
    ck_assert_msg(rc == -EINVAL, "\"%s\" was %d", pattern, rc);
    ck_assert_any_error(-EINVAL);
}

TEST(a_bad_pattern_is_einval_with_a_message)
{
    EACH_TEXT(assert_bad_pattern, "", "a", "/{", "/}", "/{}", "/x{a}", "/{a}x", "/{a}{b}",
              "/{a...}/b", "/{a}/{a}", "/{1}", "/{a-b}", "/{...}", "/a/../b", "/.", "*/a", "*./a",
              "a b/c", "*.*.org/", "a.org./", "/{a..}",
              "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}");
    ck_assert_int_eq(weft_http_route(routes, "GE T", "/", reply_route, NULL), -EINVAL);
    ck_assert_int_eq(weft_http_route(routes, "", "/", reply_route, NULL), -EINVAL);
    ck_assert_int_eq(weft_http_route(routes, NULL, "/", NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_http_route(routes, NULL, NULL, reply_route, NULL), -EINVAL);
    ck_assert_int_eq(status_of(request_route("GET", "h/")), 404);
}

TEST(a_duplicate_route_is_eexist)
{
    add_route("GET", "/a/{a}", "first");
    add_route(NULL, "/a/{b}", "for all");
    add_route("GET", "h.org/a/{a}", "of a host");
    ck_assert_int_eq(weft_http_route(routes, "GET", "/a/{other}", reply_route, NULL), -EEXIST);
    ck_assert_int_eq(weft_http_route(routes, NULL, "/a/{other}", reply_route, NULL), -EEXIST);
    ck_assert_int_eq(weft_http_route(routes, "GET", "H.org/a/{x}", reply_route, NULL), -EEXIST);
    assert_route("q/a/1", "first a=1");
    ck_assert_str_eq(body_of(request_route("PUT", "q/a/1")), "for all b=1");
}

TEST(each_of_a_thousand_routes_is_found)
{
    static char patterns[1000][32];
    for (int i = 0; i < 1000; i++) {
        snprintf(patterns[i], sizeof patterns[i], "/%d/{a}/%d", i * 7919 % 1000, i % 3);
        add_route("GET", patterns[i], patterns[i]);
    }
    for (int i = 0; i < 1000; i += 37) {
        const char *url = format("h/%d/v/%d", i * 7919 % 1000, i % 3);
        assert_route(url, format("%.31s a=v", patterns[i]));
    }
}
