/*
 * A server over TCP: connection limits, limits per peer, draining, and clients that reset their
 * connection. The other tests of the server use one connection.
 */
#include "http/http_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#include <netinet/tcp.h>

#define HOST "Host: a\r\n"
#define GET_PATH(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define GET GET_PATH("/")
#define WAIT GET_PATH("/wait")
#define CLOSE "Connection: close\r\n\r\n"

static test_server s;
static test_client a, b, c;
static weft_event release_handlers;
static bool has_timed_out; /* a reply was not read in time */

#define LARGE ((size_t)8 << 20)
static char large[LARGE];

static int send_self(weft_http_request *r)
{
    int fd = weft_open("/proc/self/exe", O_RDONLY, 0);
    ck_assert_int_ge(fd, 0);
    int64_t bytes = lseek(fd, 0, SEEK_END);
    int64_t rc = weft_http_begin(r, 200, bytes);
    if (rc == 0)
        rc = weft_http_send_file(r, fd, 0, (uint64_t)bytes);
    weft_close(fd);
    return rc < 0 ? (int)rc : 0;
}

static int handle_path(weft_http_request *r, void *ctx)
{
    const char *path = weft_http_path(r);
    char *body;
    if (strcmp(path, "/wait") == 0) {
        mark("w");
        int rc = weft_event_wait(&release_handlers);
        mark(rc == 0 ? "g" : rc == -ECANCELED ? "c" : "?");
        return rc < 0 ? rc : weft_http_reply_text(r, 200, "waited");
    }
    if (strcmp(path, "/large") == 0) {
        int rc = weft_http_reply(r, 200, NULL, large, LARGE);
        has_timed_out |= rc == -ETIMEDOUT;
        return rc;
    }
    if (strcmp(path, "/file") == 0)
        return send_self(r);
    ssize_t n = strcmp(path, "/read") == 0 ? weft_http_read_all(r, &body) : 0;
    if (n < 0)
        return (int)n;
    mark("r");
    return weft_http_reply_text(r, 200, "[%s]", path);
}

static weft_tls *server_tls; /* of a TLS server */

static void hang_up(test_client *of)
{
    if (of->fd > 0)
        weft_close(of->fd);
    of->fd = 0;
}

/* Close all clients and the server if they are open. */
static void close_server(void)
{
    hang_up(&a);
    hang_up(&b);
    hang_up(&c);
    if (s.fiber != 0)
        ck_assert_int_eq(server_close(&s), -ECANCELED);
    weft_tls_free(server_tls);
    server_tls = NULL;
    assert_nothing_pending();
}

FIXTURE(NULL, close_server)

static void open_server(const weft_http_options *options)
{
    server_open(&s, handle_path, NULL, options);
}

/* Connect from address 127.0.0.1 + offset, with a receive buffer of room bytes unless 0. */
static void connect_with(test_client *to, unsigned offset, int room)
{
    endpoint own = tcp_endpoint();
    own.u.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + offset);
    *to = (test_client){.fd = socket_for(&s.address)};
    if (room > 0)
        ck_assert_int_eq(setsockopt(to->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    ck_assert_int_eq(bind(to->fd, &own.u.any, own.bytes), 0);
    ck_assert_int_eq(weft_connect(to->fd, &s.address.u.any, s.address.bytes), 0);
}

static void connect_and_send(test_client *to, const char *request)
{
    server_connect(&s, to);
    client_send(to, request);
}

static void get_root(test_client *from)
{
    from->received_bytes = 0;
    from->received[0] = '\0';
    client_send(from, GET);
    client_expect(from, "[/]");
}

/* Assert that the server closes the connection without sending more. */
static void expect_end(test_client *of)
{
    size_t before = of->received_bytes;
    ck_assert_int_eq(client_receive_some(of), 0);
    ck_assert_uint_eq(of->received_bytes, before);
    hang_up(of);
}

/* Read and discard until the end. Return the number of bytes. */
static size_t receive_count(test_client *of)
{
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read(of->fd, of->received, sizeof of->received)) > 0)
        total += (size_t)n;
    hang_up(of);
    return total;
}

