/*
 * The client of the echo measurement: a plain epoll loop, each connection with one message under
 * way.
 *
 * It never sleeps: it asks epoll again and again. Otherwise the server would pay for waking it
 * whenever it is the faster one, and of two servers the slower would look better than it is.
 */
#include "echo.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 256
/* On each connection, so that the time is not that of the first messages. */
#define TRIPS_EACH_MIN 4
/* A server that says nothing for so long is broken. */
#define SILENCE_S 10
/* Reading the clock that often is enough to notice. */
#define POLLS_A_LOOK 1024

typedef struct message {
    uint64_t number; /* tells it from all others of this client */
    char rest[ECHO_BYTES - sizeof(uint64_t)];
} message;

typedef struct connection {
    message sent;
    size_t received; /* bytes of it that have come back */
    int fd;
} connection;

struct echo_client {
    clockid_t server_clock;
    int epoll_fd;
    uint64_t sent;  /* messages, on all connections */
    uint64_t limit; /* messages to send */
    uint64_t trips; /* messages that came back */
    int count;
    connection connections[];
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void connection_open(connection *c, const struct sockaddr_in *address)
{
    static const int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    echo_require(c->fd >= 0, "socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, ECHO_CONGESTION, sizeof ECHO_CONGESTION - 1);
    echo_require(connect(c->fd, (const void *)address, sizeof *address) == 0, "connect");
}

echo_client *echo_client_open(int listener, pid_t server, int connections)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    echo_require(getsockname(listener, (void *)&address, &bytes) == 0, "getsockname");
    echo_client *c = calloc(1, sizeof *c + (size_t)connections * sizeof c->connections[0]);
    echo_require(c != NULL, "no memory");
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    echo_require(c->epoll_fd >= 0, "epoll_create1");
    echo_require(clock_getcpuclockid(server, &c->server_clock) == 0, "no clock of the server");
    for (c->count = 0; c->count < connections; c->count++) {
        connection *one = &c->connections[c->count];
        connection_open(one, &address);
        memset(one->sent.rest, c->count, sizeof one->sent.rest);
        struct epoll_event event = {EPOLLIN | EPOLLET, {.ptr = one}};
        echo_require(epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, one->fd, &event) == 0, "epoll_ctl");
    }
    return c;
}

void echo_client_close(echo_client *c)
{
    for (int i = 0; i < c->count; i++)
        close(c->connections[i].fd);
    close(c->epoll_fd);
    free(c);
}

static void send_next(echo_client *c, connection *to)
{
    if (c->sent == c->limit)
        return;
    to->sent.number = c->sent++;
    to->received = 0;
    ssize_t n = send(to->fd, &to->sent, sizeof to->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    echo_require(n == sizeof to->sent, "the client cannot send");
}

/* No more than one message is on its way: one call takes all that is there. */
static void receive(echo_client *c, connection *from)
{
    message got;
    ssize_t n = recv(from->fd, &got, sizeof got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    const char *expected = (const char *)&from->sent + from->received;
    echo_require(n > 0, "a server hung up");
    echo_require((size_t)n <= sizeof got - from->received && memcmp(&got, expected, (size_t)n) == 0,
                 "a server sent what it had not got");
    from->received += (size_t)n;
    if (from->received == sizeof got) {
        c->trips++;
        send_next(c, from);
    }
}

/* Go on until so many trips are done, from the beginning. */
static void run_until(echo_client *c, uint64_t trips)
{
    struct epoll_event events[EVENTS_MAX];
    double silent_since = 0;
    for (unsigned idle = 0; c->trips < trips;) {
        int count = epoll_wait(c->epoll_fd, events, EVENTS_MAX, 0);
        for (int i = 0; i < count; i++)
            receive(c, events[i].data.ptr);
        idle = count > 0 ? 0 : idle + 1;
        if (idle == POLLS_A_LOOK)
            silent_since = seconds(CLOCK_MONOTONIC);
        else if (idle > 0 && idle % POLLS_A_LOOK == 0)
            echo_require(seconds(CLOCK_MONOTONIC) - silent_since < SILENCE_S,
                         "a server does not answer");
    }
}

echo_score echo_client_run(echo_client *c, size_t trips)
{
    size_t least = (size_t)c->count * TRIPS_EACH_MIN;
    trips = trips > least ? trips : least;
    c->limit = c->sent + trips;
    for (int i = 0; i < c->count; i++)
        send_next(c, &c->connections[i]);
    run_until(c, c->trips + trips / 6);

    uint64_t before = c->trips;
    double server_began = seconds(c->server_clock), began = seconds(CLOCK_MONOTONIC);
    run_until(c, c->limit);
    double took = seconds(CLOCK_MONOTONIC) - began;
    double server_took = seconds(c->server_clock) - server_began;
    double counted = (double)(c->trips - before);
    return (echo_score){counted / took, server_took / counted * 1e9};
}
