/* The web client over TLS: directly, through a proxy, and with whom it does not trust. */
#include "fetch_support.h"
#include "tls_support.h"

static const turn hello[] = {{.says = OK("secret", "6")}};

/* A server with a certificate for localhost and 127.0.0.1, and a client that trusts it. */
typedef struct sides {
    web server;
    pair tls;
    weft_fetcher *fetcher;
} sides;

static void open_sides(sides *s, const turn *turns, size_t count)
{
    make_sides(&s->tls, NULL, &(weft_tls_options){.alpn = "http/1.1"});
    start_server(&s->server, turns, count);
    s->server.tls = s->tls.server_tls;
    snprintf(s->server.base, sizeof s->server.base, "https://localhost:%d", s->server.port);
    s->fetcher = weft_fetcher_new(&(weft_fetcher_options){.tls = s->tls.client_tls});
    ck_assert_ptr_nonnull(s->fetcher);
}

static void close_sides(sides *s)
{
    ck_assert_int_eq(weft_fetcher_free(s->fetcher), 0);
    stop_server(&s->server);
    free_sides(&s->tls);
}

START_TEST(a_secure_connection_is_kept_and_used_again)
{
    sides s;
    open_sides(&s, hello, 1);
    for (int i = 0; i < 4; i++)
        ck_assert_get(s.fetcher, url_of(&s.server, "/"), "secret");
    ck_assert_uint_eq(s.server.conns, 1);
    char host[64];
    snprintf(host, sizeof host, "GET / HTTP/1.1\r\nHost: localhost:%d\r\n", s.server.port);
    ck_assert_seen(&s.server, host);
    close_sides(&s);
}
END_TEST

START_TEST(a_server_that_is_not_who_it_says_is_not_asked)
{
    sides s;
    open_sides(&s, hello, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&s.server, "/"), &f), -EACCES); /* not trusted */
    char url[64];
    int fd = weft_listen("tcp", "127.0.0.2:0");
    if (fd >= 0) { /* not its name */
        weft_close(fd);
        web other;
        start_at(&other, "127.0.0.2:0", hello, 1);
        other.tls = s.tls.server_tls;
        snprintf(url, sizeof url, "https://127.0.0.2:%d/", other.port);
        ck_assert_int_eq(weft_fetch_get(s.fetcher, url, &f), -EACCES);
        ck_assert_uint_eq(other.asked, 0);
        stop_server(&other);
    }
    ck_assert_uint_eq(s.server.asked, 0);
    close_sides(&s);
}
END_TEST

START_TEST(a_kept_secure_connection_that_was_closed_is_not_used)
{
    static const turn turns[] = {{.says = OK("bye", "3"), .hangs_up = true},
                                 {.says = OK("new", "3")}};
    sides s;
    open_sides(&s, turns, COUNT_OF(turns));
    ck_assert_get(s.fetcher, url_of(&s.server, "/"), "bye");
    let_run();
    ck_assert_get(s.fetcher, url_of(&s.server, "/"), "new");
    ck_assert_uint_eq(s.server.asked, 2);
    ck_assert_uint_eq(s.server.conns, 2);
    close_sides(&s);
}
END_TEST

/*
 * One that says more than it was asked, in a record of its own that comes along with the last one
 * of the answer: nothing shows it at the descriptor, nor in the stream's buffer.
 */
static bool says_too_much(web *sv, weft_stream *s)
{
    (void)sv;
    enum { RECORD_BYTES = 16 << 10 };
    static char text[RECORD_BYTES + 64];
    memset(text, 'x', sizeof text);
    int n = sprintf(text, "HTTP/1.1 200 OK\r\nContent-Length: %05d\r\n\r\n", 0);
    n = sprintf(text, "HTTP/1.1 200 OK\r\nContent-Length: %05d\r\n\r\n", RECORD_BYTES - n);
    text[n] = 'x';
    n = sprintf(text + RECORD_BYTES, "%s", OK("poison", "6"));
    weft_stream_write(s, text, (size_t)RECORD_BYTES + (size_t)n);
    weft_stream_flush(s);
    return true;
}

START_TEST(what_a_secure_server_says_unasked_is_no_answer_to_the_next_request)
{
    static const turn turns[] = {{.talks = says_too_much}, {.says = OK("secret", "6")}};
    sides s;
    open_sides(&s, turns, COUNT_OF(turns));
    weft_fetch *f;
    char *text;
    ck_assert_int_eq(weft_fetch_get(s.fetcher, url_of(&s.server, "/"), &f), 200);
    ck_assert_int_gt(weft_fetch_read_all(f, &text), 0);
    weft_fetch_close(f);
    ck_assert_get(s.fetcher, url_of(&s.server, "/"), "secret");
    ck_assert_uint_eq(s.server.conns, 2);
    close_sides(&s);
}
END_TEST

