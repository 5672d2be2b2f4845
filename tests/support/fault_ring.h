/*
 * Fault injection for io_uring: the calls of liburing and the operations in a submission queue.
 * Calls fail as in fault_wrap.h. liburing returns its errors.
 *
 * An operation fails by conversion to a NOP that returns an error (Linux 6.10). The kernel does not
 * perform the original operation, and cancels all operations behind it in a chain.
 *
 * The wrappers also record the properties of the ring that tests check.
 */
#ifndef TESTS_SUPPORT_FAULT_RING_H
#define TESTS_SUPPORT_FAULT_RING_H

#include "support/fault_wrap.h"

#ifdef WEFT_HAS_URING
#include "backend/fd_generation.h"
#include "backend/syscall/call.h"
#include "backend/uring/uring.h"

/* Linux 6.10; not in liburing 2.3. */
#ifndef IORING_NOP_INJECT_RESULT
#define IORING_NOP_INJECT_RESULT 1
#endif

/* Features that the simulated kernel lacks or forbids. Set before the first ring is created. */
static struct {
    int setup;            /* creating a ring fails with this error; 0: no error */
    unsigned setup_flags; /* a ring with one of these flags fails with -EINVAL */
    unsigned features;    /* removed from the features of the ring */
    bool has_no_probe, has_no_ring_fd, has_no_buffers;
    bool has_no_nosignal;     /* as before Linux 6.18: writes with RWF_NOSIGNAL give -EOPNOTSUPP */
    unsigned read_bytes_max;  /* of one READ, as for a file partly in the page cache; 0: no limit */
    bool is_full_after_reads; /* after a call that submits READs the submission queue is full */
    int fd_closed_after_reads; /* another thread closes it after READs are submitted; 0: none */
} ring_limits;

/* Observations about the ring of the calling thread. */
static _Thread_local struct {
    unsigned sqes_max;      /* maximum number of entries in the submission queue */
    bool has_overflowed;    /* the completion queue overflowed into the list of the kernel */
    bool has_used_disabled; /* an operation of weft__uring_disabled_opcodes was submitted */
    unsigned reads;         /* READ operations */
    unsigned writes;        /* WRITE and WRITEV operations */
} ring_seen;

int __real_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p)
{
    if (fault_is_due(SCARCE, ENOMEM))
        return fault.first % 2 ? -ENOMEM : -EMFILE;
    if (ring_limits.setup != 0)
        return ring_limits.setup;
    if (p->flags & ring_limits.setup_flags)
        return -EINVAL;
    int rc = __real_io_uring_queue_init_params(n, ring, p);
    p->features &= ~ring_limits.features;
    return rc;
}

int __real_io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *p, unsigned n);
int __wrap_io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *p, unsigned n);
int __wrap_io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *p, unsigned n)
{
    if (fault_is_due(SCARCE, ENOMEM))
        return -ENOMEM;
    return ring_limits.has_no_probe ? -EINVAL : __real_io_uring_register_probe(ring, p, n);
}

int __real_io_uring_register_ring_fd(struct io_uring *ring);
int __wrap_io_uring_register_ring_fd(struct io_uring *ring);
int __wrap_io_uring_register_ring_fd(struct io_uring *ring)
{
    if (fault_is_due(SCARCE, ENOMEM))
        return -ENOMEM;
    return ring_limits.has_no_ring_fd ? -EINVAL : __real_io_uring_register_ring_fd(ring);
}

int __real_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration,
                                      unsigned flags);
int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration,
                                      unsigned flags);
int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration,
                                      unsigned flags)
{
    if (fault_is_due(SCARCE, ENOMEM))
        return -ENOMEM;
    if (ring_limits.has_no_buffers)
        return -EINVAL;
    return __real_io_uring_register_buf_ring(ring, registration, flags);
}

static void sqe_make_fail(struct io_uring_sqe *sqe, int error)
{
    uint64_t key = sqe->user_data;
    uint8_t flags = sqe->flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK);
    *sqe = (struct io_uring_sqe){.opcode = IORING_OP_NOP, .fd = -1, .flags = flags};
    sqe->rw_flags = IORING_NOP_INJECT_RESULT;
    sqe->len = (unsigned)error;
    sqe->user_data = key;
}

