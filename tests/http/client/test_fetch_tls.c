/* The HTTP client over TLS: directly, through a proxy, and with untrusted servers. */
#include "http/fetch_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

static const script_step secret[] = {{.reply = OK("secret", "6")}};
static tls_pair tls;

static void close_tls_site(void)
{
    close_site();
    free_tls_pair(&tls);
    tls = (tls_pair){0};
}

/* Open a site with a certificate for localhost and 127.0.0.1, and a fetcher that trusts it. */
static void open_tls_site(const script_step *steps, size_t count)
{
    close_tls_site();
    new_tls_pair(&tls, NULL, &(weft_tls_options){.alpn = "http/1.1"});
    open_site(steps, count);
    site.tls = tls.server_tls;
    snprintf(site.base, sizeof site.base, "https://localhost:%d", site.port);
    use_fetcher((weft_fetcher_options){.tls = tls.client_tls});
}

static void open_secret(void)
{
    open_tls_site(secret, 1);
}

FIXTURE(open_secret, close_tls_site)

TEST(a_tls_connection_is_reused)
{
    for (int i = 0; i < 4; i++)
        assert_page("/", "secret");
    ck_assert_uint_eq(site.conns, 1);
    const char *host = format("GET / HTTP/1.1\r\nHost: localhost:%d\r\n", site.port);
    ck_assert_has(site.received, host);
}

TEST(a_server_with_an_invalid_certificate_gets_no_request)
{
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&site, "/"), &fetch), -EACCES); /* not trusted */
    char url[64];
    int fd = weft_listen("tcp", "127.0.0.2:0");
    if (fd >= 0) { /* an address that is not in the certificate */
        weft_close(fd);
        start_server_at(&other, "127.0.0.2:0", secret, 1);
        other.tls = tls.server_tls;
        snprintf(url, sizeof url, "https://127.0.0.2:%d/", other.port);
        ck_assert_int_eq(weft_fetch_get(fetcher, url, &fetch), -EACCES);
        ck_assert_uint_eq(other.requests, 0);
    }
    ck_assert_uint_eq(site.requests, 0);
}

TEST(an_idle_tls_connection_that_was_closed_is_not_used)
{
    open_tls_site(STEPS({.reply = OK("bye", "3"), .closes = true}, {.reply = OK("new", "3")}));
    assert_page("/", "bye");
    let_run();
    assert_page("/", "new");
    ck_assert_uint_eq(site.requests, 2);
    ck_assert_uint_eq(site.conns, 2);
}

/*
 * Send an unrequested second reply in a separate TLS record. The record arrives with the last
 * record of the first reply, so it is visible neither at the descriptor nor in the stream's buffer.
 */
static bool send_extra_reply(script_server *sv, weft_stream *s)
{
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
    open_tls_site(STEPS({.handle = send_extra_reply}, {.reply = OK("secret", "6")}));
    char *text;
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_gt(weft_fetch_read_all(fetch, &text), 0);
    close_fetch();
    assert_page("/", "secret");
    ck_assert_uint_eq(site.conns, 2);
}

TEST(a_large_body_is_sent_over_tls_until_an_early_response_arrives)
{
    open_tls_site(
        STEPS({.reply = OK("thanks", "6")},
              {.reply = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", .is_early = true}));
    const size_t bytes = (size_t)32 << 20;
    char *body = calloc(1, bytes);
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, body, bytes / 16, &fetch),
                     200);
    close_fetch();
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, body, bytes, &fetch), 413);
    close_fetch();
    ck_assert_uint_eq(site.conns, 1);
    free(body);
}

TEST(a_redirect_from_https_to_http_is_the_response)
{
    open_tls_site(STEPS(
        {.reply =
             "HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}));
    ck_assert_int_eq(get("/"), 302);
    ck_assert_str_eq(weft_fetch_header(fetch, "Location"), "http://127.0.0.1:1/");
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
    int target = weft_dial("tcp", format("127.0.0.1:%d", tunnel_port));
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
    start_server(&other, steps, 1);
    tunnel_port = site.port;
    setenv("https_proxy", format("http://127.0.0.1:%d", other.port), 1);
    for (int i = 0; i < 3; i++)
        assert_page("/x", "secret");
    ck_assert_uint_eq(other.conns, 1);
    ck_assert_uint_eq(site.conns, 1);
    char expected[128];
    snprintf(expected, sizeof expected,
             "CONNECT localhost:%d HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", site.port, site.port);
    ck_assert_str_eq(other.received, expected);
    ck_assert_has(site.received, "GET /x HTTP/1.1\r\n");
    use_fetcher((weft_fetcher_options){0}); /* closes the tunnel */
}

static weft_value fetch_with_thread_fetcher(void *arg)
{
    char text[64];
    return fetch_text(NULL, arg, text, sizeof text);
}

/* The thread's own fetcher trusts the server because of SSL_CERT_FILE. */
TEST(the_fetcher_of_a_thread_closes_its_tls_connections_with_the_thread)
{
    char path[] = "/tmp/weft-fetch-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(write(fd, local_cert, strlen(local_cert)), 0);
    close(fd);
    setenv("SSL_CERT_FILE", path, 1);
    weft_cord cord = weft_cord_start(fetch_with_thread_fetcher, format("%s/", site.base), NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 200);
    while (site.open_conns > 0) /* the thread may end after the join */
        weft_sleep(0.001);
    unlink(path);
}

TEST(the_child_of_a_fork_sends_nothing_on_tls_connections_of_its_parent)
{
    assert_page("/", "secret");
    pid_t pid = weft_fork();
    if (pid == 0)
        _exit(weft_fetcher_free(fetcher) == 0 ? 7 : 8);
    int status = 0;
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    assert_page("/", "secret");
    ck_assert_uint_eq(site.conns, 1);
}
