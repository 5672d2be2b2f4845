/*
 * The command `weft serve` as a whole site: caching, error pages, precompressed files, reverse
 * proxies, the PROXY protocol, log formats, and certificates that change.
 */
#include "command/serve_support.h"
#include "support/cases.h"
#include "support/suite.h"

/* The upstream server, in this process. */
static struct {
    int listener;
    weft_fiber fiber;
    char url[64];
} upstream;

static int handle_upstream(weft_http_request *r, void *ctx)
{
    (void)ctx;
    if (strcmp(weft_http_path(r), "/v1/status") == 0)
        return weft_http_reply_status(r, 404);
    if (strcmp(weft_http_path(r), "/v1/login") == 0)
        return weft_http_redirect(r, 302, "/v1/home");
    if (weft_http_header(r, "Upgrade") == NULL)
        return weft_http_reply_text(r, 200, "%s %s from %s", weft_http_target(r), weft_http_host(r),
                                    weft_http_header(r, "X-Forwarded-For"));
    weft_stream *s;
    char *line;
    int rc = weft_http_upgrade(r, "echo", &s);
    while (rc == 0 && weft_stream_line(s, &line, NULL) > 0)
        rc = weft_stream_printf(s, "echo %s\n", line) < 0 ? -EPIPE : weft_stream_flush(s);
    return rc;
}

static weft_value serve_upstream(void *arg)
{
    (void)arg;
    (void)weft_http_serve_fd(upstream.listener, handle_upstream, NULL, NULL);
    return 0;
}

static void start_upstream(void)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    upstream.listener = weft_listen("tcp", "127.0.0.1:0");
    ck_assert_int_ge(upstream.listener, 0);
    ck_assert_int_eq(getsockname(upstream.listener, (struct sockaddr *)&address, &bytes), 0);
    snprintf(upstream.url, sizeof upstream.url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    upstream.fiber = weft_spin(serve_upstream, NULL);
}

static void end_all(void)
{
    end_serving();
    if (upstream.fiber != 0)
        weft_terminate(upstream.fiber, INFINITY);
    upstream.fiber = 0;
}

FIXTURE(create_folder, end_all)

static char *text_of(const char *pattern, const char *value)
{
    static char texts[4][512];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], pattern, value);
    return text;
}

/* Return a header of a reply, or "". */
static const char *header_of(const char *path, char *name)
{
    return curl(ARGV("-o", "/dev/null", "-H", "Accept-Encoding: gzip, br", "-w",
                     text_of("%%header{%s}", name), url_of(path)));
}

TEST(rules_set_cache_control_by_the_name_of_a_file)
{
    create_text_file("site/app.css", "css");
    create_text_file("site/app.js", "js");
    SERVE_SITE("--cache-control", "*.css,*.js=public, max-age=31536000, immutable",
               "--cache-control", "public, max-age=60", "--cache-control", "/plain*=");
    ck_assert_str_eq(header_of("/app.css", "cache-control"), "public, max-age=31536000, immutable");
    ck_assert_str_eq(header_of("/app.js", "cache-control"), "public, max-age=31536000, immutable");
    ck_assert_str_eq(header_of("/", "cache-control"), "public, max-age=60");
    create_text_file("site/plain", "plain");
    ck_assert_str_eq(header_of("/plain", "cache-control"), "");
}

TEST(precompressed_files_are_sent_unless_the_option_is_off)
{
    create_text_file("site/index.html.br", "brotli");
    SERVE_SITE("--no-gzip");
    ck_assert_str_eq(header_of("/", "content-encoding"), "br");
    stop_serving();
    SERVE_SITE("--no-precompressed", "--no-gzip");
    ck_assert_str_eq(header_of("/", "content-encoding"), "");
}

static const char *status_and_body(const char *path)
{
    return curl(ARGV("-w", " %{http_code}", url_of(path)));
}

TEST(error_pages_replace_the_texts_of_files_and_gateways)
{
    create_text_file("404.html", "lost");
    create_text_file("5xx.html", "broken");
    SERVE_SITE("--error-page", text_of("404=%s", folder_path("404.html")), "--error-page",
               text_of("5xx=%s", folder_path("5xx.html")), "--proxy", "/api=http://127.0.0.1:1");
    ck_assert_str_eq(status_and_body("/none"), "lost 404");
    ck_assert_str_eq(status_and_body("/api/x"), "broken 502");
    expect_line_with(&server.err, "--proxy /api: GET /api/x: ");
    const char *page = curl(ARGV("-X", "POST", "-H", "Accept: text/html", url_of("/")));
    ck_assert_has(page, "<title>405 Method Not Allowed</title>");
    create_text_file("404.html", "changed");
    ck_assert_str_eq(status_and_body("/none"), "changed 404");
}

