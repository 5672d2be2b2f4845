/* The handshakes of server and client: what RFC 6455, 4, requires, origins and subprotocols. */
#include "support/suite.h"
#include "ws/ws_support.h"

FIXTURE(NULL, ws_end_test)

#define GET "GET /chat HTTP/1.1\r\nHost: example.org\r\n"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

/* Send a request to the echo server. Return the head of the response. */
static const char *ask(weft_ws_options options, const char *request)
{
    echo_server = (echo_state){.options = options};
    start_client(echo, &echo_server, NULL, format("%s\r\n", request));
    return raw_read_head();
}

static void assert_status(const char *request, const char *status)
{
    const char *head = ask((weft_ws_options){0}, request);
    ck_assert_msg(status_of(head) == atoi(status), "%s: %s", request, head);
    ws_end();
    ck_assert_int_eq(echo_server.result, atoi(status) == 101   ? -ECONNRESET
                                         : atoi(status) == 403 ? -EACCES
                                                               : -EINVAL);
}

TEST(a_valid_request_is_accepted)
{
    ck_assert_has(ask((weft_ws_options){0}, GET UPGRADE VERSION KEY),
                  "HTTP/1.1 101 Switching Protocols\r\n",
                  "Connection: Upgrade\r\nUpgrade: websocket\r\n",
                  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
    ck_assert_lacks(client.received, "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions");
    ws_end();
    EACH_PAIR(assert_status,
              GET "connection: keep-alive, upgrade\r\nupgrade: h2c, WebSocket\r\n" VERSION KEY
                  " -> 101");
}

TEST(invalid_requests_get_a_status)
{
    EACH_PAIR(assert_status, GET " -> 426", GET UPGRADE KEY " -> 426",
              GET UPGRADE KEY "Sec-WebSocket-Version: 12\r\n -> 426",
              GET UPGRADE KEY "Sec-WebSocket-Version: 13, 14\r\n -> 426",
              GET UPGRADE KEY VERSION VERSION " -> 426",
              GET "Connection: Upgrade\r\nUpgrade: h2c\r\n" VERSION KEY " -> 426",
              GET "Upgrade: websocket\r\n" VERSION KEY " -> 426",
              GET "Connection: Upgrade\r\n" VERSION KEY " -> 426", GET UPGRADE VERSION " -> 400",
              GET UPGRADE VERSION KEY KEY " -> 400",
              GET UPGRADE VERSION "Sec-WebSocket-Key: abc\r\n -> 400",
              GET UPGRADE VERSION "Sec-WebSocket-Key:\r\n -> 400",
              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" UPGRADE VERSION KEY " -> 405",
              GET UPGRADE VERSION KEY "Sec-WebSocket-Extensions: a; b=\r\n -> 400",
              GET UPGRADE VERSION KEY "Sec-WebSocket-Protocol: a b\r\n -> 400",
              "GET / HTTP/1.0\r\nHost: a\r\n" UPGRADE VERSION KEY " -> 426");
}

TEST(a_refusal_of_the_version_names_the_right_one)
{
    ck_assert_has(ask((weft_ws_options){0}, GET UPGRADE KEY "Sec-WebSocket-Version: 8\r\n"),
                  "HTTP/1.1 426 ", "Sec-WebSocket-Version: 13\r\n", "Upgrade: websocket\r\n",
                  "Connection: Upgrade\r\n");
}

TEST(the_connection_carries_another_request_after_a_refusal)
{
    ask((weft_ws_options){0}, GET UPGRADE VERSION);
    client_expect(&client, "key is invalid.\n");
    client_send(&client, GET UPGRADE VERSION KEY "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    raw_send_text("hi");
    expect_text("hi");
}

/*
 * Origins.
 */

/*
 * Each case is "options|Origin|Host". "-" stands for the default options. "https " is a request by
 * a proxy.
 */
static void assert_origin(const char *text, const char *status)
{
    char origins[100], origin[100], host[100];
    ck_assert_int_eq(sscanf(text, "%99[^|]|%99[^|]|%99s", origins, origin, host), 3);
    echo_server = (echo_state){.options = {.origins = origins[0] == '-' ? NULL : origins}};
    const weft_http_options http = {.trusted_peers = "unix",
                                    .trusted_headers = "X-Forwarded-Proto"};
    start_client(echo, &echo_server, &http,
                 format("GET / HTTP/1.1\r\nHost: %s\r\n" UPGRADE VERSION KEY "%sOrigin: %s\r\n\r\n",
                        host, strncmp(text, "-s", 2) == 0 ? "X-Forwarded-Proto: https\r\n" : "",
                        origin));
    const char *head = raw_read_head();
    ck_assert_msg(status_of(head) == atoi(status), "%s: %s", text, head);
    ws_end();
}

TEST(without_options_only_pages_of_the_same_origin_may_connect)
{
    EACH_PAIR(
        assert_origin, "-|http://example.org|example.org -> 101",
        "-|http://EXAMPLE.org|Example.ORG -> 101", "-|http://example.org:80|example.org -> 101",
        "-|http://example.org|example.org:80 -> 101",
        "-|http://example.org:8080|example.org:8080 -> 101", "-|http://[::1]:81|[::1]:81 -> 101",
        "-|https://example.org|example.org -> 403", "-|http://example.org:8080|example.org -> 403",
        "-|http://example.org|example.org:8080 -> 403", "-|http://evil.org|example.org -> 403",
        "-|http://example.org.evil|example.org -> 403",
        "-|http://evil.example.org|example.org -> 403", "-|null|example.org -> 403",
        "-|example.org|example.org -> 403", "-s|https://example.org|example.org -> 101",
        "-s|https://example.org|example.org:443 -> 101",
        "-s|http://example.org|example.org -> 403");
}

TEST(options_name_the_origins_that_may_connect)
{
    EACH_PAIR(assert_origin, "*|http://any.test|example.org -> 101", "*|null|example.org -> 101",
              "https://a.test, http://b.test:81|https://a.test:443|example.org -> 101",
              "https://a.test, http://b.test:81|http://B.test:81|example.org -> 101",
              "https://a.test, http://b.test:81|http://b.test|example.org -> 403",
              "https://a.test, http://b.test:81|http://a.test|example.org -> 403",
              "https://a.test, http://b.test:81|http://example.org|example.org -> 403",
              "null|null|example.org -> 101");
}

TEST(two_origins_are_refused)
{
    ws_end();
    const char *head = ask((weft_ws_options){.origins = "http://a.test"},
                           GET UPGRADE VERSION KEY "Origin: http://a.test\r\nOrigin: http://b\r\n");
    ck_assert_int_eq(status_of(head), 403);
}

/*
 * Subprotocols, fields, options.
 */

TEST(the_server_chooses_a_subprotocol)
{
    const weft_fetch_field field = {"X-Server", "weft"};
    const weft_ws_options options = {
        .protocols = "v2, v1", .fields = &field, .fields_count = 1, .has_no_deflate = true};
    ck_assert_has(ask(options, GET UPGRADE VERSION KEY
                      "Sec-WebSocket-Protocol: v1\r\nSec-WebSocket-Protocol: v0, v2\r\n"),
                  "Sec-WebSocket-Protocol: v2\r\n", "X-Server: weft\r\n");
    ws_end();
    ck_assert_str_eq(echo_server.protocol, "v2");
    ck_assert_lacks(ask(options, GET UPGRADE VERSION KEY "Sec-WebSocket-Protocol: v3\r\n"),
                    "Sec-WebSocket-Protocol");
    ws_end();
    ck_assert_str_eq(echo_server.protocol, "");
}

TEST(invalid_options_are_an_error_of_the_handler)
{
    const weft_fetch_field own = {"sec-websocket-accept", "x"}, bad = {"X", "a\r\nb"}, null = {0};
    const struct {
        weft_ws_options options;
        int result;
    } rows[] = {
        {{.ping_s = -1}, -EINVAL},
        {{.pong_s = NAN}, -EINVAL},
        {{.close_s = -0.1}, -EINVAL},
        {{.send_s = -5}, -EINVAL},
        {{.deflate_level = 10}, -EINVAL},
        {{.deflate_level = -1}, -EINVAL},
        {{.deflate_window_bits = 8}, -EINVAL},
        {{.deflate_window_bits = 16}, -EINVAL},
        {{.protocols = "a b"}, -EINVAL},
        {{.fields_count = 1}, -EINVAL},
        {{.fields = &own, .fields_count = 1}, -EPERM},
        {{.fields = &bad, .fields_count = 1}, -EINVAL},
        {{.fields = &null, .fields_count = 1}, -EINVAL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_int_ge(status_of(ask(rows[i].options, GET UPGRADE VERSION KEY)), 400);
        ws_end();
        ck_assert_msg(echo_server.result == rows[i].result, "row %zu: %d", i, echo_server.result);
        weft_ws *ws = (weft_ws *)&own;
        ck_assert_int_lt(weft_ws_connect(NULL, "ws://127.0.0.1:1/", &rows[i].options, &ws), 0);
        ck_assert_ptr_null(ws);
    }
}

static int accept_after_reply(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    int rc = weft_http_reply_text(r, 200, "hello\n");
    ck_assert_int_eq(weft_ws_accept(r, NULL, &ws), -EALREADY);
    ck_assert_ptr_null(ws);
    return rc;
}

TEST(a_request_with_a_reply_is_not_accepted)
{
    start_client(accept_after_reply, NULL, NULL, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 200);
}

TEST(a_request_with_a_body_is_not_accepted)
{
    start_client(echo, &echo_server, NULL, WS_REQUEST "Content-Length: 3\r\n\r\nabc");
    ck_assert_int_eq(status_of(raw_read_head()), 400);
    ws_end();
    ck_assert_int_eq(echo_server.result, -EINVAL);
}
