/*
 * Tests of upgraded connections that need no fiber while they are silent. The protocol of the tests
 * echoes lines. The line "end" closes the connection.
 */
#include "http/rest/rest_support.h"

#define UPGRADE "GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n"

/* A connection of the protocol. */
typedef struct echo {
    weft__upgraded upgraded;
    double rest_s;     /* result of run */
    int runs;          /* calls of run */
    int reason;        /* of the last call */
    int closed;        /* calls of closed */
    int adopted;       /* result of weft__upgraded_adopt */
    bool fails_to_end; /* run does not end the connection when the server drains */
} echo;

static echo own;

static double echo_run(weft__upgraded *u, int reason)
{
    echo *e = (echo *)(void *)u;
    e->runs++;
    e->reason = reason;
    weft_stream *stream = weft__upgraded_enter(u);
    if (stream == NULL)
        return -1;
    double rest_s = e->rest_s;
    const void *data;
    if (reason == -ESHUTDOWN)
        (void)weft_stream_puts(stream, "goodbye\n");
    bool is_first = e->runs == 1;
    while (reason == 0 && (!is_first || weft_stream_peek(stream, 0, &data) > 0)) {
        char *line = NULL;
        int rc = weft_stream_line(stream, &line, NULL);
        if (rc <= 0 || strcmp(line, "end") == 0) {
            rest_s = -1;
            break;
        }
        (void)weft_stream_printf(stream, "echo %s\n", line);
        is_first = true; /* further lines only if they have arrived */
    }
    if (rest_s >= 0) /* a flush waits for other writers */
        (void)weft_stream_flush(stream);
    weft__upgraded_leave(u);
    return reason == -ESHUTDOWN && !e->fails_to_end ? -1 : rest_s;
}

static void echo_closed(weft__upgraded *u)
{
    ((echo *)(void *)u)->closed++;
    mark("closed");
}

static const weft__upgraded_type echo_type = {echo_run, echo_closed};

static int serve_echo(weft_http_request *r, void *ctx)
{
    weft_stream *stream;
    int rc = weft_http_upgrade(r, "echo", &stream);
    if (rc < 0)
        return rc;
    own.adopted = weft__upgraded_adopt(&own.upgraded, &echo_type, r);
    if (own.adopted < 0)
        (void)weft_stream_puts(stream, "in the handler\n");
    return 0;
}

static void open_echo(double rest_s, double drain_s)
{
    own = (echo){.rest_s = rest_s};
    open_server(serve_echo, &(weft_http_options){.drain_s = drain_s});
}

/* Receive a line. */
static void expect_line(const char *line)
{
    client_expect(&client, line);
    acknowledge(client.fd);
    client.received_bytes = 0;
    client.received[0] = '\0';
}

static void connect_echo(void)
{
    server_connect(&s, &client);
    client_send(&client, UPGRADE);
    expect_line("101 Switching Protocols\r\n");
}

/* Wait until the protocol has released the connection. */
static void await_closed(void)
{
    while (own.closed == 0)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    let_run();
    ck_assert_int_eq(own.closed, 1);
}

TEST(an_upgraded_connection_rests_and_continues_with_input)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    for (int i = 0; i < 3; i++) {
        client_send(&client, "a\nb\n");
        expect_line("echo b\n");
        await_rest();
    }
    ck_assert_int_eq(own.runs, 4);
    client_send(&client, "end\n");
    expect_end(&client);
    await_closed();
}

TEST(input_behind_the_request_belongs_to_the_new_protocol)
{
    open_echo(INFINITY, 0);
    server_connect(&s, &client);
    client_send(&client, UPGRADE "first\n");
    expect_line("echo first\n");
    await_rest();
    client_send(&client, "second\n");
    expect_line("echo second\n");
    hang_up(&client);
    await_closed();
}

