/* WebSocket over streams of HTTP/2 (RFC 8441), with the client and the server of weft. */
#include "support/suite.h"
#include "ws/ws_support.h"

static test_server server;
static weft_fetcher *fetcher;
static weft_ws *ws;

static void open_with(weft_http_handler *handler, weft_ws_options options)
{
    echo_server = (echo_state){.options = options};
    server_open(&server, handler, &echo_server, NULL);
    fetcher = weft_fetcher_new(&(weft_fetcher_options){.has_prior_knowledge = true});
    ck_assert_ptr_nonnull(fetcher);
}

static weft_ws *connect_ws(void)
{
    weft_ws *connected;
    const weft_ws_options options = {.protocols = "v1"};
    const char *url = format("ws://127.0.0.1:%d/", server_port(&server));
    int rc = weft_ws_connect(fetcher, url, &options, &connected);
    ck_assert_msg(rc == 0, "%d", rc);
    return connected;
}

static void open_h2_echo(void)
{
    open_with(echo, (weft_ws_options){.protocols = "v1"});
    ws = connect_ws();
}

static void close_all(void)
{
    weft_ws_free(ws);
    ws = NULL;
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    fetcher = NULL;
    if (server.fiber != 0)
        ck_assert_int_eq(server_close(&server), -ECANCELED);
    assert_nothing_pending();
}

FIXTURE(open_h2_echo, close_all)

static void assert_echo(weft_ws *on, const char *data, size_t bytes)
{
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_send(on, WEFT_WS_BINARY, data, bytes), 0);
    ck_assert_int_eq(weft_ws_recv(on, &m), 1);
    ck_assert_uint_eq(m.bytes, bytes);
    ck_assert_int_eq(memcmp(m.data, data, bytes), 0);
}

TEST(messages_pass_over_a_stream)
{
    static char data[200000];
    fill_from((unsigned char *)data, sizeof data, 0);
    ck_assert_str_eq(weft_ws_protocol(ws), "v1");
    for (size_t bytes = 0; bytes < 40000; bytes = bytes * 2 + 1)
        assert_echo(ws, data, bytes);
    ck_assert_int_eq(weft_ws_close(ws, 3000, "enough"), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), 3000);
    close_all();
    ck_assert_int_eq(echo_server.result, 0);
    ck_assert_int_eq(echo_server.code, 3000);
    ck_assert_str_eq(echo_server.reason, "enough");
    open_h2_echo();
}

static char large[900000];

static weft_value send_large(void *arg)
{
    return weft_ws_send(ws, WEFT_WS_BINARY, large, sizeof large);
}

/* Longer than the windows of the stream. */
TEST(a_long_message_waits_for_the_window)
{
    weft_ws_message m;
    fill_from((unsigned char *)large, sizeof large, 0);
    weft_fiber sender = weft_spin(send_large, NULL);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    ck_assert_uint_eq(m.bytes, sizeof large);
    ck_assert_int_eq(memcmp(m.data, large, sizeof large), 0);
    ck_assert_int_eq(weft_await(sender), 0);
}

TEST(several_websockets_share_a_connection)
{
    enum { COUNT = 10 };
    weft_ws *all[COUNT];
    for (int i = 0; i < COUNT; i++)
        all[i] = connect_ws();
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < COUNT; i++)
            assert_echo(all[i], format("%d of %d", round, i), 6);
    for (int i = 0; i < COUNT; i++) {
        if (i % 2 == 0)
            ck_assert_int_eq(weft_ws_close(all[i], 1000, NULL), 0);
        weft_ws_free(all[i]);
    }
    assert_echo(ws, "still", 5);
}

TEST(the_drain_closes_websockets_over_streams)
{
    weft_ws_message m;
    assert_echo(ws, "a", 1);
    weft_cancel(server.fiber);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), 1001);
    weft_ws_free(ws);
    ws = NULL;
    (void)weft_await(server.fiber);
    weft_close(server.listener);
    server.fiber = 0;
    ck_assert_int_eq(echo_server.result, 0);
}

