/* The HTTP client over TLS: directly, through a proxy, and with untrusted servers. */
#include "http/fetch_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

static const script_step hello[] = {{.reply = OK("secret", "6")}};

/* A server with a certificate for localhost and 127.0.0.1, and a fetcher that trusts it. */
typedef struct tls_fetch {
    script_server server;
    tls_pair tls;
    weft_fetcher *fetcher;
} tls_fetch;

static void tls_fetch_open(tls_fetch *s, const script_step *steps, size_t count)
{
    new_tls_pair(&s->tls, NULL, &(weft_tls_options){.alpn = "http/1.1"});
    start_server(&s->server, steps, count);
    s->server.tls = s->tls.server_tls;
    snprintf(s->server.base, sizeof s->server.base, "https://localhost:%d", s->server.port);
    s->fetcher = weft_fetcher_new(&(weft_fetcher_options){.tls = s->tls.client_tls});
    ck_assert_ptr_nonnull(s->fetcher);
}

static void tls_fetch_close(tls_fetch *s)
{
    ck_assert_int_eq(weft_fetcher_free(s->fetcher), 0);
    stop_server(&s->server);
    free_tls_pair(&s->tls);
}

TEST(a_tls_connection_is_reused)
{
    tls_fetch s;
    tls_fetch_open(&s, hello, 1);
    for (int i = 0; i < 4; i++)
        ck_assert_fetch(s.fetcher, url_of(&s.server, "/"), "secret");
    ck_assert_uint_eq(s.server.conns, 1);
    char host[64];
    snprintf(host, sizeof host, "GET / HTTP/1.1\r\nHost: localhost:%d\r\n", s.server.port);
    ck_assert_server_received(&s.server, host);
    tls_fetch_close(&s);
}

TEST(a_server_with_an_invalid_certificate_gets_no_request)
{
    tls_fetch s;
    tls_fetch_open(&s, hello, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&s.server, "/"), &f), -EACCES); /* not trusted */
    char url[64];
    int fd = weft_listen("tcp", "127.0.0.2:0");
    if (fd >= 0) { /* an address that is not in the certificate */
        weft_close(fd);
        script_server other;
        start_server_at(&other, "127.0.0.2:0", hello, 1);
        other.tls = s.tls.server_tls;
        snprintf(url, sizeof url, "https://127.0.0.2:%d/", other.port);
        ck_assert_int_eq(weft_fetch_get(s.fetcher, url, &f), -EACCES);
        ck_assert_uint_eq(other.requests, 0);
        stop_server(&other);
    }
    ck_assert_uint_eq(s.server.requests, 0);
    tls_fetch_close(&s);
}

TEST(an_idle_tls_connection_that_was_closed_is_not_used)
{
    static const script_step steps[] = {{.reply = OK("bye", "3"), .closes = true},
                                        {.reply = OK("new", "3")}};
    tls_fetch s;
    tls_fetch_open(&s, steps, COUNT_OF(steps));
    ck_assert_fetch(s.fetcher, url_of(&s.server, "/"), "bye");
    let_run();
    ck_assert_fetch(s.fetcher, url_of(&s.server, "/"), "new");
    ck_assert_uint_eq(s.server.requests, 2);
    ck_assert_uint_eq(s.server.conns, 2);
    tls_fetch_close(&s);
}

/*
 * Send an unrequested second reply in a separate TLS record. The record arrives with the last
 * record of the first reply, so it is visible neither at the descriptor nor in the stream's buffer.
 */
static bool send_extra_reply(script_server *sv, weft_stream *s)
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

TEST(an_unrequested_reply_over_tls_is_not_the_response_to_the_next_request)
{
    static const script_step steps[] = {{.handle = send_extra_reply}, {.reply = OK("secret", "6")}};
    tls_fetch s;
    tls_fetch_open(&s, steps, COUNT_OF(steps));
    weft_fetch *f;
    char *text;
    ck_assert_int_eq(weft_fetch_get(s.fetcher, url_of(&s.server, "/"), &f), 200);
    ck_assert_int_gt(weft_fetch_read_all(f, &text), 0);
    weft_fetch_close(f);
    ck_assert_fetch(s.fetcher, url_of(&s.server, "/"), "secret");
    ck_assert_uint_eq(s.server.conns, 2);
    tls_fetch_close(&s);
}

