/*
 * The parts of the echo measurement: the servers, each a loop of its own, and the client.
 *
 * A server is handed a non-blocking socket that listens. It echoes whatever comes on any
 * connection, and returns when accepting fails: shutting the listening socket down ends it.
 */
#ifndef WEFT_BENCH_ECHO_H
#define WEFT_BENCH_ECHO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#define ECHO_BYTES 64
/* What a server takes at once, the same for all: bytes. */
#define ECHO_BUFFER_BYTES 1024

/* Most connections that the hand-written servers keep: descriptors are below this number. */
#define ECHO_FDS_MAX 8192

/*
 * The same for all, and one that keeps no clock: a machine's own choice may be BBR, whose timers
 * would be most of the noise.
 */
#define ECHO_CONGESTION "reno"

void echo_epoll(int listener);
void echo_uring(int listener);
void echo_weft(int listener);      /* weft_read, weft_write_all */
void echo_weft_loop(int listener); /* weft_recv_loop, weft_write_all */

static inline void echo_require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "echo: %s\n", what);
    exit(1);
}

/* The client's connections to one server. */
typedef struct echo_client echo_client;

/* What a run came to. */
typedef struct echo_score {
    double trips_per_s;
    double server_ns; /* processor time of the server, a trip */
} echo_score;

/* Connect so often to what listens at this socket. Whatever fails ends the process. */
echo_client *echo_client_open(int listener, pid_t server, int connections);

/*
 * Bounce messages to and fro, one under way on each connection, and compare what comes back: so
 * many trips over all connections together, at least a few for each. The score is without the first
 * sixth of them, which is to warm up.
 */
echo_score echo_client_run(echo_client *c, size_t trips);

/* Close all connections. */
void echo_client_close(echo_client *c);

#endif