TEST(paths_below_a_prefix_are_forwarded_to_the_longest_match)
{
    start_upstream();
    SERVE_SITE("--proxy", text_of("/api=%s", upstream.url), "--proxy",
               text_of("/api/new/=%s/v1", upstream.url), "--proxy",
               text_of("shop.test/api=%s/shop/", upstream.url));
    ck_assert_str_eq(curl(ARGV(url_of("/api/a%20b?c"))), "/api/a%20b?c 127.0.0.1 from 127.0.0.1");
    ck_assert_str_eq(curl(ARGV(url_of("/api"))), "/api 127.0.0.1 from 127.0.0.1");
    ck_assert_str_eq(curl(ARGV(url_of("/api/new/x"))), "/v1/x 127.0.0.1 from 127.0.0.1");
    ck_assert_str_eq(curl(ARGV("-H", "Host: shop.test", url_of("/api/x"))),
                     "/shop/x shop.test from 127.0.0.1");
    ck_assert_str_eq(curl(ARGV("-H", "Host: shop.test", url_of("/"))), "the site\n");
    ck_assert_page("the site\n");
    ck_assert_str_eq(status_and_body("/api/new/status"), "404 Not Found\n 404");
    ck_assert_has(curl(ARGV("-i", url_of("/api/new/login"))), "Location: /api/new/home\r\n");
}

TEST(proxies_for_all_hosts_apply_to_hosts_with_a_directory)
{
    start_upstream();
    SERVE_SITE("--host", text_of("two.test=%s", folder_path("other")), "--proxy",
               text_of("/api=%s/", upstream.url), "--proxy-host", "--proxy-timeout=5");
    ck_assert_str_eq(curl(ARGV("-H", "Host: two.test", url_of("/api/x"))),
                     "/x 127.0.0.1 from 127.0.0.1");
    ck_assert_page("the other\n", "-H", "Host: two.test");
}

TEST(the_root_can_be_forwarded_and_no_directory_is_needed)
{
    start_upstream();
    start_serving(ARGV("--proxy", text_of("/=%s", upstream.url)));
    ck_assert_str_eq(curl(ARGV(url_of("/x"))), "/x 127.0.0.1 from 127.0.0.1");
    ck_assert_str_eq(curl(ARGV("-d", "body", url_of("/"))), "/ 127.0.0.1 from 127.0.0.1");
}

TEST(an_upgraded_connection_passes_through_the_proxy)
{
    start_upstream();
    SERVE_SITE("--proxy", text_of("/ws=%s", upstream.url));
    weft_stream s;
    char *line;
    ck_assert_int_eq(weft_stream_open(&s, dial_server()), 0);
    ck_assert_int_gt(weft_stream_printf(&s, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                                            "Upgrade: echo\r\n\r\nhello\n"),
                     0);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    expect_line_with(&s, "HTTP/1.1 101 ");
    expect_line_with(&s, "\r\n");
    do
        ck_assert_int_gt(weft_stream_line(&s, &line, NULL), 0);
    while (line[0] != '\0' && strncmp(line, "echo", 4) != 0);
    if (line[0] == '\0')
        ck_assert_int_gt(weft_stream_line(&s, &line, NULL), 0);
    ck_assert_str_eq(line, "echo hello");
    weft_stream_close(&s);
}

TEST(a_unix_socket_is_an_upstream_server)
{
    char *socket = folder_path("socket");
    weft_process back = spawn(ARGV(command_path(), "serve", "--listen", socket, "--access-log",
                                   folder_path("log"), folder_path("other")),
                              (weft_process_options){.out = WEFT_STDIO_PIPE});
    char byte;
    ck_assert_int_eq(weft_read(back.out, &byte, 1), 1);
    SERVE_SITE("--proxy", text_of("/app=unix:%s:/", socket));
    ck_assert_str_eq(curl(ARGV(url_of("/app/"))), "the other\n");
    ck_assert_int_eq(weft_process_kill(&back, SIGTERM), 0);
    ck_assert_int_eq(weft_process_wait(&back), 0);
    weft_process_close(&back);
}

static const char *version_of(char *option)
{
    return curl(ARGV("-k", option, "-o", "/dev/null", "-w", "%{http_version}", url_of("/")));
}

#ifdef WEFT_HAS_HTTP2
#define HTTP2 "2"
#else
#define HTTP2 "1.1"
#endif

