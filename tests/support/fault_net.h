/*
 * Fault scenarios on descriptors and sockets. Each scenario makes every kind of call a few times
 * and checks the data that arrives. Without a fault every step succeeds. With a fault the scenario
 * sees the error, continues, and cleans up.
 */
#ifndef TESTS_SUPPORT_FAULT_NET_H
#define TESTS_SUPPORT_FAULT_NET_H

#include "support/dns_server.h"
#include "support/fault.h"

#include <sys/un.h>

static inline void close_required(const int fd[2])
{
    REQUIRE(weft_close(fd[0]) == 0);
    REQUIRE(weft_close(fd[1]) == 0);
}

static inline void make_pipe(int fd[2])
{
    WITHOUT_FAULTS(REQUIRE(weft_pipe(fd) == 0));
}

static inline void make_sockets(int fd[2], int type)
{
    WITHOUT_FAULTS(REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd) == 0));
}

/* Listen on a free port of the loopback address. Store the address in *at. */
static inline int make_listener(struct sockaddr_in *at)
{
    socklen_t bytes = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd;
    WITHOUT_FAULTS({
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(fd >= 0 && bind(fd, (struct sockaddr *)at, bytes) == 0);
        REQUIRE(listen(fd, 64) == 0);
        REQUIRE(getsockname(fd, (struct sockaddr *)at, &bytes) == 0);
    });
    return fd;
}

