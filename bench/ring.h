/*
 * The ring of a hand-written io_uring loop. One system call submits all operations and waits. The
 * kernel stores received data in provided buffers. A program includes this file in one source file,
 * and defines RING_BUFFER_BYTES before the include.
 *
 * The rings are small, so that they stay in the cache.
 */
#ifndef WEFT_BENCH_RING_H
#define WEFT_BENCH_RING_H

#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define RING_SUBMISSIONS 256
#define RING_COMPLETIONS 4096 /* room for a burst from all connections */
#define RING_BUFFERS 1024
#define RING_GROUP 0 /* the only group of buffers */

static struct io_uring ring;
static struct io_uring_buf_ring *ring_free_buffers;
static char ring_buffers[RING_BUFFERS][RING_BUFFER_BYTES];

static inline void ring_require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "ring: %s\n", what);
    exit(1);
}

/*
 * Return an entry for an operation of one of four kinds. The io_uring_prep functions keep
 * user_data.
 */
static inline struct io_uring_sqe *ring_next(unsigned kind, int fd)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    while (sqe == NULL) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    sqe->user_data = (uint64_t)fd << 2 | kind;
    return sqe;
}

static inline unsigned ring_kind(const struct io_uring_cqe *cqe)
{
    return (unsigned)(cqe->user_data & 3);
}

static inline int ring_fd(const struct io_uring_cqe *cqe)
{
    return (int)(cqe->user_data >> 2);
}

/* Start a multishot accept. */
static inline void ring_accept(unsigned kind, int listener)
{
    struct io_uring_sqe *sqe = ring_next(kind, listener);
    io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
}

/* Let a receive take a provided buffer. */
static inline void ring_use_buffers(struct io_uring_sqe *sqe)
{
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = RING_GROUP;
}

static inline int ring_buffer(const struct io_uring_cqe *cqe)
{
    return (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

static inline void ring_return_buffer(int buffer)
{
    io_uring_buf_ring_add(ring_free_buffers, ring_buffers[buffer], RING_BUFFER_BYTES,
                          (unsigned short)buffer, io_uring_buf_ring_mask(RING_BUFFERS), 0);
    io_uring_buf_ring_advance(ring_free_buffers, 1);
}

static inline void ring_open(void)
{
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = RING_COMPLETIONS,
    };
    int rc = io_uring_queue_init_params(RING_SUBMISSIONS, &ring, &params);
    ring_require(rc == 0, "io_uring_queue_init_params failed");
    io_uring_register_ring_fd(&ring);
    ring_free_buffers = mmap(NULL, RING_BUFFERS * sizeof(struct io_uring_buf),
                             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ring_require(ring_free_buffers != MAP_FAILED, "mmap failed");
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)ring_free_buffers,
                                   .ring_entries = RING_BUFFERS,
                                   .bgid = RING_GROUP};
    ring_require(io_uring_register_buf_ring(&ring, &reg, 0) == 0,
                 "io_uring_register_buf_ring failed");
    io_uring_buf_ring_init(ring_free_buffers);
    for (int i = 0; i < RING_BUFFERS; i++)
        ring_return_buffer(i);
}

/* Submit, wait, and handle all completions. Return false if a handler returned false. */
static inline bool ring_tick(bool (*handle)(const struct io_uring_cqe *cqe))
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;
    bool is_running = true;
    io_uring_submit_and_wait(&ring, 1);
    io_uring_for_each_cqe(&ring, head, cqe)
    {
        is_running &= handle(cqe);
        count++;
    }
    io_uring_cq_advance(&ring, count);
    return is_running;
}

#endif
