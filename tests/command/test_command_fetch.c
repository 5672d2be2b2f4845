/*
 * The command `weft fetch`: requests, outputs, partial files, retries, signals and the progress
 * bar. The server is in the process of the test.
 */
#include "command/command_support.h"
#include "http/fetch_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#include <pty.h>

static weft_output output; /* of the last run */

static void create_fetch_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void end_fetch(void)
{
    weft_output_free(&output);
    stop_server(&site);
    stop_server(&other);
    remove_folder();
}

FIXTURE(create_fetch_folder, end_fetch)

/* Run the command in the folder, with an input. Return its exit status. */
static int fetch_with_input(const char *input, char *const args[])
{
    char *argv[24] = {command_path(), "fetch"};
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 2] = args[i];
    weft_output_free(&output);
    int status =
        weft_run(argv, input, strlen(input), &(weft_process_options){.folder = folder}, &output);
    ck_assert_msg(status >= 0 && WIFEXITED(status), "%d", status);
    return WEXITSTATUS(status);
}

#define FETCH(...) fetch_with_input("", ARGV(__VA_ARGS__))

/* Start the site with a script, and forget what it has received. */
#define SCRIPT(...) (stop_server(&site), start_server(&site, STEPS(__VA_ARGS__)))

static char *site_url(const char *path)
{
    return (char *)(uintptr_t)url_of(&site, path);
}

static bool has_file(const char *name)
{
    return access(folder_path(name), F_OK) == 0;
}

