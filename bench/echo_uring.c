/*
 * An echo server as a hand-written io_uring loop: one system call for all that is to be submitted
 * and for the wait; accepting and receiving are asked for once for each socket (multishot), and
 * what comes lies in buffers that the kernel takes from a ring.
 *
 * The rings are small on purpose: they are used round and round, and should stay in the cache.
 */
#include "echo.h"

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SUBMISSIONS 256
#define COMPLETIONS 4096 /* a burst from all connections */
#define BUFFERS 1024
#define GROUP 0 /* of buffers; there is only one */
#define NONE (-1)

typedef enum kind {
    ACCEPT,
    RECV,
    SEND,
} kind;

/* A connection's buffers that are to be sent back, in order; the first is on its way. */
typedef struct connection {
    int first, last; /* NONE: nothing to send */
    bool is_ended;   /* the peer's side: close when all is sent */
} connection;

static struct io_uring ring;
static struct io_uring_buf_ring *free_buffers;
static char buffers[BUFFERS][ECHO_BUFFER_BYTES];
static int next_buffer[BUFFERS], buffer_bytes[BUFFERS];
static connection connections[ECHO_FDS_MAX]; /* by descriptor */

/* The liburing calls that fill it in leave user_data as it is. */
static struct io_uring_sqe *next_sqe(kind what, int fd)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    while (sqe == NULL) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    sqe->user_data = (uint64_t)fd << 2 | what;
    return sqe;
}

static void start_accepting(int listener)
{
    struct io_uring_sqe *sqe = next_sqe(ACCEPT, listener);
    io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
}

static void start_receiving(int fd)
{
    struct io_uring_sqe *sqe = next_sqe(RECV, fd);
    io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
}

/* All of it: with MSG_WAITALL the kernel goes on after a short send. */
static void start_sending(int fd, int buffer)
{
    struct io_uring_sqe *sqe = next_sqe(SEND, fd);
    io_uring_prep_send(sqe, fd, buffers[buffer], (size_t)buffer_bytes[buffer],
                       MSG_WAITALL | MSG_NOSIGNAL);
}

static void give_back(int buffer)
{
    io_uring_buf_ring_add(free_buffers, buffers[buffer], ECHO_BUFFER_BYTES, (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(free_buffers, 1);
}

static void accepted(int fd)
{
    static const int one = 1;
    echo_require(fd < ECHO_FDS_MAX, "too many connections");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
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
        int buffer = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
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
    give_back(done);
    if (c->first != NONE)
        start_sending(fd, c->first);
    else if (c->is_ended)
        close(fd);
}

/* False if it is over with the listener. */
static bool handle(const struct io_uring_cqe *cqe)
{
    int fd = (int)(cqe->user_data >> 2);
    switch ((kind)(cqe->user_data & 3)) {
    case ACCEPT:
        if (cqe->res < 0)
            return false;
        accepted(cqe->res);
        if (!(cqe->flags & IORING_CQE_F_MORE))
            start_accepting(fd);
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

static void open_ring(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = COMPLETIONS,
    };
    int rc = io_uring_queue_init_params(SUBMISSIONS, &ring, &params);
    echo_require(rc == 0, "no io_uring as new as this");
    io_uring_register_ring_fd(&ring);
    free_buffers = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    echo_require(free_buffers != MAP_FAILED, "no memory");
    struct io_uring_buf_reg reg = {
        .ring_addr = (uintptr_t)free_buffers, .ring_entries = BUFFERS, .bgid = GROUP};
    echo_require(io_uring_register_buf_ring(&ring, &reg, 0) == 0, "no ring of buffers");
    io_uring_buf_ring_init(free_buffers);
    for (int i = 0; i < BUFFERS; i++)
        give_back(i);
}

void echo_uring(int listener)
{
    bool is_open = true;
    open_ring();
    start_accepting(listener);
    while (is_open) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            is_open &= handle(cqe);
            count++;
        }
        io_uring_cq_advance(&ring, count);
    }
    io_uring_queue_exit(&ring);
}
