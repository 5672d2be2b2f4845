/* Tests of silent connections of HTTP/1: their fiber ends, and the next byte starts another one. */
#include "http/rest/rest_support.h"

#include <sys/resource.h>

TEST(a_silent_connection_has_no_fiber_and_the_next_request_gets_its_reply)
{
    open_server(serve_count, NULL);
    server_connect(&s, &client);
    for (size_t i = 1; i <= 5; i++) {
        ask(&client, i);
        await_rest();
    }
    ck_assert_uint_eq(served, 5);
    hang_up(&client);
}

TEST(pipelined_requests_wake_a_connection_and_get_their_replies)
{
    open_server(serve_count, NULL);
    connect_and_rest(&client);
    client_send(&client, GET GET GET);
    client_expect(&client, "reply 4\n");
    ck_assert_has(client.received, "reply 2\n", "reply 3\n");
    acknowledge(client.fd);
    await_rest();
    ask(&client, 5);
    hang_up(&client);
}

TEST(a_request_that_arrives_byte_by_byte_gets_its_reply)
{
    open_server(serve_count, NULL);
    connect_and_rest(&client);
    for (const char *byte = GET; *byte != '\0'; byte++) {
        client_send_bytes(&client, byte, 1);
        let_run();
    }
    client_expect(&client, "reply 2\n");
    hang_up(&client);
}

TEST(a_malformed_request_after_a_rest_is_refused)
{
    open_server(serve_count, NULL);
    connect_and_rest(&client);
    client.received_bytes = 0;
    client_send(&client, "nonsense\r\n\r\n");
    expect_status(400);
    hang_up(&client);
}

TEST(the_limit_of_requests_counts_those_before_the_rest)
{
    open_server(serve_count, &(weft_http_options){.limits = {.requests_max = 3}});
    connect_and_rest(&client);
    ask(&client, 2);
    await_rest();
    client.received_bytes = 0;
    client_send(&client, GET);
    ck_assert_has(client_receive_all(&client), "\r\nConnection: close\r\n", "reply 3\n");
    hang_up(&client);
}

TEST(a_peer_that_leaves_during_the_rest_frees_its_place)
{
    open_server(serve_count, &(weft_http_options){.limits = {.connections_max = 1}});
    for (int i = 0; i < 3; i++) {
        do { /* until the server has noticed the end of the last connection */
            server_connect(&s, &client);
            client_send(&client, GET);
            client_receive_some(&client);
            if (status_of(client.received) == 503)
                hang_up(&client);
        } while (client.fd == 0);
        acknowledge(client.fd);
        await_rest();
        if (i == 1) /* a reset */
            setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0},
                       sizeof(struct linger));
        hang_up(&client);
    }
    await_rest();
}

TEST(a_connection_at_rest_counts_in_the_limits_of_connections)
{
    static const struct {
        weft_http_limits limits;
        int status;
    } rows[] = {{{.connections_max = 1}, 503}, {{.connections_per_peer_max = 1}, 429}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_client other;
        open_server(serve_count, &(weft_http_options){.limits = rows[i].limits});
        connect_and_rest(&client);
        server_connect(&s, &other);
        ck_assert_int_eq(status_of(client_receive_all(&other)), rows[i].status);
        hang_up(&other);
        ask(&client, served + 1);
        hang_up(&client);
        ck_assert_int_eq(server_close(&s), -ECANCELED);
    }
}

TEST(a_connection_at_rest_is_closed_after_the_idle_time)
{
    open_server(serve_count, &(weft_http_options){.limits = {.idle_s = 5 * REST_S}});
    server_connect(&s, &client);
    double begin_s = weft_now();
    ask(&client, 1);
    await_rest();
    expect_end(&client);
    ck_assert_slept(begin_s, 5 * REST_S);
    await_rest();
}

TEST(a_connection_that_never_sends_a_byte_rests_and_is_closed_in_time)
{
    open_server(serve_count, &(weft_http_options){.limits = {.first_byte_s = 5 * REST_S}});
    server_connect(&s, &client);
    while (stats().fibers < 2)
        weft_sleep(0.001);
    await_rest();
    expect_end(&client);
    await_rest();
}

TEST(the_first_request_may_arrive_after_a_rest)
{
    open_server(serve_count, NULL);
    server_connect(&s, &client);
    while (stats().fibers < 2)
        weft_sleep(0.001);
    await_rest();
    ask(&client, 1);
    hang_up(&client);
}

