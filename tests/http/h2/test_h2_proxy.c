/* The reverse proxy and upgrades, for clients that speak HTTP/2. */
#include "http/h2/h2_raw.h"
#include "http/message/ws_key.h"
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

static void end_proxy_test(void)
{
    h2_close();
    chain_close();
}

FIXTURE(NULL, end_proxy_test)

/* Start an upstream server and a proxy, and connect with HTTP/2. */
static void start_chain(const script_step *steps, size_t count)
{
    h2_close();
    start_server(&upstream, steps, count);
    proxy = weft_http_proxy_new(upstream.base, &(weft_http_proxy_options){.via = "p"});
    ck_assert_ptr_nonnull(proxy);
    h2_open(weft_http_serve_proxy, proxy, NULL);
}

TEST(a_request_is_forwarded_as_http_1)
{
    start_chain(STEPS({.reply = "HTTP/1.1 200 OK\r\nX-A: b\r\nConnection: X-C\r\nX-C: d\r\n"
                                "Content-Length: 5\r\n\r\nhello"}));
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/x?y") "cookie: a=1\ncookie: b=2\nte: trailers\n");
    h2_expect("DATA 1 END 5 hello\n");
    ck_assert_has(upstream.received, "GET /x?y HTTP/1.1\r\nHost: a\r\n", "cookie: a=1; b=2\r\n",
                  "Via: 2.0 p\r\n", "TE: trailers\r\nConnection: TE\r\n");
    ck_assert_lacks(upstream.received, "Content-Length", "Transfer-Encoding");
    ck_assert_has(h2_log, " x-a=b via=1.1 p content-length=5\n");
    ck_assert_lacks(h2_log, "x-c", "connection");
}

/* Record everything up to the trailers, then reply. */
static bool reply_after_trailers(script_server *sv, weft_stream *s)
{
    char line[200];
    ssize_t n;
    while ((n = weft_stream_gets(s, line, sizeof line)) > 0) {
        record_received(sv, line, (size_t)n);
        if (strncmp(line, "x-sum", 5) == 0)
            break;
    }
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    return false;
}

TEST(trailers_of_a_request_are_forwarded)
{
    start_chain(STEPS({.handle = reply_after_trailers}));
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send_data(1, 0, "up");
    h2_send_head(1, H2_WHOLE, "x-sum: 7\n");
    h2_expect("HEADERS 1 :status=200");
    ck_assert_has(upstream.received, "2\r\nup\r\n", "0\r\nx-sum: 7\r\n");
}

TEST(bodies_and_interim_responses_are_forwarded)
{
    start_chain(STEPS({.reply = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "5\r\nhello\r\n0\r\nX-T: t\r\n\r\n"}));
    h2_send_head(1, H2_END_HEADERS, H2_POST);
    h2_send_data(1, 0, "up");
    h2_send_data(1, H2_END, "load");
    h2_expect("HEADERS 1 END x-t=t\n");
    ck_assert_has(h2_log, "HEADERS 1 :status=103 link=</a>\nHEADERS 1 :status=200",
                  "DATA 1 5 hello\n");
    ck_assert_has(upstream.received, "Transfer-Encoding: chunked\r\n", "up", "load");
}

