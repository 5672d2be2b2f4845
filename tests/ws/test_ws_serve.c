/*
 * Connections of weft_ws_serve: their functions, and the time in which they have no fiber. A raw
 * client speaks to the server. Each test ends without fibers, descriptors and operations.
 */
#include "http/rest/rest_support.h"
#include "ws/ws_support.h"

static weft_ws *opened; /* the last connection, from on_open to on_close */
static weft_ws_options options;
static int open_result; /* of on_open */
static int closes;      /* calls of on_close */
static int close_code;

static int on_open(weft_ws *ws, void *ctx)
{
    opened = ws;
    mark("open ");
    return open_result;
}

static int on_message(weft_ws *ws, const weft_ws_message *m, void *ctx)
{
    mark(m->data);
    mark(" ");
    if (strcmp(m->data, "fail") == 0)
        return -EIO;
    if (strcmp(m->data, "again") == 0)
        return -EAGAIN;
    if (strcmp(m->data, "close") == 0)
        return weft_ws_close(ws, 4000, "asked");
    return weft_ws_send(ws, m->kind, m->data, m->bytes);
}

static void on_close(weft_ws *ws, void *ctx)
{
    ck_assert_int_lt(weft_ws_send(ws, WEFT_WS_TEXT, "late", 4), 0);
    mark("close");
    close_code = weft_ws_close_code(ws);
    opened = NULL;
    closes++;
}

static const weft_ws_events events = {on_open, on_message, on_close};

static int serve_events(weft_http_request *r, void *ctx)
{
    return weft_ws_serve(r, &options, &events, NULL);
}