/*
 * Each operation counts as a call that may fail, except ASYNC_CANCEL. The kernel does not let a
 * cancellation fail, except when its target does not exist.
 */
static void fail_due_sqes(struct io_uring *ring)
{
    struct io_uring_sq *sq = &ring->sq;
    unsigned entered = sq->sqe_tail - sq->sqe_head;
    if (entered > ring_seen.sqes_max)
        ring_seen.sqes_max = entered;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
        if (sqe->opcode !=
            IORING_OP_NOP) /* every kernel has NOP, and setup tests a new ring with it */
            ring_seen.has_used_disabled |= weft__uring_disabled_opcodes >> sqe->opcode & 1;
        if (sqe->opcode != IORING_OP_ASYNC_CANCEL && fault_is_due(TRANSIENT, ENOMEM))
            sqe_make_fail(sqe, -ENOMEM);
        bool is_read = sqe->opcode == IORING_OP_READ && sqe->user_data != WEFT__KEY_WAKE;
        ring_seen.reads += is_read;
        if (is_read && ring_limits.read_bytes_max != 0 && sqe->len > ring_limits.read_bytes_max)
            sqe->len = ring_limits.read_bytes_max;
        bool is_write = sqe->opcode == IORING_OP_WRITE || sqe->opcode == IORING_OP_WRITEV;
        ring_seen.writes += is_write;
        if (is_write && ring_limits.has_no_nosignal && sqe->rw_flags & RWF_NOSIGNAL)
            sqe_make_fail(sqe, -EOPNOTSUPP);
    }
}

/*
 * Fill the submission queue, so that the next operation finds no room. The number of operations
 * that fibers submit before the queue is flushed depends on timing.
 */
static void fill_ring(struct io_uring *ring)
{
    struct io_uring_sqe *sqe;
    while ((sqe = io_uring_get_sqe(ring)) != NULL) {
        io_uring_prep_nop(sqe);
        sqe->user_data = WEFT__KEY_CANCEL;
    }
}

static void fill_after_reads(struct io_uring *ring, unsigned reads_before)
{
    if (ring_limits.is_full_after_reads && ring_seen.reads != reads_before)
        fill_ring(ring);
    if (ring_limits.fd_closed_after_reads != 0 && ring_seen.reads != reads_before)
        weft__fd_advance(ring_limits.fd_closed_after_reads);
}

static void note_overflow(const struct io_uring *ring)
{
    if (IO_URING_READ_ONCE(*ring->sq.kflags) & IORING_SQ_CQ_OVERFLOW)
        ring_seen.has_overflowed = true;
}

/* Return an error that means "try again": a signal, a full completion queue, no memory. */
static int transient_error(void)
{
    static const int errors[] = {-EINTR, -EBUSY, -EAGAIN, -ENOMEM};
    return errors[fault.first % 4];
}

int __real_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
    if (fault_is_due(TRANSIENT, EAGAIN))
        return transient_error();
    const unsigned reads = ring_seen.reads;
    fail_due_sqes(ring);
    note_overflow(ring); /* the kernel may move the overflow list into the queue now */
    int rc = __real_io_uring_submit_and_get_events(ring);
    note_overflow(ring);
    fill_after_reads(ring, reads);
    return rc;
}

int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **out,
                                            unsigned n, struct __kernel_timespec *most,
                                            sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **out,
                                            unsigned n, struct __kernel_timespec *most,
                                            sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **out,
                                            unsigned n, struct __kernel_timespec *most,
                                            sigset_t *mask)
{
    if (fault_is_due(TRANSIENT, EAGAIN))
        return transient_error();
    const unsigned reads = ring_seen.reads;
    fail_due_sqes(ring);
    note_overflow(ring); /* the kernel may move the overflow list into the queue now */
    int rc = __real_io_uring_submit_and_wait_timeout(ring, out, n, most, mask);
    note_overflow(ring);
    fill_after_reads(ring, reads);
    return rc;
}

#endif

#endif
