/* Upgrades of the HTTP client over HTTP/2: extended CONNECT (RFC 8441). */
#include "http/client/fetch_h2_support.h"

#include <weft/ws.h>

static weft_stream *stream;

static void set_up(void)
{
    h2_set_up();
    h2.options.allows_connect = true;
}

FIXTURE(set_up, h2_tear_down)

/* Reply to each line, or refuse. */
static int talk(h2_exchange *x)
{
    weft_stream s;
    char line[100];
    ssize_t n;
    h2.requests++;
    const nghttp2_nv no = h2_nv(":status", "403");
    if (h2_path_is(x, "/no"))
        return weft__h2_stream_reply(&x->st, &no, 1, "no", 2);
    if (strstr(x->fields, ":method: CONNECT\n") == NULL)
        return h2_say(x, "hello");
    ck_assert_has(x->fields, ":protocol: lines\n", "x-mine: 1\n");
    ck_assert_lacks(x->fields, "upgrade", "connection", "sec-websocket-key");
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    if (rc == 0)
        rc = weft_stream_open_with(&s, &weft__h2_transport, &x->st);
    if (rc < 0)
        return rc;
    while ((n = weft_stream_gets(&s, line, sizeof line)) > 0)
        (void)weft_stream_printf(&s, "you said %s", line);
    rc = weft_stream_close(&s);
    return n < 0 ? (int)n : rc;
}

static int upgrade(const char *path)
{
    const weft_fetch_field fields[] = {{"X-Mine", "1"}, {"Sec-WebSocket-Key", "key"}};
    const weft_fetch_request r = {
        .url = url_of(&site, path), .fields = fields, .fields_count = COUNT_OF(fields)};
    return weft_fetch_upgrade(fetcher, &r, "lines", &fetch, &stream);
}

/* Exchange lines over the stream. */
static void say_lines(int count)
{
    char line[100];
    for (int i = 0; i < count; i++) {
        ck_assert_int_gt(weft_stream_printf(stream, "line %d\n", i), 0);
        ck_assert_int_gt(weft_stream_gets(stream, line, sizeof line), 0);
        ck_assert_str_eq(line, format("you said line %d\n", i));
    }
}

TEST(an_upgrade_with_prior_knowledge_uses_a_stream)
{
    h2_site_open(talk);
    ck_assert_int_eq(upgrade("/"), 200);
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(weft_fetch_version(fetch), 20);
    say_lines(10);
    assert_page("/", "hello"); /* the connection carries other requests too */
    say_lines(10);
    close_fetch();
    assert_page("/", "hello");
    ck_assert_uint_eq(h2.conns, 1);
}

TEST(a_refused_upgrade_has_a_status_and_a_body)
{
    h2_site_open(talk);
    ck_assert_int_eq(upgrade("/no"), 403);
    ck_assert_ptr_null(stream);
    assert_body("no");
    ck_assert_uint_eq(h2.conns, 1);
}

TEST(an_upgrade_over_tls_uses_a_connection_that_exists)
{
    h2_site_open_tls(talk, "h2");
    assert_page("/", "hello");
    ck_assert_int_eq(upgrade("/"), 200);
    say_lines(3);
    ck_assert_uint_eq(h2.conns, 1);
}

/* Count the connections by protocol. */
static size_t h1_conns, h2_conns;

static bool accept_upgrade(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: lines\r\n\r\n");
    char line[100];
    while (weft_stream_gets(s, line, sizeof line) > 0)
        (void)weft_stream_printf(s, "you said %s", line);
    return false;
}

