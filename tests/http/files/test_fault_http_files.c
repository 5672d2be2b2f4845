/*
 * The n-th call fails, as in test_fault.c, for routes and files over HTTP: a route is there or was
 * refused, a file comes as it is or with an error, and no descriptor is left behind.
 */
#include "fault.h"
#include "http/route.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int handle(weft_http_request *r, void *ctx)
{
    (void)r, (void)ctx;
    return 0;
}

static bool routing(void)
{
    static const char *const patterns[] = {"/", "/a/{b}", "h.org/a", "/a/{b}/c/{d...}", "/a/b"};
    static const char *const paths[] = {"/", "/a/x", "/a", "/a/x/c/y", "/a/b"};
    weft__routes routes = {0};
    weft__route_match m;
    bool is_done = become_a_cord();
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        int rc = weft__routes_add(&routes, "GET", patterns[i], handle, NULL);
        is_done &= REQUIRE_TOLD(rc);
        REQUIRE(weft__routes_find(&routes, "GET", "h.org", paths[i], &m) == (rc == 0) || i == 4);
        if (rc < 0) /* and can be added after all */
            WITHOUT_FAULTS(
                REQUIRE(weft__routes_add(&routes, "GET", patterns[i], handle, NULL) == 0));
    }
    weft__routes_close(&routes);
    weft_error_clear();
    return is_done;
}

START_TEST(a_route_is_there_or_was_refused)
{
    strike_each_call(routing);
}
END_TEST

/*
 * A folder, made without faults.
 */

static char folder[64];

static void make_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void make_place(void)
{
    char path[128];
    snprintf(folder, sizeof folder, "/tmp/weft-fault-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    make_file("a.txt", "content of a");
    make_file("a.txt.gz", "packed");
    snprintf(path, sizeof path, "%s/list", folder);
    REQUIRE(mkdir(path, 0755) == 0);
    make_file("list/x.txt", "x");
    make_file("list/y.txt", "y");
}

static void remove_place(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    REQUIRE(system(command) == 0);
}

static int pair[2];

static weft_value serve(void *files)
{
    (void)weft_http_serve_conn(pair[1], weft_http_serve_files, files, NULL);
    return 0;
}

/* All that is said to a request. */
static void ask(weft_http_files *files, const char *text, char *heard, size_t room)
{
    size_t bytes = 0;
    ssize_t n = 0;
    WITHOUT_FAULTS(REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0));
    weft_fiber f = require_made(weft_spin(serve, files));
    if (f == 0) {
        weft_close(pair[1]);
    } else if (REQUIRE_FELT(weft_write(pair[0], text, strlen(text)))) {
        (void)shutdown(pair[0], SHUT_WR);
        while (bytes + 1 < room && (n = weft_read(pair[0], heard + bytes, room - 1 - bytes)) > 0)
            bytes += (size_t)n;
        REQUIRE(n == 0 || fault_is_felt(n));
    }
    weft_close(pair[0]);
    if (f != 0)
        REQUIRE(weft_await(f) == 0);
    heard[bytes] = '\0';
}

/* The reply is what it should be, an error with a status of its own, or cut short. */
static bool expect(weft_http_files *files, const char *target, const char *headers,
                   const char *expected)
{
    char text[256], heard[8192];
    int status = 0;
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", target, headers);
    ask(files, text, heard, sizeof heard);
    if (sscanf(heard, "HTTP/1.1 %d ", &status) == 1 && status == 200) {
        const char *body = strstr(heard, "\r\n\r\n");
        if (body != NULL && strstr(body, expected) != NULL)
            return true;
    }
    REQUIRE(status != 404);
    REQUIRE(atomic_load(&fault.struck) > 0);
    return false;
}

static bool serving(void)
{
    static const weft_http_files_options options = {.has_listing = true};
    if (!become_a_cord())
        return false;
    WITHOUT_FAULTS(make_place());
    weft_http_files *files = weft_http_files_new(folder, &options);
    bool is_done = files != NULL;
    if (files != NULL) {
        is_done &= expect(files, "/a.txt", "", "content of a");
        is_done &= expect(files, "/a.txt", "", "content of a");
        is_done &= expect(files, "/a.txt", "Accept-Encoding: gzip\r\n", "a");
        is_done &= expect(files, "/list/", "", "y.txt</a>");
    } else {
        REQUIRE(atomic_load(&fault.struck) > 0);
    }
    weft_http_files_free(files);
    WITHOUT_FAULTS(remove_place());
    weft_error_clear();
    return is_done;
}

START_TEST(a_file_comes_as_it_is_or_with_an_error)
{
    strike_some_calls(serving, 2);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_route_is_there_or_was_refused,
        &a_file_comes_as_it_is_or_with_an_error,
    };
    return run_suite("fault_http_files", tests, COUNT_OF(tests));
}
