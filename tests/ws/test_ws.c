/* Client and server of weft: messages of all kinds, several senders, cancellation, slow peers. */
#include "support/suite.h"
#include "ws/ws_support.h"

static test_server server;
static weft_ws *ws;

static const char *server_url(void)
{
    return format("ws://127.0.0.1:%d/", server_port(&server));
}

static void open_server(weft_http_handler *handler, weft_ws_options options)
{
    echo_server = (echo_state){.options = options};
    server_open(&server, handler, &echo_server, NULL);
}

static void connect_with(weft_ws_options options)
{
    int rc = weft_ws_connect(NULL, server_url(), &options, &ws);
    ck_assert_msg(rc == 0, "%d", rc);
}

static void open_ws_echo(void)
{
    open_server(echo, (weft_ws_options){0});
    connect_with((weft_ws_options){0});
}

static void close_all(void)
{
    weft_ws_free(ws);
    ws = NULL;
    if (server.fiber != 0)
        ck_assert_int_eq(server_close(&server), -ECANCELED);
    assert_nothing_pending();
}

FIXTURE(open_ws_echo, close_all)

/* Replace the server and the client. */
static void reopen(weft_http_handler *handler, weft_ws_options for_server,
                   weft_ws_options for_client)
{
    close_all();
    open_server(handler, for_server);
    connect_with(for_client);
}

static weft_ws_message expect_message(weft_ws_kind kind, const void *data, size_t bytes)
{
    weft_ws_message m = {0};
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    ck_assert_int_eq(m.kind, kind);
    ck_assert_uint_eq(m.bytes, bytes);
    ck_assert_int_eq(memcmp(m.data, data, bytes), 0);
    ck_assert_int_eq(m.data[bytes], '\0');
    return m;
}

static void assert_echo(weft_ws_kind kind, const void *data, size_t bytes)
{
    ck_assert_int_eq(weft_ws_send(ws, kind, data, bytes), 0);
    expect_message(kind, data, bytes);
}

TEST(messages_are_echoed)
{
    static char data[300000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(' ' + byte_at(i) % 90);
    for (size_t bytes = 0; bytes < sizeof data; bytes = bytes * 2 + 1) {
        assert_echo(WEFT_WS_TEXT, data, bytes);
        assert_echo(WEFT_WS_BINARY, data, bytes);
    }
    ck_assert_int_eq(weft_ws_printf(ws, "%s %d", "number", 7), 0);
    expect_message(WEFT_WS_TEXT, "number 7", 8);
    snprintf(data, sizeof data, "%2000d", 7);
    ck_assert_int_eq(weft_ws_printf(ws, "%2000d", 7), 0);
    expect_message(WEFT_WS_TEXT, data, 2000);
    ck_assert_int_eq(weft_ws_close(ws, WEFT_WS_NORMAL, "done"), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), 1000);
    close_all();
    ck_assert_int_eq(echo_server.result, 0);
    ck_assert_int_eq(echo_server.code, 1000);
    ck_assert_str_eq(echo_server.reason, "done");
}

static weft_value send_large(void *arg)
{
    weft_ws_message *m = arg;
    return weft_ws_send(ws, m->kind, m->data, m->bytes);
}

/* With and without compression. The client must receive while it sends. */
TEST_LOOP(messages_of_16_mib_pass_if_the_limits_allow_it, 2)
{
    enum { BYTES = 16 << 20 };
    const weft_ws_options options = {
        .frame_bytes_max = BYTES, .message_bytes_max = BYTES, .has_no_deflate = _i == 0};
    reopen(echo, options, options);
    char *data = malloc(BYTES);
    fill_from((unsigned char *)data, BYTES, 0);
    weft_ws_message m = {WEFT_WS_BINARY, data, BYTES};
    weft_fiber sender = weft_spin(send_large, &m);
    expect_message(WEFT_WS_BINARY, data, BYTES);
    ck_assert_int_eq(weft_await(sender), 0);
    free(data);
}

TEST(a_message_in_parts_is_one_message)
{
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "\xe2\x82", 2, false), 0);
    ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_TEXT, "x", 1), -EBUSY);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_BINARY, "x", 1, true), -EINVAL);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "a", 1, false), -EINVAL);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "", 0, true), -EINVAL);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "\xac", 1, false), 0);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "", 0, false), 0);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "!", 1, true), 0);
    expect_message(WEFT_WS_TEXT, "\xe2\x82\xac!", 4);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_BINARY, "whole", 5, true), 0);
    expect_message(WEFT_WS_BINARY, "whole", 5);
}