TEST(a_connection_wakes_after_the_time_that_run_returned)
{
    open_echo(4 * REST_S, 0);
    connect_echo();
    await_rest();
    while (own.reason != -ETIMEDOUT || own.runs < 3)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    client_send(&client, "x\n");
    expect_line("echo x\n");
    own.rest_s = 0; /* the next call follows at once */
    int runs = own.runs;
    client_send(&client, "y\n");
    expect_line("echo y\n");
    while (own.runs < runs + 5)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    own.rest_s = -1;
    expect_end(&client);
    await_closed();
}

TEST(a_peer_that_leaves_ends_the_connection)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    hang_up(&client);
    await_closed();
    await_rest();
}

static weft_value say(void *arg)
{
    weft_stream *stream = weft__upgraded_enter(&own.upgraded);
    if (stream == NULL)
        return -EBADF;
    ssize_t n = weft_stream_printf(stream, "said %s\n", (char *)arg);
    if (n >= 0)
        n = weft_stream_flush(stream);
    weft__upgraded_leave(&own.upgraded);
    return n;
}

TEST(other_fibers_write_to_a_connection_at_rest)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    for (int i = 0; i < 3; i++) {
        weft_fiber two[2] = {weft_spin(say, "a"), weft_spin(say, "b")};
        await_each_as(two, 2, 0);
        client_expect(&client, "said a\n");
        expect_line("said b\n");
        ck_assert_uint_eq(stats().fibers, 1); /* the connection has not been woken */
    }
    client_send(&client, "x\n");
    expect_line("echo x\n");
    hang_up(&client);
    await_closed();
}

/* Write until the client closes or the stream fails. */
static weft_value say_much(void *arg)
{
    static char data[64 << 10];
    weft_stream *stream = weft__upgraded_enter(&own.upgraded);
    ssize_t n = 1;
    while (n > 0)
        n = weft_stream_write(stream, data, sizeof data);
    mark("written ");
    weft__upgraded_leave(&own.upgraded);
    return 0;
}

TEST(a_connection_that_ends_waits_for_its_writers)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    weft_fiber writer = spin_waiting(say_much, NULL);
    client_send(&client, "end\n");
    ck_assert_int_eq(weft_await(writer), 0);
    await_closed();
    ck_assert_trail("written closed");
    hang_up(&client);
}

/* Use the connection across a wait, and write afterwards. */
static weft_value hold(void *arg)
{
    weft_stream *stream = weft__upgraded_enter(&own.upgraded);
    weft_suspend();
    ssize_t n = weft_stream_puts(stream, "late\n");
    ck_assert_int_eq(own.closed, 0);
    weft__upgraded_leave(&own.upgraded);
    return n;
}

TEST(a_connection_that_ends_exists_until_its_last_user_has_left)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    weft_fiber user = spin_waiting(hold, NULL);
    client_send(&client, "end\n");
    expect_end(&client);
    await_fibers(1);
    ck_assert_int_eq(own.closed, 0);
    ck_assert_ptr_null(weft__upgraded_enter(&own.upgraded));
    ck_assert_int_eq(weft_schedule(user, 0), 0);
    ck_assert_int_eq(weft_await(user), -EBADF);
    ck_assert_int_eq(own.closed, 1);
}

/* Leave output in the buffer of a stream. */
static weft_value say_unflushed(void *arg)
{
    weft_stream *stream = weft__upgraded_enter(&own.upgraded);
    ssize_t n = weft_stream_puts(stream, "unflushed\n");
    weft__upgraded_leave(&own.upgraded);
    return n < 0 ? (weft_value)n : 0;
}

/* Fill the socket of the connection at rest. Returns the number of bytes. */
static size_t fill_socket(void)
{
    static const char data[64 << 10];
    size_t bytes = 0;
    ssize_t n;
    while ((n = send(own.upgraded.rest->fd, data, sizeof data, MSG_DONTWAIT)) > 0)
        bytes += (size_t)n;
    return bytes;
}

