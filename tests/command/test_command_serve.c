/* The command `weft serve`: its command line, TLS, signals and log, with curl as the client. */
#include "command/serve_support.h"
#include "support/cases.h"
#include "support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>

FIXTURE(create_folder, end_serving)

TEST(a_folder_is_served_and_its_url_is_printed)
{
    start_serving(ARGV(folder_path("site")));
    ck_assert_page("the site\n");
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of("/none"))), "404");
}

TEST(options_and_405_list_the_allowed_methods)
{
    static const char *const paths[] = {"/", "/none"};
    start_serving(ARGV(folder_path("site")));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const char *head = curl(ARGV("-i", "-X", "OPTIONS", url_of(paths[i])));
        ck_assert_has(head, "HTTP/1.1 204 ", "\r\nAllow: GET, HEAD, OPTIONS\r\n");
    }
    const char *head = curl(ARGV("-i", "-d", "x", url_of("/")));
    ck_assert_has(head, "HTTP/1.1 405 ", "\r\nAllow: GET, HEAD, OPTIONS\r\n");
}

/* The kernel distributes connections to all listeners. An unserved listener would hang some. */
TEST(all_cords_listen_on_the_same_port_and_serve)
{
    char filter[64], command[128];
    SERVE_SITE("--cords", "3");
    snprintf(filter, sizeof filter, "sport = :%d", server.port);
    snprintf(command, sizeof command, "test $(ss -Hltn '%s' | wc -l) = 3", filter);
    ck_assert_int_eq(weft_system(command), 0);
    for (int i = 0; i < 60; i++)
        ck_assert_page("the site\n");
}

TEST(a_self_signed_certificate_is_created_on_request)
{
    SERVE_SITE("--self-signed");
    ck_assert_int_eq(strncmp(server.origin, "https://", 8), 0);
    expect_line_with(&server.err, "self-signed");
    ck_assert_page(""); /* not trusted */
    ck_assert_page("the site\n", "-k");
}

/* Request a host over TLS, with one trusted certificate. Return "" if it is not trusted. */
static const char *request_host(const char *host, char *trusted)
{
    char resolve[128], url[128];
    snprintf(resolve, sizeof resolve, "%s:%d:127.0.0.1", host, server.port);
    snprintf(url, sizeof url, "https://%s:%d/", host, server.port);
    return curl(ARGV("--cacert", trusted, "--resolve", resolve, url));
}

TEST(hosts_have_their_own_folders_and_certificates)
{
    char other[256], cert[600];
    create_certificate("one", "one.test");
    create_certificate("two", "two.test");
    snprintf(other, sizeof other, "two.test=%s", folder_path("other"));
    snprintf(cert, sizeof cert, "two.test=%s,%s", folder_path("two.pem"), folder_path("two.key"));
    SERVE_SITE("--tls-cert", folder_path("one.pem"), "--tls-key", folder_path("one.key"), "--host",
               other, "--host-cert", cert);
    ck_assert_str_eq(request_host("one.test", folder_path("one.pem")), "the site\n");
    ck_assert_str_eq(request_host("two.test", folder_path("two.pem")), "the other\n");
    ck_assert_str_eq(request_host("two.test", folder_path("one.pem")), "");
}

TEST(the_certificate_of_a_host_is_preferred_to_the_self_signed_one)
{
    char cert[600];
    create_certificate("two", "two.test");
    snprintf(cert, sizeof cert, "two.test=%s,%s", folder_path("two.pem"), folder_path("two.key"));
    SERVE_SITE("--self-signed", "--host-cert", cert);
    ck_assert_str_eq(request_host("two.test", folder_path("two.pem")), "the site\n");
}

TEST(the_host_header_selects_the_host)
{
    char other[256];
    snprintf(other, sizeof other, "two.test=%s", folder_path("other"));
    SERVE_SITE("--host", other);
    ck_assert_page("the other\n", "-H", "Host: TWO.test:80");
    ck_assert_page("the site\n", "-H", "Host: three.test");
}

