/* The connections of the HTTP client over HTTP/2: sharing, reuse, GOAWAY, fallback, the end. */
#include "http/client/fetch_h2_support.h"

FIXTURE(h2_set_up, h2_tear_down)

/* Fetch a page in a fiber. Returns the status, or an error. */
static weft_value fetch_page(void *arg)
{
    char text[4096];
    int status = fetch_text(fetcher, arg, text, sizeof text);
    return status < 0 ? status : strcmp(text, "hello") == 0 ? status : -EILSEQ;
}

/* Fetch a page in many fibers at once. Assert the result of each. */
static void fetch_pages(size_t count, weft_value expected)
{
    weft_fiber f[200];
    char url[128];
    ck_assert_uint_le(count, COUNT_OF(f));
    snprintf(url, sizeof url, "%s", url_of(&site, "/"));
    for (size_t i = 0; i < count; i++)
        f[i] = weft_spin(fetch_page, url);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_await(f[i]), expected);
}

TEST(concurrent_first_requests_share_one_connection)
{
    h2_site_open(h2_hello);
    fetch_pages(50, 200);
    ck_assert_uint_eq(h2.conns, 1);
    ck_assert_uint_eq(h2.requests, 50);
}

TEST(concurrent_first_requests_share_one_tls_connection)
{
    h2_site_open_tls(h2_hello, "h2");
    fetch_pages(50, 200);
    ck_assert_uint_eq(h2.conns, 1);
    ck_assert_uint_eq(h2.requests, 50);
}

TEST(concurrent_first_requests_share_a_failure)
{
    h2_site_open(h2_hello);
    weft_cancel(h2.fiber);
    weft_await(h2.fiber);
    weft_close(h2.listener);
    h2.fiber = 0;
    fetch_pages(20, -ECONNREFUSED);
}

/* Wait until the client has no reader. */
static void await_idle(size_t fibers)
{
    while (stats().fibers > fibers)
        ck_assert_int_eq(weft_sleep(0.001), 0);
}

TEST(an_idle_connection_has_no_fiber_and_is_reused)
{
    h2_site_open(h2_hello);
    assert_page("/", "hello");
    /* The site has an acceptor, a connection and its reader. */
    await_idle(3);
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 1);
}

TEST(a_connection_that_the_server_has_closed_is_not_used)
{
    h2_site_open(h2_hello);
    assert_page("/", "hello");
    await_idle(3);
    weft_cancel(h2.last->fiber);
    while (h2.open_conns > 0)
        ck_assert_int_eq(weft_snooze(), 0);
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 2);
    weft_cancel(h2.last->fiber); /* now the client has a reader */
    while (h2.open_conns > 0)
        ck_assert_int_eq(weft_snooze(), 0);
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 3);
}

TEST(an_idle_connection_that_received_goaway_is_not_used)
{
    h2_site_open(h2_hello);
    assert_page("/", "hello");
    await_idle(3);
    weft__h2_session_goaway(&h2.last->session, NGHTTP2_NO_ERROR);
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 2);
}

static weft_cond go_on;
static size_t waiting;

static int wait_then_hello(h2_exchange *x)
{
    waiting++;
    int rc = weft_cond_wait(&go_on, NULL);
    waiting--;
    return rc < 0 ? rc : h2_hello(x);
}

TEST(further_requests_wait_while_the_server_allows_no_stream)
{
    weft_fiber f[5];
    char url[128];
    h2.options.streams_max = 2;
    h2_site_open(h2_hello);
    snprintf(url, sizeof url, "%s", url_of(&site, "/"));
    assert_page("/", "hello"); /* the limit has arrived */
    h2.last->handler = wait_then_hello;
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(fetch_page, url);
    while (waiting < 2)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(h2.last->session.streams_count, 2);
    ck_assert_int_eq(weft_cancel(f[4]), 0);
    ck_assert_int_eq(weft_await(f[4]), -ECANCELED);
    while (weft_state_of(f[3]) != WEFT_DEAD) {
        weft_cond_signal(&go_on);
        ck_assert_int_eq(weft_snooze(), 0);
        ck_assert_uint_le(waiting, 2);
    }
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(weft_await(f[i]), 200);
    ck_assert_uint_eq(h2.conns, 1);
}