/* Connect and send a request until the server has noticed that another connection has ended. */
static void connect_until_accepted(void)
{
    for (;;) {
        server_connect(&s, &c);
        (void)weft_send(c.fd, GET, sizeof GET - 1, MSG_NOSIGNAL);
        while (strstr(c.received, "\r\n\r\n") == NULL && client_receive_some(&c) > 0)
            ;
        hang_up(&c);
        if (strncmp(c.received, "HTTP/1.1 200", 12) == 0)
            return;
    }
}

/* Assert that the third connection of a peer is refused until another connection ends. */
static void assert_third_refused(const weft_http_options *options, int status)
{
    open_server(options);
    server_connect(&s, &a);
    get_root(&a);
    server_connect(&s, &b);
    get_root(&b);
    server_connect(&s, &c);
    ck_assert_int_eq(status_of(client_receive_all(&c)), status);
    ck_assert_has(c.received, "Connection: close", "\r\nDate: ");
    hang_up(&c);
    get_root(&b);
    if (status == 429) { /* another address of this machine is another peer */
        connect_with(&c, 1, 0);
        get_root(&c);
        hang_up(&c);
    }
    hang_up(&a);
    connect_until_accepted();
}

TEST(connections_beyond_the_limit_get_503_and_beyond_the_limit_of_a_peer_429)
{
    assert_third_refused(&(weft_http_options){.limits = {.connections_max = 2}}, 503);
    close_server();
    assert_third_refused(&(weft_http_options){.limits = {.connections_per_peer_max = 2}}, 429);
}

TEST(a_draining_server_closes_idle_connections_and_finishes_requests_in_progress)
{
    open_server(&(weft_http_options){.drain_s = INFINITY});
    server_connect(&s, &a); /* idle after a request */
    get_root(&a);
    server_connect(&s, &b);             /* has sent nothing */
    connect_and_send(&c, WAIT GET GET); /* waits in a handler, with more requests pipelined */
    let_run();
    ck_assert_trail("rw");
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    expect_end(&a);
    expect_end(&b);
    ck_assert_int_ne(weft_state_of(s.fiber), WEFT_DEAD);
    ck_assert_int_eq(weft_event_set(&release_handlers), 0);
    client_receive_all(&c);
    ck_assert_str_eq(body_of(c.received), "waited");
    ck_assert_has(c.received, "\r\nConnection: close\r\n");
    ck_assert_trail("rwg"); /* no handler ran for the pipelined requests */
    hang_up(&c);
    (void)weft_await(s.fiber);
    ck_assert_int_eq(s.result, -ECANCELED);
    close(s.listener);
    s.fiber = 0;
}

TEST(a_settling_server_answers_one_more_request_of_each_connection)
{
    open_server(&(weft_http_options){.drain_s = INFINITY, .settle_s = INFINITY});
    server_connect(&s, &a); /* idle after a request */
    get_root(&a);
    server_connect(&s, &b); /* has sent nothing */
    let_run();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    let_run();
    test_client *clients[] = {&a, &b};
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        get_root(clients[i]);
        ck_assert_has(clients[i]->received, "\r\nConnection: close\r\n");
        expect_end(clients[i]);
    }
    (void)weft_await(s.fiber);
    ck_assert_int_eq(s.result, -ECANCELED);
    close(s.listener);
    s.fiber = 0;
}

#ifdef WEFT_HAS_TLS
/* Open a TLS server. */
static void open_tls_server(weft_http_options *options)
{
    make_local_cert();
    options->tls = server_tls = weft_tls_server_new(
        &(weft_tls_options){.identity = {.cert_pem = local_cert, .key_pem = local_key}});
    ck_assert_ptr_nonnull(server_tls);
    open_server(options);
}

