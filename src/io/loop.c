/* The tight loops: accept and receive until it is over, without being asked for each. */
#include "core/op.h"
#include "core/report.h"

#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <stdlib.h>
#include <string.h>

/* What a loop reads at a time where the kernel brings no buffers of its own. */
#define READ_BYTES (16 << 10)
#define MESSAGE_BYTES_MAX (64 << 10)
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
    uint32_t life; /* of fd */
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
    if (weft__was_struck())
        return error;
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
    door d = {.fd = fd, .life = weft__fd_life(fd)};
    d.has_many = weft__many_open(&d.many, WEFT__OP_ACCEPT, fd) == 0;
    int rc = 0;
    bool is_over = false;
    while (rc >= 0 && !is_over) {
        int conn = next_conn(&d);
        if (conn < 0) {
            is_over = weft__was_struck();
            rc = sit_out(&d, conn);
            continue;
        }
        d.is_short = false;
        rc = on_conn(conn, ctx);
        if (rc >= 0 && weft__fd_life(fd) != d.life)
            rc = -EBADF; /* closed meanwhile, and maybe another file's number by now */
    }
    if (d.has_many)
        weft__many_close(&d.many);
    return rc;
}

/* What may come at once: of messages none is to be cut. */
static size_t room_for(int fd)
{
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof type;
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
    return type == SOCK_STREAM ? READ_BYTES : MESSAGE_BYTES_MAX;
}

/* What was read goes to the callee, who may close fd: then it is another file's number. */
static int hand_over(int fd, uint32_t life, const void *data, size_t bytes, weft_on_data *on_data,
                     void *ctx)
{
    int rc = on_data(data, bytes, ctx);
    return rc >= 0 && weft__fd_life(fd) != life ? -EBADF : rc;
}

static int read_loop(int fd, weft_on_data *on_data, void *ctx)
{
    const uint32_t life = weft__fd_life(fd);
    size_t room = room_for(fd);
    char *buffer = malloc(room);
    if (buffer == NULL)
        return -ENOMEM;
    ssize_t n;
    int rc = 0;
    while (rc >= 0 && (n = weft_read(fd, buffer, room)) != 0)
        rc = n < 0 ? (int)n : hand_over(fd, life, buffer, (size_t)n, on_data, ctx);
    free(buffer);
    return rc;
}

/*
 * *is_refused: it cannot go on this way. It is no socket; or all buffers are with loops whose
 * callee blocks, and this one needs its own.
 */
static int receive_loop(weft__many *m, weft_on_data *on_data, void *ctx, bool *is_refused)
{
    const void *data;
    intptr_t n;
    int rc = 0;
    const uint32_t life = weft__fd_life(m->op.fd);
    while (rc >= 0 && (n = weft__many_next(m, &data)) > 0)
        rc = hand_over(m->op.fd, life, data, (size_t)n, on_data, ctx);
    if (rc < 0)
        return rc;
    *is_refused = (n == -ENOTSOCK || n == -ENOBUFS) && !weft__was_struck();
    return (int)n;
}

int weft_recv_loop(int fd, weft_on_data *on_data, void *ctx)
{
    weft__many m;
    if (weft__many_open(&m, WEFT__OP_RECV, fd) < 0)
        return read_loop(fd, on_data, ctx);
    bool is_refused = false;
    int rc = receive_loop(&m, on_data, ctx, &is_refused);
    weft__many_close(&m);
    return is_refused ? read_loop(fd, on_data, ctx) : rc;
}
