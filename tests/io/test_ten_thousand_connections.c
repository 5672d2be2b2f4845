/* Test of 10,000 concurrent TCP connections in one thread. */
#include "support/net_support.h"
#include "support/suite.h"

#define CONNECTIONS 10000
#define CONNECTIONS_SLOW 1000 /* for sanitizers and Valgrind */
/* Connections that the client opens before it waits for the server. The backlog holds more. */
#define BATCH 500

typedef struct request {
    uint32_t number;
    uint32_t key;
} request;

static uint32_t response_to(const request *r)
{
    return r->number * 2654435761u ^ r->key;
}

/* The client process, which uses blocking calls. Its exit status identifies a failed step. */
typedef struct client {
    endpoint server;
    int orders; /* one byte for each round */
    int reports;
    size_t count;
    int fd[CONNECTIONS];
} client;

static client client_state;

static void recv_or_exit(int fd, void *data, size_t bytes)
{
    if (recv(fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
        _exit(3);
}

static void connect_all(client *c)
{
    char hello;
    for (size_t i = 0, greeted = 0; i < c->count; i++) {
        c->fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd[i] < 0 || connect(c->fd[i], &c->server.u.any, c->server.bytes) < 0)
            _exit(2);
        for (; greeted <= i && (i % BATCH == 0 || i + 1 == c->count); greeted++)
            recv_or_exit(c->fd[greeted], &hello, 1);
    }
}

/* Send all requests before reading a response. */
static void request_all(client *c, uint32_t key)
{
    uint32_t response;
    for (size_t i = 0; i < c->count; i++) {
        request r = {(uint32_t)i, key};
        if (send(c->fd[i], &r, sizeof r, MSG_NOSIGNAL) != sizeof r)
            _exit(4);
    }
    for (size_t i = c->count; i-- > 0;) {
        request r = {(uint32_t)i, key};
        recv_or_exit(c->fd[i], &response, sizeof response);
        if (response != response_to(&r))
            _exit(5);
    }
}

static void run_client(client *c)
{
    char order;
    connect_all(c);
    for (uint32_t key = 0; write(c->reports, "", 1) == 1 && read(c->orders, &order, 1) == 1; key++)
        request_all(c, key);
    _exit(0);
}

/* Start the client process, connected by two pipes. Call this before the first weft call. */
static pid_t start_client(client *c, int *orders, int *reports)
{
    int to[2], from[2];
    ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(to[1]);
        close(from[0]);
        c->orders = to[0];
        c->reports = from[1];
        run_client(c);
    }
    close(to[0]);
    close(from[1]);
    *orders = to[1];
    *reports = from[0];
    return pid;
}

static size_t open_conns; /* number of open connections */
static size_t responses_sent;

static weft_value handle_requests(void *arg)
{
    int fd = (int)(intptr_t)arg;
    request r;
    ssize_t n = weft_write(fd, "", 1);
    open_conns++;
    while ((n = weft_read_full(fd, &r, sizeof r)) == sizeof r) {
        uint32_t response = response_to(&r);
        n = weft_write_all(fd, &response, sizeof response);
        if (n < 0)
            break;
        responses_sent++;
    }
    open_conns--;
    weft_close(fd);
    return n;
}

static weft_value accept_all(void *arg)
{
    int fd;
    while ((fd = weft_accept(*(int *)arg, NULL, NULL)) >= 0)
        if (weft_go(handle_requests, as_arg(fd)) < 0)
            return 1;
    return fd;
}

static size_t connection_count(void)
{
    size_t wanted = is_sanitized() || RUNNING_ON_VALGRIND ? CONNECTIONS_SLOW : CONNECTIONS;
    size_t room = raise_descriptor_limit(wanted + 100) - 100;
    if (room < wanted)
        printf("the limit of open descriptors is %zu\n", room + 100);
    return room < wanted ? room : wanted;
}

TEST(ten_thousand_concurrent_connections_all_get_their_responses)
{
    int orders, reports, status;
    char report;
    int listener = listen_tcp(&client_state.server, 4096);
    client_state.count = connection_count();
    pid_t pid = start_client(&client_state, &orders, &reports);
    weft_fiber acceptor = weft_spin(accept_all, &listener);
    for (size_t round = 0; round < 3; round++) {
        ck_assert_int_eq(weft_read(reports, &report, 1), 1);
        ck_assert_uint_eq(responses_sent, round * client_state.count);
        ck_assert_uint_eq(open_conns, client_state.count);
        ck_assert_uint_ge(ops_pending(), client_state.count + 1); /* all fibers wait */
        if (round < 2)
            ck_assert_int_eq(weft_write(orders, "", 1), 1);
    }
    ck_assert_int_eq(weft_close(orders), 0);
    while (open_conns > 0) /* until all connections have seen the client close */
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_int_eq(weft_cancel(acceptor), 0);
    weft_await(acceptor);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_close(reports), 0);
    ck_assert_int_eq(weft_close(listener), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    assert_nothing_pending();
}