TEST(after_sighup_new_connections_get_the_new_certificate)
{
    create_certificate("one", "one.test");
    SERVE_SITE("--tls-cert", folder_path("one.pem"), "--tls-key", folder_path("one.key"));
    ck_assert_int_eq(rename(folder_path("one.pem"), folder_path("old.pem")), 0);
    create_certificate("one", "one.test");
    ck_assert_str_eq(request_host("one.test", folder_path("old.pem")), "the site\n");
    signal_server(SIGHUP);
    expect_line_with(&server.err, "read again");
    ck_assert_str_eq(request_host("one.test", folder_path("one.pem")), "the site\n");
    ck_assert_str_eq(request_host("one.test", folder_path("old.pem")), "");
    create_text_file("one.pem", "no certificate\n");
    signal_server(SIGHUP);
    expect_line_with(&server.err, "the old certificates remain in use");
    ck_assert_page("the site\n", "-k");
}

#define BIG_BYTES (32 << 20) /* more than all buffers of the connection hold */

/* Begin a download and read only its first bytes. Return the descriptor. */
static int begin_download(void)
{
    ck_assert_int_eq(close(open(folder_path("site/big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
    ck_assert_int_eq(truncate(folder_path("site/big"), BIG_BYTES), 0);
    static const char request[] = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
    char head[16];
    int fd = dial_server();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(weft_write_all(fd, request, sizeof request - 1), 0);
    ck_assert_int_eq(weft_read_full(fd, head, sizeof head), sizeof head);
    return fd;
}

/* Wait until the server has closed its listeners. */
static void wait_until_refused(void)
{
    int fd;
    while ((fd = dial_server()) >= 0) {
        weft_close(fd);
        weft_sleep(0.001);
    }
}

TEST(after_sighup_the_folders_are_reopened)
{
    ck_assert_int_eq(symlink("site", folder_path("current")), 0);
    start_serving(ARGV(folder_path("current")));
    ck_assert_page("the site\n");
    ck_assert_int_eq(symlink("other", folder_path("next")), 0);
    ck_assert_int_eq(rename(folder_path("next"), folder_path("current")), 0);
    signal_server(SIGHUP);
    expect_line_with(&server.err, "the directories were opened again");
    ck_assert_page("the other\n");
    ck_assert_int_eq(unlink(folder_path("current")), 0);
    signal_server(SIGHUP);
    expect_line_with(&server.err, "the old directory remains in use");
    ck_assert_page("the other\n");
}

TEST(a_download_finishes_before_the_server_ends)
{
    SERVE_SITE("--drain=15");
    int fd = begin_download();
    signal_server(SIGTERM);
    wait_until_refused();
    static char data[1 << 20];
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        total += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_gt(total, BIG_BYTES); /* includes the rest of the head */
    ck_assert_int_eq(await_server(), 0);
    weft_close(fd);
}

TEST(a_download_that_exceeds_the_drain_time_is_aborted_and_the_status_is_0)
{
    SERVE_SITE("--drain=0.01");
    int fd = begin_download();
    signal_server(SIGINT);
    ck_assert_int_eq(await_server(), 0);
    weft_close(fd);
}

TEST(a_second_signal_ends_the_server_immediately)
{
    SERVE_SITE("--drain=1000");
    int fd = begin_download();
    signal_server(SIGTERM);
    wait_until_refused();
    signal_server(SIGINT);
    int status = await_server();
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    weft_close(fd);
}

TEST(an_idle_connection_does_not_delay_the_end)
{
    SERVE_SITE("--drain=1000");
    int idle = dial_server();
    ck_assert_int_ge(idle, 0);
    ck_assert_page("the site\n");
    stop_serving();
    weft_close(idle);
}

TEST(a_bad_command_line_fails_with_the_wrong_argument)
{
    expect_failure(2, "--nope", ARGV("--nope"));
    expect_failure(2, "-x", ARGV("-x"));
    expect_failure(2, "--cords: many is not in 1..1000", ARGV("--cords", "many"));
    expect_failure(2, "--cords: 0 is not in 1..1000", ARGV("--cords=0"));
    expect_failure(2, "--cords: -1 is not in 1..1000", ARGV("--cords", "-1"));
    expect_failure(2, "--cords: 5000 is not in 1..1000", ARGV("--cords", "5000"));
    expect_failure(2, "--listen needs a value: ADDR:PORT", ARGV("--listen"));
    expect_failure(2, "--listen: nowhere: ", ARGV("--listen", "nowhere"));
    expect_failure(2, "--listen: :99999: ", ARGV("--listen", ":99999"));
    expect_failure(2, "more than one directory: b", ARGV("a", "b"));
    expect_failure(2, "--tls-cert needs --tls-key", ARGV("--tls-cert", "a"));
    expect_failure(2, "--tls-key needs --tls-cert", ARGV("--tls-key", "a"));
    expect_failure(2, "--tls-key: the value is empty", ARGV("--tls-key", ""));
    expect_failure(2, "are mutually exclusive",
                   ARGV("--self-signed", "--tls-cert", "a", "--tls-key", "b"));
    expect_failure(2, "--quiet=1: --quiet takes no value", ARGV("--quiet=1"));
    expect_failure(2, "--host: a is not NAME=DIR", ARGV("--host", "a"));
    expect_failure(2, "--host: a is given twice", ARGV("--host", "a=b", "--host", "a=c"));
    expect_failure(2, "--host-cert: a=b is not NAME=CERT,KEY", ARGV("--host-cert", "a=b"));
    expect_failure(2, "--host-cert for a needs --tls-cert", ARGV("--host-cert", "a=b,c"));
    expect_failure(2, "--host-cert: a is given twice",
                   ARGV("--host-cert", "a=b,c", "--host-cert", "a=d,e"));
    expect_failure(2, "--max-body: 1t is not", ARGV("--max-body", "1t"));
    expect_failure(2, "--max-body: 99999999999g is not", ARGV("--max-body", "99999999999g"));
    expect_failure(2, "--drain: soon is not in 0..1e+09", ARGV("--drain", "soon"));
    expect_failure(2, "--trust: 10.0.0.0/40 is not", ARGV("--trust", "10.0.0.0/40"));
    expect_failure(2, "--trust-headers: X is not", ARGV("--trust-headers", "X"));
    expect_failure(2, "--trust-headers needs --trust", ARGV("--trust-headers", "Forwarded"));
}

TEST(a_missing_resource_is_reported_and_the_status_is_1)
{
    expect_failure(1, "/none/such", ARGV("--listen=127.0.0.1:0", "/none/such"));
    expect_failure(1, "index.html", ARGV("--listen=127.0.0.1:0", folder_path("site/index.html")));
    expect_failure(1, "none.pem",
                   ARGV("--listen=127.0.0.1:0", "--tls-cert", folder_path("none.pem"), "--tls-key",
                        folder_path("none.key"), folder_path("site")));
    expect_failure(1, "/none/log",
                   ARGV("--listen=127.0.0.1:0", "--access-log", "/none/log", folder_path("site")));
    start_serving(ARGV(folder_path("site")));
    expect_failure(1, "in use",
                   ARGV("--listen", strstr(server.origin, "://") + 3, folder_path("site")));
}

TEST(every_request_is_one_line_of_the_log_that_clients_cannot_forge)
{
    SERVE_SITE("--access-log", folder_path("log"));
    curl(ARGV("-A", "a\"b\\\xe4", "-e", "http://from/", url_of("/?q")));
    ck_assert_int_eq(rename(folder_path("log"), folder_path("log.1")), 0);
    signal_server(SIGHUP);
    while (access(folder_path("log"), F_OK) < 0)
        weft_sleep(0.001);
    curl(ARGV("-o", folder_path("x"), url_of("/none")));
    signal_server(SIGTERM);
    ck_assert_int_eq(await_server(), 0);
    const char *first = read_file("log.1");
    ck_assert_int_eq(strncmp(first, "127.0.0.1 - - [", 15), 0);
    ck_assert_ptr_nonnull(strstr(first, "] \"GET /?q HTTP/1.1\" 200 9 \"http://from/\" "
                                        "\"a\\\"b\\\\\\xe4\"\n"));
    ck_assert_ptr_nonnull(strstr(read_file("log"), "\"GET /none HTTP/1.1\" 404 "));
}

TEST_LOOP(a_closed_log_pipe_or_a_full_disk_does_not_stop_the_server, 2)
{
    SERVE_SITE(_i == 0 ? "--access-log=-" : "--access-log=/dev/full");
    if (_i == 0)
        weft_stream_close(&server.out);
    ck_assert_page("the site\n");
    expect_line_with(&server.err, _i == 0 ? "lines are lost" : "No space left");
    ck_assert_page("the site\n");
}

/* The option, and the address in the log for a request with each header. */
static const struct {
    char *option;
    const char *by_x_forwarded_for, *by_forwarded;
} trust_rows[] = {{"--trust-headers=X-Forwarded-For", "192.0.2.9 - - [", "127.0.0.1 - - ["},
                  {"--trust-headers=Forwarded", "127.0.0.1 - - [", "192.0.2.10 - - ["}};

TEST_ROWS(a_trusted_peer_may_forward_the_client_address_in_the_trusted_header, trust_rows)
{
    SERVE_SITE("--access-log=-", "--cords=1", "--trust=127.0.0.0/8", trust_rows[_i].option);
    curl(ARGV("-H", "X-Forwarded-For: 192.0.2.9", url_of("/")));
    curl(ARGV("-H", "Forwarded: for=192.0.2.10", url_of("/")));
    signal_server(SIGTERM);
    expect_line_with(&server.out, trust_rows[_i].by_x_forwarded_for);
    expect_line_with(&server.out, trust_rows[_i].by_forwarded);
    ck_assert_int_eq(await_server(), 0);
}

/* Return the status and the encoding of a response. */
static const char *status_and_encoding(const char *path)
{
    return curl(ARGV("-o", "/dev/null", "-H", "Accept-Encoding: gzip", "-w",
                     "%{http_code} %header{content-encoding}", url_of(path)));
}

#ifdef WEFT_HAS_GZIP
#define COMPRESSED "200 gzip"
#else
#define COMPRESSED "200 "
#endif

TEST(options_control_listings_and_compression)
{
    static char page[5001];
    memset(page, 'a', sizeof page - 1);
    ck_assert_int_eq(mkdir(folder_path("site/sub"), 0755), 0);
    create_text_file("site/page.html", page);
    start_serving(ARGV(folder_path("site")));
    ck_assert_str_eq(status_and_encoding("/page.html"), COMPRESSED);
    ck_assert_str_eq(status_and_encoding("/sub/"), "404 ");
    stop_serving();
    SERVE_SITE("--listing", "--no-gzip");
    ck_assert_str_eq(status_and_encoding("/page.html"), "200 ");
    ck_assert_str_eq(status_and_encoding("/sub/"), "200 ");
}

TEST(options_set_the_limits)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    char response[13] = "";
    SERVE_SITE("--cords=1", "--idle=0.05", "--max-connections=1");
    int first = dial_server();
    int second = dial_server();
    ck_assert_int_eq(weft_read_full(second, response, 12), 12);
    ck_assert_str_eq(response, "HTTP/1.1 503");
    ck_assert_int_gt(weft_write_all(first, request, sizeof request - 1), 0);
    ck_assert_int_eq(weft_read_full(first, response, 12), 12);
    ck_assert_str_eq(response, "HTTP/1.1 200");
    ssize_t n;
    while ((n = weft_read(first, response, sizeof response)) >
           0) /* until the idle limit closes it */
        ;
    ck_assert_int_eq(n, 0);
    weft_close(second);
    weft_close(first);
}

TEST(a_unix_socket_is_served_and_removed_at_the_end)
{
    char *path = folder_path("socket");
    /* With a log, see start_serving. */
    weft_process p = spawn(ARGV(command_path(), "serve", "--listen", path, "--access-log",
                                folder_path("log"), folder_path("site")),
                           (weft_process_options){.out = WEFT_STDIO_PIPE});
    char byte;
    ck_assert_int_eq(weft_read(p.out, &byte, 1), 1);
    for (int i = 0; i < 20; i++)
        ck_assert_str_eq(curl(ARGV("--unix-socket", path, "http://a/")), "the site\n");
    /*
     * Not weft_process_end: its SIGCONT may arrive while LeakSanitizer attaches to the exiting
     * server with ptrace. The SIGCONT discards the SIGSTOP of the attach, and the server hangs.
     */
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), 0);
    ck_assert_int_eq(weft_process_wait(&p), 0);
    ck_assert_int_lt(access(path, F_OK), 0);
    weft_process_close(&p);
}