TEST(the_body_is_printed_and_the_status_is_0)
{
    SCRIPT({.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH(site_url("/a?b")), 0);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_str_eq(output.err, "");
    ck_assert_server_received(&site, "GET /a?b HTTP/1.1\r\n", "User-Agent: weft/");
    ck_assert_int_eq(FETCH(site_url("/c") + strlen("http://"), site_url("/d")), 0);
    ck_assert_str_eq(output.out, "hellohello");
    ck_assert_server_received(&site, "GET /c HTTP/1.1\r\n", "GET /d HTTP/1.1\r\n");
}

TEST(a_request_has_the_method_the_headers_and_the_body_of_the_options)
{
    SCRIPT({.reply = OK("", "0")});
    ck_assert_int_eq(FETCH("-X", "PATCH", "-H", "X-A:  1 ", "-H", "X-B:", "-d", "a=1", "-d", "b=2",
                           "-u", "me:a:b c", "-A", "test", site_url("/")),
                     0);
    ck_assert_server_received(&site, "PATCH / HTTP/1.1\r\n", "X-A: 1\r\n", "X-B: \r\n",
                              "Authorization: Basic bWU6YTpiIGM=\r\n", "User-Agent: test\r\n",
                              "Content-Type: application/x-www-form-urlencoded\r\n",
                              "Content-Length: 7\r\n", "\r\n\r\na=1&b=2");
    ck_assert_int_eq(FETCH("-d", "x", "-H", "Content-Type: text/plain", site_url("/")), 0);
    ck_assert_server_received(&site, "POST / HTTP/1.1\r\n", "Content-Type: text/plain\r\n");
}

TEST(a_file_or_stdin_is_sent_as_the_body)
{
    SCRIPT({.reply = OK("", "0")});
    create_text_file("body", "from a file");
    ck_assert_int_eq(FETCH("-X", "PUT", "--data-file", "body", site_url("/")), 0);
    ck_assert_server_received(&site, "PUT / HTTP/1.1\r\n", "Content-Length: 11\r\n",
                              "Content-Type: application/octet-stream\r\n", "\r\n\r\nfrom a file");
    ck_assert_int_eq(fetch_with_input("from stdin", ARGV("--data-file", "-", site_url("/"))), 0);
    ck_assert_server_received(&site, "POST / HTTP/1.1\r\n", "Transfer-Encoding: chunked\r\n",
                              "\r\n\r\nfrom stdin");
    ck_assert_int_eq(FETCH("--data-file", "none", site_url("/")), 1);
    ck_assert_has(output.err, "--data-file none: No such file");
}

TEST(heads_are_printed_on_request)
{
    SCRIPT({.reply = OK("hello", "5")}, {.reply = "HTTP/1.1 404 No\r\nContent-Length: 7\r\n\r\n"});
    ck_assert_int_eq(FETCH("-i", site_url("/")), 0);
    ck_assert_str_eq(output.out, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    ck_assert_int_eq(FETCH("-I", site_url("/")), 0);
    ck_assert_str_eq(output.out, "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\n");
    ck_assert_server_received(&site, "HEAD / HTTP/1.1\r\n");
}

TEST(the_exchange_is_shown_on_stderr)
{
    SCRIPT({.reply = "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"},
           {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH("-v", site_url("/a")), 0);
    ck_assert_has(output.err, "* connected to 127.0.0.1:", "> GET /a HTTP/1.1\n",
                  "< HTTP/1.1 302 Found\r\n", "< Location: /b\r\n", "is used again\n",
                  "> GET /b HTTP/1.1\n", "< HTTP/1.1 200 OK\r\n");
    ck_assert_str_eq(output.out, "hello");
}

TEST(redirects_are_followed_up_to_the_limit)
{
    static const char redirect[] = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 5\r\n\r\n"
                                   "moved";
    SCRIPT({.reply = redirect}, {.reply = redirect}, {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH("-L", site_url("/")), 0);
    ck_assert_str_eq(output.out, "hello");
    SCRIPT({.reply = redirect});
    ck_assert_int_eq(FETCH("--max-redirects=2", site_url("/")), 1);
    ck_assert_uint_eq(site.requests, 3);
    ck_assert_int_eq(FETCH("--max-redirects=0", site_url("/")), 0);
    ck_assert_str_eq(output.out, "moved");
}

#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nlost"

TEST(an_error_status_is_a_failure_only_on_request)
{
    SCRIPT({.reply = NOT_FOUND});
    ck_assert_int_eq(FETCH(site_url("/")), 0);
    ck_assert_str_eq(output.out, "lost");
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "lost");
    ck_assert_has(output.err, ": 404 Not Found\n");
    ck_assert_int_eq(FETCH("--fail", "-o", "none", site_url("/")), 22);
    ck_assert_has(output.err, "weft: fetch: http://127.0.0.1:", "/: 404 Not Found\n");
    ck_assert(!has_file("none") && !has_file("none.part"));
    ck_assert_int_eq(FETCH("http://127.0.0.1:1/"), 1);
    ck_assert_has(output.err, "http://127.0.0.1:1/: ", "Connection refused");
}

/*
 * Files.
 */

TEST(a_file_appears_only_when_it_is_complete)
{
    SCRIPT({.reply = OK("hello", "5")}, {.reply = OK("part", "9"), .closes = true});
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "hello");
    ck_assert(!has_file("out.part"));
    ck_assert_int_eq(chmod(folder_path("out"), 0640), 0);
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 1);
    ck_assert_str_eq(read_file("out"), "hello");
    ck_assert_str_eq(read_file("out.part"), "part");
    ck_assert_has(output.err, "before the end of the response",
                  "out.part has 4 B; continue with -C");
    struct stat status;
    SCRIPT({.reply = OK("again", "5")});
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "again");
    ck_assert_int_eq(stat(folder_path("out"), &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0640);
}

TEST(a_link_remains_and_devices_are_written_directly)
{
    SCRIPT({.reply = OK("hello", "5")});
    create_text_file("target", "old");
    ck_assert_int_eq(symlink("target", folder_path("link")), 0);
    ck_assert_int_eq(FETCH("-o", "link", site_url("/")), 0);
    ck_assert_str_eq(read_file("target"), "hello");
    struct stat status;
    ck_assert_int_eq(lstat(folder_path("link"), &status), 0);
    ck_assert(S_ISLNK(status.st_mode));
    ck_assert_int_eq(FETCH("-o", "/dev/null", site_url("/")), 0);
    ck_assert_int_eq(FETCH("-o", "/dev/full", site_url("/")), 1);
    ck_assert_has(output.err, "cannot write /dev/full: No space left on device");
    ck_assert_int_eq(FETCH("-o", ".", site_url("/")), 1);
    ck_assert_has(output.err, "--output: .: Is a directory");
    ck_assert_int_eq(FETCH("-o", "none/out", site_url("/")), 1);
    ck_assert_has(output.err, "none/out: No such file or directory");
}

TEST(a_remote_name_is_the_end_of_the_path)
{
    SCRIPT({.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH("-O", site_url("/dir/a%20b.txt?x/y")), 0);
    ck_assert_str_eq(read_file("a b.txt"), "hello");
    ck_assert_int_eq(FETCH("-O", site_url("/%2e%2e%2fevil")), 0);
    ck_assert_str_eq(read_file("%2e%2e%2fevil"), "hello");
    ck_assert_int_eq(FETCH("-O", site_url("/dir/")), 2);
    ck_assert_has(output.err, "--remote-name: ", "/dir/ has no file name; use --output FILE");
    ck_assert_int_eq(FETCH("-O", site_url("/..")), 2);
}

#define MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"
#define VERSION "Last-Modified: " MODIFIED "\r\n"

/* "hello world" in two parts, with the version of the resource. */
#define FIRST "HTTP/1.1 200 OK\r\n" VERSION "Content-Length: 11\r\n\r\nhello"
#define REST                                                                      \
    "HTTP/1.1 206 Partial Content\r\n" VERSION "Content-Range: bytes 5-10/11\r\n" \
    "Content-Length: 6\r\n\r\n world"
#define NEW "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew"

TEST(a_partial_file_is_continued_if_the_resource_has_not_changed)
{
    SCRIPT({.reply = FIRST, .closes = true}, {.reply = REST});
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 1);
    ck_assert_str_eq(read_file("out.part"), "hello");
    ck_assert_int_eq(FETCH("-C", "-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "hello world");
    ck_assert(!has_file("out.part"));
    ck_assert_server_received(&site, "Range: bytes=5-\r\n", "If-Range: " MODIFIED "\r\n",
                              "Accept-Encoding: identity\r\n");
}

static const struct {
    const char *first, *second; /* responses to the continued request, and to the next one */
    const char *result;
} resumption_rows[] = {
    {NEW, NULL, "new"},
    {"HTTP/1.1 416 No\r\nContent-Range: bytes */5\r\nContent-Length: 0\r\n\r\n", NULL, "hello"},
    {"HTTP/1.1 416 No\r\nContent-Range: bytes */3\r\nContent-Length: 0\r\n\r\n", NEW, "new"},
    {"HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n", NEW, "new"},
    {"HTTP/1.1 206 OK\r\nContent-Range: bytes 4-10/11\r\nContent-Length: 7\r\n\r\no world", NEW,
     "new"},
    {"HTTP/1.1 206 OK\r\nContent-Length: 6\r\n\r\n world", NEW, "new"},
    {"HTTP/1.1 206 OK\r\nContent-Range: bytes 5-7/11\r\nContent-Length: 3\r\n\r\n wo", NEW,
     "new"}, /* a part of the rest */
    {"HTTP/1.1 206 OK\r\nContent-Type: multipart/byteranges\r\nContent-Length: 1\r\n\r\n-", NEW,
     "new"},
};

TEST_ROWS(a_partial_file_of_another_version_is_replaced, resumption_rows)
{
    const char *second = resumption_rows[_i].second;
    SCRIPT({.reply = FIRST, .closes = true}, {.reply = resumption_rows[_i].first},
           {.reply = second != NULL ? second : ""});
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 1);
    ck_assert_int_eq(FETCH("-C", "-", "-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), resumption_rows[_i].result);
    ck_assert(!has_file("out.part"));
    ck_assert_uint_eq(site.requests, second != NULL ? 3 : 2);
}

TEST(an_error_leaves_a_partial_file_unchanged)
{
    SCRIPT({.reply = FIRST, .closes = true}, {.reply = NOT_FOUND});
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 1);
    ck_assert_int_eq(FETCH("-C", "-o", "out", site_url("/")), 1);
    ck_assert_str_eq(read_file("out.part"), "hello");
    ck_assert(!has_file("out"));
    ck_assert_int_eq(FETCH("-C", "-f", "-o", "out", site_url("/")), 22);
}

/* The file has no validator, only the time of its last write. */
TEST(a_partial_file_of_another_program_is_continued_if_the_resource_is_older)
{
    SCRIPT({.reply = REST}, {.reply = "HTTP/1.1 412 No\r\nContent-Length: 0\r\n\r\n"},
           {.reply = NEW}, {.reply = REST}, {.reply = NEW});
    create_text_file("out", "hello");
    ck_assert_int_eq(FETCH("-C", "-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "hello world");
    ck_assert_server_received(&site, "Range: bytes=5-\r\n", "If-Unmodified-Since: ");
    ck_assert_server_not_received(&site, "If-Range");
    create_text_file("out", "hello");
    ck_assert_int_eq(FETCH("-C", "-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "new");
    create_text_file("out", "hello");
    const struct timespec older[2] = {{.tv_sec = 784111776}, {.tv_sec = 784111776}};
    ck_assert_int_eq(utimensat(AT_FDCWD, folder_path("out"), older, 0), 0);
    ck_assert_int_eq(FETCH("-C", "-o", "out", site_url("/")), 0); /* ignores If-Unmodified-Since */
    ck_assert_str_eq(read_file("out"), "new");
    ck_assert_int_eq(FETCH("-C", "-o", "fresh", site_url("/")), 0);
    ck_assert_str_eq(read_file("fresh"), "new");
}

/*
 * Retries.
 */

#define BUSY "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy"
#define RETRY "--retry-delay=0.001", "--retry=3"

TEST(temporary_failures_are_retried)
{
    SCRIPT({.closes = true}, {.reply = BUSY},
           {.reply = "HTTP/1.1 429 Slow\r\nRetry-After: " MODIFIED "\r\nContent-Length: 0\r\n\r\n"},
           {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH(RETRY, site_url("/")), 0);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_has(output.err, "attempt 2 of 4 follows\n",
                  "503 Service Unavailable; attempt 3 of 4 follows\n",
                  "429 Too Many Requests; attempt 4 of 4 follows\n");
    SCRIPT({.reply = BUSY});
    ck_assert_int_eq(FETCH(RETRY, site_url("/")), 0);
    ck_assert_uint_eq(site.requests, 4);
    ck_assert_str_eq(output.out, "busy"); /* of the last attempt */
    ck_assert_int_eq(FETCH(RETRY, "-fq", site_url("/")), 22);
    ck_assert_uint_eq(count_in(output.err, "\n"), 1);
    SCRIPT({.reply = NOT_FOUND});
    ck_assert_int_eq(FETCH(RETRY, site_url("/")), 0);
    ck_assert_uint_eq(site.requests, 1);
}

TEST(a_request_that_the_server_may_have_handled_is_not_repeated)
{
    SCRIPT({.closes = true}, {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH(RETRY, "-d", "x", site_url("/")), 1);
    ck_assert_uint_eq(site.requests, 1);
    SCRIPT({.reply = "HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n"});
    ck_assert_int_eq(FETCH(RETRY, "-d", "x", site_url("/")), 0);
    ck_assert_uint_eq(site.requests, 1);
    SCRIPT({.reply = BUSY}, {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH(RETRY, "-d", "x", site_url("/")), 0);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_int_eq(fetch_with_input("x", ARGV(RETRY, "--data-file", "-", site_url("/"))), 0);
}

#define TAGGED "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 11\r\n\r\nhello"

TEST_LOOP(a_retry_asks_for_the_rest_of_the_same_version, 2)
{
    bool is_file = _i == 1;
    SCRIPT({.reply = TAGGED, .closes = true}, {.reply = REST});
    ck_assert_int_eq(
        is_file ? FETCH(RETRY, "-o", "out", site_url("/")) : FETCH(RETRY, site_url("/")), 0);
    ck_assert_str_eq(is_file ? read_file("out") : output.out, "hello world");
    ck_assert_server_received(&site, "Range: bytes=5-\r\n", "If-Range: \"v1\"\r\n");
}

TEST(a_version_that_changes_between_attempts_replaces_a_file_but_not_stdout)
{
    SCRIPT({.reply = TAGGED, .closes = true}, {.reply = NEW});
    ck_assert_int_eq(FETCH(RETRY, "-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "new");
    SCRIPT({.reply = TAGGED, .closes = true}, {.reply = NEW});
    ck_assert_int_eq(FETCH(RETRY, site_url("/")), 1);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_has(output.err, "the resource has changed during the transfer");
}

TEST(an_attempt_that_takes_too_long_ends)
{
    SCRIPT({.is_held = true}, {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH("-m", "0.05", site_url("/")), 1);
    ck_assert_has(output.err, "the attempt took longer than 0.05 s");
    SCRIPT({.is_held = true}, {.reply = OK("hello", "5")});
    ck_assert_int_eq(FETCH("-m", "0.05", RETRY, site_url("/")), 0);
}

/*
 * Several URLs, connections, signals.
 */

TEST(several_urls_are_fetched_at_once)
{
    SCRIPT({.reply = OK("hello", "5"), .is_held = true});
    weft_process p = spawn(ARGV(command_path(), "fetch", "-P", "3", "-O", site_url("/a"),
                                site_url("/b"), site_url("/c"), site_url("/d")),
                           (weft_process_options){.folder = folder});
    for (int i = 0; i < 3; i++) /* all three at the same time */
        ck_assert_int_eq(weft_sem_wait(&site.arrived), 0);
    ck_assert_uint_eq(site.conns, 3);
    release_replies(&site, 4);
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);
    ck_assert_str_eq(read_file("a"), "hello");
    ck_assert_str_eq(read_file("d"), "hello");
    ck_assert_uint_eq(site.conns, 3);
}

TEST(each_url_has_its_own_output_and_the_worst_status_counts)
{
    SCRIPT({.reply = OK("hello", "5")}, {.reply = NOT_FOUND});
    ck_assert_int_eq(FETCH("-f", "-o", "a", "-o", "-", site_url("/a"), site_url("/b")), 22);
    ck_assert_str_eq(read_file("a"), "hello");
    ck_assert_str_eq(output.out, "");
    ck_assert_int_eq(FETCH("-f", site_url("/a"), "http://127.0.0.1:1/"), 1);
}

TEST(certificates_are_verified_unless_the_option_is_off)
{
    make_local_cert();
    create_text_file("ca.pem", local_cert);
    weft_tls *tls = weft_tls_server_new(
        &(weft_tls_options){.identity = {.cert_pem = local_cert, .key_pem = local_key}});
    SCRIPT({.reply = OK("hello", "5")});
    site.tls = tls;
    char url[64];
    snprintf(url, sizeof url, "https://localhost:%d/", site.port);
    ck_assert_int_eq(FETCH(url), 1);
    ck_assert_has(output.err, url, "not trusted");
    ck_assert_int_eq(FETCH("--cacert", "ca.pem", "-v", url), 0);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_has(output.err, "* TLS 1.3, ", "* certificate of the server: ");
    ck_assert_int_eq(FETCH("-k", "-v", url), 0);
    ck_assert_str_eq(output.out, "hello");
    ck_assert_has(output.err, "* the certificate of the server is not verified");
    ck_assert_int_eq(FETCH("--cacert", "none.pem", url), 1);
    stop_server(&site);
    weft_tls_free(tls);
}

/* A server of this process, which speaks HTTP/2. */
static int reply_version(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%s %d", weft_http_path(r), weft_http_version(r));
}

typedef struct version_server {
    int listener;
    weft_tls *tls;
} version_server;

static weft_value serve_versions(void *arg)
{
    const version_server *s = arg;
    (void)weft_http_serve_fd(s->listener, reply_version, NULL,
                             &(weft_http_options){.tls = s->tls, .closes_listener = true});
    return 0;
}

static char *listen_url(version_server *s, const char *scheme)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    s->listener = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_eq(getsockname(s->listener, (struct sockaddr *)&address, &bytes), 0);
    return (char *)(uintptr_t)format("%s://127.0.0.1:%d", scheme, ntohs(address.sin_port));
}

#ifdef WEFT_HAS_HTTP2

TEST(http_2_is_used_over_tls_and_on_request_without_it)
{
    make_local_cert();
    version_server plain = {0},
                   secret = {.tls = weft_tls_server_new(&(weft_tls_options){
                                 .alpn = weft_http_alpn(),
                                 .identity = {.cert_pem = local_cert, .key_pem = local_key}})};
    char *http = listen_url(&plain, "http"), *https = listen_url(&secret, "https");
    weft_fiber servers[] = {weft_spin(serve_versions, &plain), weft_spin(serve_versions, &secret)};
    ck_assert_int_eq(FETCH("-k", "-i", https), 0);
    ck_assert_has(output.out, "HTTP/2 200\r\n", "/ 20");
    ck_assert_int_eq(FETCH("-k", "-v", "--http2", https), 0);
    ck_assert_str_eq(output.out, "/ 20");
    ck_assert_has(output.err, "* TLS 1.3, ", "ALPN h2\n", "> :method: GET\n", "> :path: /\n",
                  "< HTTP/2 200\r\n");
    ck_assert_int_eq(FETCH("-k", "--http1", https), 0);
    ck_assert_str_eq(output.out, "/ 11");
    ck_assert_int_eq(FETCH(http), 0);
    ck_assert_str_eq(output.out, "/ 11");
    ck_assert_int_eq(FETCH("--http2-prior-knowledge", http), 0);
    ck_assert_str_eq(output.out, "/ 20");
    char a[64], b[64];
    snprintf(a, sizeof a, "%s/a", https);
    snprintf(b, sizeof b, "%s/b", https);
    ck_assert_int_eq(FETCH("-k", "-P", "2", "-O", a, b), 0);
    ck_assert_str_eq(read_file("a"), "/a 20");
    ck_assert_str_eq(read_file("b"), "/b 20");
    for (size_t i = 0; i < COUNT_OF(servers); i++)
        weft_terminate(servers[i], INFINITY);
    weft_tls_free(secret.tls);
}

#endif

/* Begin to fetch a file of 11 bytes, of which 5 arrive. */
static weft_process begin_fetch(weft_process_options options)
{
    options.folder = folder;
    return spawn(ARGV(command_path(), "fetch", "-o", "out", site_url("/")), options);
}

static void wait_for_part(void)
{
    struct stat status;
    while (stat(folder_path("out.part"), &status) < 0 || status.st_size < 5)
        weft_sleep(0.001);
}

static bool send_a_part(script_server *server, weft_stream *s)
{
    weft_stream_write(s, FIRST, strlen(FIRST));
    weft_stream_flush(s);
    (void)weft_sem_wait(&server->gate);
    return false;
}

TEST_LOOP(a_signal_ends_the_command_and_leaves_a_file_to_continue, 2)
{
    int sig = _i == 0 ? SIGINT : SIGTERM;
    SCRIPT({.handle = send_a_part}, {.reply = REST});
    weft_process p = begin_fetch((weft_process_options){.err = WEFT_STDIO_PIPE});
    wait_for_part();
    ck_assert_int_eq(weft_process_kill(&p, sig), 0);
    int status = weft_process_wait(&p);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == sig);
    char text[256] = "";
    ck_assert_int_gt(weft_read(p.err, text, sizeof text - 1), 0);
    ck_assert_has(text, "out.part has 5 B; continue with -C\n");
    weft_process_close(&p);
    struct stat part;
    ck_assert_int_eq(stat(folder_path("out.part"), &part), 0);
    ck_assert_int_eq(part.st_mtim.tv_sec, 784111777); /* MODIFIED */
    ck_assert_int_eq(FETCH("-C", "-o", "out", site_url("/")), 0);
    ck_assert_str_eq(read_file("out"), "hello world");
}

TEST(a_part_that_another_process_writes_is_refused)
{
    SCRIPT({.handle = send_a_part}, {.reply = NEW});
    weft_process p = begin_fetch((weft_process_options){.err = WEFT_STDIO_PIPE});
    wait_for_part();
    ck_assert_int_eq(FETCH("-o", "out", site_url("/")), 1);
    ck_assert_has(output.err, "out: another process writes it");
    release_replies(&site, 1);
    ck_assert_int_ne(weft_process_wait(&p), 0);
    weft_process_close(&p);
}

/* Read from a terminal until the text has arrived. */
static void expect_on_terminal(int fd, const char *expected)
{
    static char text[64 << 10];
    size_t bytes = strlen(text);
    while (strstr(text, expected) == NULL) {
        ssize_t n = weft_read(fd, text + bytes, sizeof text - 1 - bytes);
        ck_assert_msg(n > 0, "%s is not in %s", expected, text);
        bytes += (size_t)n;
        text[bytes] = '\0';
    }
}

TEST(a_terminal_shows_the_progress)
{
    int terminal, end;
    const struct winsize size = {.ws_row = 25, .ws_col = 72};
    ck_assert_int_eq(openpty(&terminal, &end, NULL, NULL, &size), 0);
    SCRIPT({.handle = send_a_part});
    weft_process p = begin_fetch((weft_process_options){.err = WEFT_STDIO_FD, .err_fd = end});
    expect_on_terminal(terminal, "out  45% [");
    expect_on_terminal(terminal, "=>");
    expect_on_terminal(terminal, "] 5 B of 11 B  ");
    ck_assert_int_eq(weft_process_kill(&p, SIGINT), 0);
    expect_on_terminal(terminal, "\r\x1b[Kweft: fetch: ");
    expect_on_terminal(terminal, "out.part has 5 B");
    (void)weft_process_wait(&p);
    weft_process_close(&p);
    weft_close(terminal);
    weft_close(end);
}

TEST(a_complete_file_is_reported_on_a_terminal_unless_the_bar_is_off)
{
    int terminal, end;
    ck_assert_int_eq(openpty(&terminal, &end, NULL, NULL, NULL), 0);
    SCRIPT({.reply = OK("hello", "5")});
    weft_process_options options = {.folder = folder, .err = WEFT_STDIO_FD, .err_fd = end};
    char *const quiet[] = {command_path(), "fetch", "--no-progress", "-o", "a",
                           site_url("/"),  NULL};
    weft_process p = spawn(quiet, options);
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);
    p = spawn(ARGV(command_path(), "fetch", "-o", "b", site_url("/")), options);
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);
    char text[256] = "";
    ck_assert_int_gt(weft_read(terminal, text, sizeof text - 1), 0);
    ck_assert_msg(strncmp(text, "b  5 B in ", 10) == 0, "%s", text);
    weft_close(terminal);
    weft_close(end);
}

/* Assert that the command line is refused with one line. */
static void assert_usage_error(const char *text, char *const args[])
{
    int status = fetch_with_input("", args);
    ck_assert_msg(status == 2, "%s: %d", text, status);
    ck_assert_msg(strstr(output.err, text) != NULL, "'%s' is not in: %s", text, output.err);
    ck_assert_uint_eq(count_in(output.err, "\n"), 1);
    ck_assert_str_eq(output.out, "");
}

TEST(a_bad_command_line_is_refused_with_the_wrong_argument)
{
    assert_usage_error("a URL is missing", ARGV("-v"));
    assert_usage_error("unknown option: --nope", ARGV("--nope"));
    assert_usage_error("unknown option: -z", ARGV("-z", "a"));
    assert_usage_error("-H needs a value: FIELD", ARGV("-H"));
    assert_usage_error("--header: a is not NAME: VALUE", ARGV("-H", "a", "b"));
    assert_usage_error("--header: a b: c is not NAME: VALUE", ARGV("-H", "a b: c", "b"));
    assert_usage_error("--header: the value of A has an invalid character",
                       ARGV("-H", "A: b\rc", "b"));
    assert_usage_error("--method: A B is not a method", ARGV("-X", "A B", "b"));
    assert_usage_error("--retry: x is not in 0..1000", ARGV("--retry", "x", "b"));
    assert_usage_error("--parallel: 0 is not in 1..1000", ARGV("-P", "0", "b"));
    assert_usage_error("--timeout: x is not in", ARGV("-m", "x", "b"));
    assert_usage_error("--data and --data-file are", ARGV("-d", "a", "--data-file", "b", "c"));
    assert_usage_error("--head and --method", ARGV("-I", "-X", "GET", "c"));
    assert_usage_error("--continue needs --output", ARGV("-C", "c"));
    assert_usage_error("--continue and --include", ARGV("-C", "-i", "-o", "a", "c"));
    assert_usage_error("--output and --remote-name", ARGV("-O", "-o", "a", "c"));
    assert_usage_error("--output: b has no URL", ARGV("-o", "a", "-o", "b", "c"));
    assert_usage_error("--output: a is given twice", ARGV("-o", "a", "-o", "a", "c", "d"));
    assert_usage_error("have the same output: a", ARGV("-O", "x/a", "y/a"));
    assert_usage_error("--parallel needs --output", ARGV("-P", "2", "-o", "a", "c", "d"));
    assert_usage_error("--http1 and --http2", ARGV("--http1", "--http2", "a"));
    assert_usage_error("--insecure and --cacert", ARGV("-k", "--cacert", "a", "b"));
    assert_usage_error("--data-file - has only one URL", ARGV("--data-file", "-", "a", "b"));
}

TEST(an_invalid_url_is_a_failure_with_the_url)
{
    ck_assert_int_eq(FETCH("http://a b/"), 1);
    ck_assert_has(output.err, "http://a b/: ", "not a URL");
    ck_assert_int_eq(FETCH("ftp://a/"), 1);
    ck_assert_has(output.err, "ftp://a/: ");
    ck_assert_int_eq(FETCH("-H", "Content-Length: 5", "http://a/"), 1);
    ck_assert_has(output.err, "Content-Length is reserved");
}
