/*
 * The connection of an echo server for level-triggered loops: libevent and libev. A readable socket
 * leads to one recv and one send. If the socket is full, the connection waits to write, and reads
 * nothing meanwhile.
 */
#ifndef WEFT_BENCH_PEER_ECHO_H
#define WEFT_BENCH_PEER_ECHO_H

#include "peer.h"

#include "../listen.h"

#include <errno.h>

typedef struct echo_connection {
    int fd;
    bool is_writing; /* waits to write; otherwise to read */
    size_t sent, bytes;
    char buffer[ECHO_BUFFER_BYTES];
} echo_connection;

/* Whether a connection keeps its event, needs the other event, or is over. */
typedef enum echo_step { ECHO_SAME, ECHO_OTHER, ECHO_OVER } echo_step;

/* Accept a connection. Return -1 if there is none. */
static inline int echo_accept(int listener)
{
    return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static inline echo_step echo_after_failure(void)
{
    return errno == EAGAIN || errno == EINTR ? ECHO_SAME : ECHO_OVER;
}

static inline echo_step echo_write(echo_connection *c)
{
    ssize_t n = send(c->fd, c->buffer + c->sent, c->bytes - c->sent, MSG_NOSIGNAL);
    if (n < 0 && echo_after_failure() == ECHO_OVER)
        return ECHO_OVER;
    c->sent += n > 0 ? (size_t)n : 0;
    bool was_writing = c->is_writing;
    c->is_writing = c->sent < c->bytes;
    return was_writing == c->is_writing ? ECHO_SAME : ECHO_OTHER;
}

/* Handle the event of a connection. */
static inline echo_step echo_advance(echo_connection *c)
{
    if (c->is_writing)
        return echo_write(c);
    ssize_t n = recv(c->fd, c->buffer, sizeof c->buffer, 0);
    if (n == 0)
        return ECHO_OVER;
    if (n < 0)
        return echo_after_failure();
    c->sent = 0;
    c->bytes = (size_t)n;
    return echo_write(c);
}

#endif
