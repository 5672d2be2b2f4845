/* Time limits, pings, the close handshake and the drain of the server, with a raw client. */
#include "support/suite.h"
#include "ws/ws.h"
#include "ws/ws_support.h"

FIXTURE(NULL, ws_end_test)

/* The handler of tests that do something other than echo. */
static int (*script)(weft_ws *ws);
static weft_ws *opened;
static weft_ws_options script_options;
static int script_result;

static int run_script(weft_http_request *r, void *ctx)
{
    int rc = weft_ws_accept(r, &script_options, &opened);
    ck_assert_int_eq(rc, 0);
    script_result = script(opened);
    weft_ws_free(opened);
    return 0;
}

static void open_script(int (*fn)(weft_ws *ws), weft_ws_options options)
{
    script = fn;
    script_options = options;
    script_result = 1;
    ws_open_with(run_script, NULL, "");
}

static int recv_once(weft_ws *ws)
{
    weft_ws_message m;
    return weft_ws_recv(ws, &m);
}

/*
 * Errors of the transport.
 */

static int broken_result, broken_reads;

static ssize_t broken_read(void *ctx, void *data, size_t bytes)
{
    broken_reads++;
    return broken_reads < 100 ? broken_result : -EIO;
}

static ssize_t broken_writev(void *ctx, const struct iovec *pieces, int count)
{
    return -EPIPE;
}

static int broken_close(void *ctx)
{
    return 0;
}

static const weft_stream_type broken = {
    .read = broken_read, .writev = broken_writev, .close = broken_close};

/* Receive from a transport that fails. */
static int recv_broken(weft_ws *ws)
{
    weft_stream stream, *real = ws->live->stream;
    ck_assert_int_eq(weft_stream_open_with(&stream, &broken, NULL), 0);
    ws->live->stream = &stream;
    int rc = recv_once(ws);
    ws->live->stream = real;
    (void)weft_stream_close(&stream);
    return rc;
}

TEST(an_error_of_the_transport_is_not_a_time_limit)
{
    static const int errors[] = {-ETIMEDOUT, -EAGAIN};
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        broken_result = errors[i];
        broken_reads = 0;
        open_script(recv_broken, (weft_ws_options){0});
        ck_assert(!raw_recv());
        ck_assert_int_eq(script_result, errors[i]);
        ck_assert_int_eq(broken_reads, 1);
        ws_end();
    }
}

/*
 * Pings.
 */

TEST(a_silent_peer_gets_pings_and_any_input_is_an_answer)
{
    ws_open((weft_ws_options){.ping_s = 0.002, .pong_s = 1000}, "");
    for (int i = 0; i < 3; i++) {
        expect_frame(FIN | PING, "", 0);
        raw_send(FIN | PONG, "", 0);
    }
    expect_frame(FIN | PING, "", 0);
    raw_send_text("here");
    expect_text("here");
}

TEST(a_peer_that_does_not_answer_a_ping_is_dropped)
{
    ws_open((weft_ws_options){.ping_s = 0.001, .pong_s = 0.001}, "");
    expect_frame(FIN | PING, "", 0);
    weft_shutdown(client.fd, SHUT_RDWR);
    ws_end();
    ws_open((weft_ws_options){.ping_s = 0.001, .pong_s = 0.001}, "");
    expect_frame(FIN | PING, "", 0);
    ck_assert_int_eq(weft_await(client.fiber), 0);
    client.fiber = 0;
    ck_assert_int_eq(echo_server.result, -ETIMEDOUT);
    ck_assert_int_eq(echo_server.code, WEFT_WS_ABNORMAL);
    drop_client();
}

TEST(without_a_ping_time_no_ping_is_sent)
{
    ws_open((weft_ws_options){.ping_s = INFINITY}, "");
    ck_assert_int_eq(weft_sleep(runs_on("sim") ? 1000 : 0.01), 0);
    raw_send_text("a");
    expect_text("a");
}