TEST(http_2_is_spoken_unless_the_option_is_off)
{
    SERVE_SITE("--self-signed", "--access-log", folder_path("log"));
    ck_assert_str_eq(version_of("--http2"), HTTP2);
    ck_assert_str_eq(version_of("--http1.1"), "1.1");
    stop_serving();
    ck_assert_has(read_file("log"), "\"GET / HTTP/" HTTP2);
    SERVE_SITE("--self-signed", "--no-http2");
    ck_assert_str_eq(version_of("--http2"), "1.1");
}

/* Files, error pages and proxies are the same over HTTP/2. */
TEST(a_site_is_the_same_over_http_2)
{
    start_upstream();
    create_text_file("404.html", "lost");
    create_text_file("site/index.html.br", "brotli");
    SERVE_SITE("--self-signed", "--error-page", text_of("404=%s", folder_path("404.html")),
               "--cache-control=no-cache", "--proxy", text_of("/api=%s/v1", upstream.url));
    ck_assert_str_eq(curl(ARGV("-k", url_of("/none"))), "lost");
    ck_assert_str_eq(curl(ARGV("-k", url_of("/api/x"))), "/v1/x 127.0.0.1 from 127.0.0.1");
    ck_assert_str_eq(curl(ARGV("-k", "-o", "/dev/null", "-H", "Accept-Encoding: br", "-w",
                               "%header{content-encoding} %header{cache-control}", url_of("/"))),
                     "br no-cache");
    ck_assert_has(curl(ARGV("-k", "-i", url_of("/api/login"))), "ocation: /api/home\r\n");
}

/* curl sends a header of version 1 with its own address. */
TEST(the_client_of_the_proxy_protocol_is_logged)
{
    static const char raw[] = "PROXY TCP4 192.0.2.7 192.0.2.1 50000 443\r\n"
                              "GET /raw HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    SERVE_SITE("--access-log=-", "--log-format=common", "--cords=1", "--proxy-protocol",
               "127.0.0.1");
    ck_assert_page("the site\n", "--haproxy-protocol");
    ck_assert_page(""); /* without a header */
    int fd = dial_server();
    char reply[64];
    ck_assert_int_gt(weft_write_all(fd, raw, sizeof raw - 1), 0);
    ck_assert_int_gt(weft_read(fd, reply, sizeof reply), 0);
    weft_close(fd);
    signal_server(SIGTERM);
    expect_line_with(&server.out, "127.0.0.1 - - [");
    expect_line_with(&server.out, "] \"-\" 000 0\n");
    expect_line_with(&server.out, "192.0.2.7 - - [");
    ck_assert_int_eq(await_server(), 0);
}

TEST(the_proxy_protocol_precedes_tls)
{
    SERVE_SITE("--self-signed", "--proxy-protocol");
    ck_assert_page("the site\n", "--haproxy-protocol", "-k");
}

TEST(a_log_in_json_has_an_object_in_each_line)
{
    SERVE_SITE("--access-log", folder_path("log"), "--log-format", "json");
    curl(ARGV("-A", "a\"b\\\xe4\xc3\xa4", "-e", "http://from/", url_of("/?q=%22")));
    int fd = dial_server();
    ck_assert_int_gt(weft_write_all(fd, "GET /\xff HTTP/1.1\r\n\r\n", 18), 0);
    char reply[64];
    ck_assert_int_gt(weft_read(fd, reply, sizeof reply), 0);
    weft_close(fd);
    stop_serving();
    const char *log = read_file("log");
    ck_assert_has(log, "\"peer\":\"127.0.0.1\",\"method\":\"GET\",\"target\":\"/?q=%22\"",
                  "\"host\":\"127.0.0.1\",\"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":9,",
                  "\"referer\":\"http://from/\",\"user_agent\":\"a\\\"b\\\\\\u00e4\\u00e4\"",
                  "\"target\":\"/\\u00ff\"", "\"status\":400");
    static char script[] = "import json, sys\n"
                           "lines = [json.loads(line) for line in open(sys.argv[1])]\n"
                           "assert len(lines) == 2 and lines[0]['seconds'] >= 0, lines\n"
                           "assert all(len(line) == 12 for line in lines), lines\n";
    weft_output output;
    int status =
        weft_run(ARGV("python3", "-c", script, folder_path("log")), NULL, 0, NULL, &output);
    ck_assert_msg(status == 0 || status == -ENOENT, "%d: %s", status, output.err);
    weft_output_free(&output);
}

