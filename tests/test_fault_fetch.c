/*
 * The n-th call fails, as in test_fault.c, for the web client: whoever is told of an error has no
 * fetch to close, nothing is left open, and the same client serves the next request.
 */
#include "fault.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>

/* A server in a process of its own, plain calls only; a process for each connection. */

typedef struct web {
    int listener;
    int port;
    pid_t pid;
} web;

static web fault_web;

static const char answer_hello[] =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n";
static const char answer_go[] = "HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 4\r\n\r\ngone";
/* "hello" by gzip. */
static const char answer_zipped[] =
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 25\r\n\r\n"
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00"
    "\x00\x00";

static void answer(int fd, const char *request)
{
    const char *text = answer_hello;
    size_t bytes = sizeof answer_hello - 1;
    if (strstr(request, "/go ") != NULL) {
        text = answer_go;
        bytes = sizeof answer_go - 1;
    } else if (strstr(request, "/zipped ") != NULL) {
        text = answer_zipped;
        bytes = sizeof answer_zipped - 1;
    }
    if (write(fd, text, bytes) < 0)
        _exit(1);
}

/* A request ends with its head, or with the body "0\r\n\r\n" or "end". */
static bool is_whole(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    if (end == NULL)
        return false;
    if (strstr(request, "chunked") != NULL)
        return strstr(end + 4, "0\r\n\r\n") != NULL;
    return strstr(request, "POST") == NULL || strstr(end + 4, "end") != NULL;
}

static void serve_conn(int fd)
{
    char request[8192];
    size_t used = 0;
    ssize_t n;
    while ((n = read(fd, request + used, sizeof request - 1 - used)) > 0) {
        used += (size_t)n;
        request[used] = '\0';
        if (is_whole(request)) {
            answer(fd, request);
            used = 0;
        }
    }
    _exit(0);
}

static void run_web(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_conn(fd);
        }
        close(fd);
    }
}

static void start_web(web *w)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    w->listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(w->listener, (struct sockaddr *)&at, bytes), 0);
    ck_assert_int_eq(listen(w->listener, 64), 0);
    ck_assert_int_eq(getsockname(w->listener, (struct sockaddr *)&at, &bytes), 0);
    w->port = ntohs(at.sin_port);
    w->pid = fork();
    ck_assert_int_ge(w->pid, 0);
    if (w->pid == 0)
        run_web(w->listener);
}

static void stop_web(web *w)
{
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    close(w->listener);
}

static const char *url_of(const char *path)
{
    static char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", fault_web.port, path);
    return url;
}

/* The body is "hello", or a fault was told; closed in any case. */
static bool finish(int status, weft_fetch *f)
{
    if (!REQUIRE_FELT(status)) {
        weft_fetch_close(f);
        return false;
    }
    char *text;
    ssize_t n = weft_fetch_read_all(f, &text);
    bool is_good = REQUIRE_FELT(n);
    if (is_good)
        REQUIRE(status == 200 && n == 5 && strcmp(text, "hello") == 0);
    weft_fetch_close(f);
    return is_good;
}

static bool get(weft_fetcher *fetcher, const char *path)
{
    weft_fetch *f;
    int status = weft_fetch_get(fetcher, url_of(path), &f);
    REQUIRE(status > 0 || f == NULL);
    return finish(status, f);
}

static bool post(weft_fetcher *fetcher)
{
    weft_fetch *f;
    int status = weft_fetch_post(fetcher, url_of("/"), "text/plain", "the end", 7, &f);
    REQUIRE(status > 0 || f == NULL);
    return finish(status, f);
}

static bool stream(weft_fetcher *fetcher)
{
    const weft_fetch_field field = {"X-Mine", "1"};
    const weft_fetch_request r = {.url = url_of("/"), .fields = &field, .fields_count = 1};
    weft_fetch *f;
    int rc = weft_fetch_open(fetcher, &r, -1, &f);
    if (!REQUIRE_FELT(rc))
        return false;
    REQUIRE_FELT(weft_fetch_write(f, "some", 4));
    return finish(weft_fetch_wait(f), f);
}

static bool fetching(void)
{
    if (!become_a_cord())
        return false;
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    if (fetcher == NULL) {
        REQUIRE(atomic_load(&fault.struck) > 0);
        weft_error_clear();
        return false;
    }
    bool is_done = get(fetcher, "/");
    is_done &= get(fetcher, "/go");
    is_done &= get(fetcher, "/zipped");
    is_done &= post(fetcher);
    is_done &= stream(fetcher);
    is_done &= get(fetcher, "/");
    REQUIRE(weft_fetcher_free(fetcher) == 0);
    weft_error_clear();
    return is_done;
}

START_TEST(a_fetch_that_failed_leaves_nothing_and_the_next_succeeds)
{
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
    start_web(&fault_web);
    strike_some_calls(fetching, 1);
    stop_web(&fault_web);
}
END_TEST

START_TEST(a_fetch_by_a_proxy_that_failed_leaves_nothing)
{
    char proxy[64];
    start_web(&fault_web);
    snprintf(proxy, sizeof proxy, "user:pw@127.0.0.1:%d", fault_web.port);
    setenv("http_proxy", proxy, 1);
    setenv("no_proxy", "nowhere.test", 1);
    strike_some_calls(fetching, 1);
    stop_web(&fault_web);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_fetch_that_failed_leaves_nothing_and_the_next_succeeds,
        &a_fetch_by_a_proxy_that_failed_leaves_nothing,
    };
    return run_suite("fault_fetch", tests, COUNT_OF(tests));
}