TEST(invalid_messages_are_not_sent)
{
    ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_TEXT, "\xff", 1), -EINVAL);
    ck_assert_int_eq(weft_ws_send(ws, (weft_ws_kind)0, "a", 1), -EINVAL);
    ck_assert_int_eq(weft_ws_send(ws, (weft_ws_kind)8, "a", 1), -EINVAL);
    ck_assert_int_eq(weft_ws_send_part(ws, (weft_ws_kind)9, "a", 1, true), -EINVAL);
    ck_assert_int_eq(weft_ws_printf(ws, "%s", "\xc3"), -EINVAL);
    assert_echo(WEFT_WS_TEXT, "fine", 4);
}

/*
 * Several senders. Each message names its sender and has a length of its own, and may have parts.
 */

enum { SENDERS = 8, ROUNDS = 40 };

static weft_value send_rounds(void *arg)
{
    char text[8000];
    int id = (int)(intptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = (size_t)((id * 977 + i * 131) % (int)sizeof text);
        memset(text, 'a' + id, bytes);
        size_t first = i % 3 == 0 ? bytes / 2 : bytes;
        int rc = 0;
        if (first < bytes)
            rc = weft_ws_send_part(ws, WEFT_WS_TEXT, text, first, false);
        ck_assert_int_eq(rc, 0);
        weft_snooze();
        rc = first < bytes ? weft_ws_send_part(ws, WEFT_WS_TEXT, text + first, bytes - first, true)
                           : weft_ws_send(ws, WEFT_WS_TEXT, text, bytes);
        ck_assert_int_eq(rc, 0);
    }
    return 0;
}

TEST_LOOP(messages_of_several_fibers_do_not_interleave, 2)
{
    reopen(echo, (weft_ws_options){.has_no_deflate = _i == 0}, (weft_ws_options){0});
    weft_fiber senders[SENDERS];
    size_t counts[SENDERS] = {0};
    for (int i = 0; i < SENDERS; i++)
        senders[i] = weft_spin(send_rounds, (void *)(intptr_t)i);
    for (int i = 0; i < SENDERS * ROUNDS; i++) {
        weft_ws_message m;
        ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
        if (m.bytes == 0)
            continue;
        int id = m.data[0] - 'a';
        counts[id]++;
        ck_assert_uint_eq(strspn(m.data, format("%c", m.data[0])), m.bytes);
    }
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(weft_await(senders[i]), 0);
}

/* A fiber has begun a message. The sends of other fibers wait, and a close ends them. */
static int other_result;

static weft_value send_blocked(void *arg)
{
    other_result = weft_ws_send(ws, WEFT_WS_TEXT, "blocked", 7);
    return 0; /* an error would propagate to the test */
}

TEST(a_close_goes_between_the_parts_of_a_message)
{
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "never ", 6, false), 0);
    weft_fiber blocked = weft_spin(send_blocked, NULL);
    let_run();
    ck_assert_int_eq(weft_ws_close(ws, WEFT_WS_NORMAL, NULL), 0);
    ck_assert_int_eq(weft_await(blocked), 0);
    ck_assert_int_eq(other_result, -EPIPE);
    ck_assert_int_eq(weft_ws_send_part(ws, WEFT_WS_TEXT, "ends", 4, true), -EPIPE);
}

/*
 * Slow peers. The server receives nothing until it may.
 */

static weft_event may_receive;

static int receive_late(weft_http_request *r, void *ctx)
{
    echo_state *e = ctx;
    weft_ws *peer;
    weft_ws_message m;
    int rc = weft_ws_accept(r, &e->options, &peer);
    ck_assert_int_eq(rc, 0);
    (void)weft_event_wait(&may_receive);
    while ((rc = weft_ws_recv(peer, &m)) > 0) {
        e->messages++;
        e->bytes += m.bytes;
        for (size_t i = 0; i < m.bytes; i += 100)
            ck_assert_int_eq(m.data[i], m.data[0]);
    }
    e->result = rc;
    weft_ws_free(peer);
    return 0;
}

TEST(a_send_to_a_peer_that_does_not_read_ends_the_connection)
{
    static char data[1 << 20];
    reopen(receive_late, (weft_ws_options){.has_no_deflate = true},
           (weft_ws_options){.send_s = 0.01});
    int rc = 0;
    for (int i = 0; i < 100 && rc == 0; i++)
        rc = weft_ws_send(ws, WEFT_WS_BINARY, data, sizeof data);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_BINARY, data, 1), -ETIMEDOUT);
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_recv(ws, &m), -ETIMEDOUT);
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), -ETIMEDOUT);
    ck_assert_int_eq(weft_ws_close_code(ws), WEFT_WS_ABNORMAL);
    weft_event_set(&may_receive);
}