/* On sim a second of silence costs nothing. A message after it shows that memory is rebuilt. */
TEST(a_connection_that_was_silent_for_long_continues)
{
    if (!runs_on("sim"))
        return;
    ws_open((weft_ws_options){0}, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
    for (int i = 0; i < 3; i++) {
        raw_send_text("again");
        expect_text("again");
        ck_assert_int_eq(weft_sleep(10), 0);
    }
    raw_send(TEXT, "par", 3);
    ck_assert_int_eq(weft_sleep(29), 0);
    raw_send(FIN | CONT, "ted", 3);
    expect_text("parted");
    unsigned char half = FIN | TEXT;
    raw_write(&half, 1);
    ck_assert_int_eq(weft_sleep(29), 0);
    raw_send_hex("81 00000000 61");
    expect_text("a");
    expect_frame(FIN | PING, "", 0);
}

/*
 * The close handshake.
 */

static int close_with_reason(weft_ws *ws)
{
    return weft_ws_close(ws, 4321, "gr\xc3\xbc\xc3\x9f");
}

TEST(the_server_closes_with_a_code_and_a_reason)
{
    open_script(close_with_reason, (weft_ws_options){0});
    expect_close(4321);
    ck_assert_str_eq((char *)got.data + 2, "gr\xc3\xbc\xc3\x9f");
    raw_send_text("discarded");
    raw_send(FIN | PING, "not answered", 12);
    raw_send_close(4321, "");
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, 0);
}

TEST(a_peer_that_does_not_answer_a_close_is_dropped)
{
    open_script(close_with_reason, (weft_ws_options){.close_s = 0.001});
    expect_close(4321);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, -ETIMEDOUT);
}

static int close_invalid(weft_ws *ws)
{
    static const int codes[] = {-1, 1, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000};
    char reason[125];
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        ck_assert_int_eq(weft_ws_close(ws, codes[i], NULL), -EINVAL);
    ck_assert_int_eq(weft_ws_close(ws, 1000, "\xff"), -EINVAL);
    ck_assert_int_eq(weft_ws_close(ws, 0, "reason"), -EINVAL);
    memset(reason, 'a', sizeof reason);
    reason[124] = '\0';
    ck_assert_int_eq(weft_ws_close(ws, 1000, reason), -EINVAL);
    reason[123] = '\0';
    return weft_ws_close(ws, 1000, reason);
}

TEST(an_invalid_close_sends_nothing)
{
    open_script(close_invalid, (weft_ws_options){0});
    expect_close(1000);
    ck_assert_uint_eq(got.bytes, 125);
    raw_send_close(1000, "");
    raw_expect_end();
}

static int close_without_code(weft_ws *ws)
{
    ck_assert_int_eq(weft_ws_close(ws, 0, NULL), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), WEFT_WS_NO_CODE);
    ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_TEXT, "x", 1), -EPIPE);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "x", 1, false), -EPIPE);
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
    return recv_once(ws);
}

TEST(a_close_may_have_no_code)
{
    open_script(close_without_code, (weft_ws_options){0});
    expect_close(0);
    raw_send(FIN | CLOSE, "", 0);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, 0);
}

static int free_only(weft_ws *ws)
{
    return 0;
}

TEST(a_connection_that_is_freed_is_closed_with_going_away)
{
    open_script(free_only, (weft_ws_options){0});
    expect_close(1001);
    raw_send_close(1001, "");
    raw_expect_end();
}

static int cancel_self(weft_ws *ws)
{
    weft_cancel(weft_self());
    return recv_once(ws);
}

TEST(a_cancelled_handler_sends_a_close_frame_and_does_not_wait)
{
    open_script(cancel_self, (weft_ws_options){.close_s = INFINITY});
    expect_close(1001);
    ck_assert_int_eq(script_result, -ECANCELED);
    weft_shutdown(client.fd, SHUT_WR);
    raw_expect_end();
    ck_assert_int_eq(weft_await(client.fiber), -ECANCELED);
    drop_client();
}

static weft_value close_from_fiber(void *arg)
{
    return weft_ws_close(arg, 1000, "from another fiber");
}

/* One fiber receives while another closes. The receiver returns the messages before the close. */
static int recv_while_closing(weft_ws *ws)
{
    weft_ws_message m;
    weft_fiber closer = weft_spin(close_from_fiber, ws);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    ck_assert_str_eq(m.data, "late");
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    ck_assert_int_eq(weft_await(closer), 0);
    return 0;
}

TEST(a_fiber_closes_while_another_receives)
{
    open_script(recv_while_closing, (weft_ws_options){0});
    expect_close(1000);
    raw_send_text("late");
    raw_send_close(1000, "");
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, 0);
}

