/* Pages for errors: files, classes of statuses, the built-in page, and errors of handlers. */
#include "http/http_files_support.h"
#include "support/suite.h"

static weft_http_error_pages *pages;

/* Each page is a file in the folder of the tree, outside of the served directory. */
static void open_pages(void)
{
    files_open_default();
    create_file("404.html", "<p>nothing here</p>");
    create_file("5xx.html", "<p>broken</p>");
    create_file("503.txt", "busy");
    create_file("503.txt.br", "brotli");
    char missing[96], broken[96], busy[96];
    snprintf(missing, sizeof missing, "%s", tree_path("404.html"));
    snprintf(broken, sizeof broken, "%s", tree_path("5xx.html"));
    snprintf(busy, sizeof busy, "%s", tree_path("503.txt"));
    const weft_http_error_page list[] = {{404, missing}, {5, broken}, {503, busy}};
    pages = weft_http_error_pages_new(list, 3);
    ck_assert_ptr_nonnull(pages);
}

static void close_pages(void)
{
    weft_http_error_pages_free(pages);
    pages = NULL;
    files_close();
}

FIXTURE(open_pages, close_pages)

static const char *exchange_with_pages(weft_http_handler *handler, void *ctx, const char *request)
{
    const weft_http_options o = {.error_page = weft_http_reply_error_page, .error_page_ctx = pages};
    return client_exchange(&client, handler, ctx, &o, request);
}

static const char *get_file(const char *target, const char *headers)
{
    return exchange_with_pages(weft_http_serve_files, files,
                               format("GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", target, headers));
}

TEST(a_missing_file_gets_its_page_with_the_status_404)
{
    get_file("/none", "If-None-Match: *\r\nRange: bytes=0-1\r\n");
    ck_assert_int_eq(status_of(client.received), 404);
    ck_assert_str_eq(body_of(client.received), "<p>nothing here</p>");
    EACH_PAIR(assert_header, "Content-Type -> text/html; charset=utf-8", "Content-Length -> 19");
    ck_assert_ptr_null(response_header("ETag"));
    exchange_with_pages(weft_http_serve_files, files, "HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 404);
    assert_header("Content-Length", "19");
    ck_assert_str_eq(body_of(client.received), "");
}

/* Return the error in ctx, after a part of a reply that was not sent. */
static int fail_late(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_set(r, "X-Lost", "yes"), 0);
    ck_assert_int_eq(weft_http_begin(r, 200, -1), 0);
    ck_assert_int_eq(weft_http_write(r, "part", 4), 4);
    return (int)(intptr_t)ctx;
}

static void assert_page_of_error(int error, int status, const char *body)
{
    exchange_with_pages(fail_late, (void *)(intptr_t)error, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), status);
    ck_assert_str_eq(body_of(client.received), body);
    ck_assert_ptr_null(response_header("X-Lost"));
}

TEST(the_error_of_a_handler_gets_the_page_of_its_status_or_class)
{
    assert_page_of_error(-EIO, 500, "<p>broken</p>");
    assert_page_of_error(-EBUSY, 503, "busy");
    EACH_PAIR(assert_header, "Content-Type -> text/plain; charset=utf-8", "Retry-After -> 1");
    assert_page_of_error(-ENOENT, 404, "<p>nothing here</p>");
    assert_page_of_error(-EACCES, 403, "403 Forbidden\n");
}

static int reply_405(weft_http_request *r, void *ctx)
{
    (void)ctx;
    ck_assert_int_eq(weft_http_set(r, "Allow", "GET"), 0);
    return weft_http_reply_status(r, 405);
}

