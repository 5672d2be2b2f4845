/* Files over HTTP: precompressed files beside a file, and rules for Cache-Control. */
#include "http/files/files.h"
#include "http/http_files_support.h"
#include "support/suite.h"

#define TEXT "0123456789abcdefghijklmnopqrstuvwxyz"

static void open_with_text(void)
{
    files_open(NULL);
    create_file("root/t.txt", TEXT);
    set_mtime("root/t.txt", MTIME);
}

FIXTURE(open_with_text, files_close)

#define ACCEPT_GZIP "Accept-Encoding: gzip\r\n"
#define ACCEPT_BOTH "Accept-Encoding: gzip, br\r\n"

TEST(a_precompressed_file_is_sent_to_clients_that_accept_its_coding)
{
    create_file("root/t.txt.gz", "packed");
    get_target("/t.txt");
    ck_assert_str_eq(body_of(client.received), TEXT);
    assert_header("Vary", "Accept-Encoding");
    ck_assert_ptr_null(response_header("Content-Encoding"));
    const char *plain = format("%s", response_header("ETag"));
    request_with("GET", "/t.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "packed");
    EACH_PAIR(assert_header, "Content-Encoding -> gzip",
              "Content-Type -> text/plain; charset=utf-8", "Vary -> Accept-Encoding");
    ck_assert_str_ne(response_header("ETag"), plain);
    request_with("GET", "/t.txt", "Accept-Encoding: gzip;q=0\r\n");
    ck_assert_str_eq(body_of(client.received), TEXT);
    request_with("GET", "/t.txt", ACCEPT_GZIP "Range: bytes=2-3\r\n");
    ck_assert_str_eq(body_of(client.received), "ck");
    assert_header("Content-Range", "bytes 2-3/6");
}

static void assert_body(const char *headers, const char *body)
{
    request_with("GET", "/t.txt", format("Accept-Encoding: %s\r\n", headers));
    ck_assert_msg(strcmp(body_of(client.received), body) == 0, "%s: %s", headers, client.received);
    assert_header("Vary", "Accept-Encoding");
}

TEST(the_preferred_coding_of_several_precompressed_files_is_sent)
{
    create_file("root/t.txt.gz", "gzipped");
    create_file("root/t.txt.br", "brotli");
    EACH_PAIR(assert_body, "br -> brotli", "gzip -> gzipped", "gzip, br -> brotli",
              "br;q=0.5, gzip;q=0.9 -> gzipped", "br;q=0, * -> gzipped",
              "identity, br;q=0.5 -> " TEXT, "deflate -> " TEXT);
}

/* All three have the same length and the same time. */
TEST(each_coding_has_its_own_etag_and_conditional_requests_use_it)
{
    create_file("root/t.txt.gz", TEXT);
    create_file("root/t.txt.br", TEXT);
    set_mtime("root/t.txt.gz", MTIME);
    set_mtime("root/t.txt.br", MTIME);
    const char *plain = format("%s", (get_target("/t.txt"), response_header("ETag")));
    request_with("GET", "/t.txt", ACCEPT_GZIP);
    const char *gzip = format("%s", response_header("ETag"));
    request_with("GET", "/t.txt", ACCEPT_BOTH);
    const char *brotli = format("%s", response_header("ETag"));
    ck_assert_str_ne(plain, gzip);
    ck_assert_str_ne(plain, brotli);
    ck_assert_str_ne(gzip, brotli);
    request_with("GET", "/t.txt", format(ACCEPT_BOTH "If-None-Match: %s\r\n", brotli));
    ck_assert_int_eq(status_of(client.received), 304);
    EACH_PAIR(assert_header, "Vary -> Accept-Encoding");
    ck_assert_str_eq(response_header("ETag"), brotli);
    request_with("GET", "/t.txt", format(ACCEPT_BOTH "If-None-Match: %s, %s\r\n", plain, gzip));
    ck_assert_int_eq(status_of(client.received), 200);
    assert_header("Content-Encoding", "br");
}

TEST(head_and_last_modified_describe_the_precompressed_file)
{
    create_file("root/t.txt.br", "brotli");
    set_mtime("root/t.txt.br", MTIME + 3600);
    request_with("HEAD", "/t.txt", ACCEPT_BOTH);
    EACH_PAIR(assert_header, "Content-Encoding -> br", "Content-Length -> 6",
              "Last-Modified -> Sun, 06 Nov 1994 09:49:37 GMT");
    get_target("/t.txt");
    assert_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
}

TEST(an_older_empty_or_invalid_precompressed_file_is_ignored)
{
    create_file("root/t.txt.gz", "packed");
    set_mtime("root/t.txt.gz", MTIME - 1);
    create_file("root/t.txt.br", "");
    request_with("GET", "/t.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), TEXT);
    ck_assert_ptr_null(response_header("Vary"));
    create_folder("root/a.txt.gz");
    request_with("GET", "/a.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "0123456789");
    create_link("../secret.txt", "root/index.html.gz");
    create_link("/etc/passwd", "root/index.html.br");
    request_with("GET", "/", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "<h1>Home</h1>");
}

/* brotli(1) copies the time of the original without its fraction. */
TEST(a_precompressed_file_may_have_the_time_of_the_original_in_seconds)
{
    set_mtime_ns("root/t.txt", MTIME, 5000);
    create_file("root/t.txt.br", "brotli");
    set_mtime("root/t.txt.br", MTIME);
    create_file("root/t.txt.gz", "packed");
    set_mtime_ns("root/t.txt.gz", MTIME, 4999);
    request_with("GET", "/t.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "brotli");
    request_with("GET", "/t.txt", "Accept-Encoding: gzip\r\n");
    ck_assert_str_eq(body_of(client.received), TEXT);
}

TEST(a_changed_original_makes_the_precompressed_file_obsolete)
{
    create_file("root/t.txt.br", "brotli");
    set_mtime("root/t.txt.br", MTIME + 1);
    request_with("GET", "/t.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "brotli");
    create_file("root/t.txt", "new");
    request_with("GET", "/t.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "new");
}

TEST(precompressed_files_are_not_sent_if_the_option_is_off)
{
    files_open(&(weft_http_files_options){.has_no_precompressed = true});
    create_file("root/a.txt.br", "brotli");
    request_with("GET", "/a.txt", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "0123456789");
    ck_assert_ptr_null(response_header("Vary"));
    request_with("GET", "/a.txt.br", ACCEPT_BOTH);
    ck_assert_str_eq(body_of(client.received), "brotli");
}

/* Cache-Control */

static void assert_match(const char *patterns, const char *name)
{
    ck_assert_msg(weft__cache_patterns_match(patterns, name), "%s: %s", patterns, name);
}

static void assert_no_match(const char *patterns, const char *name)
{
    ck_assert_msg(!weft__cache_patterns_match(patterns, name), "%s: %s", patterns, name);
}

TEST(patterns_match_names_and_with_a_slash_paths)
{
    EACH_PAIR(assert_match, "*.css -> a.css", "*.css -> a/b.css", "*.js, *.css -> a/b.css",
              "*.js,*.css -> .css", "* -> a", "* -> a/", "? -> a/b", "a?c -> x/abc",
              "/a/* -> a/b/c.js", "a/* -> a/", "/* -> a/b", "/a.txt -> a.txt", "a*b*c -> aXbXbYc",
              "*a*a*a*b -> aaaaaaaaaaaaaaaaaaaab", "a** -> a", "x,,a -> a", "*.min.* -> a.min.js");
    EACH_PAIR(assert_no_match, "*.css -> a.css.map", "*.css -> css", "a -> b/ab", "? -> ab",
              "/a.txt -> b/a.txt", "/a -> a/b", "a/* -> b/a/c", "*.CSS -> a.css", ", -> a",
              "a,,b -> c/", "*a*a*a*a*a*a*a*a*b -> aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

static const char *cache_control_of(const char *target)
{
    get_target(target);
    const char *value = response_header("Cache-Control");
    return value != NULL ? value : "none";
}

PAIR_CHECK(assert_cache_control, cache_control_of(input))

TEST(the_first_rule_that_matches_sets_cache_control)
{
    static const weft_http_cache_rule rules[] = {
        {"/sub/*", "private"},
        {"*.txt, *.bin", "public, max-age=31536000, immutable"},
        {"inside", ""},
        {"/list/", "no-store"},
    };
    files_open(&(weft_http_files_options){.has_listing = true,
                                          .cache_control = "no-cache",
                                          .cache_rules = rules,
                                          .cache_rules_count = COUNT_OF(rules)});
    EACH_PAIR(assert_cache_control, "/a.txt -> public, max-age=31536000, immutable",
              "/list/b.txt -> public, max-age=31536000, immutable", "/sub/ -> private",
              "/ -> no-cache", "/inside -> none", "/list/ -> no-store", "/none.txt -> none");
}

TEST(an_invalid_rule_is_refused_by_its_name)
{
    static const struct {
        weft_http_cache_rule rule;
        const char *message;
    } cases[] = {
        {{"*.css", "a\r\nb"}, "*.css"},
        {{"*.css", NULL}, "*.css"},
        {{NULL, "public"}, "no pattern"},
        {{" , ", "public"}, "no pattern"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const weft_http_files_options o = {.cache_rules = &cases[i].rule, .cache_rules_count = 1};
        ck_assert_ptr_null(weft_http_files_new(tree_path("root"), &o));
        ck_assert_int_eq(weft_error()->code, -EINVAL);
        ck_assert_has(weft_error()->message, "cache_rules", cases[i].message);
    }
}