TEST(a_draining_server_does_not_wait_for_handshakes)
{
    weft_http_options o = {.drain_s = INFINITY, .limits = {.head_s = INFINITY}};
    open_tls_server(&o);
    server_connect(&s, &a);
    connect_and_send(&b, "\x16");
    let_run();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    expect_end(&a);
    expect_end(&b);
}

static char logged[256];

static void log_record(const weft_http_record *record, void *ctx)
{
    snprintf(logged, sizeof logged, "%s %s %d %s", record->method, record->target, record->status,
             record->reason);
}

static void assert_refused_without_tls(const char *request, const char *line)
{
    connect_and_send(&a, request);
    ck_assert_int_eq(status_of(client_receive_all(&a)), 400);
    ck_assert_has(a.received, "\r\nContent-Type: text/plain; charset=utf-8\r\n",
                  "\r\nConnection: close\r\n", "https://");
    hang_up(&a);
    ck_assert_str_eq(logged, line);
}

TEST(plain_http_on_a_tls_port_is_400)
{
    weft_http_options o = {.log = log_record};
    open_tls_server(&o);
    EACH_PAIR(assert_refused_without_tls,
              "GET /a HTTP/1.1\r\n" HOST "\r\n -> GET /a 400 plain HTTP on a TLS port",
              "PURGE /a HTTP/1.0\r\n\r\n -> PURGE /a 400 plain HTTP on a TLS port",
              "foo /a HTTP/1.1\r\n -> foo /a 400 plain HTTP on a TLS port");
    ck_assert_trail(""); /* no handler ran */
}

/* Perform a handshake and one request from 127.0.0.1 + offset. Return 0, or an error. */
static int request_over_tls(unsigned offset)
{
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.verify = WEFT_TLS_VERIFY_NONE});
    weft_stream stream;
    char line[64];
    connect_with(&a, offset, 0);
    int rc = weft_tls_connect(&stream, a.fd, tls, "localhost");
    if (rc == 0) {
        ck_assert_int_gt(weft_stream_puts(&stream, GET), 0);
        ck_assert_int_gt(weft_stream_gets(&stream, line, sizeof line), 0);
        ck_assert_int_eq(strncmp(line, "HTTP/1.1 200", 12), 0);
        (void)weft_stream_close(&stream);
    }
    weft_tls_free(tls);
    return rc;
}

TEST(too_many_handshakes_of_a_peer_are_closed_and_other_peers_are_served)
{
    weft_http_options o = {.limits = {.handshakes_per_peer_s_max = 1e-4}};
    open_tls_server(&o);
    ck_assert_int_eq(request_over_tls(0), 0);
    for (int i = 0; i < 3; i++) /* the rate allows the next handshake after hours */
        ck_assert_int_lt(request_over_tls(0), 0);
    ck_assert_int_eq(request_over_tls(1), 0);
}

TEST(handshakes_beyond_the_burst_of_a_peer_wait)
{
    weft_http_options o = {.limits = {.handshakes_per_peer_s_max = 20}};
    open_tls_server(&o);
    for (int i = 0; i < 22; i++) /* the last 2 exceed the burst and wait */
        ck_assert_int_eq(request_over_tls(0), 0);
}
#endif

TEST(requests_that_exceed_the_drain_time_are_cancelled)
{
    open_server(&(weft_http_options){.drain_s = 0.02});
    connect_and_send(&a, WAIT);
    connect_and_send(&b, "GET / HT");
    connect_and_send(&c, GET_PATH("/large"));
    let_run();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    ck_assert_uint_eq(count_in(trail, "c"), 1);
}

static weft_value serve_at_path(void *arg)
{
    const weft_http_options o = {.drain_s = INFINITY};
    s.result = weft_http_serve(arg, handle_path, NULL, &o);
    return 0;
}