TEST(a_message_beyond_the_limit_closes_the_stream_only)
{
    close_all();
    open_with(echo, (weft_ws_options){.protocols = "v1", .message_bytes_max = 100});
    ws = connect_ws();
    weft_ws *other = connect_ws();
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_BINARY, large, 50000), 0);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), 1009);
    assert_echo(other, "fine", 4);
    weft_ws_free(other);
}

static bool is_freed, was_freed_early;

/* Send a frame with a reserved opcode, read the close frame of the client, and end the stream. */
static int send_invalid_frame(weft_http_request *r, void *ctx)
{
    weft_stream *stream;
    unsigned char frame[8] = {0};
    int rc = weft_http_upgrade(r, "websocket", &stream);
    if (rc < 0)
        return rc;
    ck_assert_int_eq(weft_stream_write(stream, "\x83\x00", 2), 2);
    ck_assert_int_eq(weft_stream_flush(stream), 0);
    echo_server.result = (int)weft_stream_read_exact(stream, frame, sizeof frame);
    echo_server.code = (frame[6] ^ frame[2]) << 8 | (frame[7] ^ frame[3]);
    let_run();
    was_freed_early = is_freed;
    return 0;
}

/* A client that does not wait resets the stream, and the server may discard the close frame. */
TEST(a_client_that_fails_waits_for_the_server_to_end_the_stream)
{
    weft_ws_message m;
    close_all();
    open_with(send_invalid_frame, (weft_ws_options){0});
    ws = connect_ws();
    ck_assert_int_eq(weft_ws_recv(ws, &m), -EBADMSG);
    weft_ws_free(ws);
    ws = NULL;
    is_freed = true;
    close_all();
    ck_assert(!was_freed_early);
    ck_assert_int_eq(echo_server.result, 8);
    ck_assert_int_eq(echo_server.code, 1002);
    open_h2_echo();
}

static int accept_none(weft_http_request *r, void *ctx)
{
    return weft_http_reply_status(r, 404);
}

TEST(a_refusal_is_an_error)
{
    weft_ws *refused;
    close_all();
    open_with(accept_none, (weft_ws_options){0});
    const char *url = format("ws://127.0.0.1:%d/", server_port(&server));
    ck_assert_int_eq(weft_ws_connect(fetcher, url, NULL, &refused), -ECONNREFUSED);
    ck_assert_ptr_null(refused);
}

/* A stream of HTTP/2 cannot rest. weft_ws_serve uses the fiber of its request. */
static int on_message(weft_ws *peer, const weft_ws_message *m, void *ctx)
{
    return weft_ws_send(peer, m->kind, m->data, m->bytes);
}

static int serve_events(weft_http_request *r, void *ctx)
{
    static const weft_ws_events events = {.on_message = on_message};
    return weft_ws_serve(r, &((echo_state *)ctx)->options, &events, NULL);
}

TEST(events_are_served_over_streams)
{
    close_all();
    open_with(serve_events, (weft_ws_options){.protocols = "v1"});
    ws = connect_ws();
    assert_echo(ws, "a", 1);
    assert_echo(ws, "b", 1);
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
}

TEST(origins_are_checked_over_streams)
{
    weft_ws *refused;
    const weft_fetch_field evil = {"Origin", "http://evil.test"};
    const weft_fetch_field own = {"Origin", format("http://127.0.0.1:%d", server_port(&server))};
    const char *url = format("ws://127.0.0.1:%d/", server_port(&server));
    weft_ws_options options = {.fields = &evil, .fields_count = 1};
    ck_assert_int_eq(weft_ws_connect(fetcher, url, &options, &refused), -ECONNREFUSED);
    options.fields = &own;
    ck_assert_int_eq(weft_ws_connect(fetcher, url, &options, &refused), 0);
    weft_ws_free(refused);
}
