/* The tight loops: accept and receive until it is over, without being asked for each. */
#include "core/op.h"
#include "core/report.h"

#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <stdlib.h>
#include <string.h>

/* What a loop reads at a time where the kernel brings no buffers of its own: any datagram fits. */
#define READ_BYTES (64 << 10)
/* How long an accept loop leaves a system alone that has run out of something. */
#define SHORTAGE_PAUSE_S 0.05

/* A connection that was gone before it could be taken; see accept(2) on the errors of networks. */
static bool is_passing(int error)
{
    switch (error) {
    case -ECONNABORTED:
    case -EINTR:
    case -EPROTO:
    case -EPERM: /* a firewall's */
    case -ENETDOWN:
    case -ENOPROTOOPT:
    case -EHOSTDOWN:
    case -ENONET:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static bool is_shortage(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/* Where connections come from: one operation with many results, or one for each. */
typedef struct door {
    int fd;
    bool has_many;
    bool is_short; /* said so, and nothing has been accepted since */
    weft__many many;
} door;

static int next_conn(door *d)
{
    const void *ignored;
    return d->has_many ? (int)weft__many_next(&d->many, &ignored) : weft_accept(d->fd, NULL, NULL);
}

/* 0: it can go on. */
static int sit_out(door *d, int error)
{
    if (is_passing(error))
        return 0;
    if (!is_shortage(error))
        return error;
    if (!d->is_short)
        weft__report("accepting: %s; trying again", strerror(-error));
    d->is_short = true;
    return weft_sleep(SHORTAGE_PAUSE_S);
}

int weft_accept_loop(int fd, weft_on_conn *on_conn, void *ctx)
{
    door d = {.fd = fd};
    d.has_many = weft__many_open(&d.many, WEFT__OP_ACCEPT, fd) == 0;
    int rc = 0;
    while (rc >= 0) {
        int conn = next_conn(&d);
        if (conn < 0) {
            rc = sit_out(&d, conn);
            continue;
        }
        d.is_short = false;
        rc = on_conn(conn, ctx);
    }
    if (d.has_many)
        weft__many_close(&d.many);
    return rc;
}

/* Read once into memory of our own. */
static int read_some(int fd, char *buffer, weft_on_data *on_data, void *ctx, bool *is_over)
{
    ssize_t n = weft_read(fd, buffer, READ_BYTES);
    *is_over = n <= 0;
    return n > 0 ? on_data(buffer, (size_t)n, ctx) : (int)n;
}

static int read_loop(int fd, weft_on_data *on_data, void *ctx)
{
    char *buffer = malloc(READ_BYTES);
    if (buffer == NULL)
        return -ENOMEM;
    bool is_over = false;
    int rc = 0;
    while (rc >= 0 && !is_over)
        rc = read_some(fd, buffer, on_data, ctx, &is_over);
    free(buffer);
    return rc;
}

/* -ENOTSOCK, -ENOBUFS: it cannot go on this way. */
static int receive_loop(weft__many *m, weft_on_data *on_data, void *ctx)
{
    const void *data;
    intptr_t n;
    while ((n = weft__many_next(m, &data)) > 0) {
        int rc = on_data(data, (size_t)n, ctx);
        if (rc < 0)
            return rc;
    }
    return (int)n;
}

int weft_recv_loop(int fd, weft_on_data *on_data, void *ctx)
{
    weft__many m;
    if (weft__many_open(&m, WEFT__OP_RECV, fd) < 0)
        return read_loop(fd, on_data, ctx);
    int rc = receive_loop(&m, on_data, ctx);
    weft__many_close(&m);
    /* No socket; or all buffers are with loops whose callee blocks, and this one needs its own. */
    return rc == -ENOTSOCK || rc == -ENOBUFS ? read_loop(fd, on_data, ctx) : rc;
}