TEST(weft_http_serve_closes_its_listener_before_the_last_request_ends)
{
    char folder[] = "/tmp/weft-http-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    char *path = format("%s/socket", folder);
    weft_fiber server = weft_spin(serve_at_path, path);
    let_run();
    a.fd = weft_dial("unix", path);
    ck_assert_int_ge(a.fd, 0);
    client_send(&a, WAIT);
    let_run();
    ck_assert_trail("w");
    ck_assert_int_eq(weft_cancel(server), 0);
    let_run();
    ck_assert_int_lt(weft_dial("unix", path), 0);
    ck_assert_int_eq(weft_event_set(&release_handlers), 0);
    client_expect(&a, "waited");
    expect_end(&a);
    (void)weft_await(server);
    ck_assert_int_eq(s.result, -ECANCELED);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

TEST(an_invalid_address_is_an_error_with_a_message)
{
    ck_assert_int_lt(weft_http_serve("/nowhere/at/all", handle_path, NULL, NULL), 0);
    ck_assert_ptr_nonnull(weft_error());
    ck_assert_fails(weft_http_serve("127.0.0.1:0", NULL, NULL, NULL), -EINVAL);
}

static int tcp_option(int fd, int name)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, name, &value, &bytes), 0);
    return value;
}

TEST(invalid_options_leave_the_listener_unchanged)
{
    static const weft_http_options bad[] = {
        {.limits = {.slow_s = -1}},
        {.limits = {.body_bytes_per_s_min = NAN}},
        {.drain_s = -1},
        {.settle_s = -1},
        {.trusted_peers = "nowhere"},
    };
    endpoint at;
    int listener = listen_tcp(&at, 8);
    int unsent = tcp_option(listener, TCP_NOTSENT_LOWAT);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_http_serve_fd(listener, handle_path, NULL, &bad[i]), -EINVAL);
        ck_assert_int_eq(tcp_option(listener, TCP_NODELAY), 0);
        ck_assert_int_eq(tcp_option(listener, TCP_USER_TIMEOUT), 0);
        ck_assert_int_eq(tcp_option(listener, TCP_NOTSENT_LOWAT), unsent);
    }
    close(listener);
}

/* Read the body in pieces for /pieces, at once for other paths. */
static int reply_body_length(weft_http_request *r, void *ctx)
{
    const void *piece;
    char *body;
    ssize_t n, bytes = 0;
    if (strcmp(weft_http_path(r), "/pieces") != 0)
        n = bytes = weft_http_read_all(r, &body);
    else
        while ((n = weft_http_read_piece(r, &piece)) > 0)
            bytes += n;
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zd bytes", bytes);
}

static void post(test_client *from, const char *path, size_t announced, size_t bytes)
{
    connect_and_send(from, format("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n",
                                  path, announced));
    client_send_bytes(from, large, bytes);
}

TEST(memory_for_all_bodies_is_limited_and_excess_requests_get_503)
{
    const weft_http_options o = {.limits = {.bodies_bytes_max = 256 << 10}};
    server_open(&s, reply_body_length, NULL, &o);
    post(&a, "/", 220000, 210000);
    do { /* until the body of the first request has arrived */
        post(&b, "/", 50000, 50000);
        client_expect(&b, "\r\n\r\n");
        hang_up(&b);
    } while (status_of(b.received) == 200);
    ck_assert_int_eq(status_of(b.received), 503);
    ck_assert_has(b.received, "\r\nRetry-After: 1\r\n");
    post(&b, "/pieces", 1 << 20, 1 << 20); /* needs little memory */
    client_expect(&b, "1048576 bytes");
    hang_up(&b);
    client_send_bytes(&a, large, 10000);
    client_expect(&a, "220000 bytes");
    for (int i = 0; i < 10; i++) { /* each request returns its memory */
        post(&b, "/", 200000, 200000);
        client_expect(&b, "200000 bytes");
        hang_up(&b);
    }
}

#define SLOW_READERS 16
static size_t accepted;      /* bytes of replies that were written for /slow */
static size_t slow_ended;    /* handlers of /slow that have ended */
static weft_event all_ended; /* set when all SLOW_READERS handlers have ended */

