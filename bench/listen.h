/* The listening socket of echo servers in C and C++. */
#ifndef WEFT_BENCH_LISTEN_H
#define WEFT_BENCH_LISTEN_H

#include "bench.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* The largest read of a server, in bytes. */
#define ECHO_BUFFER_BYTES 4096
#define ECHO_BACKLOG 4096
#define ECHO_BIND_TRIES 500 /* within 5 s */

/* Raise the limit of open descriptors. A server has 10,000 connections or more. */
static inline void bench_raise_descriptors(void)
{
    struct rlimit limit;
    bench_require(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    bench_require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static inline struct sockaddr_in bench_address(size_t port)
{
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Return a non-blocking socket that listens on 127.0.0.1. Accepted sockets inherit TCP_NODELAY. */
static inline int bench_listen(size_t port)
{
    const int one = 1;
    struct sockaddr_in address = bench_address(port);
    bench_raise_descriptors();
    signal(SIGPIPE, SIG_IGN);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bench_require(fd >= 0);
    bench_require(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    bench_require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    /*
     * The port of a killed server may still be in use: the kernel closes a ring after its process.
     */
    for (int i = 0; bind(fd, (const struct sockaddr *)&address, sizeof address) < 0; i++) {
        bench_require(i < ECHO_BIND_TRIES);
        usleep(10000);
    }
    bench_require(listen(fd, ECHO_BACKLOG) == 0);
    return fd;
}

#endif