/* The closer receives while the handler still uses its message. Then the handler receives. */
static int use_message_while_closing(weft_ws *ws)
{
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    weft_fiber closer = weft_spin(close_from_fiber, ws);
    for (int i = 0; i < 10; i++)
        let_run();
    ck_assert_str_eq(m.data, "mine");
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    ck_assert_int_eq(weft_await(closer), 0);
    return 0;
}

TEST(a_message_remains_valid_while_another_fiber_closes)
{
    open_script(use_message_while_closing, (weft_ws_options){0});
    raw_send_text("mine");
    expect_close(1000);
    raw_send_text("discarded, and longer than the first message");
    raw_send_close(1000, "");
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, 0);
}

static weft_value recv_from_fiber(void *arg)
{
    return recv_once(arg);
}

static int free_while_receiving(weft_ws *ws)
{
    weft_fiber receiver = weft_spin(recv_from_fiber, ws);
    let_run();
    ck_assert_int_eq(recv_once(ws), -EBUSY);
    weft_ws_free(ws);
    ck_assert_int_eq(weft_await(receiver), 0);
    opened = NULL;
    return 0;
}

TEST(a_second_receiver_gets_an_error_and_a_free_waits_for_the_first)
{
    open_script(free_while_receiving, (weft_ws_options){0});
    expect_close(1001);
    raw_send_close(1001, "");
    raw_expect_end();
}

static int free_while_receiving_late(weft_ws *ws)
{
    weft_fiber receiver = weft_spin(recv_from_fiber, ws);
    let_run();
    weft_ws_free(ws);
    script_result = (int)weft_await(receiver);
    opened = NULL;
    return script_result;
}

TEST(a_free_ends_a_receiver_whose_peer_does_not_close)
{
    open_script(free_while_receiving_late, (weft_ws_options){.close_s = 0.001});
    expect_close(1001);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, -ETIMEDOUT);
}

static weft_value recv_for_ever(void *arg)
{
    script_result = recv_once(arg);
    return 0;
}

static int close_after_long_silence(weft_ws *ws)
{
    weft_fiber receiver = weft_spin(recv_for_ever, ws);
    (void)weft_sleep(1000);
    int rc = weft_ws_close(ws, 1000, NULL);
    ck_assert_int_eq(weft_await(receiver), 0);
    ck_assert_int_eq(script_result, -ETIMEDOUT);
    return rc;
}

/* On sim long times cost nothing. */
TEST(a_receiver_that_has_waited_for_long_notices_a_close)
{
    if (!runs_on("sim"))
        return;
    open_script(close_after_long_silence, (weft_ws_options){.ping_s = INFINITY});
    expect_close(1000);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(script_result, -ETIMEDOUT);
}

/* Cancel a receiver at a time when a part of a message has arrived. */
static int recv_cancelled(weft_ws *ws)
{
    weft_ws_message m;
    int cancelled = 0, rc;
    do {
        rc = 0;
        WEFT_MOVE_ON_AFTER(0.0001)
            rc = weft_ws_recv(ws, &m);
        cancelled += rc == -ECANCELED;
    } while (rc == -ECANCELED);
    ck_assert_int_eq(rc, 1);
    ck_assert_str_eq(m.data, "Hello");
    ck_assert_int_gt(cancelled, 0);
    return weft_ws_send(ws, WEFT_WS_TEXT, m.data, m.bytes);
}

TEST(a_cancelled_receive_loses_nothing)
{
    static const char *const pieces[] = {"01", "82 0000", "0000 48", "65", "80 83 00000000 6c",
                                         "6c", "6f"};
    open_script(recv_cancelled, (weft_ws_options){0});
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        raw_send_hex(pieces[i]);
        ck_assert_int_eq(weft_sleep(0.0005), 0);
    }
    expect_text("Hello");
    expect_close(1001);
    raw_send_close(1001, "");
}

/*
 * The drain.
 */

TEST(the_drain_of_the_server_closes_connections_that_wait)
{
    if (runs_on("sim"))
        return;
    test_server server;
    echo_server = (echo_state){0};
    server_open(&server, echo, &echo_server, NULL);
    server_connect(&server, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    raw_send_text("a");
    expect_text("a");
    weft_cancel(server.fiber);
    expect_close(1001);
    raw_send_close(1001, "");
    raw_expect_end();
    (void)weft_await(server.fiber);
    ck_assert_int_eq(server.result, -ECANCELED);
    weft_close(server.listener);
    ck_assert_int_eq(echo_server.result, 0);
    drop_client();
}
