/*
 * WebSocket under cancellation: fibers of several connections send, receive, ping and close, and
 * are cancelled at random times. Each message that arrives is whole. Messages of one sender arrive
 * in order, and none is lost that was sent. Servers and clients run in one thread or in two.
 */
#include "support/random.h"
#include "support/suite.h"
#include "ws/ws_support.h"

enum { CLIENTS = 6, SENDERS = 3, MESSAGES = 60 };

/* A message: its sender, its number, and a pattern that depends on both. */
static size_t storm_bytes(unsigned sender, unsigned number)
{
    unsigned h = sender * 7919 + number * 104729;
    return h % 11 == 0 ? 40000 + h % 30000 : h % 5 == 0 ? 2000 + h % 9000 : 8 + h % 300;
}

static void storm_fill(char *data, size_t bytes, unsigned sender, unsigned number)
{
    int n = snprintf(data, 8, "%u,%u;", sender, number);
    memset(data + n, 'a' + (int)((sender + number) % 26), bytes - (size_t)n);
}

/* Check a message. Returns its number, and sets *sender. */
static unsigned storm_check(const weft_ws_message *m, unsigned *sender)
{
    static _Thread_local char expected[70100];
    unsigned number;
    ck_assert_int_eq(sscanf(m->data, "%u,%u;", sender, &number), 2);
    ck_assert_uint_eq(m->bytes, storm_bytes(*sender, number));
    storm_fill(expected, m->bytes, *sender, number);
    ck_assert_int_eq(memcmp(m->data, expected, m->bytes), 0);
    return number;
}

/* Receive with cancellations at random times. */
static int recv_stormy(weft_ws *ws, weft_ws_message *m)
{
    for (;;) {
        int rc = 0;
        WEFT_MOVE_ON_AFTER(random_below(4) == 0 ? random_below(300) * 1e-6 : INFINITY)
            rc = weft_ws_recv(ws, m);
        if (rc != -ECANCELED)
            return rc;
    }
}

/* Send with cancellations at random times, until the message is sent. */
static int send_stormy(weft_ws *ws, const char *data, size_t bytes)
{
    for (;;) {
        int rc = 0;
        WEFT_MOVE_ON_AFTER(random_below(3) == 0 ? random_below(200) * 1e-6 : INFINITY)
            rc = weft_ws_send(ws, WEFT_WS_TEXT, data, bytes);
        if (rc != -ECANCELED)
            return rc;
        weft_snooze();
    }
}

static int storm_handler(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    weft_ws_message m;
    int rc = weft_ws_accept(r, ctx, &ws);
    while (rc >= 0 && (rc = recv_stormy(ws, &m)) > 0) {
        char *copy = malloc(m.bytes);
        memcpy(copy, m.data, m.bytes);
        rc = send_stormy(ws, copy, m.bytes);
        free(copy);
    }
    ck_assert_int_eq(rc, 0);
    weft_ws_free(ws);
    return rc;
}

typedef struct storm_sender {
    weft_ws *ws;
    unsigned id;
} storm_sender;

static weft_value storm_send(void *arg)
{
    const storm_sender *s = arg;
    char *data = malloc(70100);
    for (unsigned i = 0; i < MESSAGES; i++) {
        size_t bytes = storm_bytes(s->id, i);
        storm_fill(data, bytes, s->id, i);
        ck_assert_int_eq(send_stormy(s->ws, data, bytes), 0);
    }
    free(data);
    return 0;
}

/* Connect, let several fibers send, and receive all answers. */
static weft_value storm_client(void *arg)
{
    const char *url = arg;
    weft_ws *ws;
    weft_ws_message m;
    storm_sender senders[SENDERS];
    weft_fiber fibers[SENDERS];
    unsigned next[SENDERS] = {0}, sender;
    ck_assert_int_eq(weft_ws_connect(NULL, url, NULL, &ws), 0);
    for (unsigned i = 0; i < SENDERS; i++) {
        senders[i] = (storm_sender){ws, i};
        fibers[i] = weft_spin(storm_send, &senders[i]);
    }
    for (int i = 0; i < SENDERS * MESSAGES; i++) {
        ck_assert_int_eq(recv_stormy(ws, &m), 1);
        unsigned number = storm_check(&m, &sender);
        ck_assert_uint_eq(number, next[sender]++);
    }
    for (unsigned i = 0; i < SENDERS; i++)
        ck_assert_int_eq(weft_await(fibers[i]), 0);
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
    weft_ws_free(ws);
    return 0;
}

static void run_clients(const char *url)
{
    weft_fiber clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = weft_spin(storm_client, (void *)(uintptr_t)url);
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(weft_await(clients[i]), 0);
}

static const weft_ws_options plain_options = {.has_no_deflate = true};

TEST_LOOP(messages_survive_a_storm_of_cancellations, 2)
{
    test_server server;
    weft_ws_options options = _i == 0 ? plain_options : (weft_ws_options){0};
    server_open(&server, storm_handler, &options, NULL);
    run_clients(format("ws://127.0.0.1:%d/", server_port(&server)));
    ck_assert_int_eq(server_close(&server), -ECANCELED);
    assert_nothing_pending();
}

static weft_value clients_of_cord(void *arg)
{
    run_clients(arg);
    return 0;
}

TEST(clients_of_another_thread_survive_a_storm)
{
    test_server server;
    weft_ws_options options = {0};
    server_open(&server, storm_handler, &options, NULL);
    const char *url = format("ws://127.0.0.1:%d/", server_port(&server));
    weft_cord cords[2];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = weft_cord_start(clients_of_cord, (void *)(uintptr_t)url, NULL);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    ck_assert_int_eq(server_close(&server), -ECANCELED);
}
