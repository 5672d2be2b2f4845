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

#endif
