/*
 * A hello world server that parses nothing, as a hand-written io_uring loop with the ring of
 * bench/ring.h. Accept and receive are multishot: each socket needs one submission. With --close a
 * receive is not multishot, and the close is linked to the reply.
 */
#include "raw.h"

#define RING_BUFFER_BYTES RAW_BUFFER_BYTES
#include "../ring.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum kind {
    ACCEPT,
    RECV,
    SEND,
    CLOSE,
} kind;

typedef struct connection {
    size_t line_bytes; /* length of the unfinished line */
    size_t pending;    /* replies to send, except those in flight */
    bool is_sending;
    bool is_ended; /* the peer has ended: close when all is sent */
} connection;

static connection connections[RAW_FDS_MAX]; /* by descriptor */
static raw_replies replies;
static bool is_close;

static void start_receiving(int fd)
{
    struct io_uring_sqe *sqe = ring_next(RECV, fd);
    if (is_close)
        io_uring_prep_recv(sqe, fd, NULL, RAW_BUFFER_BYTES, 0);
    else
        io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    ring_use_buffers(sqe);
}

/* Send replies. With MSG_WAITALL the kernel continues after a short send. */
static void start_sending(int fd, size_t count)
{
    struct io_uring_sqe *sqe = ring_next(SEND, fd);
    io_uring_prep_send(sqe, fd, replies.data, count * replies.each, MSG_WAITALL | MSG_NOSIGNAL);
}

static void accepted(int fd)
{
    raw_require(fd < RAW_FDS_MAX, "too many connections");
    connections[fd] = (connection){0};
    start_receiving(fd);
}

/* Send the last reply and close. Linked entries must be submitted together. */
static void send_and_close(int fd)
{
    if (io_uring_sq_space_left(&ring) < 2)
        io_uring_submit(&ring);
    struct io_uring_sqe *sqe = ring_next(SEND, fd);
    io_uring_prep_send(sqe, fd, replies.data, replies.each, MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_IO_HARDLINK | IOSQE_CQE_SKIP_SUCCESS;
    sqe = ring_next(CLOSE, fd);
    io_uring_prep_close(sqe, fd);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static void send_pending(int fd)
{
    connection *c = &connections[fd];
    if (c->is_sending || c->pending == 0)
        return;
    size_t count = c->pending < RAW_REPLIES_MAX ? c->pending : RAW_REPLIES_MAX;
    c->pending -= count;
    c->is_sending = true;
    start_sending(fd, count);
}

/* Handle received bytes. Return false if the connection is closing. */
static bool answer(int fd, int buffer, size_t bytes)
{
    connection *c = &connections[fd];
    size_t count = raw_count_requests(ring_buffers[buffer], bytes, &c->line_bytes);
    ring_return_buffer(buffer);
    if (is_close && count > 0) {
        send_and_close(fd);
        return false;
    }
    c->pending += count;
    send_pending(fd);
    return true;
}

static void received(int fd, const struct io_uring_cqe *cqe)
{
    if (cqe->res > 0) {
        if (!answer(fd, ring_buffer(cqe), (size_t)cqe->res))
            return;
    } else if (cqe->res != -ENOBUFS) {
        connections[fd].is_ended = true;
        if (!connections[fd].is_sending)
            close(fd);
        return;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE))
        start_receiving(fd);
}

static void sent(int fd, int result)
{
    connection *c = &connections[fd];
    /* With --close only a failed send has a completion. The linked close runs anyway. */
    if (is_close)
        return;
    c->is_sending = false;
    c->pending = result < 0 ? 0 : c->pending;
    send_pending(fd);
    if (c->is_ended && !c->is_sending)
        close(fd);
}

static bool handle(const struct io_uring_cqe *cqe)
{
    int fd = ring_fd(cqe);
    switch ((kind)ring_kind(cqe)) {
    case ACCEPT:
        raw_require(cqe->res >= 0, "accept");
        accepted(cqe->res);
        if (!(cqe->flags & IORING_CQE_F_MORE))
            ring_accept(ACCEPT, fd);
        break;
    case RECV:
        received(fd, cqe);
        break;
    case SEND:
        sent(fd, cqe->res);
        break;
    case CLOSE:
        break;
    }
    return true;
}

int main(int argc, char **argv)
{
    raw_options options = raw_options_read(argc, argv);
    is_close = options.is_close;
    replies = raw_replies_make(is_close);
    ring_open();
    ring_accept(ACCEPT, raw_listen(options.port));
    while (ring_tick(handle))
        ;
}