TEST(cancelling_a_fetch_resets_its_stream_only)
{
    char url[128];
    h2_site_open(wait_then_hello);
    snprintf(url, sizeof url, "%s", url_of(&site, "/"));
    weft_fiber a = weft_spin(fetch_page, url), b = weft_spin(fetch_page, url);
    while (waiting < 2)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(cancel_and_await(a), -ECANCELED);
    while (h2.last->session.counts.frames[NGHTTP2_RST_STREAM] == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    weft_cond_broadcast(&go_on);
    ck_assert_int_eq(weft_await(b), 200);
    ck_assert_uint_eq(h2.conns, 1);
}

TEST(a_response_that_is_not_read_resets_its_stream_only)
{
    h2_site_open(h2_echo);
    static char body[1 << 20];
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, body, sizeof body, &fetch),
                     200);
    close_fetch();
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, "hello", 5, &fetch), 200);
    assert_body("hello");
    ck_assert_uint_eq(h2.conns, 1);
}

/*
 * Requests that the server has not processed.
 */

static size_t refusals;

static int refuse_some(h2_exchange *x)
{
    if (refusals > 0) {
        refusals--;
        weft__h2_stream_reset(&x->st, NGHTTP2_REFUSED_STREAM);
        return -ECONNREFUSED;
    }
    return h2_echo(x);
}

TEST(a_refused_request_is_sent_again)
{
    h2_site_open(refuse_some);
    refusals = 2;
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, "again", 5, &fetch), 200);
    assert_body("again");
    refusals = 100;
    ck_assert_int_eq(get("/"), -ECONNRESET);
    ck_assert_uint_eq(refusals, 95);
    refusals = 1;
    const weft_fetch_request r = {.url = url_of(&site, "/"), .method = "PUT"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, -1, &fetch), 0);
    ck_assert_int_eq(weft_fetch_wait(fetch), -ECONNRESET); /* the body is not in memory */
    ck_assert_uint_eq(h2.conns, 1);
}

static int reset_posts(h2_exchange *x)
{
    if (strstr(x->fields, ":method: POST") == NULL)
        return h2_hello(x);
    h2.requests++;
    weft__h2_stream_reset(&x->st, NGHTTP2_CANCEL);
    return -EIO;
}

TEST(a_request_that_the_server_may_have_processed_is_not_sent_again)
{
    h2_site_open(reset_posts);
    assert_page("/", "hello"); /* the next request uses the same connection */
    h2.requests = 0;
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, "once", 4, &fetch),
                     -ECONNRESET);
    ck_assert_uint_eq(h2.requests, 1);
}

/* A server that writes its frames itself. */
static void raw_frame(int fd, uint8_t type, uint8_t flags, uint8_t id, const char *data, size_t n)
{
    uint8_t frame[128] = {0, 0, (uint8_t)n, type, flags, 0, 0, 0, id};
    memcpy(frame + 9, data, n);
    ck_assert_int_eq(weft_write_all(fd, frame, 9 + n), (ssize_t)(9 + n));
}

/* Read input until at least count HEADERS frames have arrived. */
static void raw_await_requests(int fd, int count)
{
    static uint8_t data[1 << 16];
    size_t bytes = 0, at = 24;
    for (int seen = 0; seen < count;) {
        ssize_t n = weft_read(fd, data + bytes, sizeof data - bytes);
        ck_assert_int_gt(n, 0);
        for (bytes += (size_t)n; at + 9 <= bytes; at += 9 + (size_t)data[at + 2]) {
            if (at + 9 + data[at + 2] > bytes)
                break;
            seen += data[at + 3] == NGHTTP2_HEADERS;
        }
    }
}

