/*
 * Interoperation over sockets with nc and socat. The program ss checks for unclosed
 * connections. test_http_clients.c has curl.
 */
#include "support/net_support.h"
#include "support/process_support.h"
#include "support/suite.h"

#define STREAM_BYTES ((size_t)1 << 20)

/* Start a program. Print a message and return false if it is not installed. */
static bool peer_open(weft_process *p, char *const *argv)
{
    const weft_process_options o = {
        .in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_PIPE};
    int rc = weft_spawn_process(p, argv, &o);
    ck_assert(rc == 0 || rc == -ENOENT);
    if (rc != 0)
        printf("skipped: %s is not installed\n", argv[0]);
    return rc == 0;
}

#define PEER(p, ...) peer_open((p), ARGV(__VA_ARGS__))

/* Close the standard input of the program. */
static void peer_finish_input(weft_process *p)
{
    ck_assert_int_eq(weft_close(p->in), 0);
    p->in = -1;
}

/* Close the input of the program, and wait for its end. Return its status. */
static int peer_close(weft_process *p)
{
    if (p->in >= 0)
        peer_finish_input(p);
    ck_assert_int_ge(weft_process_wait(p), 0);
    return weft_process_close(p);
}

static weft_value feed_stream(void *arg)
{
    weft_process *p = arg;
    unsigned char *data = malloc(STREAM_BYTES);
    fill_from(data, STREAM_BYTES, 0);
    ck_assert_int_eq(weft_write_all(p->in, data, STREAM_BYTES), STREAM_BYTES);
    free(data);
    peer_finish_input(p);
    return 0;
}

/* Assert that fd delivers this number of bytes of the test stream, then the end. */
static void assert_stream(int fd, size_t bytes)
{
    unsigned char data[4096];
    size_t got = 0;
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0) {
        assert_bytes_at(data, (size_t)n, got);
        got += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(got, bytes);
}

/* Read the listening port that the program prints after prefix on stderr. */
static int read_printed_port(const weft_process *p, const char *prefix)
{
    char text[512];
    for (size_t used = 0; used < sizeof text - 1;) {
        ssize_t n = weft_read(p->err, text + used, sizeof text - 1 - used);
        ck_assert_int_gt(n, 0);
        used += (size_t)n;
        text[used] = '\0';
        const char *at = strstr(text, prefix);
        if (at != NULL && strchr(at, '\n') != NULL)
            return atoi(at + strlen(prefix));
    }
    ck_abort_msg("no port in the output: %s", text);
}

/* A weft server on a loopback or Unix address. */
typedef struct server {
    int listener;
    endpoint at;
    char port[8];
    weft_fn *handler;
    unsigned conn_count;
    weft_fiber acceptor;
} server;

static weft_value accept_all(void *arg)
{
    server *s = arg;
    int fd;
    while ((fd = weft_accept(s->listener, NULL, NULL)) >= 0) {
        s->conn_count++;
        weft_spin_with(s->handler, as_arg(fd), &(weft_spin_options){.parent = weft_main()});
    }
    return fd;
}

static void server_open(server *s, weft_fn *handler, bool is_tcp)
{
    *s = (server){.handler = handler};
    s->listener = is_tcp ? listen_tcp(&s->at, 16) : listen_unix(&s->at, 16);
    if (is_tcp)
        snprintf(s->port, sizeof s->port, "%d", ntohs(s->at.u.in.sin_port));
    s->acceptor = weft_spin(accept_all, s);
}

static void server_close(server *s)
{
    weft_cancel(s->acceptor);
    ck_assert_int_eq(weft_await(s->acceptor), -ECANCELED);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(s->listener), 0);
    assert_nothing_pending();
}

/*
 * Count the connections of port in CLOSE_WAIT: the peer has closed, the server has not. Return -1
 * if ss is not installed.
 */
static int count_close_wait(const char *port)
{
    char text[4096];
    weft_process p;
    if (!PEER(&p, "ss", "-Htn", "state", "close-wait", format("( sport = :%s )", port)))
        return -1;
    ssize_t n = weft_read_full(p.out, text, sizeof text - 1);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_int_eq(peer_close(&p), 0);
    return (int)count_in(text, "\n");
}

static void assert_all_closed(const server *s)
{
    ck_assert_int_le(count_close_wait(s->port), 0);
}