TEST(several_requests_of_a_connection_are_forwarded_at_the_same_time)
{
    start_chain(STEPS({.is_held = true, .reply = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"}));
    for (uint32_t id = 1; id <= 9; id += 2)
        h2_send_head(id, H2_WHOLE, H2_GET);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    for (int i = 0; i < 5; i++)
        weft_sem_post(&upstream.gate);
    for (int i = 0; i < 5; i++)
        h2_expect(format("DATA %d END 1 x\n", 2 * i + 1));
}

static weft_sem ended; /* posted when the input of the upstream server has ended */

static bool await_end(script_server *sv, weft_stream *s)
{
    const void *data;
    weft_sem_post(&sv->arrived);
    (void)weft_stream_peek(s, 1, &data);
    weft_sem_post(&ended);
    return false;
}

TEST(a_client_that_resets_its_stream_ends_the_request_to_the_upstream_server)
{
    start_chain(STEPS({.handle = await_end}));
    h2_send_head(1, H2_WHOLE, H2_GET);
    ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    h2_send_number(NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    h2_sync(); /* the connection of the client continues */
}

TEST(an_incomplete_response_resets_only_its_stream)
{
    start_chain(
        STEPS({.reply = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", .closes = true},
              {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}));
    h2_send_head(1, H2_WHOLE, H2_GET);
    h2_expect("RST_STREAM 1 INTERNAL_ERROR\n");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 2 ok\n");
}

#define WS_HEAD                                                                            \
    ":method: CONNECT\n:protocol: websocket\n:scheme: http\n:path: /chat\n:authority: a\n" \
    "sec-websocket-version: 13\n"

/* Accept a WebSocket, echo until the input ends, then send "farewell". */
static bool echo_websocket(script_server *sv, weft_stream *s)
{
    char *at = strstr(sv->received, "Sec-WebSocket-Key: ");
    weft__strbuf accept = {0};
    const void *data;
    ssize_t n;
    ck_assert_ptr_nonnull(at);
    weft__ws_add_accept(&accept, at + 19);
    weft_stream_printf(s,
                       "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: chat\r\n\r\nwelcome,",
                       accept.data);
    weft_stream_flush(s);
    free(accept.data);
    while ((n = weft_stream_peek(s, 1, &data)) > 0) {
        weft_stream_write(s, data, (size_t)n);
        weft_stream_flush(s);
        weft_stream_skip(s, (size_t)n);
    }
    weft_stream_puts(s, n == 0 ? "farewell" : "");
    return false;
}

TEST(an_extended_connect_becomes_an_upgrade_of_http_1)
{
    start_chain(STEPS({.handle = echo_websocket}));
    h2_send_head(1, H2_END_HEADERS, WS_HEAD);
    h2_expect("DATA 1 8 welcome,\n");
    ck_assert_has(upstream.received, "GET /chat HTTP/1.1\r\n", "sec-websocket-version: 13\r\n",
                  "Upgrade: websocket\r\n", "Connection: Upgrade\r\n");
    ck_assert_has(h2_log, "HEADERS 1 :status=200", " sec-websocket-protocol=chat");
    ck_assert_lacks(h2_log, "sec-websocket-accept", "content-length", "upgrade");
    h2_send_data(1, 0, "ping");
    h2_expect("DATA 1 4 ping\n");
    h2_send_data(1, H2_END, "");
    h2_expect("farewell");
    h2_expect("DATA 1 END");
    h2_sync();
}

TEST(an_upgrade_without_the_right_key_is_502)
{
    start_chain(STEPS({.reply = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\n"
                                "Upgrade: websocket\r\nSec-WebSocket-Accept: wrong\r\n\r\n"},
                      {.reply = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"}));
    h2_send_head(1, H2_END_HEADERS, WS_HEAD);
    h2_expect("HEADERS 1 :status=502");
    h2_send_head(3, H2_END_HEADERS, WS_HEAD);
    h2_expect("HEADERS 3 :status=403");
    h2_expect("DATA 3 END 2 no\n");
}

/* Upgrades of a handler */

static int echo_upgraded(weft_http_request *r, void *ctx)
{
    weft_stream *s;
    char *line;
    ck_assert_str_eq(weft_http_method(r), "GET");
    ck_assert_int_eq(weft_http_upgrade(r, "other", &s), -EINVAL);
    int rc = weft_http_upgrade(r, "websocket", &s);
    if (rc < 0)
        return rc;
    weft_stream_puts(s, "hello\n");
    while ((rc = weft_stream_line(s, &line, NULL)) > 0)
        weft_stream_printf(s, "<%s>\n", line);
    weft_stream_puts(s, "bye\n");
    return rc;
}

TEST(a_handler_upgrades_a_request_of_both_protocols)
{
    h2_open(echo_upgraded, NULL, NULL);
    h2_send_head(1, H2_END_HEADERS, WS_HEAD);
    h2_expect("DATA 1 6 hello.\n");
    h2_send_data(1, 0, "a\nb");
    h2_expect("DATA 1 4 <a>.\n");
    h2_send_data(1, H2_END, "c\n");
    h2_expect("<bc>.\n");
    h2_expect(" 4 bye.\n");
    h2_expect("DATA 1 END");
    h2_send_head(3, H2_WHOLE, WS_HEAD);
    h2_expect("HEADERS 3 :status=200");
    h2_close();
    client_exchange(&client, echo_upgraded, NULL, NULL,
                    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                    "Upgrade: websocket\r\n\r\nx\n");
    ck_assert_has(client.received, "HTTP/1.1 101 ", "\r\n\r\nhello\n<x>\nbye\n");
}

TEST(a_client_that_disappears_ends_an_upgraded_request)
{
    h2_open(echo_upgraded, NULL, NULL);
    h2_send_head(1, H2_END_HEADERS, WS_HEAD);
    h2_expect("DATA 1 6 hello.\n");
    h2_send_number(NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    h2_sync();
    h2_send_head(3, H2_END_HEADERS, WS_HEAD);
    h2_expect("DATA 3 6 hello.\n");
    h2_close(); /* waits for the handler */
}
