/*
 * Loops that accept connections or receive data until the end of the input or an error. A loop uses
 * one multishot operation if the backend supports multishot operations.
 */
#include "core/debug/diag.h"
#include "core/op/op.h"

#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <stdlib.h>
#include <string.h>

/* Buffer sizes of a receive loop without a multishot operation. */
#define READ_BYTES (16 << 10)
#define MESSAGE_BYTES_MAX (64 << 10)
/* The pause of an accept loop after the system has run out of a resource, in seconds. */
#define SHORTAGE_PAUSE_S 0.05

/*
 * Return whether an error concerns only one connection, so that the next accept may succeed. See
 * accept(2) about network errors.
 */
static bool is_transient(int error)
{
    switch (error) {
    case -ECONNABORTED:
    case -EINTR:
    case -EPROTO:
    case -EPERM: /* from a firewall */
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

/* A source of connections: a multishot operation, or one accept per connection. */
typedef struct accept_source {
    int fd;
    uint32_t fd_generation; /* of fd when the loop started */
    bool has_multishot;
    bool is_shortage_reported; /* a shortage was reported, and no connection was accepted since */
    weft__multishot multishot;
} accept_source;

static int next_conn(accept_source *source)
{
    const void *ignored;
    return source->has_multishot ? (int)weft__multishot_next(&source->multishot, &ignored)
                                 : weft_accept(source->fd, NULL, NULL);
}

/* Handle a failed accept. Returns 0 if the loop can continue, or the error that ends the loop. */
static int accept_recover(accept_source *source, int error)
{
    if (weft__was_interrupted())
        return error;
    if (is_transient(error))
        return 0;
    if (!is_shortage(error))
        return error;
    if (!source->is_shortage_reported)
        weft__diag(LOG_WARNING, "weft_accept_loop: %s; retrying", strerror(-error));
    source->is_shortage_reported = true;
    return weft_sleep(SHORTAGE_PAUSE_S);
}

int weft_accept_loop(int fd, weft_on_conn *on_conn, void *ctx)
{
    accept_source source = {.fd = fd, .fd_generation = weft__fd_generation_here(fd)};
    source.has_multishot = weft__multishot_open(&source.multishot, WEFT__OP_ACCEPT, fd) == 0;
    int rc = 0;
    bool is_over = false;
    while (rc >= 0 && !is_over) {
        int conn = next_conn(&source);
        if (conn < 0) {
            is_over = weft__was_interrupted();
            rc = accept_recover(&source, conn);
            continue;
        }
        source.is_shortage_reported = false;
        rc = on_conn(conn, ctx);
        if (rc >= 0 && weft__fd_generation_here(fd) != source.fd_generation)
            rc = -EBADF; /* the callback has closed fd; the number may belong to another file */
    }
    if (source.has_multishot)
        weft__multishot_close(&source.multishot);
    return rc;
}

/*
 * Return the buffer size for a descriptor. The buffer must hold the largest message of a message
 * socket.
 */
static size_t read_bytes_for(int fd)
{
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof type;
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
    return type == SOCK_STREAM ? READ_BYTES : MESSAGE_BYTES_MAX;
}

/*
 * Pass data to the callback. If the callback has closed fd, return -EBADF, because the number may
 * belong to another file.
 */
static int deliver_data(int fd, uint32_t fd_generation, const void *data, size_t bytes,
                        weft_on_data *on_data, void *ctx)
{
    int rc = on_data(data, bytes, ctx);
    return rc >= 0 && weft__fd_generation_here(fd) != fd_generation ? -EBADF : rc;
}

static int read_loop(int fd, weft_on_data *on_data, void *ctx)
{
    const uint32_t fd_generation = weft__fd_generation_here(fd);
    size_t capacity = read_bytes_for(fd);
    char *buffer = malloc(capacity);
    if (buffer == NULL)
        return -ENOMEM;
    ssize_t n;
    int rc = 0;
    while (rc >= 0 && (n = weft_read(fd, buffer, capacity)) != 0)
        rc = n < 0 ? (int)n : deliver_data(fd, fd_generation, buffer, (size_t)n, on_data, ctx);
    free(buffer);
    return rc;
}

/*
 * Receive with a multishot operation. The call sets *must_fall_back if the caller must continue
 * with read_loop. The operation cannot continue if fd is not a socket, or if waiting callbacks hold
 * all buffers.
 */
static int receive_loop(weft__multishot *m, weft_on_data *on_data, void *ctx, bool *must_fall_back)
{
    const void *data;
    intptr_t n;
    int rc = 0;
    const uint32_t fd_generation = weft__fd_generation_here(m->op.fd);
    while (rc >= 0 && (n = weft__multishot_next(m, &data)) > 0)
        rc = deliver_data(m->op.fd, fd_generation, data, (size_t)n, on_data, ctx);
    if (rc < 0)
        return rc;
    *must_fall_back = (n == -ENOTSOCK || n == -ENOBUFS) && !weft__was_interrupted();
    return (int)n;
}

int weft_recv_loop(int fd, weft_on_data *on_data, void *ctx)
{
    weft__multishot m;
    if (weft__multishot_open(&m, WEFT__OP_RECV, fd) < 0)
        return read_loop(fd, on_data, ctx);
    bool must_fall_back = false;
    int rc = receive_loop(&m, on_data, ctx, &must_fall_back);
    weft__multishot_close(&m);
    return must_fall_back ? read_loop(fd, on_data, ctx) : rc;
}