START_TEST(a_large_body_goes_out_over_tls_unless_it_is_answered_before)
{
    static const turn turns[] = {
        {.says = OK("thanks", "6")},
        {.says = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", .is_early = true}};
    sides s;
    open_sides(&s, turns, COUNT_OF(turns));
    const size_t bytes = (size_t)32 << 20;
    char *body = calloc(1, bytes);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(s.fetcher, url_of(&s.server, "/"), NULL, body, bytes / 16, &f),
                     200);
    weft_fetch_close(f);
    ck_assert_int_eq(weft_fetch_post(s.fetcher, url_of(&s.server, "/"), NULL, body, bytes, &f),
                     413);
    weft_fetch_close(f);
    ck_assert_uint_eq(s.server.conns, 1);
    free(body);
    close_sides(&s);
}
END_TEST

/* From secret to plain is not a way that a client goes by itself. */
START_TEST(a_redirect_to_what_is_not_secure_is_the_answer)
{
    static const turn turns[] = {
        {.says = "HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}};
    sides s;
    open_sides(&s, turns, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(s.fetcher, url_of(&s.server, "/"), &f), 302);
    ck_assert_str_eq(weft_fetch_header(f, "Location"), "http://127.0.0.1:1/");
    weft_fetch_close(f);
    close_sides(&s);
}
END_TEST

/* A proxy: what was asked with CONNECT, to a server on this machine; then bytes both ways. */

static int tunnel_port;

static weft_value pump(void *arg)
{
    const int *fd = arg;
    weft_splice_all(fd[0], fd[1]);
    weft_shutdown(fd[1], SHUT_WR);
    return 0;
}

static bool tunnel(web *sv, weft_stream *s)
{
    char address[32];
    (void)sv;
    snprintf(address, sizeof address, "127.0.0.1:%d", tunnel_port);
    int there = weft_dial("tcp", address);
    ck_assert_int_ge(there, 0);
    weft_stream_puts(s, "HTTP/1.1 200 Connected\r\nContent-Length: 5\r\n\r\n");
    weft_stream_flush(s);
    int here = weft_stream_fd(s);
    int out[2] = {here, there}, in[2] = {there, here};
    weft_fiber f = weft_spin_with(pump, out, &(weft_spin_options){.arg_bytes = sizeof out});
    pump(in);
    weft_await(f);
    weft_close(there);
    return false;
}

START_TEST(a_secure_request_goes_through_a_proxy_by_a_tunnel)
{
    static const turn turns[] = {{.talks = tunnel}};
    sides s;
    web proxy;
    open_sides(&s, hello, 1);
    start_server(&proxy, turns, 1);
    tunnel_port = s.server.port;
    char value[64];
    snprintf(value, sizeof value, "http://127.0.0.1:%d", proxy.port);
    setenv("https_proxy", value, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_get(s.fetcher, url_of(&s.server, "/x"), "secret");
    ck_assert_uint_eq(proxy.conns, 1);
    ck_assert_uint_eq(s.server.conns, 1);
    char expected[128];
    snprintf(expected, sizeof expected,
             "CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", s.server.port,
             s.server.port);
    ck_assert_str_eq(proxy.seen, expected);
    ck_assert_seen(&s.server, "GET /x HTTP/1.1\r\n");
    ck_assert_int_eq(weft_fetcher_free(s.fetcher), 0);
    s.fetcher = NULL;
    stop_server(&proxy);
    close_sides(&s);
}
END_TEST

static weft_value ask_own(void *arg)
{
    char text[64];
    return get_text(NULL, arg, text, sizeof text);
}

/* By SSL_CERT_FILE the thread's own client trusts it, too. */
START_TEST(the_client_of_a_thread_ends_its_secure_connections_with_the_thread)
{
    sides s;
    open_sides(&s, hello, 1);
    char path[] = "/tmp/weft-fetch-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(write(fd, local_cert, strlen(local_cert)), 0);
    close(fd);
    setenv("SSL_CERT_FILE", path, 1);
    char url[80];
    snprintf(url, sizeof url, "%s/", s.server.base);
    weft_cord cord = weft_cord_start(ask_own, url, NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 200);
    while (s.server.open > 0) /* its thread ends a little later */
        weft_sleep(0.001);
    unlink(path);
    close_sides(&s);
}
END_TEST

START_TEST(the_child_of_a_fork_says_nothing_on_the_secure_connections_of_its_parent)
{
    sides s;
    open_sides(&s, hello, 1);
    ck_assert_get(s.fetcher, url_of(&s.server, "/"), "secret");
    pid_t pid = weft_fork();
    if (pid == 0)
        _exit(weft_fetcher_free(s.fetcher) == 0 ? 7 : 8);
    int status = 0;
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    ck_assert_get(s.fetcher, url_of(&s.server, "/"), "secret");
    ck_assert_uint_eq(s.server.conns, 1);
    close_sides(&s);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_secure_connection_is_kept_and_used_again,
        &a_server_that_is_not_who_it_says_is_not_asked,
        &a_kept_secure_connection_that_was_closed_is_not_used,
        &what_a_secure_server_says_unasked_is_no_answer_to_the_next_request,
        &a_large_body_goes_out_over_tls_unless_it_is_answered_before,
        &a_redirect_to_what_is_not_secure_is_the_answer,
        &a_secure_request_goes_through_a_proxy_by_a_tunnel,
        &the_client_of_a_thread_ends_its_secure_connections_with_the_thread,
        &the_child_of_a_fork_says_nothing_on_the_secure_connections_of_its_parent,
    };
#ifndef WEFT_HAS_TLS
    puts("skipped: built without TLS");
    return 77;
#endif
    forget_proxies();
    return run_suite("fetch_tls", tests, COUNT_OF(tests));
}
