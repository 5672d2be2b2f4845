/* Routes: who is called for which method, host and path, and what is said where nobody is. */
#include "http_support.h"

static talk t;
static weft_http_router *routes;

static void set_up(void)
{
    routes = weft_http_router_new();
    ck_assert_ptr_nonnull(routes);
}

/* Its route's name, and what the params of the names a, b and rest are. */
static int say_route(weft_http_request *r, void *name)
{
    static const char *const names[] = {"a", "b", "rest"};
    weft_http_printf(r, "%s", (const char *)name);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (weft_http_param(r, names[i]) != NULL)
            weft_http_printf(r, " %s=%s", names[i], weft_http_param(r, names[i]));
    return 0;
}

static void add(const char *method, const char *pattern, const char *name)
{
    ck_assert_int_eq(weft_http_route(routes, method, pattern, say_route, (void *)(uintptr_t)name),
                     0);
}

/* The whole reply to a request of that method, for "host/path". */
static const char *ask(const char *method, const char *url)
{
    char text[1024];
    size_t host = strcspn(url, "/");
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %.*s\r\n\r\n", method, url + host,
             (int)host, url);
    return talk_once(&t, weft_http_serve_routes, routes, NULL, text);
}

static void assert_route(const char *url, const char *expected)
{
    ck_assert_str_eq(body_of(ask("GET", url)), expected);
}

static void assert_heard(const char *line)
{
    ck_assert_msg(strstr(t.heard, line) != NULL, "\"%s\" is not in \"%s\"", line, t.heard);
}

START_TEST(words_and_names_match_their_segments)
{
    set_up();
    add("GET", "/", "root");
    add("GET", "/users", "users");
    add("GET", "/users/", "users, slash");
    add("GET", "/users/{a}", "user");
    add("GET", "/users/{a}/photos/{b}", "photo");
    assert_route("h/", "root");
    assert_route("h/users", "users");
    assert_route("h/users/", "users, slash");
    assert_route("h/users/42", "user a=42");
    assert_route("h/users/a%20b%25", "user a=a b%");
    assert_route("h/users/42/photos/7.jpg?x=y", "photo a=42 b=7.jpg");
    ck_assert_int_eq(status_of(ask("GET", "h/users/42/photos")), 404);
    ck_assert_int_eq(status_of(ask("GET", "h/users/42/")), 404);
    ck_assert_int_eq(status_of(ask("GET", "h/user")), 404);
    ck_assert_int_eq(status_of(ask("GET", "h/users/42/photos/7/8")), 404);
    weft_http_router_free(routes);
}
END_TEST

START_TEST(the_last_name_may_stand_for_all_that_is_left)
{
    set_up();
    add(NULL, "/files/{rest...}", "files");
    add("GET", "/{a}/x/{rest...}", "deep");
    assert_route("h/files/", "files rest=");
    assert_route("h/files", "files rest=");
    assert_route("h/files/a", "files rest=a");
    assert_route("h/files/a/b%2Ec/", "files rest=a/b.c/");
    assert_route("h/q/x/y/z", "deep a=q rest=y/z");
    assert_route("h/q/x", "deep a=q rest=");
    ck_assert_int_eq(status_of(ask("GET", "h/filesystem")), 404);
    weft_http_router_free(routes);
}
END_TEST

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
    add(all[i].method, all[i].pattern, all[i].pattern);
}

/* The order in which they were added makes no difference. */
START_TEST(what_is_more_particular_wins)
{
    static const size_t count = 12, steps[] = {1, 5, 7, 11}; /* none divides it: each a new order */
    for (size_t s = 0; s < COUNT_OF(steps); s++) {
        set_up();
        for (size_t i = 0; i < count; i++)
            add_by_index(i * steps[s] % count);
        assert_route("q/one", "/one");
        assert_route("q/else", "/{a} a=else");
        assert_route("q/one/two", "/one/{a} a=two");
        assert_route("q/one/two/three", "/one/{rest...} rest=two/three");
        assert_route("q/other/two", "/{a}/two a=other");
        assert_route("q/other/three", "/{rest...} rest=other/three");
        assert_route("h.org/one", "h.org/{a} a=one");
        assert_route("h.org/one/two", "*.org/{rest...} rest=one/two");
        assert_route("w.h.org/one", "*.h.org/one");
        assert_route("v.w.h.org:8080/one", "*.h.org/one");
        assert_route("w.h.org/two", "*.org/{rest...} rest=two");
        assert_route("H.ORG/one", "h.org/{a} a=one");
        assert_route("org/one", "/one");
        ck_assert_str_eq(body_of(ask("POST", "q/one")), "/{a} a=one");
        ck_assert_str_eq(body_of(ask("POST", "q/one/two")), "/one/two");
        ck_assert_str_eq(body_of(ask("POST", "q/one/three")), "/{a}/{b} a=one b=three");
        weft_http_router_free(routes);
    }
}
END_TEST

START_TEST(get_serves_head_unless_head_has_a_route_of_its_own)
{
    set_up();
    add("GET", "/a", "get");
    add("GET", "/b", "get");
    add("HEAD", "/b", "a head of its own");
    ask("HEAD", "h/a");
    ck_assert_str_eq(body_of(t.heard), "");
    assert_heard("Content-Length: 3\r\n");
    ask("HEAD", "h/b");
    assert_heard("Content-Length: 17\r\n");
    weft_http_router_free(routes);
}
END_TEST

