/*
 * A hello world that parses nothing, as a hand-written io_uring loop, with what
 * bench/echo_uring.c uses: one system call for all that is to be submitted and for the wait;
 * accepting and receiving are asked for once for each socket (multishot), and what comes lies in
 * buffers that the kernel takes from a ring. With --close, receiving is asked for once, and the
 * close is linked to the reply.
 */
#include "raw.h"

#include <errno.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define SUBMISSIONS 256
#define COMPLETIONS 4096 /* a burst from all connections */
#define BUFFERS 1024
#define GROUP 0 /* of buffers; there is only one */

typedef enum kind {
    ACCEPT,
    RECV,
    SEND,
    CLOSE,
} kind;

typedef struct connection {
    size_t line_bytes; /* of the line that has not ended yet */
    size_t owed;       /* replies to send, without those under way */
    bool is_sending;
    bool is_ended; /* the peer's side: close when all is sent */
} connection;

static struct io_uring ring;
static struct io_uring_buf_ring *free_buffers;
static char buffers[BUFFERS][RAW_BUFFER_BYTES];
static connection connections[RAW_FDS_MAX]; /* by descriptor */
static raw_replies replies;
static bool is_close;

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
    if (is_close)
        io_uring_prep_recv(sqe, fd, NULL, RAW_BUFFER_BYTES, 0);
    else
        io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
}

/* All of it: with MSG_WAITALL the kernel goes on after a short send. */
static void start_sending(int fd, size_t count)
{
    struct io_uring_sqe *sqe = next_sqe(SEND, fd);
    io_uring_prep_send(sqe, fd, replies.data, count * replies.each, MSG_WAITALL | MSG_NOSIGNAL);
}

static void give_back(int buffer)
{
    io_uring_buf_ring_add(free_buffers, buffers[buffer], RAW_BUFFER_BYTES, (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(free_buffers, 1);
}

static void accepted(int fd)
{
    raw_require(fd < RAW_FDS_MAX, "too many connections");
    connections[fd] = (connection){0};
    start_receiving(fd);
}

/* The last reply: two entries that belong together must not be submitted one by one. */
static void send_and_close(int fd)
{
    if (io_uring_sq_space_left(&ring) < 2)
        io_uring_submit(&ring);
    struct io_uring_sqe *sqe = next_sqe(SEND, fd);
    io_uring_prep_send(sqe, fd, replies.data, replies.each, MSG_WAITALL | MSG_NOSIGNAL);
    sqe->flags |= IOSQE_IO_HARDLINK | IOSQE_CQE_SKIP_SUCCESS;
    sqe = next_sqe(CLOSE, fd);
    io_uring_prep_close(sqe, fd);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static void pay(int fd)
{
    connection *c = &connections[fd];
    if (c->is_sending || c->owed == 0)
        return;
    size_t count = c->owed < RAW_REPLIES_MAX ? c->owed : RAW_REPLIES_MAX;
    c->owed -= count;
    c->is_sending = true;
    start_sending(fd, count);
}

/* False if the connection is done with. */
static bool answer(int fd, int buffer, size_t bytes)
{
    connection *c = &connections[fd];
    size_t count = raw_count_requests(buffers[buffer], bytes, &c->line_bytes);
    give_back(buffer);
    if (is_close && count > 0) {
        send_and_close(fd);
        return false;
    }
    c->owed += count;
    pay(fd);
    return true;
}

static void received(int fd, const struct io_uring_cqe *cqe)
{
    if (cqe->res > 0) {
        int buffer = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
        if (!answer(fd, buffer, (size_t)cqe->res))
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
    /* With --close only failures are told, and the close comes all the same. */
    if (is_close)
        return;
    c->is_sending = false;
    c->owed = result < 0 ? 0 : c->owed;
    pay(fd);
    if (c->is_ended && !c->is_sending)
        close(fd);
}

static void handle(const struct io_uring_cqe *cqe)
{
    int fd = (int)(cqe->user_data >> 2);
    switch ((kind)(cqe->user_data & 3)) {
    case ACCEPT:
        raw_require(cqe->res >= 0, "accept");
        accepted(cqe->res);
        if (!(cqe->flags & IORING_CQE_F_MORE))
            start_accepting(fd);
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
}

static void open_ring(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = COMPLETIONS,
    };
    int rc = io_uring_queue_init_params(SUBMISSIONS, &ring, &params);
    raw_require(rc == 0, "no io_uring as new as this");
    io_uring_register_ring_fd(&ring);
    free_buffers = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    raw_require(free_buffers != MAP_FAILED, "no memory");
    struct io_uring_buf_reg reg = {
        .ring_addr = (uintptr_t)free_buffers, .ring_entries = BUFFERS, .bgid = GROUP};
    raw_require(io_uring_register_buf_ring(&ring, &reg, 0) == 0, "no ring of buffers");
    io_uring_buf_ring_init(free_buffers);
    for (int i = 0; i < BUFFERS; i++)
        give_back(i);
}

int main(int argc, char **argv)
{
    raw_options options = raw_options_read(argc, argv);
    is_close = options.is_close;
    replies = raw_replies_make(is_close);
    open_ring();
    start_accepting(raw_listen(options.port));
    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            handle(cqe);
            count++;
        }
        io_uring_cq_advance(&ring, count);
    }
}