static weft_value recv_value(void *arg)
{
    weft_ws_message m;
    other_result = weft_ws_recv(ws, &m);
    return 0;
}

TEST(a_failed_send_ends_the_receiver)
{
    static char data[1 << 20];
    reopen(receive_late, (weft_ws_options){.has_no_deflate = true},
           (weft_ws_options){.send_s = 0.01});
    weft_fiber receiver = weft_spin(recv_value, NULL);
    while (weft_ws_send(ws, WEFT_WS_BINARY, data, sizeof data) == 0)
        ;
    ck_assert_int_eq(weft_await(receiver), 0);
    ck_assert_int_eq(other_result, -ETIMEDOUT);
    weft_event_set(&may_receive);
}

/* Fill with bytes that cannot be compressed. */
static void random_bytes(char *data, size_t bytes)
{
    static uint64_t state = 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        data[i] = (char)(state >> 56);
    }
}

/* Sends of all lengths are cancelled at many times. Each message arrives as a whole, or not. */
TEST_LOOP(a_cancelled_send_sends_the_whole_message_or_nothing, 4)
{
    static char data[600000];
    const weft_ws_options limits = {.has_no_deflate = _i % 2 == 0};
    reopen(receive_late, limits, limits);
    size_t sent = 0, bytes = 0, cancelled = 0;
    for (size_t i = 0; i < 40; i++) {
        size_t n = (i * 77773) % sizeof data;
        random_bytes(data, n);
        for (size_t k = 0; k < n; k += 100)
            data[k] = (char)i;
        int rc = 0;
        WEFT_MOVE_ON_AFTER(_i < 2 ? 0.0005 : 0)
            rc = weft_ws_send(ws, WEFT_WS_BINARY, data, n);
        ck_assert_msg(rc == 0 || rc == -ECANCELED, "%d", rc);
        sent += rc == 0;
        bytes += rc == 0 ? n : 0;
        cancelled += rc == -ECANCELED;
    }
    ck_assert_uint_gt(cancelled, 0);
    weft_event_set(&may_receive);
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
    close_all();
    ck_assert_int_eq(echo_server.result, 0);
    ck_assert_uint_eq(echo_server.messages, sent);
    ck_assert_uint_eq(echo_server.bytes, bytes);
}

/* The server sends, and its sends are cancelled while the client does not read. */
static size_t server_sent;
static weft_event server_is_done;

static int send_cancelled(weft_http_request *r, void *ctx)
{
    static char data[300000];
    echo_state *e = ctx;
    weft_ws *peer;
    ck_assert_int_eq(weft_ws_accept(r, &e->options, &peer), 0);
    for (size_t i = 0; i < 60; i++) {
        size_t n = 200000 + i * 1000;
        memset(data, (int)i, n);
        int rc = 0;
        WEFT_MOVE_ON_AFTER(i % 2 == 0 ? 0.0003 : 0)
            rc = weft_ws_send(peer, WEFT_WS_BINARY, data, n);
        ck_assert_msg(rc == 0 || rc == -ECANCELED, "%d", rc);
        server_sent += rc == 0;
        e->messages += rc == -ECANCELED;
    }
    weft_event_set(&server_is_done);
    e->result = weft_ws_close(peer, 1000, NULL);
    weft_ws_free(peer);
    return 0;
}

