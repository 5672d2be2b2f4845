/*
 * `weft serve` as people use it: a process, its command line, its signals, its log; curl calls it.
 */
#include "serve_support.h"

#include <arpa/inet.h>
#include <netinet/in.h>

START_TEST(it_serves_a_folder_and_says_where)
{
    served s;
    make_folder();
    start_serving(&s, ARGV(in_folder("site")));
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of(&s, "/none"))),
                     "404");
    stop_serving(&s);
}
END_TEST

START_TEST(it_says_which_methods_there_are)
{
    static const char *const asked[] = {"/", "/none"};
    served s;
    make_folder();
    start_serving(&s, ARGV(in_folder("site")));
    for (size_t i = 0; i < COUNT_OF(asked); i++) {
        const char *head = curl(ARGV("-i", "-X", "OPTIONS", url_of(&s, asked[i])));
        ck_assert_ptr_nonnull(strstr(head, "HTTP/1.1 204 "));
        ck_assert_ptr_nonnull(strstr(head, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    }
    const char *head = curl(ARGV("-i", "-d", "x", url_of(&s, "/")));
    ck_assert_ptr_nonnull(strstr(head, "HTTP/1.1 405 "));
    ck_assert_ptr_nonnull(strstr(head, "\r\nAllow: GET, HEAD, OPTIONS\r\n"));
    stop_serving(&s);
}
END_TEST

/*
 * The kernel gives each connection to one of the listeners: were one left alone, some would hang.
 */
START_TEST(all_cords_listen_at_the_same_port_and_all_answer)
{
    served s;
    char filter[64], command[128];
    make_folder();
    start_serving(&s, ARGV("--cords", "3", in_folder("site")));
    snprintf(filter, sizeof filter, "sport = :%d", s.port);
    snprintf(command, sizeof command, "test $(ss -Hltn '%s' | wc -l) = 3", filter);
    ck_assert_int_eq(weft_system(command), 0);
    for (int i = 0; i < 60; i++)
        ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}
END_TEST

START_TEST(a_certificate_signed_by_itself_is_made_when_asked_for)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--self-signed", in_folder("site")));
    ck_assert_int_eq(strncmp(s.origin, "https://", 8), 0);
    expect_said(&s.err, "signed by itself");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), ""); /* nobody trusts it */
    ck_assert_str_eq(curl(ARGV("-k", url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}
END_TEST

/* What the host answers over TLS to who trusts this file only; "" if it is not trusted. */
static const char *ask_host(const served *s, const char *host, char *trusted)
{
    char resolve[128], url[128];
    snprintf(resolve, sizeof resolve, "%s:%d:127.0.0.1", host, s->port);
    snprintf(url, sizeof url, "https://%s:%d/", host, s->port);
    return curl(ARGV("--cacert", trusted, "--resolve", resolve, url));
}

START_TEST(hosts_have_folders_and_certificates_of_their_own)
{
    served s;
    char other[256], cert[600];
    make_folder();
    put_certificate("one", "one.test");
    put_certificate("two", "two.test");
    snprintf(other, sizeof other, "two.test=%s", in_folder("other"));
    snprintf(cert, sizeof cert, "two.test=%s,%s", in_folder("two.pem"), in_folder("two.key"));
    start_serving(&s, ARGV("--tls-cert", in_folder("one.pem"), "--tls-key", in_folder("one.key"),
                           "--host", other, "--host-cert", cert, in_folder("site")));
    ck_assert_str_eq(ask_host(&s, "one.test", in_folder("one.pem")), "the site\n");
    ck_assert_str_eq(ask_host(&s, "two.test", in_folder("two.pem")), "the other\n");
    ck_assert_str_eq(ask_host(&s, "two.test", in_folder("one.pem")), "");
    stop_serving(&s);
}
END_TEST

START_TEST(a_hosts_own_certificate_is_preferred_to_one_signed_by_itself)
{
    served s;
    char cert[600];
    make_folder();
    put_certificate("two", "two.test");
    snprintf(cert, sizeof cert, "two.test=%s,%s", in_folder("two.pem"), in_folder("two.key"));
    start_serving(&s, ARGV("--self-signed", "--host-cert", cert, in_folder("site")));
    ck_assert_str_eq(ask_host(&s, "two.test", in_folder("two.pem")), "the site\n");
    stop_serving(&s);
}
END_TEST

START_TEST(hosts_are_told_apart_by_the_host_header)
{
    served s;
    char other[256];
    make_folder();
    snprintf(other, sizeof other, "two.test=%s", in_folder("other"));
    start_serving(&s, ARGV("--host", other, in_folder("site")));
    ck_assert_str_eq(curl(ARGV("-H", "Host: TWO.test:80", url_of(&s, "/"))), "the other\n");
    ck_assert_str_eq(curl(ARGV("-H", "Host: three.test", url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}
END_TEST

START_TEST(at_sighup_new_connections_get_the_new_certificate)
{
    served s;
    make_folder();
    put_certificate("one", "one.test");
    start_serving(&s, ARGV("--tls-cert", in_folder("one.pem"), "--tls-key", in_folder("one.key"),
                           in_folder("site")));
    ck_assert_int_eq(rename(in_folder("one.pem"), in_folder("old.pem")), 0);
    put_certificate("one", "one.test");
    ck_assert_str_eq(ask_host(&s, "one.test", in_folder("old.pem")), "the site\n");
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_said(&s.err, "read again");
    ck_assert_str_eq(ask_host(&s, "one.test", in_folder("one.pem")), "the site\n");
    ck_assert_str_eq(ask_host(&s, "one.test", in_folder("old.pem")), "");
    put_file("one.pem", "no certificate\n");
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_said(&s.err, "the old certificate is kept");
    ck_assert_str_eq(curl(ARGV("-k", url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}
END_TEST

#define BIG_BYTES (32 << 20) /* more than all the buffers on the way hold */

/* A download that has begun and is not read on. */
static int begin_download(const served *s)
{
    ck_assert_int_eq(close(open(in_folder("site/big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
    ck_assert_int_eq(truncate(in_folder("site/big"), BIG_BYTES), 0);
    static const char request[] = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
    char head[16];
    int fd = weft_dial("tcp", s->origin + strlen("http://"));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(weft_write_all(fd, request, sizeof request - 1), 0);
    ck_assert_int_eq(weft_read_full(fd, head, sizeof head), sizeof head);
    return fd;
}

/* Nobody answers any more: it has begun to end. */
static void wait_until_refused(const served *s)
{
    int fd;
    while ((fd = weft_dial("tcp", s->origin + strlen("http://"))) >= 0) {
        weft_close(fd);
        weft_sleep(0.001);
    }
}

START_TEST(at_sighup_the_folders_are_opened_again)
{
    served s;
    make_folder();
    ck_assert_int_eq(symlink("site", in_folder("current")), 0);
    start_serving(&s, ARGV(in_folder("current")));
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    ck_assert_int_eq(symlink("other", in_folder("next")), 0);
    ck_assert_int_eq(rename(in_folder("next"), in_folder("current")), 0);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_said(&s.err, "the folders were opened again");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the other\n");
    ck_assert_int_eq(unlink(in_folder("current")), 0);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    expect_said(&s.err, "the old folder is kept");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the other\n");
    stop_serving(&s);
}
END_TEST

START_TEST(a_download_is_finished_before_it_ends)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--drain=15", in_folder("site")));
    int fd = begin_download(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    wait_until_refused(&s);
    static char data[1 << 20];
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        total += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_gt(total, BIG_BYTES); /* with what was left of the head */
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    weft_close(fd);
    forget_serving(&s);
}
END_TEST

START_TEST(what_is_not_finished_in_time_is_cut_and_the_status_is_0)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--drain=0.01", in_folder("site")));
    int fd = begin_download(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGINT), 0);
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    weft_close(fd);
    forget_serving(&s);
}
END_TEST

START_TEST(a_second_signal_ends_it_at_once)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--drain=1000", in_folder("site")));
    int fd = begin_download(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    wait_until_refused(&s);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGINT), 0);
    int status = weft_process_wait(&s.process);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    weft_close(fd);
    forget_serving(&s);
}
END_TEST

START_TEST(an_idle_connection_does_not_hold_up_its_end)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--drain=1000", in_folder("site")));
    int idle = weft_dial("tcp", s.origin + strlen("http://"));
    ck_assert_int_ge(idle, 0);
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
    weft_close(idle);
}
END_TEST

/* It ends with this status, and says this on one line of stderr. */
static void expect_end(int status, const char *said, char *const words[])
{
    char *argv[16] = {command_path(), "serve"};
    weft_output got;
    for (int i = 0; words[i] != NULL; i++)
        argv[i + 2] = words[i];
    int ended = weft_run(argv, NULL, 0, NULL, &got);
    ck_assert_msg(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "%s: status %d", said, ended);
    ck_assert_msg(strstr(got.err, said) != NULL, "not \"%s\" in: %s", said, got.err);
    ck_assert_ptr_eq(strchr(got.err, '\n'), got.err + got.err_bytes - 1);
    ck_assert_str_eq(got.out, "");
    weft_output_free(&got);
}

START_TEST(a_bad_command_line_is_told_by_the_word_that_is_wrong)
{
    expect_end(2, "--nope", ARGV("--nope"));
    expect_end(2, "-x", ARGV("-x"));
    expect_end(2, "not many", ARGV("--cords", "many"));
    expect_end(2, "not 0", ARGV("--cords=0"));
    expect_end(2, "not -1", ARGV("--cords", "-1"));
    expect_end(2, "--listen wants ADDR:PORT", ARGV("--listen"));
    expect_end(2, "not nowhere", ARGV("--listen", "nowhere"));
    expect_end(2, "not :99999", ARGV("--listen", ":99999"));
    expect_end(2, "not also b", ARGV("a", "b"));
    expect_end(2, "--tls-cert without --tls-key", ARGV("--tls-cert", "a"));
    expect_end(2, "--tls-key without --tls-cert", ARGV("--tls-key", "a"));
    expect_end(2, "only one", ARGV("--self-signed", "--tls-cert", "a", "--tls-key", "b"));
    expect_end(2, "--quiet=1", ARGV("--quiet=1"));
    expect_end(2, "not a", ARGV("--host", "a"));
    expect_end(2, "not a=c", ARGV("--host", "a=b", "--host", "a=c"));
    expect_end(2, "not a=b", ARGV("--host-cert", "a=b"));
    expect_end(2, "--host-cert a=", ARGV("--host-cert", "a=b,c"));
    expect_end(2, "not 1t", ARGV("--max-body", "1t"));
    expect_end(2, "not 99999999999g", ARGV("--max-body", "99999999999g"));
    expect_end(2, "not soon", ARGV("--drain", "soon"));
    expect_end(2, "not 10.0.0.0/40", ARGV("--trust", "10.0.0.0/40"));
}
END_TEST

START_TEST(what_cannot_be_had_is_said_and_the_status_is_1)
{
    served s;
    make_folder();
    expect_end(1, "/none/such", ARGV("--listen=127.0.0.1:0", "/none/such"));
    expect_end(1, "index.html", ARGV("--listen=127.0.0.1:0", in_folder("site/index.html")));
    expect_end(1, "none.pem",
               ARGV("--listen=127.0.0.1:0", "--tls-cert", in_folder("none.pem"), "--tls-key",
                    in_folder("none.key"), in_folder("site")));
    expect_end(1, "/none/log",
               ARGV("--listen=127.0.0.1:0", "--access-log", "/none/log", in_folder("site")));
    start_serving(&s, ARGV(in_folder("site")));
    expect_end(1, "in use", ARGV("--listen", s.origin + strlen("http://"), in_folder("site")));
    stop_serving(&s);
}
END_TEST

START_TEST(every_request_is_a_line_of_the_log_that_nobody_can_forge)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--access-log", in_folder("log"), in_folder("site")));
    curl(ARGV("-A", "a\"b\\\xe4", "-e", "http://from/", url_of(&s, "/?q")));
    ck_assert_int_eq(rename(in_folder("log"), in_folder("log.1")), 0);
    ck_assert_int_eq(weft_process_kill(&s.process, SIGHUP), 0);
    while (access(in_folder("log"), F_OK) < 0)
        weft_sleep(0.001);
    curl(ARGV("-o", in_folder("x"), url_of(&s, "/none")));
    ck_assert_int_eq(weft_process_kill(&s.process, SIGTERM), 0);
    ck_assert_int_eq(weft_process_wait(&s.process), 0);
    const char *first = text_of("log.1");
    ck_assert_int_eq(strncmp(first, "127.0.0.1 - - [", 15), 0);
    ck_assert_ptr_nonnull(strstr(first, "] \"GET /?q HTTP/1.1\" 200 9 \"http://from/\" "
                                        "\"a\\\"b\\\\\\xe4\"\n"));
    ck_assert_ptr_nonnull(strstr(text_of("log"), "\"GET /none HTTP/1.1\" 404 "));
    forget_serving(&s);
}
END_TEST

START_TEST(a_log_that_nobody_reads_any_more_does_not_stop_it)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--access-log=-", in_folder("site")));
    weft_stream_close(&s.out);
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    expect_said(&s.err, "lines are being lost");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}
END_TEST

START_TEST(a_full_disk_does_not_stop_it_either)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--access-log=/dev/full", in_folder("site")));
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    expect_said(&s.err, "No space left");
    ck_assert_str_eq(curl(ARGV(url_of(&s, "/"))), "the site\n");
    stop_serving(&s);
}
END_TEST

START_TEST(whom_it_trusts_may_say_who_asks)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--access-log=-", "--trust=127.0.0.0/8", in_folder("site")));
    curl(ARGV("-H", "X-Forwarded-For: 192.0.2.9", url_of(&s, "/")));
    expect_said(&s.out, "192.0.2.9 - - [");
    curl(ARGV("-H", "Forwarded: for=192.0.2.10", url_of(&s, "/")));
    expect_said(&s.out, "127.0.0.1 - - [");
    stop_serving(&s);
}
END_TEST

START_TEST(it_believes_only_the_headers_that_are_named)
{
    served s;
    make_folder();
    start_serving(&s, ARGV("--access-log=-", "--trust=127.0.0.0/8", "--trust-headers=Forwarded",
                           in_folder("site")));
    curl(ARGV("-H", "Forwarded: for=192.0.2.10", url_of(&s, "/")));
    expect_said(&s.out, "192.0.2.10 - - [");
    curl(ARGV("-H", "X-Forwarded-For: 192.0.2.9", url_of(&s, "/")));
    expect_said(&s.out, "127.0.0.1 - - [");
    stop_serving(&s);
}
END_TEST

/* What curl says of a reply: its status and its encoding. */
static const char *ask_about(const served *s, const char *path)
{
    return curl(ARGV("-o", "/dev/null", "-H", "Accept-Encoding: gzip", "-w",
                     "%{http_code} %header{content-encoding}", url_of(s, path)));
}

#ifdef WEFT_HAS_GZIP
#define PACKED "200 gzip"
#else
#define PACKED "200 "
#endif

START_TEST(folders_are_listed_and_replies_compressed_as_it_is_told)
{
    static char page[5001];
    served s;
    memset(page, 'a', sizeof page - 1);
    make_folder();
    ck_assert_int_eq(mkdir(in_folder("site/sub"), 0755), 0);
    put_file("site/page.html", page);
    start_serving(&s, ARGV(in_folder("site")));
    ck_assert_str_eq(ask_about(&s, "/page.html"), PACKED);
    ck_assert_str_eq(ask_about(&s, "/sub/"), "404 ");
    ck_assert_int_eq(weft_process_end(&s.process, 15), 0);
    weft_stream_close(&s.out);
    weft_stream_close(&s.err);
    weft_process_close(&s.process);
    start_serving(&s, ARGV("--listing", "--no-gzip", in_folder("site")));
    ck_assert_str_eq(ask_about(&s, "/page.html"), "200 ");
    ck_assert_str_eq(ask_about(&s, "/sub/"), "200 ");
    stop_serving(&s);
}
END_TEST

START_TEST(its_limits_are_those_of_the_command_line)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    served s;
    char reply[13] = "";
    make_folder();
    start_serving(&s, ARGV("--cords=1", "--idle=0.05", "--max-connections=1", in_folder("site")));
    int first = weft_dial("tcp", s.origin + strlen("http://"));
    int second = weft_dial("tcp", s.origin + strlen("http://"));
    ck_assert_int_eq(weft_read_full(second, reply, 12), 12);
    ck_assert_str_eq(reply, "HTTP/1.1 503");
    ck_assert_int_gt(weft_write_all(first, request, sizeof request - 1), 0);
    ck_assert_int_eq(weft_read_full(first, reply, 12), 12);
    ck_assert_str_eq(reply, "HTTP/1.1 200");
    ssize_t n;
    while ((n = weft_read(first, reply, sizeof reply)) > 0) /* until it was idle for too long */
        ;
    ck_assert_int_eq(n, 0);
    weft_close(second);
    weft_close(first);
    stop_serving(&s);
}
END_TEST

START_TEST(a_unix_socket_is_served_and_its_file_is_gone_in_the_end)
{
    make_folder();
    char *path = in_folder("socket");
    /* With a log: see start_serving. */
    weft_process p = spawn(ARGV(command_path(), "serve", "--listen", path, "--access-log",
                                in_folder("log"), in_folder("site")),
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
END_TEST

static const TTest *const *const tests[] = {
    &it_serves_a_folder_and_says_where,
    &it_says_which_methods_there_are,
    &all_cords_listen_at_the_same_port_and_all_answer,
    &a_certificate_signed_by_itself_is_made_when_asked_for,
    &hosts_have_folders_and_certificates_of_their_own,
    &a_hosts_own_certificate_is_preferred_to_one_signed_by_itself,
    &hosts_are_told_apart_by_the_host_header,
    &at_sighup_new_connections_get_the_new_certificate,
    &at_sighup_the_folders_are_opened_again,
    &a_download_is_finished_before_it_ends,
    &what_is_not_finished_in_time_is_cut_and_the_status_is_0,
    &a_second_signal_ends_it_at_once,
    &an_idle_connection_does_not_hold_up_its_end,
    &a_bad_command_line_is_told_by_the_word_that_is_wrong,
    &what_cannot_be_had_is_said_and_the_status_is_1,
    &every_request_is_a_line_of_the_log_that_nobody_can_forge,
    &a_log_that_nobody_reads_any_more_does_not_stop_it,
    &a_full_disk_does_not_stop_it_either,
    &whom_it_trusts_may_say_who_asks,
    &it_believes_only_the_headers_that_are_named,
    &folders_are_listed_and_replies_compressed_as_it_is_told,
    &its_limits_are_those_of_the_command_line,
    &a_unix_socket_is_served_and_its_file_is_gone_in_the_end,
};

int main(void)
{
    return run_suite("command_serve", tests, COUNT_OF(tests));
}
