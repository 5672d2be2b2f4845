/* Support for the clients of servers: connect, and read the CPU time of the server. */
#ifndef WEFT_BENCH_CLIENT_H
#define WEFT_BENCH_CLIENT_H

#include "listen.h"

#include <sys/types.h>
#include <unistd.h>

/* The time limit for a server to listen, and to reply. */
#define CLIENT_TIMEOUT_NS 20e9
#define CLIENT_RETRY_US 2000

/* Connect to 127.0.0.1. Try until the server listens. */
static inline int client_connect(size_t port)
{
    const int one = 1;
    const struct linger reset = {1, 0}; /* frees the port at once on close */
    struct sockaddr_in address = bench_address(port);
    double began_ns = bench_real_ns();
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bench_require(fd >= 0);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        bench_require(bench_real_ns() - began_ns < CLIENT_TIMEOUT_NS);
        close(fd);
        usleep(CLIENT_RETRY_US);
    }
}

/* Return the CPU time of a server so far, or 0 if server is 0. */
static inline double client_server_ns(pid_t server)
{
    clockid_t clock;
    if (server == 0)
        return 0;
    bench_require(clock_getcpuclockid(server, &clock) == 0);
    return bench_read_ns(clock);
}

/* The progress of a client that exchanges messages on many connections. */
typedef struct client_progress {
    size_t count;      /* connections */
    size_t replied;    /* connections with a reply */
    uint64_t trips;    /* round trips */
    double replied_ns; /* time of the last reply */
} client_progress;

/* Receive the available replies, and send the next messages. Count them in *progress. */
typedef void client_exchange(client_progress *progress);

/* Run until end_ns, until p->trips is at least trips, and until each connection has a reply. */
static inline void client_run_until(client_progress *p, client_exchange *exchange, double end_ns,
                                    uint64_t trips)
{
    double now_ns;
    while ((now_ns = bench_real_ns()) < end_ns || p->trips < trips || p->replied < p->count) {
        uint64_t before = p->trips;
        exchange(p);
        if (p->trips != before)
            p->replied_ns = now_ns;
        bench_require(now_ns - p->replied_ns < CLIENT_TIMEOUT_NS);
    }
}

/*
 * Run for some seconds. Measure after a tenth of the time, for at least as many round trips as
 * connections. Print the round trips per second, and if server is not 0, its CPU time per trip.
 */
static inline void client_measure(client_progress *p, client_exchange *exchange, double seconds,
                                  pid_t server)
{
    p->replied_ns = bench_real_ns();
    client_run_until(p, exchange, p->replied_ns + seconds * 1e8, 0);
    uint64_t trips_before = p->trips;
    double server_before = client_server_ns(server), began_ns = bench_real_ns();
    client_run_until(p, exchange, began_ns + seconds * 9e8, trips_before + p->count);
    double took_ns = bench_real_ns() - began_ns, trips = (double)(p->trips - trips_before);
    if (server != 0)
        bench_print_both(trips / took_ns * 1e9, (client_server_ns(server) - server_before) / trips);
    else
        bench_print(trips / took_ns * 1e9);
}

#endif