/* The first connection processes only stream 1. The others are served properly. */
static weft_value go_away_site(void *arg)
{
    int fd = weft_accept(h2.listener, NULL, NULL);
    raw_frame(fd, NGHTTP2_SETTINGS, 0, 0, "", 0);
    raw_await_requests(fd, 3);
    raw_frame(fd, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
    raw_frame(fd, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "\210", 1);
    raw_frame(fd, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "hello", 5);
    h2.conns++;
    char rest[4096];
    while (weft_read(fd, rest, sizeof rest) > 0)
        continue;
    weft_close(fd);
    return 0;
}

static weft_value post_hello(void *arg)
{
    weft_fetch *f;
    char *text;
    int status = weft_fetch_post(fetcher, arg, NULL, "hello", 5, &f);
    if (status < 0)
        return status;
    ssize_t n = weft_fetch_read_all(f, &text);
    status = n == 5 && strcmp(text, "hello") == 0 ? status : -EILSEQ;
    weft_fetch_close(f);
    return status;
}

TEST(requests_above_the_last_stream_of_goaway_are_sent_again)
{
    weft_fiber f[3];
    char url[128];
    h2_site_open(h2_echo);
    snprintf(url, sizeof url, "%s", url_of(&site, "/"));
    weft_cancel(h2.fiber);
    weft_await(h2.fiber);
    weft_fiber first = weft_spin(go_away_site, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(post_hello, url);
    while (h2.conns == 0)
        ck_assert_int_eq(weft_snooze(), 0);
    h2.fiber = weft_spin(h2_site_run, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_int_eq(weft_await(f[i]), 200);
    ck_assert_uint_eq(h2.conns, 2);
    ck_assert_uint_eq(h2.requests, 2);
    ck_assert_int_eq(weft_await(first), 0);
}

/*
 * The protocol.
 */

static int require_http1(h2_exchange *x)
{
    weft__h2_stream_reset(&x->st, NGHTTP2_HTTP_1_1_REQUIRED);
    return -ECONNREFUSED;
}

TEST(a_server_without_http2_gets_http1)
{
    new_tls_pair(&h2_tls, &(weft_tls_options){.alpn = "http/1.1"},
                 &(weft_tls_options){.alpn = "h2,http/1.1"});
    open_hello();
    site.tls = h2_tls.server_tls;
    snprintf(site.base, sizeof site.base, "https://localhost:%d", site.port);
    use_fetcher((weft_fetcher_options){.tls = h2_tls.client_tls});
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 11);
    assert_body("hello");
    fetch_pages(20, 200);
    ck_assert_uint_le(site.conns, 9);
    ck_assert_uint_gt(site.conns, 1);
}

TEST(a_fetcher_without_http2_offers_http1)
{
    new_tls_pair(&h2_tls, &(weft_tls_options){.alpn = "h2,http/1.1"},
                 &(weft_tls_options){.alpn = "h2,http/1.1"});
    open_hello();
    site.tls = h2_tls.server_tls;
    snprintf(site.base, sizeof site.base, "https://localhost:%d", site.port);
    use_fetcher((weft_fetcher_options){.tls = h2_tls.client_tls, .has_no_http2 = true});
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 11);
    assert_body("hello");
}

/* Serve HTTP/2 that requires HTTP/1.1, or HTTP/1, as the client chooses. */
static weft_value serve_both(void *arg)
{
    for (;;) {
        static h2_end end;
        weft_tls_info info;
        int fd = weft_accept(h2.listener, NULL, NULL);
        if (fd < 0)
            return 0;
        h2.conns++;
        end = (h2_end){.is_tls = true, .handler = require_http1};
        ck_assert_int_eq(weft_tls_accept(&end.stream, fd, h2.tls), 0);
        ck_assert_int_eq(weft_tls_describe(&end.stream, &info), 0);
        if (strcmp(info.alpn, "h2") == 0) {
            ck_assert_int_eq(h2_end_open(&end, fd), 0);
            (void)weft_await(end.fiber);
        } else {
            while (run_step(&site, &end.stream))
                continue;
            weft_stream_close(&end.stream);
        }
    }
}

TEST(a_request_that_needs_http1_is_sent_again_over_http1)
{
    h2_site_open_tls(h2_hello, "h2,http/1.1");
    weft_cancel(h2.fiber);
    weft_await(h2.fiber);
    site.steps[0] = hello[0];
    site.steps_count = 1;
    h2.fiber = weft_spin(serve_both, NULL);
    use_fetcher((weft_fetcher_options){.tls = h2_tls.client_tls, .idle_s = 1e-9});
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, "abc", 3, &fetch), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 11);
    assert_body("hello");
    ck_assert_uint_eq(h2.conns, 2);
}

TEST(the_end_of_a_fetcher_ends_its_connections)
{
    h2_site_open(h2_hello);
    assert_page("/", "hello");
    use_fetcher((weft_fetcher_options){.has_prior_knowledge = true});
    while (h2.open_conns > 0)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(h2.goaways, 1);
    ck_assert_uint_eq(stats().fibers, 1);
}

TEST(expired_connections_are_closed)
{
    h2_site_open(h2_hello);
    use_fetcher((weft_fetcher_options){.has_prior_knowledge = true, .idle_s = 1e-9});
    assert_page("/", "hello");
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 2);
}

TEST(a_failed_connection_fails_all_its_fetches)
{
    weft_fiber f[3];
    char url[128];
    h2_site_open(wait_then_hello);
    snprintf(url, sizeof url, "%s", url_of(&site, "/"));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(fetch_page, url);
    while (waiting < 3)
        ck_assert_int_eq(weft_snooze(), 0);
    weft_cancel(h2.last->fiber);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_int_eq(weft_await(f[i]), -ECONNRESET);
    h2.handler = h2_hello;
    assert_page("/", "hello");
}

