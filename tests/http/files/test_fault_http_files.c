/*
 * Routes and files over HTTP with faults: the n-th call fails, as in test_fault.c. A route is added
 * or not, a file is sent correctly or with an error status, and no descriptor is leaked.
 */
#include "http/fault_conn.h"
#include "http/router/route.h"
#include "support/suite.h"

static int ignore_request(weft_http_request *r, void *ctx)
{
    return 0;
}

static bool add_and_find_routes(void)
{
    static const char *const patterns[] = {"/", "/a/{b}", "h.org/a", "/a/{b}/c/{d...}", "/a/b"};
    static const char *const paths[] = {"/", "/a/x", "/a", "/a/x/c/y", "/a/b"};
    weft__routes routes = {0};
    weft__route_match m;
    bool is_done = become_a_cord();
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        int rc = weft__routes_add(&routes, "GET", patterns[i], ignore_request, NULL);
        is_done &= REQUIRE_OR_FAULT(rc);
        REQUIRE(weft__routes_find(&routes, "GET", "h.org", paths[i], &m) == (rc == 0) || i == 4);
        if (rc < 0) /* the route can be added later */
            WITHOUT_FAULTS(
                REQUIRE(weft__routes_add(&routes, "GET", patterns[i], ignore_request, NULL) == 0));
    }
    weft__routes_close(&routes);
    weft_error_clear();
    return is_done;
}

FAULT_TEST(a_route_is_added_or_refused, add_and_find_routes, 1)

/* The served folder, created without faults */

static char folder[64];

static void write_required_file(const char *name, const char *text)
{
    int fd = open(format("%s/%s", folder, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void create_served_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/weft-fault-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    write_required_file("a.txt", "content of a");
    write_required_file("a.txt.gz", "packed");
    REQUIRE(mkdir(format("%s/list", folder), 0755) == 0);
    write_required_file("list/x.txt", "x");
    write_required_file("list/y.txt", "y");
}

/* Require the expected body, the status of a failure, or a truncated response. */
static bool require_file(weft_http_files *files, const char *target, const char *headers,
                         const char *expected)
{
    int status = 0;
    const char *text = format("GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", target, headers);
    fault_conn.handler = weft_http_serve_files;
    fault_conn.ctx = files;
    const char *received = fault_exchange(text);
    if (sscanf(received, "HTTP/1.1 %d ", &status) == 1 && status == 200) {
        const char *body = strstr(received, "\r\n\r\n");
        if (body != NULL && strstr(body, expected) != NULL)
            return true;
    }
    REQUIRE(status != 404);
    REQUIRE(atomic_load(&fault.injected) > 0);
    return false;
}

SCENARIO(request_files)
{
    static const weft_http_cache_rule rules[] = {{"*.txt", "public"}, {"*", "no-cache"}};
    static const weft_http_files_options options = {
        .has_listing = true, .cache_rules = rules, .cache_rules_count = 2};
    WITHOUT_FAULTS(create_served_folder());
    weft_http_files *files = weft_http_files_new(folder, &options);
    bool is_done = files != NULL;
    if (files != NULL) {
        is_done &= require_file(files, "/a.txt", "", "content of a");
        is_done &= require_file(files, "/a.txt", "", "content of a");
        is_done &= require_file(files, "/a.txt", "Accept-Encoding: gzip\r\n", "a");
        is_done &= require_file(files, "/list/", "", "y.txt</a>");
    } else {
        REQUIRE(atomic_load(&fault.injected) > 0);
    }
    weft_http_files_free(files);
    WITHOUT_FAULTS(REQUIRE(system(format("rm -r %s", folder)) == 0));
    return is_done;
}

FAULT_TEST(a_file_is_sent_correctly_or_with_an_error, request_files, 2)

SCENARIO(request_an_error_page)
{
    WITHOUT_FAULTS(create_served_folder());
    char page[96];
    snprintf(page, sizeof page, "%s/list/x.txt", folder);
    const weft_http_error_page list[] = {{5, page}, {404, page}};
    weft_http_error_pages *pages = weft_http_error_pages_new(list, 2);
    bool is_done = pages != NULL;
    if (pages != NULL) {
        const weft_http_options options = {.error_page = weft_http_reply_error_page,
                                           .error_page_ctx = pages};
        fault_conn.options = &options;
        fault_conn.handler = weft_http_serve_routes;
        WITHOUT_FAULTS(fault_conn.ctx = weft_http_router_new());
        const char *received = fault_exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        is_done = strncmp(received, "HTTP/1.1 404 ", 13) == 0 && strstr(received, "\r\n\r\nx");
        REQUIRE(is_done || atomic_load(&fault.injected) > 0);
        weft_http_router_free(fault_conn.ctx);
        fault_conn.options = NULL;
    } else {
        REQUIRE(atomic_load(&fault.injected) > 0);
    }
    weft_http_error_pages_free(pages);
    WITHOUT_FAULTS(REQUIRE(system(format("rm -r %s", folder)) == 0));
    return is_done;
}

FAULT_TEST(an_error_page_is_sent_or_replaced_by_another_reply, request_an_error_page, 2)