TEST(a_leave_with_output_does_not_close_the_stream_of_others)
{
    static char received[64 << 10];
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    size_t left = fill_socket();
    weft_fiber first = spin_waiting(say_unflushed, NULL);
    weft_fiber other = spin_waiting(hold, NULL);
    while (left > 0) {
        ssize_t n = weft_read(client.fd, received, left < sizeof received ? left : sizeof received);
        ck_assert_int_gt(n, 0);
        left -= (size_t)n;
    }
    ck_assert_int_eq(weft_await(first), 0);
    ck_assert_int_eq(weft_schedule(other, 0), 0);
    ck_assert_int_gt(weft_await(other), 0);
    client_expect(&client, "unflushed\nlate\n");
    hang_up(&client);
    await_closed();
}

TEST(a_connection_whose_peer_does_not_read_keeps_its_fiber)
{
    open_echo(INFINITY, 0);
    client.fd = socket_for(&s.address);
    int bytes = 4096;
    ck_assert_int_eq(setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), 0);
    ck_assert_int_eq(weft_connect(client.fd, &s.address.u.any, s.address.bytes), 0);
    client.received_bytes = 0;
    client_send(&client, UPGRADE);
    expect_line("101 Switching Protocols\r\n");
    await_rest();
    weft_stream *stream = weft__upgraded_enter(&own.upgraded);
    static char data[200 << 10];
    ck_assert_int_eq(weft_stream_write(stream, data, sizeof data), sizeof data);
    ck_assert_int_eq(weft_stream_flush(stream), 0);
    weft__upgraded_leave(&own.upgraded);
    client_send(&client, "x\n");
    while (own.runs < 2)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    weft_sleep(5 * REST_S);
    ck_assert_uint_eq(stats().fibers, 2);
    hang_up(&client);
    await_closed();
}

TEST(a_connection_with_a_writer_does_not_lose_input)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    weft_fiber writer = spin_waiting(say_much, NULL);
    client_send(&client, "x\n");
    while (own.runs < 2)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    hang_up(&client);
    ck_assert_int_eq(weft_await(writer), 0);
    await_closed();
}

TEST(a_connection_can_be_woken)
{
    open_echo(INFINITY, 0);
    connect_echo();
    await_rest();
    for (int i = 0; i < 3; i++) {
        int runs = own.runs;
        weft__upgraded_wake(&own.upgraded, -EINTR);
        while (own.runs == runs)
            ck_assert_int_eq(weft_sleep(0.001), 0);
        ck_assert_int_eq(own.reason, -EINTR);
        if (i == 0) { /* wakes at rest, and in the fiber */
            await_rest();
            ck_assert_int_eq(own.runs, runs + 1);
        }
    }
    client_send(&client, "end\n");
    expect_end(&client);
    await_closed();
}

TEST(a_draining_server_lets_the_protocol_say_goodbye)
{
    open_echo(INFINITY, INFINITY);
    connect_echo();
    await_rest();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    expect_line("goodbye\n");
    expect_end(&client);
    await_closed();
    ck_assert_int_eq(own.reason, -ESHUTDOWN);
    end_server();
}

TEST(a_draining_server_also_wakes_a_connection_that_does_not_rest_yet)
{
    weft__rest_after_s = 1000;
    open_echo(INFINITY, INFINITY);
    own.fails_to_end = true;
    connect_echo();
    let_run();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    expect_line("goodbye\n");
    expect_end(&client);
    await_closed();
    end_server();
}

TEST(a_server_without_drain_time_releases_the_connection)
{
    open_echo(INFINITY, 1e-9);
    connect_echo();
    await_rest();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    ck_assert_int_eq(own.closed, 1);
    hang_up(&client);
}

TEST(a_server_without_drain_time_waits_for_the_writers_of_a_connection_at_rest)
{
    open_echo(INFINITY, 1e-9);
    connect_echo();
    await_rest();
    weft_fiber writer = spin_waiting(say_much, NULL);
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    ck_assert_int_eq(weft_await(writer), 0);
    ck_assert_trail("written closed");
    ck_assert_int_eq(own.closed, 1);
    hang_up(&client);
}