TEST(the_end_of_the_reader_fails_its_fetches)
{
    char url[128];
    weft_fiber children[16];
    h2_site_open(wait_then_hello);
    snprintf(url, sizeof url, "%s", url_of(&site, "/"));
    weft_fiber f = weft_spin(fetch_page, url);
    while (waiting < 1)
        ck_assert_int_eq(weft_snooze(), 0);
    int n = weft_children(weft_main(), children, COUNT_OF(children));
    for (int i = 0; i < n; i++)
        if (strcmp(weft_name_of(children[i]), "http/2") == 0)
            ck_assert_int_eq(weft_cancel(children[i]), 0);
    ck_assert_int_eq(weft_await(f), -ECONNRESET);
    h2.handler = h2_hello;
    assert_page("/", "hello");
}

TEST(the_child_of_a_fork_does_not_use_connections_of_its_parent)
{
    h2_site_open(h2_hello);
    assert_page("/", "hello");
    pid_t pid = weft_fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        weft_fetch *f = NULL;
        /* The listener is the parent's, so a new connection reaches the parent. */
        int status = weft_fetch_get(fetcher, url_of(&site, "/"), &f);
        weft_fetch_close(f);
        int rc = weft_fetcher_free(fetcher);
        _exit(status == 200 && rc == 0 ? 0 : 1);
    }
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(h2.conns, 2);
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 2);
}

static weft_value fetch_in_thread(void *arg)
{
    char text[64];
    weft_fetcher *own = weft_fetcher_new(&(weft_fetcher_options){.has_prior_knowledge = true});
    int status = fetch_text(own, arg, text, sizeof text);
    int rc = weft_fetcher_free(own);
    return rc < 0 ? rc : status;
}

/* The thread's own fetcher trusts the server because of SSL_CERT_FILE. */
static weft_value fetch_with_thread_fetcher(void *arg)
{
    weft_fetch *f = NULL;
    int status = weft_fetch_get(NULL, arg, &f);
    int version = status > 0 ? weft_fetch_version(f) : 0;
    weft_fetch_close(f);
    return status < 0 ? status : version;
}

TEST(a_thread_can_end_after_fetches)
{
    h2_site_open(h2_hello);
    weft_cord cord = weft_cord_start(fetch_in_thread, format("%s/", site.base), NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 200);
}

TEST(the_fetcher_of_a_thread_is_freed_with_the_thread)
{
    char file[] = "/tmp/weft-test-XXXXXX";
    h2_site_open_tls(h2_hello, "h2");
    int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, local_cert, strlen(local_cert)), (ssize_t)strlen(local_cert));
    close(fd);
    setenv("SSL_CERT_FILE", file, 1);
    weft_cord cord = weft_cord_start(fetch_with_thread_fetcher, format("%s/", site.base), NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 20);
    while (h2.open_conns > 0) /* the thread may end after the join */
        ck_assert_int_eq(weft_sleep(0.001), 0);
    unlink(file);
}

/*
 * Proxies.
 */

/* A proxy that opens one tunnel to the site. */
static weft_value tunnel_copy(void *arg)
{
    const int *fd = arg;
    char data[16384];
    ssize_t n;
    while ((n = weft_read(fd[0], data, sizeof data)) > 0)
        if (weft_write_all(fd[1], data, (size_t)n) != n)
            break;
    weft_shutdown(fd[1], SHUT_WR);
    return 0;
}

static bool open_tunnel(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\n\r\n");
    weft_stream_flush(s);
    int client = weft_stream_fd(s), server = weft_dial("tcp", format("127.0.0.1:%d", h2.port));
    int there[] = {client, server}, back[] = {server, client};
    weft_fiber f = weft_spin(tunnel_copy, back);
    tunnel_copy(there);
    WEFT_SHIELD(INFINITY) { /* f uses this frame, also if the end of the test cancels this fiber */
        weft_cancel(f);
        weft_await(f);
    }
    weft_close(server);
    return false;
}

TEST(http2_works_through_a_tunnel)
{
    h2_site_open_tls(h2_hello, "h2,http/1.1");
    start_server(&other, STEPS({.handle = open_tunnel}));
    setenv("https_proxy", other.base, 1);
    fetch_pages(10, 200);
    unsetenv("https_proxy");
    ck_assert_uint_eq(other.conns, 1);
    ck_assert_uint_eq(h2.conns, 1);
    ck_assert_uint_eq(h2.requests, 10);
    ck_assert_server_received(&other, format("CONNECT localhost:%d HTTP/1.1\r\n", h2.port));
}

TEST(an_http_proxy_gets_http1_even_with_prior_knowledge)
{
    h2_site_open(h2_hello);
    start_server(&other, hello, 1);
    setenv("http_proxy", other.base, 1);
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 11);
    unsetenv("http_proxy");
    ck_assert_uint_eq(h2.conns, 0);
}