/* Open a server and a connection. */
static void open_ws(weft_ws_options o)
{
    options = o;
    open_server(serve_events, NULL);
    server_connect(&s, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
}

static void echo_text(const char *text)
{
    raw_send_text(text);
    expect_text(text);
}

/* Wait until the connection has no fiber. */
static void await_silence(void)
{
    acknowledge(client.fd);
    await_rest();
    ck_assert_ptr_nonnull(opened);
}

static void await_close(void)
{
    int before = closes;
    while (opened != NULL && closes == before)
        ck_assert_int_eq(weft_sleep(0.001), 0);
}

/* Close by the client. */
static void close_ws(void)
{
    raw_send_close(1000, "");
    expect_close(1000);
    raw_expect_end();
    await_close();
    ck_assert_int_eq(closes, 1);
    ck_assert_int_eq(close_code, 1000);
    drop_client();
}

TEST(the_functions_are_called_in_order)
{
    open_ws((weft_ws_options){0});
    echo_text("a");
    echo_text("b");
    close_ws();
    ck_assert_trail("open a b close");
}

TEST(a_silent_connection_has_no_fiber_and_gets_one_for_each_message)
{
    open_ws((weft_ws_options){0});
    for (int i = 0; i < 3; i++) {
        await_silence();
        echo_text(format("message %d", i));
    }
    await_silence();
    raw_send(FIN | PING, "p", 1);
    expect_frame(FIN | PONG, "p", 1);
    await_silence();
    close_ws();
}

TEST(a_message_in_parts_keeps_its_fiber)
{
    open_ws((weft_ws_options){0});
    await_silence();
    raw_send(TEXT, "Hel", 3);
    weft_sleep(3 * REST_S);
    ck_assert_uint_gt(stats().fibers, 1);
    raw_send_hex("80");
    weft_sleep(3 * REST_S);
    raw_send_hex("82 00000000 6c6f");
    expect_text("Hello");
    await_silence();
    close_ws();
}

TEST(other_fibers_send_to_a_connection_without_a_fiber)
{
    static char data[60000];
    open_ws((weft_ws_options){0});
    for (int i = 0; i < 3; i++) {
        await_silence();
        ck_assert_int_eq(weft_ws_printf(opened, "event %d", i), 0);
        expect_text(format("event %d", i));
        ck_assert_uint_eq(stats().fibers, 1);
    }
    memset(data, 'x', sizeof data);
    ck_assert_int_eq(weft_ws_send_part(opened, WEFT_WS_TEXT, data, sizeof data, false), 0);
    ck_assert_int_eq(weft_ws_send_part(opened, WEFT_WS_TEXT, "y", 1, true), 0);
    expect_frame(TEXT, data, sizeof data);
    expect_frame(FIN | CONT, "y", 1);
    close_ws();
}

static weft_value send_much(void *arg)
{
    static char data[8 << 20];
    int rc = 0;
    while (rc == 0)
        rc = weft_ws_send(opened, WEFT_WS_BINARY, data, sizeof data);
    *(int *)arg = rc;
    return 0;
}

TEST(a_send_that_does_not_end_closes_a_connection_without_a_fiber)
{
    int result = 0;
    open_ws((weft_ws_options){.send_s = 0.01});
    await_silence();
    weft_fiber sender = weft_spin(send_much, &result);
    await_close();
    ck_assert_int_eq(weft_await(sender), 0);
    ck_assert_int_eq(result, -ETIMEDOUT);
    ck_assert_int_eq(close_code, WEFT_WS_ABNORMAL);
    drop_client();
}

TEST(a_cancelled_send_to_a_connection_without_a_fiber_is_completed)
{
    static char data[60000];
    open_ws((weft_ws_options){0});
    await_silence();
    int rc = 0;
    WEFT_MOVE_ON_AFTER(0)
        rc = weft_ws_send(opened, WEFT_WS_BINARY, "short", 5);
    ck_assert_int_eq(rc, 0);
    expect_frame(FIN | BINARY, "short", 5);
    await_silence();
    WEFT_MOVE_ON_AFTER(0)
        rc = weft_ws_send(opened, WEFT_WS_BINARY, data, sizeof data);
    if (rc == 0)
        expect_frame(FIN | BINARY, data, sizeof data);
    await_silence();
    close_ws();
}

static weft_value close_opened(void *arg)
{
    *(int *)arg = weft_ws_close(opened, 4321, NULL);
    return 0;
}

TEST(a_connection_without_a_fiber_is_closed_by_another_fiber)
{
    int result = 1;
    open_ws((weft_ws_options){0});
    await_silence();
    weft_fiber closer = weft_spin(close_opened, &result);
    expect_close(4321);
    raw_send_text("discarded");
    raw_send_close(4321, "");
    raw_expect_end();
    ck_assert_int_eq(weft_await(closer), 0);
    ck_assert_int_eq(result, 0);
    await_close();
    ck_assert_int_eq(close_code, 4321);
    drop_client();
}

TEST(a_close_without_an_answer_ends_a_connection_without_a_fiber)
{
    int result = 1;
    open_ws((weft_ws_options){.close_s = 0.01});
    await_silence();
    weft_fiber closer = weft_spin(close_opened, &result);
    expect_close(4321);
    raw_expect_end();
    ck_assert_int_eq(weft_await(closer), 0);
    ck_assert_int_eq(result, -ETIMEDOUT);
    await_close();
    drop_client();
}

/* The connection gets a fiber for a ping, and for the end. */
TEST(a_connection_without_a_fiber_pings_its_peer)
{
    open_ws((weft_ws_options){.ping_s = 0.03, .pong_s = 1000});
    for (int i = 0; i < 3; i++) {
        await_silence();
        expect_frame(FIN | PING, "", 0);
        await_silence();
        raw_send(FIN | PONG, "", 0);
    }
    drop_client();
    await_close();
}

TEST(a_peer_that_does_not_answer_is_dropped_without_a_fiber)
{
    open_ws((weft_ws_options){.ping_s = 0.03, .pong_s = 0.03});
    await_silence();
    expect_frame(FIN | PING, "", 0);
    raw_expect_end();
    await_close();
    ck_assert_int_eq(close_code, WEFT_WS_ABNORMAL);
    drop_client();
}

TEST(a_peer_that_disappears_is_closed)
{
    open_ws((weft_ws_options){0});
    await_silence();
    drop_client();
    await_close();
    ck_assert_int_eq(close_code, WEFT_WS_ABNORMAL);
}

TEST_LOOP(a_function_that_fails_closes_the_connection, 2)
{
    const char *text = _i == 0 ? "fail" : "again";
    open_ws((weft_ws_options){0});
    raw_send_text(text);
    expect_close(1011);
    raw_send_text("discarded");
    raw_send_close(1011, "");
    raw_expect_end();
    await_close();
    ck_assert_trail(_i == 0 ? "open fail close" : "open again close");
    drop_client();
}

TEST(if_on_open_fails_on_close_is_not_called)
{
    open_result = -EACCES;
    open_ws((weft_ws_options){0});
    expect_close(1011);
    raw_send_close(1011, "");
    raw_expect_end();
    ck_assert_trail("open ");
    drop_client();
}

TEST(a_function_can_close_the_connection)
{
    open_ws((weft_ws_options){0});
    await_silence();
    raw_send_text("close");
    expect_close(4000);
    raw_send_close(4000, "");
    raw_expect_end();
    await_close();
    ck_assert_int_eq(close_code, 4000);
    drop_client();
}

TEST(a_violation_closes_the_connection)
{
    open_ws((weft_ws_options){0});
    await_silence();
    raw_send_hex("FF");
    raw_send_hex("80 00000000");
    expect_close(1002);
    weft_shutdown(client.fd, SHUT_WR);
    raw_expect_end();
    await_close();
    ck_assert_int_eq(close_code, WEFT_WS_ABNORMAL);
    drop_client();
}

/* One connection rests, and one is in the middle of a message. */
TEST(the_drain_closes_connections_with_and_without_a_fiber)
{
    open_ws((weft_ws_options){0});
    await_silence();
    int first = client.fd;
    server_connect(&s, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    raw_send(TEXT, "half", 4);
    weft_sleep(2 * REST_S);
    weft_cancel(s.fiber);
    expect_close(1001);
    raw_send_close(1001, "");
    raw_expect_end();
    drop_client();
    client.fd = first;
    expect_close(1001);
    raw_send_close(1001, "");
    raw_expect_end();
    drop_client();
    end_server();
    ck_assert_int_eq(closes, 2);
}

TEST(a_peer_that_ignores_the_drain_is_dropped)
{
    open_ws((weft_ws_options){.close_s = 0.01});
    await_silence();
    weft_cancel(s.fiber);
    expect_close(1001);
    raw_expect_end();
    drop_client();
    end_server();
    ck_assert_int_eq(closes, 1);
}

/* A server without time to drain ends connections that rest. */
TEST(a_server_that_ends_at_once_calls_on_close)
{
    options = (weft_ws_options){0};
    open_server(serve_events, &(weft_http_options){.drain_s = 0.000001});
    server_connect(&s, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    await_silence();
    weft_cancel(s.fiber);
    end_server();
    ck_assert_int_eq(closes, 1);
    drop_client();
}

TEST(invalid_events_are_an_error)
{
    weft_http_request *none = NULL;
    ck_assert_int_eq(weft_ws_serve(none, NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_ws_serve(none, NULL, &(weft_ws_events){on_open, NULL, on_close}, NULL),
                     -EINVAL);
}

/* weft_http_serve_conn has no group for other fibers. The connection keeps its fiber. */
TEST(a_connection_that_cannot_rest_calls_the_same_functions)
{
    options = (weft_ws_options){0};
    ws_open_with(serve_events, NULL, "");
    echo_text("a");
    weft_sleep(3 * REST_S);
    echo_text("b");
    raw_send_close(1000, "");
    expect_close(1000);
    raw_expect_end();
    ws_end();
    ck_assert_trail("open a b close");
    ws_open_with(serve_events, NULL, "");
    raw_send_text("fail");
    expect_close(1011);
    raw_send_close(1011, "");
    raw_expect_end();
    ws_end();
    ws_open_with(serve_events, NULL, "");
    raw_send_text("close");
    expect_close(4000);
    raw_send_close(4000, "");
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(closes, 3);
}

/* Over TLS the stream rests with its state. */
TEST(a_connection_over_tls_rests_and_continues)
{
    options = (weft_ws_options){0};
    open_tls_server(serve_events, (weft_http_options){0});
    weft_ws *ws;
    weft_ws_message m;
    weft_tls *trust = weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert});
    ck_assert_ptr_nonnull(trust);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.tls = trust});
    ck_assert_int_eq(
        weft_ws_connect(fetcher, format("wss://127.0.0.1:%d/", server_port(&s)), NULL, &ws), 0);
    for (int i = 0; i < 3; i++) {
        await_silence();
        ck_assert_int_eq(weft_ws_printf(ws, "message %d", i), 0);
        ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
        ck_assert_str_eq(m.data, format("message %d", i));
        await_silence();
        ck_assert_int_eq(weft_ws_printf(opened, "event %d", i), 0);
        ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
        ck_assert_str_eq(m.data, format("event %d", i));
    }
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
    weft_ws_free(ws);
    await_close();
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    weft_tls_free(trust);
}

/* HTTP/1 also rests before a request, and between two requests. */
TEST(a_connection_that_rested_before_its_request_is_upgraded)
{
    options = (weft_ws_options){0};
    open_server(serve_events, NULL);
    server_connect(&s, &client);
    let_run();
    await_rest();
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    echo_text("a");
    await_silence();
    echo_text("b");
    close_ws();
}