TEST(a_cancelled_send_of_the_server_sends_the_whole_message_or_nothing)
{
    weft_ws_message m;
    size_t received = 0;
    int rc;
    reopen(send_cancelled, (weft_ws_options){.has_no_deflate = true}, (weft_ws_options){0});
    ck_assert_int_eq(weft_event_wait(&server_is_done), 0);
    while ((rc = weft_ws_recv(ws, &m)) > 0) {
        ck_assert_uint_eq(m.bytes, 200000 + (size_t)m.data[0] * 1000);
        for (size_t i = 0; i < m.bytes; i++)
            if (m.data[i] != m.data[0])
                ck_abort_msg("byte %zu of message %zu is wrong", i, received);
        received++;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_uint_eq(received, server_sent);
    ck_assert_uint_gt(echo_server.messages, 0);
}

/* A peer that sends pings and reads nothing. The server keeps one answer, and then waits. */
TEST(a_flood_of_pings_needs_no_memory_and_ends)
{
    close_all();
    open_server(echo, (weft_ws_options){.send_s = 0.01});
    server_connect(&server, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    static unsigned char frames[1000][131];
    for (size_t i = 0; i < COUNT_OF(frames); i++)
        put_header(frames[i], FIN | PING, 125, true);
    ssize_t n = 1;
    for (int i = 0; i < 1000 && n > 0; i++)
        n = weft_write_all(client.fd, frames, sizeof frames);
    ck_assert_int_lt(n, 0);
    drop_client();
    let_run();
    ck_assert_int_eq(echo_server.result, -ETIMEDOUT);
}

/*
 * Sends of the receiving fiber.
 */

static size_t count_writes(void)
{
    return stats().ops;
}

/* Many messages in one packet. The server answers them together. */
TEST(answers_to_messages_that_arrive_together_leave_together)
{
    enum { COUNT = 100 };
    unsigned char frames[COUNT][7];
    close_all();
    open_server(echo, (weft_ws_options){0});
    server_connect(&server, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    for (size_t i = 0; i < COUNT; i++) {
        put_header(frames[i], FIN | BINARY, 1, true);
        frames[i][6] = (unsigned char)i;
    }
    size_t before = count_writes();
    raw_write(frames, sizeof frames);
    unsigned char answers[COUNT][3];
    ck_assert(raw_read(answers, sizeof answers));
    ck_assert_uint_lt(count_writes() - before, 20);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_uint_eq(answers[i][2], (unsigned char)i ^ 0x12);
    drop_client();
}

/* The handler answers the first of two messages, and then does something else. */
static int answer_and_sleep(weft_http_request *r, void *ctx)
{
    weft_ws *peer;
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_accept(r, NULL, &peer), 0);
    ck_assert_int_eq(weft_ws_recv(peer, &m), 1);
    ck_assert_int_eq(weft_ws_send(peer, WEFT_WS_TEXT, "first", 5), 0);
    (void)weft_event_wait(&may_receive);
    ck_assert_int_eq(weft_ws_recv(peer, &m), 1);
    weft_ws_free(peer);
    return 0;
}

TEST(an_answer_does_not_wait_for_the_next_receive)
{
    close_all();
    open_server(answer_and_sleep, (weft_ws_options){0});
    server_connect(&server, &client);
    client_send(&client, WS_REQUEST "\r\n");
    ck_assert_int_eq(status_of(raw_read_head()), 101);
    raw_send_hex("82 80 00000000 82 80 00000000");
    expect_text("first");
    weft_event_set(&may_receive);
    expect_close(1001);
    raw_send_close(1001, "");
    raw_expect_end();
    drop_client();
}

/* Another fiber pushes messages to a client whose handler only receives. */
static weft_value push(void *arg)
{
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(weft_ws_printf(arg, "event %d", i), 0);
        if (i % 7 == 0)
            weft_sleep(0.0001);
    }
    return 0;
}

static int push_handler(weft_http_request *r, void *ctx)
{
    weft_ws *peer;
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_accept(r, NULL, &peer), 0);
    weft_fiber pusher = weft_spin(push, peer);
    int rc = weft_ws_recv(peer, &m);
    ck_assert_int_eq(weft_await(pusher), 0);
    weft_ws_free(peer);
    return rc;
}

TEST(a_server_pushes_messages_while_it_waits_for_input)
{
    reopen(push_handler, (weft_ws_options){0}, (weft_ws_options){0});
    for (int i = 0; i < 50; i++) {
        const char *text = format("event %d", i);
        expect_message(WEFT_WS_TEXT, text, strlen(text));
    }
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
}

/*
 * Many connections.
 */

TEST(the_drain_closes_all_clients_and_none_is_lost)
{
    enum { CLIENTS = 20 };
    weft_ws *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_int_eq(weft_ws_connect(NULL, server_url(), NULL, &clients[i]), 0);
        ck_assert_int_eq(weft_ws_printf(clients[i], "client %d", i), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        weft_ws_message m;
        ck_assert_int_eq(weft_ws_recv(clients[i], &m), 1);
        ck_assert_str_eq(m.data, format("client %d", i));
    }
    weft_cancel(server.fiber);
    for (int i = 0; i < CLIENTS; i++) {
        weft_ws_message m;
        ck_assert_int_eq(weft_ws_recv(clients[i], &m), 0);
        ck_assert_int_eq(weft_ws_close_code(clients[i]), 1001);
        weft_ws_free(clients[i]);
    }
    weft_ws_free(ws);
    ws = NULL;
    (void)weft_await(server.fiber);
    ck_assert_int_eq(server.result, -ECANCELED);
    weft_close(server.listener);
    server.fiber = 0;
}