/* Reply with 256 KiB for /part, with LARGE bytes for other paths. */
static int reply_large(weft_http_request *r, void *ctx)
{
    bool is_slow = strcmp(weft_http_path(r), "/slow") == 0;
    size_t bytes = strcmp(weft_http_path(r), "/part") == 0 ? 256 << 10 : LARGE;
    ssize_t n = weft_http_begin(r, 200, (int64_t)bytes);
    for (size_t sent = 0; n >= 0 && sent < bytes; sent += (size_t)n) {
        n = weft_http_write(r, large, 64 << 10);
        accepted += n > 0 && is_slow ? (size_t)n : 0;
    }
    if (is_slow && ++slow_ended == SLOW_READERS)
        (void)weft_event_set(&all_ended);
    return n < 0 ? (int)n : 0;
}

/* Connect with a small receive buffer and request a large reply. */
static void request_large_slowly(test_client *from)
{
    connect_with(from, 0, 4 << 10);
    client_send(from, GET_PATH("/slow"));
}

TEST(unread_replies_of_a_peer_are_limited_over_all_its_connections)
{
    static test_client slow[SLOW_READERS];
    const weft_http_options o = {.limits = {.unsent_bytes_per_peer_max = 1 << 20,
                                            .slow_s = 0.5,
                                            .body_bytes_per_s_min = 1e4}};
    server_open(&s, reply_large, NULL, &o);
    for (size_t i = 0; i < SLOW_READERS; i++)
        request_large_slowly(&slow[i]);
    connect_with(&a, 1, 0);
    client_send(&a, "GET /fast HTTP/1.1\r\n" HOST CLOSE);
    ck_assert_uint_gt(receive_count(&a), LARGE);
    ck_assert_int_eq(weft_event_wait(&all_ended), 0);
    /* The limit, plus 96 KiB for the buffers of each connection and its client. */
    ck_assert_uint_le(accepted, (1 << 20) + SLOW_READERS * (96 << 10));
    for (size_t i = 0; i < SLOW_READERS; i++)
        weft_close(slow[i].fd);
}

/* Such a peer gets 16 KiB in 20 ms, so its reply is short. */
TEST(a_peer_beyond_its_limit_that_reads_receives_everything)
{
    const weft_http_options o = {.limits = {.unsent_bytes_per_peer_max = 1}};
    server_open(&s, reply_large, NULL, &o);
    connect_and_send(&a, "GET /part HTTP/1.1\r\n" HOST CLOSE);
    ck_assert_uint_gt(receive_count(&a), 256 << 10);
}

TEST(a_reset_ends_the_connection_of_a_peer_beyond_its_limit)
{
    const weft_http_options o = {
        .limits = {.unsent_bytes_per_peer_max = 1, .slow_s = INFINITY}}; /* no limit on the rate */
    server_open(&s, reply_large, NULL, &o);
    for (size_t i = 0; i < SLOW_READERS; i++) {
        request_large_slowly(&a);
        client_expect(&a, "HTTP/1.1 200");
        ck_assert_int_gt(weft_recv(a.fd, a.received, 1, MSG_PEEK), 0);
        hang_up(&a); /* with unread data, so that the kernel sends a reset */
    }
    ck_assert_int_eq(weft_event_wait(&all_ended), 0);
}