static weft_value serve_either(void *arg)
{
    h2_end *end = arg;
    weft_tls_info info;
    if (weft_tls_accept(&end->stream, end->fd, h2.tls) < 0) {
        free(end);
        return 0;
    }
    ck_assert_int_eq(weft_tls_describe(&end->stream, &info), 0);
    if (strcmp(info.alpn, "h2") == 0) {
        h2_conns++;
        end->handler = talk;
        end->is_tls = true;
        end->options = h2.options;
        ck_assert_int_eq(h2_end_open(end, end->fd), 0);
        if (weft_await(end->fiber) == -ECANCELED)
            (void)weft_terminate(end->fiber, 10);
    } else {
        h1_conns++;
        ck_assert_str_eq(info.alpn, "http/1.1");
        while (run_step(&site, &end->stream))
            continue;
        weft_stream_close(&end->stream);
    }
    free(end);
    return 0;
}

static weft_value accept_either(void *arg)
{
    int fd;
    while ((fd = weft_accept(h2.listener, NULL, NULL)) >= 0) {
        h2_end *end = calloc(1, sizeof *end);
        ck_assert_ptr_nonnull(end);
        end->fd = fd;
        ck_assert_int_eq(weft_go(serve_either, end), 0);
    }
    return 0;
}

/* Open a site that speaks both protocols. */
static void open_both_protocols(void)
{
    h2_site_open_tls(talk, "h2,http/1.1");
    weft_cancel(h2.fiber);
    weft_await(h2.fiber);
    h2.fiber = weft_spin(accept_either, NULL);
    site.steps[0] = (script_step){.handle = accept_upgrade};
    site.steps_count = 1;
}

TEST(an_upgrade_over_tls_without_a_connection_uses_http1)
{
    open_both_protocols();
    ck_assert_int_eq(upgrade("/"), 101);
    say_lines(3);
    ck_assert_uint_eq(h1_conns, 1);
    ck_assert_uint_eq(h2_conns, 0);
}

TEST(an_upgrade_uses_http1_if_the_server_does_not_allow_connect)
{
    h2.options.allows_connect = false;
    open_both_protocols();
    assert_page("/", "hello");
    ck_assert_int_eq(upgrade("/"), 101);
    say_lines(3);
    ck_assert_uint_eq(h1_conns, 1);
    ck_assert_uint_eq(h2_conns, 1);
}

TEST(the_end_of_the_connection_ends_the_stream_of_an_upgrade)
{
    char line[100];
    h2_site_open(talk);
    ck_assert_int_eq(upgrade("/"), 200);
    say_lines(1);
    weft_cancel(h2.last->fiber);
    ck_assert_int_eq(weft_stream_gets(stream, line, sizeof line), -ECONNRESET);
}

#ifdef WEFT_HAS_WEBSOCKET
/* A server of this library, with HTTP/2. */
static int serve_ws(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    weft_ws_message m;
    if (strcmp(weft_http_path(r), "/ws") != 0)
        return weft_http_reply_text(r, 200, "hello");
    h2.requests += weft_http_version(r) == 20;
    int rc = weft_ws_accept(r, NULL, &ws);
    if (rc < 0)
        return rc;
    while ((rc = weft_ws_recv(ws, &m)) > 0)
        rc = weft_ws_send(ws, m.kind, m.data, m.bytes);
    weft_ws_free(ws);
    return rc;
}

static weft_value serve_run(void *arg)
{
    return weft_http_serve_fd(h2.listener, serve_ws, NULL, &(weft_http_options){.tls = h2.tls});
}

TEST(a_websocket_works_over_http2)
{
    weft_ws *ws;
    weft_ws_message m;
    h2_site_open_tls(h2_hello, "h2,http/1.1");
    weft_cancel(h2.fiber);
    weft_await(h2.fiber);
    h2.fiber = weft_spin(serve_run, NULL);
    assert_page("/", "hello");
    ck_assert_int_eq(weft_ws_connect(fetcher, url_of(&site, "/ws"), NULL, &ws), 0);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(weft_ws_printf(ws, "message %d", i), 0);
        ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
        ck_assert_str_eq(m.data, format("message %d", i));
    }
    ck_assert_uint_eq(h2.requests, 1);
    ck_assert_int_eq(weft_ws_close(ws, 1000, "done"), 0);
    weft_ws_free(ws);
    assert_page("/", "hello");
}
#endif
