/*
 * The client of the workload echo. One message of 64 bytes is in flight on each connection.
 *
 * usage: load PORT CONNECTIONS SECONDS [PID]
 * Print the round trips per second. With PID, also print the CPU time of that server per round
 * trip, in nanoseconds. The measurement starts after a tenth of the time, when each connection has
 * received a reply. The figures therefore exclude the cost of accepting. The measurement has at
 * least as many round trips as connections.
 *
 * The client receives all available replies before it sends the next messages. The client never
 * sleeps, but polls epoll. Otherwise a server that is faster than the client would pay for waking
 * it. Of two servers, the slower one would then look better than it is.
 */
#include "client.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>

#define MESSAGE_BYTES 64
#define EVENTS_MAX 512

typedef struct message {
    uint64_t number; /* unique */
    char rest[MESSAGE_BYTES - sizeof(uint64_t)];
} message;

typedef struct connection {
    message sent;
    size_t received; /* echoed bytes of sent */
    int fd;
} connection;

typedef struct client {
    client_progress progress; /* the first member, see exchange */
    int epoll_fd;
    uint64_t sent;
    connection *connections;
} client;

static void open_all(client *c, size_t port)
{
    bench_raise_descriptors();
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->connections = calloc(c->progress.count, sizeof *c->connections);
    bench_require(c->epoll_fd >= 0 && c->connections != NULL);
    for (size_t i = 0; i < c->progress.count; i++) {
        connection *one = &c->connections[i];
        one->fd = client_connect(port);
        memset(one->sent.rest, (int)i, sizeof one->sent.rest);
        struct epoll_event event = {EPOLLIN | EPOLLET, {.ptr = one}};
        bench_require(epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, one->fd, &event) == 0);
    }
}

static void send_next(client *c, connection *to)
{
    to->sent.number = c->sent++;
    to->received = 0;
    ssize_t n = send(to->fd, &to->sent, sizeof to->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    bench_require(n == sizeof to->sent);
}

/*
 * Return true if the whole message is back. At most one message is in flight, so that one call
 * reads all available bytes.
 */
static bool receive(connection *from)
{
    message got;
    ssize_t n = recv(from->fd, &got, sizeof got, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return false;
    bool is_connected = n > 0;
    bench_require(is_connected);
    bench_require((size_t)n <= sizeof got - from->received);
    const char *expected = (const char *)&from->sent + from->received;
    bench_require(memcmp(&got, expected, (size_t)n) == 0);
    from->received += (size_t)n;
    return from->received == sizeof got;
}

/* Receive all available replies, then send the next messages. */
static void exchange(client_progress *progress)
{
    client *c = (client *)progress; /* the first member */
    struct epoll_event events[EVENTS_MAX];
    connection *back[EVENTS_MAX];
    int count = epoll_wait(c->epoll_fd, events, EVENTS_MAX, 0), back_count = 0;
    for (int i = 0; i < count; i++)
        if (receive(events[i].data.ptr))
            back[back_count++] = events[i].data.ptr;
    for (int i = 0; i < back_count; i++) {
        c->progress.replied +=
            back[i]->sent.number < c->progress.count; /* numbers of the first messages */
        send_next(c, back[i]);
    }
    c->progress.trips += (uint64_t)back_count;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: %s PORT CONNECTIONS SECONDS [PID]\n", argv[0]);
        return 2;
    }
    client c = {.progress.count = strtoul(argv[2], NULL, 10)};
    double seconds = strtod(argv[3], NULL);
    pid_t server = argc == 5 ? atoi(argv[4]) : 0;
    bench_require(c.progress.count > 0);
    open_all(&c, strtoul(argv[1], NULL, 10));
    for (size_t i = 0; i < c.progress.count; i++)
        send_next(&c, &c.connections[i]);
    client_measure(&c.progress, exchange, seconds, server);
    return 0;
}