TEST(a_reset_at_any_stage_does_not_affect_other_clients)
{
    static const struct linger at_once = {.l_onoff = 1};
    static const char *const stages[] = {
        "",
        "GET / HT",
        GET,
        WAIT,
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhello",
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\nhello",
        GET_PATH("/large") GET,
        GET_PATH("/file"),
        "BAD\r\n\r\n",
        GET GET GET GET GET_PATH("/large"),
    };
    warm_up();
    size_t open = count_descriptors();
    open_server(NULL);
    server_connect(&s, &b);
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        connect_and_send(&a, stages[i]);
        if (i % 2 == 0)
            let_run();
        ck_assert_int_eq(setsockopt(a.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        hang_up(&a);
        get_root(&b);
    }
    hang_up(&b);
    ck_assert_int_eq(weft_event_set(&release_handlers), 0);
    close_server();
    ck_assert_uint_eq(count_descriptors(), open);
}

/* Send until the connection fails. A close with unread input would lose the reply. */
static void assert_status_while_sending(const char *head, int status)
{
    connect_and_send(&a, head);
    while (weft_send(a.fd, large, 65536, MSG_NOSIGNAL) > 0)
        ;
    ck_assert_int_eq(status_of(client_receive_all(&a)), status);
    ck_assert_has(a.received, "Connection: close");
}

TEST(a_reply_arrives_while_the_client_keeps_sending)
{
    memset(large, 'x', LARGE);
    open_server(NULL);
    assert_status_while_sending("POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n",
                                200);
    assert_status_while_sending(
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n", 413);
    assert_status_while_sending(
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413);
    assert_status_while_sending(
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400);
    assert_status_while_sending("GET / HTTP/1.1\r\n" HOST CLOSE, 200);
    assert_status_while_sending("GET / HTTP/1.1\r\n" HOST "Bad\r\n\r\n", 400);
}

/* The connection ends with a FIN, not with a reset that could discard the reply. */
TEST(input_after_the_last_request_is_discarded_before_the_close)
{
    static const char request[] = "GET / HTTP/1.1\r\n" HOST CLOSE;
    open_server(NULL);
    server_connect(&s, &a);
    memcpy(large, request, sizeof request - 1);
    client_send_bytes(&a, large, 1 << 20);
    client_expect(&a, "[/]");
    expect_end(&a);
}

TEST(a_client_that_does_not_read_is_disconnected_and_others_are_served)
{
    open_server(&(weft_http_options){.limits = {.slow_s = 0.05, .body_bytes_per_s_min = 1e6}});
    connect_with(&a, 0, 4096);
    client_send(&a, GET_PATH("/large"));
    server_connect(&s, &b);
    while (!has_timed_out)
        get_root(&b);
    ck_assert_uint_lt(receive_count(&a), LARGE);
}

TEST(a_file_is_sent_unchanged)
{
    open_server(NULL);
    connect_with(&a, 0, 4096); /* the kernel cannot buffer the whole reply */
    client_send(&a, "GET /file HTTP/1.1\r\n" HOST CLOSE);
    client_expect(&a, "\r\n\r\n");
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    size_t at = (size_t)(body_of(a.received) - a.received);
    do {
        size_t bytes = a.received_bytes - at;
        ck_assert_int_eq(read(fd, large, bytes), (ssize_t)bytes);
        ck_assert_mem_eq(a.received + at, large, bytes);
        a.received_bytes = at = 0;
    } while (client_receive_some(&a) > 0);
    ck_assert_int_eq(read(fd, large, 1), 0);
    close(fd);
}

static int send_ticks(weft_http_request *r, void *ctx)
{
    int rc = weft_http_events(r), *error = ctx;
    while (rc == 0 && (rc = weft_http_event(r, NULL, NULL, "tick")) == 0)
        rc = weft_sleep(0.001);
    *error = weft_http_is_draining(r) ? rc : 0;
    return 0;
}

TEST(a_handler_that_sends_events_gets_eshutdown_when_the_server_drains)
{
    static const char end[] = "\r\n0\r\n\r\n"; /* of a complete chunked body */
    int error = 0;
    const weft_http_options o = {.drain_s = 1000};
    server_open(&s, send_ticks, &error, &o);
    connect_and_send(&c, GET);
    client_expect(&c, "data: tick\n\n");
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    ck_assert_int_eq(error, -ESHUTDOWN);
    const char *received = client_receive_all(&c);
    ck_assert_str_eq(received + strlen(received) - strlen(end), end);
}