static size_t released; /* connections of serve_echo_many */

static void echo_free(weft__upgraded *u)
{
    released++;
    free(u);
}

static const weft__upgraded_type many_type = {echo_run, echo_free};

static int serve_echo_many(weft_http_request *r, void *ctx)
{
    weft_stream *stream;
    echo *e = calloc(1, sizeof *e);
    e->rest_s = INFINITY;
    int rc = weft_http_upgrade(r, "echo", &stream);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(weft__upgraded_adopt(&e->upgraded, &many_type, r), 0);
    return 0;
}

/* More connections than weft creates fibers at a time. Some have no fiber when the server ends. */
TEST_LOOP(a_server_that_ends_releases_all_connections, 2)
{
    static int fd[200];
    open_server(serve_echo_many, &(weft_http_options){.drain_s = _i == 0 ? 1e-9 : INFINITY});
    for (size_t i = 0; i < COUNT_OF(fd); i++) {
        server_connect(&s, &client);
        client_send(&client, UPGRADE);
        expect_line("101 Switching Protocols\r\n");
        fd[i] = client.fd;
    }
    await_rest();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    ck_assert_uint_eq(released, COUNT_OF(fd));
    for (size_t i = 0; i < COUNT_OF(fd); i++)
        ck_assert_int_eq(weft_close(fd[i]), 0);
}

TEST(an_upgraded_connection_counts_in_the_limits)
{
    test_client other;
    own = (echo){.rest_s = INFINITY};
    open_server(serve_echo, &(weft_http_options){.limits = {.connections_max = 1}});
    connect_echo();
    await_rest();
    server_connect(&s, &other);
    ck_assert_int_eq(status_of(client_receive_all(&other)), 503);
    hang_up(&other);
    hang_up(&client);
    await_closed();
}

TEST(a_connection_of_weft_http_serve_conn_cannot_be_adopted)
{
    client_open(&client, serve_echo, NULL, NULL);
    client_send(&client, UPGRADE);
    client_expect(&client, "in the handler\n");
    ck_assert_int_eq(own.adopted, -EOPNOTSUPP);
    client_close(&client);
}

#ifdef WEFT_HAS_TLS
TEST(an_upgraded_connection_over_tls_rests_and_other_fibers_write_to_it)
{
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.verify = WEFT_TLS_VERIFY_NONE});
    weft_stream stream;
    own = (echo){.rest_s = INFINITY};
    open_tls_server(serve_echo, (weft_http_options){.drain_s = INFINITY});
    int fd = socket_for(&s.address);
    ck_assert_int_eq(weft_connect(fd, &s.address.u.any, s.address.bytes), 0);
    ck_assert_good(weft_tls_connect(&stream, fd, tls, "localhost"));
    ck_assert_good(weft_stream_puts(&stream, UPGRADE "first\n"));
    ck_assert_good(weft_stream_flush(&stream));
    char *line = NULL;
    do {
        ck_assert_int_eq(weft_stream_line(&stream, &line, NULL), 1);
    } while (strcmp(line, "echo first") != 0);
    acknowledge(fd);
    await_rest();
    ck_assert_int_eq(weft_await(weft_spin(say, "a")), 0);
    ck_assert_line(&stream, "said a");
    ck_assert_uint_eq(stats().fibers, 1);
    ck_assert_good(weft_stream_puts(&stream, "x\n"));
    ck_assert_good(weft_stream_flush(&stream));
    ck_assert_line(&stream, "echo x");
    acknowledge(fd);
    await_rest();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    ck_assert_line(&stream, "goodbye");
    char byte;
    ck_assert_int_eq(weft_stream_read(&stream, &byte, 1), 0);
    (void)weft_stream_close(&stream);
    weft_tls_free(tls);
    await_closed();
    end_server();
}
#endif