TEST(a_large_body_is_sent_over_tls_until_an_early_response_arrives)
{
    static const script_step steps[] = {
        {.reply = OK("thanks", "6")},
        {.reply = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", .is_early = true}};
    tls_fetch s;
    tls_fetch_open(&s, steps, COUNT_OF(steps));
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
    tls_fetch_close(&s);
}

TEST(a_redirect_from_https_to_http_is_the_response)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}};
    tls_fetch s;
    tls_fetch_open(&s, steps, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(s.fetcher, url_of(&s.server, "/"), &f), 302);
    ck_assert_str_eq(weft_fetch_header(f, "Location"), "http://127.0.0.1:1/");
    weft_fetch_close(f);
    tls_fetch_close(&s);
}

/* A proxy that connects every tunnel to tunnel_port on this machine */

static int tunnel_port;

static weft_value splice_one_way(void *arg)
{
    const int *fd = arg;
    weft_splice_all(fd[0], fd[1]);
    weft_shutdown(fd[1], SHUT_WR);
    return 0;
}

static bool tunnel(script_server *sv, weft_stream *s)
{
    char address[32];
    (void)sv;
    snprintf(address, sizeof address, "127.0.0.1:%d", tunnel_port);
    int target = weft_dial("tcp", address);
    ck_assert_int_ge(target, 0);
    weft_stream_puts(s, "HTTP/1.1 200 Connected\r\nContent-Length: 5\r\n\r\n");
    weft_stream_flush(s);
    int origin = weft_stream_fd(s);
    int out[2] = {origin, target}, in[2] = {target, origin};
    weft_fiber f =
        weft_spin_with(splice_one_way, out, &(weft_spin_options){.arg_bytes = sizeof out});
    splice_one_way(in);
    weft_await(f);
    weft_close(target);
    return false;
}

TEST(an_https_request_uses_a_tunnel_through_the_proxy)
{
    static const script_step steps[] = {{.handle = tunnel}};
    tls_fetch s;
    script_server proxy;
    tls_fetch_open(&s, hello, 1);
    start_server(&proxy, steps, 1);
    tunnel_port = s.server.port;
    char value[64];
    snprintf(value, sizeof value, "http://127.0.0.1:%d", proxy.port);
    setenv("https_proxy", value, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_fetch(s.fetcher, url_of(&s.server, "/x"), "secret");
    ck_assert_uint_eq(proxy.conns, 1);
    ck_assert_uint_eq(s.server.conns, 1);
    char expected[128];
    snprintf(expected, sizeof expected,
             "CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", s.server.port,
             s.server.port);
    ck_assert_str_eq(proxy.received, expected);
    ck_assert_server_received(&s.server, "GET /x HTTP/1.1\r\n");
    ck_assert_int_eq(weft_fetcher_free(s.fetcher), 0);
    s.fetcher = NULL;
    stop_server(&proxy);
    tls_fetch_close(&s);
}

static weft_value fetch_with_thread_fetcher(void *arg)
{
    char text[64];
    return fetch_text(NULL, arg, text, sizeof text);
}

/* The thread's own fetcher trusts the server because of SSL_CERT_FILE. */
TEST(the_fetcher_of_a_thread_closes_its_tls_connections_with_the_thread)
{
    tls_fetch s;
    tls_fetch_open(&s, hello, 1);
    char path[] = "/tmp/weft-fetch-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(write(fd, local_cert, strlen(local_cert)), 0);
    close(fd);
    setenv("SSL_CERT_FILE", path, 1);
    char url[80];
    snprintf(url, sizeof url, "%s/", s.server.base);
    weft_cord cord = weft_cord_start(fetch_with_thread_fetcher, url, NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 200);
    while (s.server.open_conns > 0) /* the thread may end after the join */
        weft_sleep(0.001);
    unlink(path);
    tls_fetch_close(&s);
}

TEST(the_child_of_a_fork_sends_nothing_on_tls_connections_of_its_parent)
{
    tls_fetch s;
    tls_fetch_open(&s, hello, 1);
    ck_assert_fetch(s.fetcher, url_of(&s.server, "/"), "secret");
    pid_t pid = weft_fork();
    if (pid == 0)
        _exit(weft_fetcher_free(s.fetcher) == 0 ? 7 : 8);
    int status = 0;
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    ck_assert_fetch(s.fetcher, url_of(&s.server, "/"), "secret");
    ck_assert_uint_eq(s.server.conns, 1);
    tls_fetch_close(&s);
}
