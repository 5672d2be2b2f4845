/*
 * An echo server as a hand-written io_uring loop. Accept and receive are multishot: each socket
 * needs one submission. ring.h has the rest.
 */
#include "listen.h"
#include "works.h"

#define RING_BUFFER_BYTES ECHO_BUFFER_BYTES
#include "ring.h"

#include <errno.h>
#include <unistd.h>

#define FDS_MAX (1 << 16)
#define NONE (-1)

typedef enum kind {
    ACCEPT,
    RECV,
    SEND,
} kind;

/* The buffers that a connection sends back, in order. The first buffer is being sent. */
typedef struct connection {
    int first, last; /* NONE: nothing to send */
    bool is_ended;   /* the peer has ended: close when all is sent */
} connection;

static int next_buffer[RING_BUFFERS], buffer_bytes[RING_BUFFERS];
static connection connections[FDS_MAX]; /* by descriptor */

static void start_receiving(int fd)
{
    struct io_uring_sqe *sqe = ring_next(RECV, fd);
    io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    ring_use_buffers(sqe);
}

/* Send a whole buffer. With MSG_WAITALL the kernel continues after a short send. */
static void start_sending(int fd, int buffer)
{
    struct io_uring_sqe *sqe = ring_next(SEND, fd);
    io_uring_prep_send(sqe, fd, ring_buffers[buffer], (size_t)buffer_bytes[buffer],
                       MSG_WAITALL | MSG_NOSIGNAL);
}

static void accepted(int fd)
{
    bench_require(fd >= 0 && fd < FDS_MAX);
    connections[fd] = (connection){NONE, NONE, false};
    start_receiving(fd);
}

static void end_receiving(int fd)
{
    connections[fd].is_ended = true;
    if (connections[fd].first == NONE)
        close(fd);
}

static void received(int fd, const struct io_uring_cqe *cqe)
{
    connection *c = &connections[fd];
    if (cqe->res > 0) {
        int buffer = ring_buffer(cqe);
        buffer_bytes[buffer] = cqe->res;
        next_buffer[buffer] = NONE;
        if (c->first == NONE) {
            c->first = buffer;
            start_sending(fd, buffer);
        } else {
            next_buffer[c->last] = buffer;
        }
        c->last = buffer;
    } else if (cqe->res != -ENOBUFS) {
        end_receiving(fd);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE))
        start_receiving(fd);
}

static void sent(int fd)
{
    connection *c = &connections[fd];
    int done = c->first;
    c->first = next_buffer[done];
    ring_return_buffer(done);
    if (c->first != NONE)
        start_sending(fd, c->first);
    else if (c->is_ended)
        close(fd);
}

static bool handle(const struct io_uring_cqe *cqe)
{
    int fd = ring_fd(cqe);
    switch ((kind)ring_kind(cqe)) {
    case ACCEPT:
        accepted(cqe->res);
        if (!(cqe->flags & IORING_CQE_F_MORE))
            ring_accept(ACCEPT, fd);
        break;
    case RECV:
        received(fd, cqe);
        break;
    case SEND:
        sent(fd);
        break;
    }
    return true;
}

void work_echo_uring(size_t port, size_t n)
{
    (void)n;
    ring_open();
    ring_accept(ACCEPT, bench_listen(port));
    while (ring_tick(handle))
        ;
}