TEST(a_short_idle_time_ends_a_connection_without_a_rest)
{
    open_server(serve_count, &(weft_http_options){.limits = {.idle_s = REST_S / 2}});
    server_connect(&s, &client);
    ask(&client, 1);
    expect_end(&client);
}

TEST(a_draining_server_closes_connections_at_rest)
{
    static test_client all[200];
    open_server(serve_count, &(weft_http_options){.drain_s = INFINITY});
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        server_connect(&s, &all[i]);
        ask(&all[i], i + 1);
    }
    await_rest();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    for (size_t i = 0; i < COUNT_OF(all); i++)
        expect_end(&all[i]);
}

TEST(a_request_that_arrived_before_the_drain_gets_its_reply)
{
    open_server(serve_count, &(weft_http_options){.drain_s = INFINITY});
    connect_and_rest(&client);
    client.received_bytes = 0;
    client_send(&client, GET);
    while (stats().fibers < 2) /* until its fiber exists */
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    client_receive_all(&client);
    ck_assert_has(client.received, "reply 2\n");
    hang_up(&client);
    end_server();
}

TEST(a_server_without_drain_time_closes_connections_at_rest)
{
    open_server(serve_count, &(weft_http_options){.drain_s = 1e-9});
    connect_and_rest(&client);
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    expect_end(&client);
}

static size_t logged;
static char last_peer[64];

static void log_record(const weft_http_record *record, void *ctx)
{
    logged++;
    snprintf(last_peer, sizeof last_peer, "%s %d", record->peer, record->status);
}

TEST(requests_after_a_rest_are_logged)
{
    open_server(serve_count, &(weft_http_options){.log = log_record});
    connect_and_rest(&client);
    ask(&client, 2);
    await_rest();
    ck_assert_uint_eq(logged, 2);
    ck_assert_str_eq(last_peer, "127.0.0.1 200");
    hang_up(&client);
    await_rest();
    ck_assert_uint_eq(logged, 2); /* a connection without a request is not logged */
}

TEST(connections_that_reuse_a_number_are_served)
{
    open_server(serve_count, NULL);
    for (size_t i = 0; i < 20; i++) {
        connect_and_rest(&client);
        if (i % 2 == 0)
            ask(&client, served + 1);
        hang_up(&client);
        while (count_descriptors() > descriptors + 1) /* the listener */
            ck_assert_int_eq(weft_sleep(0.001), 0);
    }
}

static char large[256 << 10];

static int serve_large(weft_http_request *r, void *ctx)
{
    served++;
    return weft_http_reply(r, 200, "text/plain", large, sizeof large);
}

TEST(a_peer_that_has_not_acknowledged_its_reply_keeps_its_fiber)
{
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '.';
    open_server(serve_large, &(weft_http_options){.limits = {.slow_s = 1.0}});
    client.fd = socket_for(&s.address);
    int bytes = 4096;
    ck_assert_int_eq(setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    ck_assert_int_eq(weft_connect(client.fd, &s.address.u.any, s.address.bytes), 0);
    client_send(&client, GET);
    while (served == 0)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    weft_sleep(5 * REST_S);
    ck_assert_uint_eq(stats().fibers, 2);
    char data[4096] = "";
    for (ssize_t n = 1; n > 0 && data[n - 1] != '.';) {
        n = weft_read(client.fd, data, sizeof data);
        ck_assert_int_gt(n, 0);
    }
    acknowledge(client.fd);
    await_rest(); /* after slow_s */
    hang_up(&client);
}

TEST(without_a_descriptor_for_the_watch_a_connection_keeps_its_fiber)
{
    struct rlimit limit;
    weft__rest_after_s = 1000; /* no rest before the limit */
    open_server(serve_count, NULL);
    server_connect(&s, &client);
    ask(&client, 1);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max}), 0);
    weft__rest_after_s = REST_S;
    ask(&client, 2);
    weft_sleep(5 * REST_S);
    ck_assert_uint_eq(stats().fibers, 2);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ask(&client, 3);
    await_rest();
    hang_up(&client);
}

TEST(weft_http_serve_conn_keeps_its_fiber)
{
    client_open(&client, serve_count, NULL, NULL);
    ask(&client, 1);
    weft_sleep(5 * REST_S);
    ck_assert_int_eq(weft_state_of(client.fiber), WEFT_WAITING);
    ask(&client, 2);
    ck_assert_int_eq(client_close(&client), 0);
}