/* Perform a request on an open TLS connection. */
static void request_on(weft_stream *s)
{
    char *line;
    ck_assert_int_gt(weft_stream_printf(s, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
    ck_assert_int_eq(weft_stream_flush(s), 0);
    do
        ck_assert_int_gt(weft_stream_line(s, &line, NULL), 0);
    while (strcmp(line, "the site") != 0);
}

static bool can_connect(weft_tls *trust, weft_stream *s)
{
    int rc = weft_tls_connect(s, dial_server(), trust, "one.test");
    ck_assert_msg(rc == 0 || rc == -EACCES, "%d", rc);
    return rc == 0;
}

TEST(changed_certificates_apply_to_new_connections_and_open_ones_continue)
{
    weft_stream old, new;
    create_certificate("one", "one.test");
    weft_tls *old_trust = weft_tls_client_new(
        &(weft_tls_options){.ca_file = folder_path("one.pem"), .has_no_tickets = true});
    SERVE_SITE("--tls-cert", folder_path("one.pem"), "--tls-key", folder_path("one.key"),
               "--tls-check", "0.02");
    ck_assert(can_connect(old_trust, &old));
    request_on(&old);
    create_text_file("one.pem", "no certificate\n");
    expect_line_with(&server.err, "the old certificates remain in use");
    ck_assert(can_connect(old_trust, &new));
    request_on(&new);
    weft_stream_close(&new);
    create_certificate("one", "one.test");
    expect_line_with(&server.err, "the certificates were read again");
    weft_tls *new_trust = weft_tls_client_new(
        &(weft_tls_options){.ca_file = folder_path("one.pem"), .has_no_tickets = true});
    ck_assert(!can_connect(old_trust, &new));
    ck_assert(can_connect(new_trust, &new));
    request_on(&new);
    request_on(&old);
    weft_stream_close(&new);
    weft_stream_close(&old);
    weft_tls_free(old_trust);
    weft_tls_free(new_trust);
}

TEST(a_bad_value_of_an_option_is_reported_with_the_option)
{
    expect_failure(2, "--cache-control: the value is empty", ARGV("--cache-control", ""));
    expect_failure(2, "--cache-control: *.css=a\rb is not", ARGV("--cache-control", "*.css=a\rb"));
    expect_failure(2, "--cache-control: public: a value without patterns is given twice",
                   ARGV("--cache-control", "no-cache", "--cache-control", "public"));
    expect_failure(2, "--error-page: 404 is not STATUS=FILE", ARGV("--error-page", "404"));
    expect_failure(2, "--error-page: 200=a is not STATUS=FILE", ARGV("--error-page", "200=a"));
    expect_failure(2, "--error-page: 4x4=a is not STATUS=FILE", ARGV("--error-page", "4x4=a"));
    expect_failure(2, "--error-page: 404 is given twice",
                   ARGV("--error-page", "404=a", "--error-page", "404=b"));
    expect_failure(1, "error page /none: No such file", ARGV("--error-page", "404=/none"));
    expect_failure(2, "--proxy: /api is not PREFIX=URL", ARGV("--proxy", "/api"));
    expect_failure(2, "--proxy: api=http://a: the prefix is not a path",
                   ARGV("--proxy", "api=http://a"));
    expect_failure(2, "--proxy: /a/../b=http://a: the prefix is not a path",
                   ARGV("--proxy", "/a/../b=http://a"));
    expect_failure(2, "--proxy: /api=localhost:80: the target is not http://",
                   ARGV("--proxy", "/api=localhost:80"));
    expect_failure(2, "--proxy: /api=//a: the target is not a URL", ARGV("--proxy", "/api=//a"));
    expect_failure(2, "--proxy: /api=ftp://a/: the target is not http://",
                   ARGV("--proxy", "/api=ftp://a/"));
    expect_failure(2, "--proxy: /api=http://a/?q: the target has a user, a query or a fragment",
                   ARGV("--proxy", "/api=http://a/?q"));
    expect_failure(2, "--proxy: /api/=http://b: the prefix is given twice",
                   ARGV("--proxy", "/api=http://a", "--proxy", "/api/=http://b"));
    expect_failure(2, "site is never served", ARGV("--proxy", "/=http://a", "site"));
    expect_failure(2, "need --proxy", ARGV("--proxy-timeout", "5"));
    expect_failure(1, "--proxy-ca: ", ARGV("--proxy", "/a=https://a", "--proxy-ca", "/none"));
    expect_failure(2, "--log-format: xml is not combined", ARGV("--log-format", "xml"));
    expect_failure(2, "--log-format needs --access-log", ARGV("--log-format", "json"));
    expect_failure(2, "--proxy-protocol: 10.0.0.0/40 is not", ARGV("--proxy-protocol=10.0.0.0/40"));
    expect_failure(2, "--tls-check: never is not in", ARGV("--tls-check", "never"));
}