static weft_value echo_conn(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char data[4096];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        ck_assert_int_eq(weft_write_all(fd, data, (size_t)n), n);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

/* Assert that the program prints its whole input after a round trip through the echo server. */
static void assert_echoed(weft_process *p, server *s)
{
    weft_fiber feeder = weft_spin(feed_stream, p);
    assert_stream(p->out, STREAM_BYTES);
    ck_assert_int_eq(weft_await(feeder), 0);
    ck_assert_int_eq(peer_close(p), 0);
    ck_assert_uint_eq(s->conn_count, 1);
}

TEST_LOOP(nc_and_socat_receive_an_echo_of_their_input_over_tcp_and_a_unix_socket, 3)
{
    server s;
    weft_process p;
    char address[64];
    server_open(&s, echo_conn, _i < 2);
    int length = (int)(s.at.bytes - offsetof(struct sockaddr_un, sun_path) - 1);
    if (_i == 1)
        snprintf(address, sizeof address, "TCP4:127.0.0.1:%s", s.port);
    else if (_i == 2)
        snprintf(address, sizeof address, "ABSTRACT-CONNECT:%.*s", length, s.at.u.un.sun_path + 1);
    bool is_installed = _i == 0 ? PEER(&p, "nc", "-nN", "127.0.0.1", s.port)
                                : PEER(&p, "socat", "-t", "10", "-", address);
    if (is_installed)
        assert_echoed(&p, &s);
    server_close(&s);
    if (_i < 2)
        assert_all_closed(&s);
}

static int connect_to_port(int port)
{
    endpoint to = tcp_endpoint();
    to.u.in.sin_port = htons((uint16_t)port);
    int fd = socket_for(&to);
    ck_assert_int_eq(weft_connect(fd, &to.u.any, to.bytes), 0);
    return fd;
}

static weft_value send_stream(void *arg)
{
    int fd = (int)(intptr_t)arg;
    unsigned char *data = malloc(STREAM_BYTES);
    fill_from(data, STREAM_BYTES, 0);
    ck_assert_int_eq(weft_write_all(fd, data, STREAM_BYTES), STREAM_BYTES);
    free(data);
    return 0;
}

static weft_value expect_stream(void *arg)
{
    assert_stream((int)(intptr_t)arg, STREAM_BYTES);
    return 0;
}

TEST(a_connection_to_nc_carries_data_in_both_directions)
{
    weft_process p;
    if (!PEER(&p, "nc", "-lnvN", "127.0.0.1", "0"))
        return;
    int fd = connect_to_port(read_printed_port(&p, "Listening on 127.0.0.1 "));
    weft_fiber feeder = weft_spin(feed_stream, &p);
    weft_fiber sender = weft_spin(send_stream, as_arg(fd));
    weft_fiber receiver = weft_spin(expect_stream, as_arg(p.out));
    assert_stream(fd, STREAM_BYTES);
    ck_assert_int_eq(weft_await(feeder), 0);
    ck_assert_int_eq(weft_await(sender), 0);
    ck_assert_int_eq(weft_shutdown(fd, SHUT_WR),
                     0); /* an earlier shutdown would make nc exit with unread input */
    ck_assert_int_eq(weft_await(receiver), 0);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(peer_close(&p), 0);
}

TEST(socat_gets_a_reply_to_each_datagram)
{
    endpoint at = tcp_endpoint(), from;
    char data[64];
    weft_process p;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, &at.u.any, at.bytes), 0);
    ck_assert_int_eq(getsockname(fd, &at.u.any, &at.bytes), 0);
    if (!PEER(&p, "socat", "-", format("UDP4:127.0.0.1:%d", ntohs(at.u.in.sin_port))))
        return;
    for (char i = 'a'; i <= 'z'; i++) {
        const char request[2] = {i, '?'}, reply[2] = {i, '!'};
        from.bytes = sizeof from.u;
        ck_assert_int_eq(weft_write(p.in, request, 2), 2);
        ck_assert_int_eq(weft_recvfrom(fd, data, sizeof data, 0, &from.u.any, &from.bytes), 2);
        ck_assert_mem_eq(data, request, 2);
        ck_assert_int_eq(from.u.in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        ck_assert_int_eq(weft_sendto(fd, reply, 2, 0, &from.u.any, from.bytes), 2);
        ck_assert_int_eq(weft_read_full(p.out, data, 2), 2);
        ck_assert_mem_eq(data, reply, 2);
    }
    ck_assert_int_eq(weft_close(fd), 0);
    kill(p.pid, SIGTERM); /* socat cannot detect the last datagram */
    ck_assert_int_ne(peer_close(&p), 0);
}

static weft_value close_when_scheduled(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char byte;
    ck_assert_int_eq(weft_read(fd, &byte, 1), 0);
    ck_assert_int_eq(weft_suspend(), 1); /* the peer has closed, and fd is still open */
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

/* Check assert_all_closed, which would also pass if ss listed nothing. */
TEST(ss_lists_a_connection_that_was_not_closed)
{
    server s;
    weft_process p;
    weft_fiber children[4];
    server_open(&s, close_when_scheduled, true);
    if (!PEER(&p, "nc", "-nN", "127.0.0.1", s.port))
        return;
    peer_finish_input(&p);
    do
        ck_assert_int_eq(weft_sleep(0.001), 0);
    while (weft_children(weft_self(), children, 4) < 2);
    int count;
    while ((count = count_close_wait(s.port)) == 0) /* until the kernel has processed the close */
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert(count == 1 || count == -1);
    while (weft_schedule(children[1], 1) == -EBUSY)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(peer_close(&p), 0);
    server_close(&s);
    assert_all_closed(&s);
}
