/*
 * WebSocket and trailers through the reverse proxy. The client speaks HTTP/1.1 or HTTP/2, and the
 * upstream server HTTP/1.1.
 */
#include "http/http_support.h"
#ifdef WEFT_HAS_HTTP2
#include "http/h2/h2_raw.h"
#endif
#include "support/suite.h"

#include <weft/ws.h>

static test_server front, back;
static weft_http_proxy *proxy;

static int echo_messages(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    weft_ws_message m;
    (void)ctx;
    int rc = weft_ws_accept(r, &(weft_ws_options){.protocols = "chat"}, &ws);
    while (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0)
        rc = weft_ws_send(ws, m.kind, m.data, m.bytes);
    weft_ws_free(ws);
    return rc;
}

static void open_ws_echo(void)
{
    server_open(&back, echo_messages, NULL, NULL);
    proxy = weft_http_proxy_new(format("http://127.0.0.1:%d", server_port(&back)), NULL);
    ck_assert_ptr_nonnull(proxy);
    server_open(&front, weft_http_serve_proxy, proxy, NULL);
    let_run();
}

static void close_echo(void)
{
    ck_assert_int_eq(server_close(&front), -ECANCELED);
    ck_assert_int_eq(weft_http_proxy_free(proxy), 0);
    ck_assert_int_eq(server_close(&back), -ECANCELED);
}

FIXTURE(open_ws_echo, close_echo)

TEST(messages_of_a_client_pass_through_the_proxy)
{
    weft_fetcher *client_fetcher = weft_fetcher_new(NULL);
    weft_ws *ws;
    weft_ws_message m;
    const char *url = format("ws://127.0.0.1:%d/", server_port(&front));
    int rc = weft_ws_connect(client_fetcher, url, &(weft_ws_options){.protocols = "chat"}, &ws);
    ck_assert_msg(rc == 0, "%d: %s", rc, weft_error() != NULL ? weft_error()->message : "");
    ck_assert_str_eq(weft_ws_protocol(ws), "chat");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_TEXT, "hello", 5), 0);
        ck_assert_int_gt(weft_ws_recv(ws, &m), 0);
        ck_assert_str_eq(m.data, "hello");
    }
    ck_assert_int_eq(weft_ws_close(ws, 1000, "bye"), 0);
    weft_ws_free(ws);
    ck_assert_int_eq(weft_fetcher_free(client_fetcher), 0);
}

#ifdef WEFT_HAS_HTTP2

#define CONNECT_WS                                      \
    H2_HEAD("CONNECT", "/")                             \
    ":protocol: websocket\nsec-websocket-version: 13\n" \
    "sec-websocket-protocol: chat\norigin: http://a\n"
#define MASKED_HELLO "\x81\x85\0\0\0\0hello"

/* The handshake of HTTP/2 has no key. The proxy makes the handshake with the upstream server. */
TEST(messages_of_a_client_of_http_2_pass_through_the_proxy)
{
    h2_open(weft_http_serve_proxy, proxy, NULL);
    h2_send_head(1, H2_END_HEADERS, CONNECT_WS);
    h2_expect("HEADERS 1 :status=200");
    h2_expect("sec-websocket-protocol=chat");
    ck_assert_ptr_null(strstr(h2_log, "sec-websocket-accept"));
    ck_assert_ptr_null(strstr(h2_log, "HEADERS 1 END"));
    h2_send(NGHTTP2_DATA, 0, 1, MASKED_HELLO, sizeof MASKED_HELLO - 1);
    h2_expect("DATA 1 7 \x81.hello\n");
    h2_close();
}

static char seen[256]; /* by the upstream server */

static int reply_with_trailer(weft_http_request *r, void *ctx)
{
    (void)ctx;
    snprintf(seen, sizeof seen, "Via: %.3s TE: %s", weft_http_header(r, "Via"),
             weft_http_header(r, "TE"));
    ck_assert_int_eq(weft_http_begin(r, 200, -1), 0);
    ck_assert_int_eq(weft_http_write(r, "body", 4), 4);
    return weft_http_set_trailer(r, "X-Sum", "7");
}

TEST(trailers_reach_a_client_of_http_2)
{
    close_echo();
    server_open(&back, reply_with_trailer, NULL, NULL);
    proxy = weft_http_proxy_new(format("http://127.0.0.1:%d", server_port(&back)), NULL);
    server_open(&front, weft_http_serve_proxy, proxy, NULL);
    h2_open(weft_http_serve_proxy, proxy, NULL);
    h2_send_head(1, H2_WHOLE, H2_GET "te: trailers\n");
    h2_expect("x-sum=7");
    ck_assert_str_eq(seen, "Via: 2.0 TE: trailers");
    h2_close();
}

#endif
