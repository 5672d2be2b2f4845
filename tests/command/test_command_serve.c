/* The command `weft serve`: its command line, TLS, signals and log, with curl as the client. */
#include "command/serve_support.h"
#include "support/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>

TEST(a_folder_is_served_and_its_url_is_printed)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV(folder_path("site")));
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of(&s, "/none"))),
                     "404");
    stop_serving(&s);
}

TEST(options_and_405_list_the_allowed_methods)
{
    static const char *const paths[] = {"/", "/none"};
    serve_process s;
    create_folder();
    start_serving(&s, ARGV(folder_path("site")));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const char *head = curl(ARGV("-i", "-X", "OPTIONS", url_of(&s, paths[i])));
        ck_assert_ptr_nonnull(strstr(head, "HTTP/1.1 204 "));
        ck_assert_ptr_nonnull(strstr(head, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    }
    const char *head = curl(ARGV("-i", "-d", "x", url_of(&s, "/")));
    ck_assert_ptr_nonnull(strstr(head, "HTTP/1.1 405 "));
    ck_assert_ptr_nonnull(strstr(head, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    stop_serving(&s);
}

/* The kernel distributes connections to all listeners. An unserved listener would hang some. */
TEST(all_cords_listen_on_the_same_port_and_serve)
{
    serve_process s;
    char filter[64], command[128];
    create_folder();
    start_serving(&s, ARGV("--cords", "3", folder_path("site")));
    snprintf(filter, sizeof filter, "sport = :%d", s.port);
    snprintf(command, sizeof command, "test $(ss -Hltn '%s' | wc -l) = 3", filter);
    ck_assert_int_eq(weft_system(command), 0);
    for (int i = 0; i < 60; i++)
        ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}

TEST(a_self_signed_certificate_is_created_on_request)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--self-signed", folder_path("site")));
    ck_assert_int_eq(strncmp(s.origin, "https://", 8), 0);
    expect_line_with(&s.err, "self-signed");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), ""); /* not trusted */
    ck_assert_str_eq(curl(ARGV("-k", url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}

/* Request a host over TLS, with one trusted certificate. Return "" if it is not trusted. */
static const char *request_host(const serve_process *s, const char *host, char *trusted)
{
    char resolve[128], url[128];
    snprintf(resolve, sizeof resolve, "%s:%d:127.0.0.1", host, s->port);
    snprintf(url, sizeof url, "https://%s:%d/", host, s->port);
    return curl(ARGV("--cacert", trusted, "--resolve", resolve, url));
}

TEST(hosts_have_their_own_folders_and_certificates)
{
    serve_process s;
    char other[256], cert[600];
    create_folder();
    create_certificate("one", "one.test");
    create_certificate("two", "two.test");
    snprintf(other, sizeof other, "two.test=%s", folder_path("other"));
    snprintf(cert, sizeof cert, "two.test=%s,%s", folder_path("two.pem"), folder_path("two.key"));
    start_serving(&s,
                  ARGV("--tls-cert", folder_path("one.pem"), "--tls-key", folder_path("one.key"),
                       "--host", other, "--host-cert", cert, folder_path("site")));
    ck_assert_str_eq(request_host(&s, "one.test", folder_path("one.pem")), "the site\n");
    ck_assert_str_eq(request_host(&s, "two.test", folder_path("two.pem")), "the other\n");
    ck_assert_str_eq(request_host(&s, "two.test", folder_path("one.pem")), "");
    stop_serving(&s);
}

TEST(the_certificate_of_a_host_is_preferred_to_the_self_signed_one)
{
    serve_process s;
    char cert[600];
    create_folder();
    create_certificate("two", "two.test");
    snprintf(cert, sizeof cert, "two.test=%s,%s", folder_path("two.pem"), folder_path("two.key"));
    start_serving(&s, ARGV("--self-signed", "--host-cert", cert, folder_path("site")));
    ck_assert_str_eq(request_host(&s, "two.test", folder_path("two.pem")), "the site\n");
    stop_serving(&s);
}

TEST(the_host_header_selects_the_host)
{
    serve_process s;
    char other[256];
    create_folder();
    snprintf(other, sizeof other, "two.test=%s", folder_path("other"));
    start_serving(&s, ARGV("--host", other, folder_path("site")));
    ck_assert_str_eq(curl(ARGV("-H", "Host: TWO.test:80", url_of(&s, "/"))), "the other\n");
    ck_assert_str_eq(curl(ARGV("-H", "Host: three.test", url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}

TEST(after_sighup_new_connections_get_the_new_certificate)
{
    serve_process s;
    create_folder();
    create_certificate("one", "one.test");
    start_serving(&s, ARGV("--tls-cert", folder_path("one.pem"), "--tls-key",
                           folder_path("one.key"), folder_path("site")));
    ck_assert_int_eq(rename(folder_path("one.pem"), folder_path("old.pem")), 0);
    create_certificate("one", "one.test");
    ck_assert_str_eq(request_host(&s, "one.test", folder_path("old.pem")), "the site\n");
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_line_with(&s.err, "read again");
    ck_assert_str_eq(request_host(&s, "one.test", folder_path("one.pem")), "the site\n");
    ck_assert_str_eq(request_host(&s, "one.test", folder_path("old.pem")), "");
    create_text_file("one.pem", "no certificate\n");
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_line_with(&s.err, "the old certificates remain in use");
    ck_assert_str_eq(curl(ARGV("-k", url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}

#define BIG_BYTES (32 << 20) /* more than all buffers of the connection hold */

/* Begin a download and read only its first bytes. Return the descriptor. */
static int begin_download(const serve_process *s)
{
    ck_assert_int_eq(close(open(folder_path("site/big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
    ck_assert_int_eq(truncate(folder_path("site/big"), BIG_BYTES), 0);
    static const char request[] = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
    char head[16];
    int fd = weft_dial("tcp", s->origin + strlen("http://"));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(weft_write_all(fd, request, sizeof request - 1), 0);
    ck_assert_int_eq(weft_read_full(fd, head, sizeof head), sizeof head);
    return fd;
}

/* Wait until the server has closed its listeners. */
static void wait_until_refused(const serve_process *s)
{
    int fd;
    while ((fd = weft_dial("tcp", s->origin + strlen("http://"))) >= 0) {
        weft_close(fd);
        weft_sleep(0.001);
    }
}

TEST(after_sighup_the_folders_are_reopened)
{
    serve_process s;
    create_folder();
    ck_assert_int_eq(symlink("site", folder_path("current")), 0);
    start_serving(&s, ARGV(folder_path("current")));
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    ck_assert_int_eq(symlink("other", folder_path("next")), 0);
    ck_assert_int_eq(rename(folder_path("next"), folder_path("current")), 0);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_line_with(&s.err, "the directories were opened again");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the other\n");
    ck_assert_int_eq(unlink(folder_path("current")), 0);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_line_with(&s.err, "the old directory remains in use");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the other\n");
    stop_serving(&s);
}

TEST(a_download_finishes_before_the_server_ends)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--drain=15", folder_path("site")));
    int fd = begin_download(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    wait_until_refused(&s);
    static char data[1 << 20];
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        total += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_gt(total, BIG_BYTES); /* includes the rest of the head */
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    weft_close(fd);
    release_serving(&s);
}

TEST(a_download_that_exceeds_the_drain_time_is_aborted_and_the_status_is_0)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--drain=0.01", folder_path("site")));
    int fd = begin_download(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGINT), 0);
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    weft_close(fd);
    release_serving(&s);
}

TEST(a_second_signal_ends_the_server_immediately)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--drain=1000", folder_path("site")));
    int fd = begin_download(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    wait_until_refused(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGINT), 0);
    int status = weft_process_wait(&s.process);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    weft_close(fd);
    release_serving(&s);
}

TEST(an_idle_connection_does_not_delay_the_end)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--drain=1000", folder_path("site")));
    int idle = weft_dial("tcp", s.origin + strlen("http://"));
    ck_assert_int_ge(idle, 0);
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
    weft_close(idle);
}

/* Assert that the command ends with this status and prints one line that contains text. */
static void expect_failure(int status, const char *text, char *const args[])
{
    char *argv[16] = {command_path(), "serve"};
    weft_output output;
    for (int i = 0; args[i] != NULL; i++)
        argv[i + 2] = args[i];
    int ended = weft_run(argv, NULL, 0, NULL, &output);
    ck_assert_msg(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "%s: status %d", text, ended);
    ck_assert_msg(strstr(output.err, text) != NULL, "'%s' is not in: %s", text, output.err);
    ck_assert_ptr_eq(strchr(output.err, '\n'), output.err + output.err_bytes - 1);
    ck_assert_str_eq(output.out, "");
    weft_output_free(&output);
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
    serve_process s;
    create_folder();
    expect_failure(1, "/none/such", ARGV("--listen=127.0.0.1:0", "/none/such"));
    expect_failure(1, "index.html", ARGV("--listen=127.0.0.1:0", folder_path("site/index.html")));
    expect_failure(1, "none.pem",
                   ARGV("--listen=127.0.0.1:0", "--tls-cert", folder_path("none.pem"), "--tls-key",
                        folder_path("none.key"), folder_path("site")));
    expect_failure(1, "/none/log",
                   ARGV("--listen=127.0.0.1:0", "--access-log", "/none/log", folder_path("site")));
    start_serving(&s, ARGV(folder_path("site")));
    expect_failure(1, "in use",
                   ARGV("--listen", s.origin + strlen("http://"), folder_path("site")));
    stop_serving(&s);
}

TEST(every_request_is_one_line_of_the_log_that_clients_cannot_forge)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--access-log", folder_path("log"), folder_path("site")));
    curl(ARGV("-A", "a\"b\\\xe4", "-e", "http://from/", url_of(&s, "/?q")));
    ck_assert_int_eq(rename(folder_path("log"), folder_path("log.1")), 0);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    while (access(folder_path("log"), F_OK) < 0)
        weft_sleep(0.001);
    curl(ARGV("-o", folder_path("x"), url_of(&s, "/none")));
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    const char *first = read_file("log.1");
    ck_assert_int_eq(strncmp(first, "127.0.0.1 - - [", 15), 0);
    ck_assert_ptr_nonnull(strstr(first, "] \"GET /?q HTTP/1.1\" 200 9 \"http://from/\" "
                                        "\"a\\\"b\\\\\\xe4\"\n"));
    ck_assert_ptr_nonnull(strstr(read_file("log"), "\"GET /none HTTP/1.1\" 404 "));
    release_serving(&s);
}

TEST(a_closed_log_pipe_does_not_stop_the_server)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--access-log=-", folder_path("site")));
    weft_stream_close(&s.out);
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    expect_line_with(&s.err, "lines are lost");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}

TEST(a_full_disk_does_not_stop_the_server)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--access-log=/dev/full", folder_path("site")));
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    expect_line_with(&s.err, "No space left");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}

/* Forward a client address with each header, and check the address that the log contains. */
static void check_forwarding(char *option, const char *by_x_forwarded_for, const char *by_forwarded)
{
    serve_process s;
    create_folder();
    start_serving(&s, ARGV("--access-log=-", "--cords=1", "--trust=127.0.0.0/8", option,
                           folder_path("site")));
    curl(ARGV("-H", "X-Forwarded-For: 192.0.2.9", url_of(&s, "/")));
    curl(ARGV("-H", "Forwarded: for=192.0.2.10", url_of(&s, "/")));
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    expect_line_with(&s.out, by_x_forwarded_for);
    expect_line_with(&s.out, by_forwarded);
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    release_serving(&s);
}

TEST(a_trusted_peer_may_forward_the_client_address)
{
    check_forwarding("--trust-headers=X-Forwarded-For", "192.0.2.9 - - [", "127.0.0.1 - - [");
}

TEST(only_the_headers_of_trust_headers_are_trusted)
{
    check_forwarding("--trust-headers=Forwarded", "127.0.0.1 - - [", "192.0.2.10 - - [");
}

/* Return the status and the encoding of a response. */
static const char *status_and_encoding(const serve_process *s, const char *path)
{
    return curl(ARGV("-o", "/dev/null", "-H", "Accept-Encoding: gzip", "-w",
                     "%{http_code} %header{content-encoding}", url_of(s, path)));
}

#ifdef WEFT_HAS_GZIP
#define COMPRESSED "200 gzip"
#else
#define COMPRESSED "200 "
#endif

TEST(options_control_listings_and_compression)
{
    static char page[5001];
    serve_process s;
    memset(page, 'a', sizeof page - 1);
    create_folder();
    ck_assert_int_eq(mkdir(folder_path("site/sub"), 0755), 0);
    create_text_file("site/page.html", page);
    start_serving(&s, ARGV(folder_path("site")));
    ck_assert_str_eq(status_and_encoding(&s, "/page.html"), COMPRESSED);
    ck_assert_str_eq(status_and_encoding(&s, "/sub/"), "404 ");
    ck_assert_int_eq(weft_process_end(&s.process, 15), 0);
    weft_stream_close(&s.out);
    weft_stream_close(&s.err);
    weft_process_close(&s.process);
    start_serving(&s, ARGV("--listing", "--no-gzip", folder_path("site")));
    ck_assert_str_eq(status_and_encoding(&s, "/page.html"), "200 ");
    ck_assert_str_eq(status_and_encoding(&s, "/sub/"), "200 ");
    stop_serving(&s);
}

TEST(options_set_the_limits)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    serve_process s;
    char response[13] = "";
    create_folder();
    start_serving(&s, ARGV("--cords=1", "--idle=0.05", "--max-connections=1", folder_path("site")));
    int first = weft_dial("tcp", s.origin + strlen("http://"));
    int second = weft_dial("tcp", s.origin + strlen("http://"));
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
    stop_serving(&s);
}

TEST(a_unix_socket_is_served_and_removed_at_the_end)
{
    create_folder();
    char *path = folder_path("socket");
    /* With a log, see start_serving. */
    weft_process p = spawn(ARGV(command_path(), "serve", "--listen", path, "--access-log",
                                folder_path("log"), folder_path("site")),
                           (weft_process_options){.out = WEFT_STDIO_PIPE});
    char byte;
    ck_assert_int_eq(weft_read(p.out, &byte, 1), 1);
    for (int i = 0; i < 20; i++)
        ck_assert_str_eq(curl(ARGV("--unix-socket", path, "http://a/")), "the site\n");
    ck_assert_int_eq(weft_process_end(&p, 15), 0);
    ck_assert_int_lt(access(path, F_OK), 0);
    weft_process_close(&p);
    remove_folder();
}