TEST(fields_of_the_handler_remain_in_the_reply)
{
    exchange_with_pages(reply_405, NULL, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    ck_assert_int_eq(status_of(client.received), 405);
    EACH_PAIR(assert_header, "Allow -> GET", "Vary -> Accept");
    ck_assert_str_eq(body_of(client.received), "405 Method Not Allowed\n");
}

TEST(a_changed_page_is_sent_and_a_deleted_page_replaced_by_the_built_in_one)
{
    get_file("/none", "");
    create_file("404.html", "new");
    get_file("/none", "");
    ck_assert_str_eq(body_of(client.received), "new");
    remove_file("404.html");
    get_file("/none", "");
    ck_assert_int_eq(status_of(client.received), 404);
    ck_assert_str_eq(body_of(client.received), "404 Not Found\n");
}

TEST(browsers_get_a_built_in_page_and_other_clients_a_text)
{
    weft_http_error_pages_free(pages);
    pages = NULL;
    get_file("/none", "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
    ck_assert_int_eq(status_of(client.received), 404);
    ck_assert_has(client.received, "<title>404 Not Found</title>", "lang=\"en\"", "</html>\n");
    EACH_PAIR(assert_header, "Content-Type -> text/html; charset=utf-8", "Vary -> Accept");
    get_file("/none", "Accept: */*\r\n");
    ck_assert_str_eq(body_of(client.received), "404 Not Found\n");
    get_file("/none", "Accept: text/html;q=0\r\n");
    ck_assert_str_eq(body_of(client.received), "404 Not Found\n");
}

/* An error_page that replies with another status, or fails. */
static int reply_other_status(weft_http_request *r, int status, void *ctx)
{
    ck_assert_int_eq(status, 404);
    return ctx != NULL ? weft_http_reply_status(r, 410) : -EIO;
}

TEST(a_page_may_reply_with_another_status_and_a_failed_page_is_replaced_by_the_text)
{
    weft_http_options o = {.error_page = reply_other_status, .error_page_ctx = &o};
    static const char request[] = "GET /none HTTP/1.1\r\nHost: a\r\n\r\n";
    client_exchange(&client, weft_http_serve_files, files, &o, request);
    ck_assert_int_eq(status_of(client.received), 410);
    o.error_page_ctx = NULL;
    client_exchange(&client, weft_http_serve_files, files, &o, request);
    ck_assert_str_eq(body_of(client.received), "404 Not Found\n");
}

TEST(a_rejected_request_gets_the_text_of_the_server)
{
    ONLY_HTTP_1;
    exchange_with_pages(weft_http_serve_files, files, "GET /none HTTP/1.1\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 400);
    ck_assert_str_eq(body_of(client.received), "400 Bad Request\n");
}

TEST(a_precompressed_page_is_sent_to_clients_that_accept_it)
{
    exchange_with_pages(fail_late, (void *)(intptr_t)-EBUSY,
                        "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 503);
    ck_assert_str_eq(body_of(client.received), "brotli");
    EACH_PAIR(assert_header, "Content-Encoding -> br", "Vary -> Accept-Encoding");
}

TEST(pages_without_a_valid_status_or_file_are_refused)
{
    const struct {
        weft_http_error_page pages[2];
        size_t count;
        int code;
        const char *message;
    } cases[] = {
        {{{200, "a"}}, 1, -EINVAL, "status is 200"},
        {{{6, "a"}}, 1, -EINVAL, "status is 6"},
        {{{600, "a"}}, 1, -EINVAL, "status is 600"},
        {{{404, ""}}, 1, -EINVAL, "the page of 404 has no file"},
        {{{404, "a"}, {404, "b"}}, 2, -EEXIST, "404 has two pages"},
        {{{404, "/none/of/these"}}, 1, -ENOENT, "/none/of/these"},
        {{{404, "/etc/none"}}, 1, -ENOENT, "/etc/none"},
        {{{404, "/etc"}}, 1, -ENOENT, "/etc"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_ptr_null(weft_http_error_pages_new(cases[i].pages, cases[i].count));
        ck_assert_int_eq(weft_error()->code, cases[i].code);
        ck_assert_has(weft_error()->message, cases[i].message);
    }
}