#ifdef WEFT_HAS_TLS
/* A client over TLS. */
typedef struct tls_client {
    weft_tls *tls;
    weft_stream stream;
    int fd;
} tls_client;

static void connect_tls(tls_client *c)
{
    int fd = c->fd = socket_for(&s.address);
    c->tls = weft_tls_client_new(&(weft_tls_options){.verify = WEFT_TLS_VERIFY_NONE});
    ck_assert_int_eq(weft_connect(fd, &s.address.u.any, s.address.bytes), 0);
    ck_assert_good(weft_tls_connect(&c->stream, fd, c->tls, "localhost"));
}

static void ask_tls(tls_client *c, size_t number)
{
    char *line = NULL;
    const char *expected = format("reply %zu", number);
    ck_assert_good(weft_stream_puts(&c->stream, GET));
    do {
        ck_assert_int_eq(weft_stream_line(&c->stream, &line, NULL), 1);
    } while (strcmp(line, expected) != 0);
    acknowledge(c->fd);
}

static void close_tls(tls_client *c)
{
    (void)weft_stream_close(&c->stream);
    weft_tls_free(c->tls);
}

TEST(a_connection_over_tls_rests_and_continues)
{
    tls_client c;
    open_tls_server(serve_count, (weft_http_options){0});
    connect_tls(&c);
    for (size_t i = 1; i <= 3; i++) {
        ask_tls(&c, i);
        await_rest();
    }
    close_tls(&c);
    await_rest();
}

TEST(a_draining_server_sends_close_notify_to_connections_at_rest)
{
    tls_client c;
    char byte;
    open_tls_server(serve_count, (weft_http_options){.drain_s = INFINITY});
    connect_tls(&c);
    ask_tls(&c, 1);
    await_rest();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    ck_assert_int_eq(weft_stream_read(&c.stream, &byte, 1), 0); /* without close_notify: an error */
    close_tls(&c);
    end_server();
}

TEST(a_connection_over_tls_at_rest_is_closed_after_the_idle_time)
{
    tls_client c;
    char byte;
    open_tls_server(serve_count, (weft_http_options){.limits = {.idle_s = 6 * REST_S}});
    connect_tls(&c);
    ask_tls(&c, 1);
    await_rest();
    ck_assert_int_eq(weft_stream_read(&c.stream, &byte, 1), 0);
    close_tls(&c);
}

TEST(a_server_over_tls_without_drain_time_ends_connections_at_rest)
{
    tls_client c;
    open_tls_server(serve_count, (weft_http_options){.drain_s = 1e-9});
    connect_tls(&c);
    ask_tls(&c, 1);
    await_rest();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    close_tls(&c);
}
#endif

static int serve_hello(weft_http_request *r, void *ctx)
{
    return weft_http_reply(r, 200, "text/plain", "hello", 5);
}

/* Run a server and a client in a cord. */
static weft_value serve_and_rest(void *arg)
{
    test_server own;
    test_client *c = calloc(1, sizeof *c);
    server_open(&own, serve_hello, NULL, NULL);
    for (int i = 0; i < 10; i++) {
        server_connect(&own, c);
        for (int j = 0; j < 2; j++) {
            client_send(c, GET);
            client_receive_some(c);
            acknowledge(c->fd);
            while (stats().fibers > 1)
                weft_sleep(0.001);
        }
        hang_up(c);
    }
    int rc = server_close(&own);
    free(c);
    return rc == -ECANCELED ? 0 : -1;
}

TEST(servers_in_two_threads_have_connections_at_rest)
{
    weft_cord cords[2];
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = weft_cord_start(serve_and_rest, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

#ifdef WEFT_HAS_HTTP2
/* The preface of HTTP/2, and an empty SETTINGS frame. */
TEST(a_connection_that_rested_before_its_first_byte_can_speak_http_2)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    open_server(serve_count, NULL);
    server_connect(&s, &client);
    let_run();
    await_rest();
    client_send_bytes(&client, preface, sizeof preface - 1);
    ck_assert_int_gt(client_receive_some(&client), 9);
    ck_assert_int_eq(client.received[3], 4); /* SETTINGS */
    hang_up(&client);
}
#endif