START_TEST(another_method_is_405_and_told_which_there_are)
{
    set_up();
    add("GET", "/a", "get");
    add("PUT", "/{a}", "put");
    add("DELETE", "h/a", "delete");
    add("POST", "/b", "post");
    ck_assert_int_eq(status_of(ask("PATCH", "h/a")), 405);
    assert_heard("Allow: DELETE, GET, HEAD, PUT, OPTIONS\r\n");
    ck_assert_int_eq(status_of(ask("GET", "h/c")), 405);
    assert_heard("Allow: PUT, OPTIONS\r\n");
    ck_assert_int_eq(status_of(ask("GET", "h/c/d")), 404);
    ck_assert_ptr_null(strstr(t.heard, "Allow"));
    weft_http_router_free(routes);
}
END_TEST

START_TEST(options_is_answered_unless_it_has_a_route)
{
    set_up();
    add("GET", "/a", "get");
    add("OPTIONS", "/b", "options");
    add("POST", "/c", "post");
    ck_assert_int_eq(status_of(ask("OPTIONS", "h/a")), 204);
    assert_heard("Allow: GET, HEAD, OPTIONS\r\n");
    ck_assert_str_eq(body_of(ask("OPTIONS", "h/b")), "options");
    ck_assert_int_eq(status_of(ask("OPTIONS", "h/d")), 404);
    talk_once(&t, weft_http_serve_routes, routes, NULL, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 204);
    assert_heard("GET");
    assert_heard("POST");
    weft_http_router_free(routes);
}
END_TEST

START_TEST(a_bad_pattern_is_refused_with_words)
{
    static const char *const bad[] = {
        "",          "a",
        "/{",        "/}",
        "/{}",       "/x{a}",
        "/{a}x",     "/{a}{b}",
        "/{a...}/b", "/{a}/{a}",
        "/{1}",      "/{a-b}",
        "/{...}",    "/a/../b",
        "/.",        "*/a",
        "*./a",      "a b/c",
        "*.*.org/",  "a.org./",
        "/{a..}",    "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}/{k}/{l}/{m}/{n}/{o}/{p}/{q}",
    };
    set_up();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int rc = weft_http_route(routes, "GET", bad[i], say_route, NULL);
        ck_assert_msg(rc == -EINVAL, "\"%s\" was %d", bad[i], rc);
        ck_assert_any_words(-EINVAL);
    }
    ck_assert_int_eq(weft_http_route(routes, "GE T", "/", say_route, NULL), -EINVAL);
    ck_assert_int_eq(weft_http_route(routes, "", "/", say_route, NULL), -EINVAL);
    ck_assert_int_eq(weft_http_route(routes, NULL, "/", NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_http_route(routes, NULL, NULL, say_route, NULL), -EINVAL);
    ck_assert_int_eq(status_of(ask("GET", "h/")), 404);
    weft_http_router_free(routes);
}
END_TEST

START_TEST(the_same_route_twice_is_refused)
{
    set_up();
    add("GET", "/a/{a}", "first");
    add(NULL, "/a/{b}", "for all");
    add("GET", "h.org/a/{a}", "of a host");
    ck_assert_int_eq(weft_http_route(routes, "GET", "/a/{other}", say_route, NULL), -EEXIST);
    ck_assert_int_eq(weft_http_route(routes, NULL, "/a/{other}", say_route, NULL), -EEXIST);
    ck_assert_int_eq(weft_http_route(routes, "GET", "H.org/a/{x}", say_route, NULL), -EEXIST);
    assert_route("q/a/1", "first a=1");
    ck_assert_str_eq(body_of(ask("PUT", "q/a/1")), "for all b=1");
    weft_http_router_free(routes);
}
END_TEST

START_TEST(a_thousand_routes_are_each_found)
{
    static char patterns[1000][32];
    set_up();
    for (int i = 0; i < 1000; i++) {
        snprintf(patterns[i], sizeof patterns[i], "/%d/{a}/%d", i * 7919 % 1000, i % 3);
        add("GET", patterns[i], patterns[i]);
    }
    for (int i = 0; i < 1000; i += 37) {
        char url[64], expected[128];
        snprintf(url, sizeof url, "h/%d/v/%d", i * 7919 % 1000, i % 3);
        snprintf(expected, sizeof expected, "%.31s a=v", patterns[i]);
        assert_route(url, expected);
    }
    weft_http_router_free(routes);
}
END_TEST

static const TTest *const *const tests[] = {
    &words_and_names_match_their_segments,
    &the_last_name_may_stand_for_all_that_is_left,
    &what_is_more_particular_wins,
    &get_serves_head_unless_head_has_a_route_of_its_own,
    &another_method_is_405_and_told_which_there_are,
    &options_is_answered_unless_it_has_a_route,
    &a_bad_pattern_is_refused_with_words,
    &the_same_route_twice_is_refused,
    &a_thousand_routes_are_each_found,
};

int main(void)
{
    return run_suite("http_route", tests, COUNT_OF(tests));
}