static inline int make_socket(void)
{
    int fd;
    WITHOUT_FAULTS(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(fd >= 0);
    return fd;
}

/* Return a connection that is not accepted yet. */
static inline int make_client(const struct sockaddr_in *at)
{
    int fd = make_socket();
    WITHOUT_FAULTS(REQUIRE(connect(fd, (const struct sockaddr *)at, sizeof *at) == 0));
    return fd;
}

/*
 * Waiting: a fiber waits in a call until data arrives, it is cancelled, or its descriptor is
 * closed.
 */

typedef ssize_t waiting_call(int fd, char *byte);

static inline ssize_t by_read(int fd, char *byte)
{
    return weft_read(fd, byte, 1);
}

static inline ssize_t by_readv(int fd, char *byte)
{
    struct iovec iov[2] = {{byte, 1}, {NULL, 0}};
    return weft_readv(fd, iov, 2);
}

static inline ssize_t by_recv(int fd, char *byte)
{
    return weft_recv(fd, byte, 1, 0);
}

static inline ssize_t by_recvmsg(int fd, char *byte)
{
    struct iovec iov = {byte, 1};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    return weft_recvmsg(fd, &message, 0);
}

static inline ssize_t by_wait(int fd, char *byte)
{
    int events = weft_wait_fd(fd, POLLIN);
    return events < 0 ? events : read(fd, byte, 1);
}

typedef struct waiter {
    waiting_call *call;
    int fd;
    char byte;
    ssize_t result;
} waiter;

static inline weft_value run_waiter(void *arg)
{
    waiter *w = arg;
    w->result = w->call(w->fd, &w->byte);
    return 0;
}

static inline weft_fiber spin_waiter(waiter *w, waiting_call *call, int fd)
{
    *w = (waiter){.call = call, .fd = fd, .result = -ENOENT};
    weft_fiber f = require_created(weft_spin(run_waiter, w));
    if (f != 0)
        weft_sleep(0);
    return f;
}

/* Wait for a byte. If a fault made the call fail, the byte must still be readable. */
static inline void take_byte(waiting_call *call, const int fd[2], char expected)
{
    waiter w;
    weft_fiber f = spin_waiter(&w, call, fd[0]);
    WITHOUT_FAULTS(REQUIRE(write(fd[1], &expected, 1) == 1));
    if (f != 0)
        REQUIRE(weft_await(f) == 0);
    if (f != 0 && REQUIRE_OR_FAULT(w.result))
        REQUIRE(w.result == 1 && w.byte == expected);
    else
        WITHOUT_FAULTS(REQUIRE(weft_read(fd[0], &w.byte, 1) == 1 && w.byte == expected));
}

/* Cancel a waiting fiber. An error may end the wait first. */
static inline void cancel_one(waiting_call *call, const int fd[2])
{
    waiter w;
    weft_fiber f = spin_waiter(&w, call, fd[0]);
    if (f == 0)
        return;
    int rc = weft_cancel(f);
    REQUIRE(rc == 0 || rc == -ESRCH);
    weft_value value = weft_await(f);
    REQUIRE(value == -ECANCELED || value == 0);
    REQUIRE(w.result == -ECANCELED || fault_explains(w.result) || w.result == -ENOENT);
    REQUIRE_UNLESS_FAULT(w.result == -ECANCELED);
}

/* Let a deadline end the wait. */
static inline void time_out(waiting_call *call, const int fd[2])
{
    char byte;
    ssize_t n = 1;
    WEFT_MOVE_ON_AFTER(0.0005)
        n = call(fd[0], &byte);
    REQUIRE(n == -ECANCELED || REQUIRE_OR_FAULT(n) || fault_explains(n));
}

/* Close fd[0] while a fiber waits for it. Must be the last step. */
static inline void close_under(waiting_call *call, const int fd[2])
{
    waiter w;
    weft_fiber f = spin_waiter(&w, call, fd[0]);
    REQUIRE(weft_close(fd[0]) == 0);
    if (f == 0)
        return;
    REQUIRE(weft_await(f) == 0);
    REQUIRE(w.result == -EBADF || fault_explains(w.result));
}

static inline void wait_in(waiting_call *call, int fd[2])
{
    take_byte(call, fd, 'a');
    cancel_one(call, fd);
    take_byte(call, fd, 'b');
    time_out(call, fd);
    take_byte(call, fd, 'c');
    close_under(call, fd);
    REQUIRE(weft_close(fd[1]) == 0);
}

static waiting_call *const waiting_calls[] = {by_read, by_readv, by_wait, by_recv, by_recvmsg};

FAULT_STEPS(wait_on_pipes)
{
    for (size_t i = 0; i < 3; i++) { /* the others need a socket */
        int fd[2];
        make_pipe(fd);
        wait_in(waiting_calls[i], fd);
    }
}

FAULT_STEPS(wait_on_sockets)
{
    for (size_t i = 0; i < COUNT_OF(waiting_calls); i++) {
        int fd[2];
        make_sockets(fd, i % 2 ? SOCK_DGRAM : SOCK_STREAM);
        wait_in(waiting_calls[i], fd);
    }
}

/* Writing into a full pipe or socket. The reader makes room. */

typedef struct writer {
    int fd;
    int kind;
    ssize_t result;
} writer;

#define WRITER_BYTES ((ssize_t)300000)
#define WRITER_PIECE 60000

static inline ssize_t write_by(int kind, int fd, const char *data, size_t bytes)
{
    struct iovec iov[2] = {{(char *)data, bytes / 3}, {(char *)data, bytes - bytes / 3}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    switch (kind) {
    case 0:
        return weft_write(fd, data, bytes);
    case 1:
        return weft_writev(fd, iov, 2);
    case 2:
        return weft_send(fd, data, bytes, 0);
    default:
        return weft_sendmsg(fd, &message, 0);
    }
}

static inline weft_value run_writer(void *arg)
{
    static const char data[WRITER_PIECE];
    writer *w = arg;
    ssize_t done = 0, n = 1;
    while (n > 0 && done < WRITER_BYTES) {
        ssize_t left = WRITER_BYTES - done;
        n = write_by(w->kind, w->fd, data, left < WRITER_PIECE ? (size_t)left : WRITER_PIECE);
        done += n > 0 ? n : 0;
    }
    REQUIRE_OR_PEER_FAULT(n);
    w->result = done;
    REQUIRE(weft_close(w->fd) == 0);
    return 0;
}

static inline void write_full(int kind, const int fd[2])
{
    static char data[50000];
    writer w = {.fd = fd[1], .kind = kind};
    weft_fiber f = require_created(weft_spin(run_writer, &w));
    if (f == 0)
        REQUIRE(weft_close(fd[1]) == 0);
    ssize_t n, sum = 0;
    while ((n = weft_read(fd[0], data, sizeof data)) > 0)
        sum += n;
    bool is_told = REQUIRE_OR_FAULT(n);
    REQUIRE(weft_close(fd[0]) == 0);
    REQUIRE(f == 0 || weft_await(f) == 0);
    REQUIRE(!is_told || sum == w.result);
    REQUIRE_UNLESS_FAULT(sum == WRITER_BYTES);
}

FAULT_STEPS(write_into_full)
{
    for (int kind = 0; kind < 4; kind++) {
        int fd[2];
        if (kind < 2)
            make_pipe(fd);
        else
            make_sockets(fd, SOCK_STREAM);
        write_full(kind, fd);
    }
}

/* Connections, one at a time. */

typedef struct acceptor {
    int fd;
    int result;
} acceptor;

static inline weft_value run_acceptor(void *arg)
{
    acceptor *a = arg;
    a->result = weft_accept(a->fd, NULL, NULL);
    return 0;
}

/* Accept in one fiber and connect in the main fiber. */
static inline void connect_one(void)
{
    struct sockaddr_in at;
    int listener = make_listener(&at);
    acceptor a = {listener, -ENOENT};
    weft_fiber f = require_created(weft_spin(run_acceptor, &a));
    if (f != 0)
        weft_sleep(0);
    int client = make_socket();
    bool is_done = REQUIRE_OR_FAULT(weft_connect(client, (const struct sockaddr *)&at, sizeof at));
    if (f != 0 && !is_done)
        weft_cancel(f); /* the fiber may wait indefinitely */
    if (f != 0)
        REQUIRE(weft_await(f) == 0 || !is_done);
    is_done &= a.result >= 0;
    REQUIRE(a.result >= 0 || a.result == -ECANCELED || a.result == -ENOENT ||
            fault_explains(a.result));
    if (is_done) {
        char byte = 0;
        WITHOUT_FAULTS(REQUIRE(write(client, "x", 1) == 1));
        WITHOUT_FAULTS(REQUIRE(weft_read(a.result, &byte, 1) == 1 && byte == 'x'));
    }
    REQUIRE_UNLESS_FAULT(is_done);
    if (a.result >= 0)
        REQUIRE(weft_close(a.result) == 0);
    REQUIRE(weft_close(client) == 0);
    REQUIRE(weft_close(listener) == 0);
}

/* A cancelled accept consumes no connection. The next accept gets it. */
static inline void accept_after_cancel(void)
{
    struct sockaddr_in at;
    int listener = make_listener(&at), rc = 1;
    WEFT_MOVE_ON_AFTER(0.0005)
        rc = weft_accept(listener, NULL, NULL);
    REQUIRE(rc == -ECANCELED || fault_explains(rc));
    int client = make_client(&at);
    int conn = weft_accept(listener, NULL, NULL);
    if (REQUIRE_OR_FAULT(conn))
        REQUIRE(weft_close(conn) == 0);
    REQUIRE(weft_close(client) == 0);
    REQUIRE(weft_close(listener) == 0);
}

FAULT_STEPS(connect_twice)
{
    connect_one();
    accept_after_cancel();
    connect_one();
}

/* Accept and receive loops. */

#define CLIENTS 20 /* more than the kernel accepts in advance */

typedef struct accept_tally {
    int wanted, count;
} accept_tally;

static inline int count_conn(int fd, void *ctx)
{
    accept_tally *c = ctx;
    REQUIRE(weft_close(fd) == 0);
    return ++c->count < c->wanted ? 0 : -ENOLINK;
}

/* The loop continues after a temporary shortage and loses no connection. */
FAULT_STEPS(run_accept_loop)
{
    struct sockaddr_in at;
    int listener = make_listener(&at), clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = make_client(&at);
    accept_tally c = {.wanted = CLIENTS / 2};
    int rc = 0;
    for (int round = 0; round < 2; round++, c.wanted = CLIENTS) {
        WEFT_MOVE_ON_AFTER(fault.is_lasting ? 0.06 : 5)
            rc = weft_accept_loop(listener, count_conn, &c);
        if (fault.is_lasting) /* a resource that has run out does not become available again */
            atomic_store(&fault.is_on, false);
        REQUIRE(rc == -ENOLINK || fault_explains(rc) || (fault.is_lasting && rc == -ECANCELED));
    }
    for (int i = 0; i < CLIENTS; i++)
        REQUIRE(weft_close(clients[i]) == 0);
    REQUIRE(weft_close(listener) == 0);
    REQUIRE_UNLESS_FAULT(c.count == CLIENTS);
}

typedef struct inflow {
    size_t sum, limit;
} inflow;

static inline int count_data(const void *data, size_t bytes, void *ctx)
{
    inflow *in = ctx;
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(((const unsigned char *)data)[i] == (unsigned char)((in->sum + i) % 251));
    in->sum += bytes;
    return in->sum < in->limit ? 0 : -ENOLINK;
}

#define FLOW_BYTES 120000

static inline void send_flow(int fd, size_t from, size_t bytes)
{
    static unsigned char data[FLOW_BYTES];
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)((from + i) % 251);
    WITHOUT_FAULTS(REQUIRE(write(fd, data, bytes) == (ssize_t)bytes));
}

/* After any error of a loop, the next loop receives each remaining byte once. */
FAULT_STEPS(run_recv_loop)
{
    int fd[2];
    make_sockets(fd, SOCK_STREAM);
    send_flow(fd[1], 0, FLOW_BYTES);
    inflow in = {.limit = 20000};
    int rc = weft_recv_loop(fd[0], count_data, &in);
    REQUIRE(rc == -ENOLINK || fault_explains(rc));
    unsigned char some[10];
    ssize_t n = in.sum < FLOW_BYTES ? weft_read(fd[0], some, sizeof some) : 0;
    if (REQUIRE_OR_FAULT(n))
        count_data(some, (size_t)n, &in);
    in.limit = SIZE_MAX;
    REQUIRE(weft_shutdown(fd[1], SHUT_WR) == 0);
    for (int tries = 0; tries < 3 && (rc = weft_recv_loop(fd[0], count_data, &in)) != 0; tries++)
        REQUIRE(fault_explains(rc));
    if (rc < 0)
        WITHOUT_FAULTS(REQUIRE(weft_recv_loop(fd[0], count_data, &in) == 0));
    REQUIRE(in.sum == FLOW_BYTES);
    close_required(fd);
}

/* Names: dialing and resolving. */

static inline void exchange_byte(int listener, int client)
{
    int conn = weft_accept(listener, NULL, NULL);
    char byte = 0;
    if (!REQUIRE_OR_FAULT(conn))
        return;
    WITHOUT_FAULTS(REQUIRE(weft_write(client, "y", 1) == 1));
    WITHOUT_FAULTS(REQUIRE(weft_read(conn, &byte, 1) == 1 && byte == 'y'));
    REQUIRE(weft_close(conn) == 0);
}

static inline int port_of(int fd)
{
    struct sockaddr_in6 at;
    socklen_t bytes = sizeof at;
    REQUIRE(getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
    return ntohs(at.sin6_port); /* at the same offset for IPv4 */
}

/* Require a result, or an error of a fault. The message may be missing when memory is short. */
static inline bool require_named(int result)
{
    bool is_good = REQUIRE_OR_PEER_FAULT(result);
    if (!is_good && weft_error() != NULL)
        REQUIRE(fault_explains_at_peer(weft_error()->code));
    weft_error_clear();
    return is_good;
}

/* Dial a listener. In addr, %d stands for the port of the listener. */
static inline void dial_at(const char *network, const char *listen_addr, const char *addr)
{
    char dialed[64];
    int listener = weft_listen(network, listen_addr);
    if (!require_named(listener))
        return;
    snprintf(dialed, sizeof dialed, addr, port_of(listener));
    int client = weft_dial(network, dialed);
    if (require_named(client)) {
        exchange_byte(listener, client);
        REQUIRE(weft_close(client) == 0);
    }
    REQUIRE(weft_close(listener) == 0);
}

static inline void resolve_one(const char *host)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool is_done = require_named(weft_resolve(host, "80", &hints, &found));
    REQUIRE(is_done == (found != NULL));
    weft_resolve_free(found);
}

FAULT_STEPS(dial_and_resolve)
{
    const char *name = format("@weft-fault-%d", (int)getpid());
    dial_at("tcp", "127.0.0.1:0", "127.0.0.1:%d");
    dial_at("tcp", "localhost:0", "localhost:%d");
    dial_at("unix", name, name);
    resolve_one("::1");
    resolve_one("localhost");
}

#ifdef WEFT_HAS_CARES
/* Resolving with a name server, which a test starts before. */

static dns_server fault_server;

static const dns_entry fault_table[] = {
    {.name = "both.test", .a = "192.0.2.1", .aaaa = "2001:db8::1"},
    {.name = "long.test", .a = "192.0.2.2", .manner = DNS_BY_TCP},
    {.name = "silent.test", .manner = DNS_SILENT},
};

static inline void cancel_lookup(void)
{
    struct addrinfo *found = NULL;
    int rc = 1;
    WEFT_MOVE_ON_AFTER(0.0005)
        rc = weft_resolve("silent.test", "80", NULL, &found);
    REQUIRE(found == NULL && (rc == -ECANCELED || fault_explains(rc)));
    weft_error_clear();
}

FAULT_STEPS(resolve_by_server)
{
    const weft_resolver_options o = {
        .servers = fault_server.address, .search = "", .timeout_s = 0.5, .tries = 3};
    if (!require_named(weft_set_resolver(&o)))
        return;
    resolve_one("both.test");
    resolve_one("long.test");
    cancel_lookup();
    resolve_one("both.test");
    require_named(weft_set_resolver(NULL));
    while (weft_children(weft_main(), NULL, 0) > 0)
        weft_sleep(0); /* the fiber that drives the queries ends */
}
#endif

#endif
