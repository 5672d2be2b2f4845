/*
 * The ring's calls, and what goes to the kernel through a ring: they fail when told to, as in
 * fault_wrap.h. liburing returns its errors.
 *
 * An operation fails by becoming one that does nothing but fail (Linux 6.10): the kernel is not
 * asked for what it would have done, and everything behind it in a chain is cancelled.
 *
 * On the side the wrappers note what the tests of the ring want to know of it.
 */
#ifndef TESTS_FAULT_RING_H
#define TESTS_FAULT_RING_H

#include "fault_wrap.h"

#ifdef WEFT_HAS_URING
#include "backend/call.h"
#include "backend/uring.h"

/* Linux 6.10; not in liburing 2.3. */
#ifndef IORING_NOP_INJECT_RESULT
#define IORING_NOP_INJECT_RESULT 1
#endif

/* What a kernel lacks or forbids, from the first ring on: set before there is one. */
static struct {
    int setup;            /* with this error no ring is made */
    unsigned setup_flags; /* a ring with one of these is -EINVAL */
    unsigned features;    /* which the ring does not have */
    bool has_no_probe, has_no_ring_fd, has_no_buffers;
    bool has_no_nosignal;     /* as before Linux 6.18: a write with RWF_NOSIGNAL is -EOPNOTSUPP */
    unsigned read_bytes_max;  /* a READ of more gives only so much, as of a file partly in memory;
                                 0: all */
    bool is_full_after_reads; /* after a call in which there were READs the queue has no room */
} refused;

/* What was seen, by the thread that asks. */
static _Thread_local struct {
    unsigned most_entered; /* in the submission queue at once */
    bool has_overflown;    /* the completion queue, into the kernel's own list */
    bool is_used_forgone;  /* an operation of weft__uring_forgone was asked for */
    unsigned reads;        /* READ */
    unsigned writes;       /* WRITE and WRITEV */
} ring_seen;

int __real_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned n, struct io_uring *ring, struct io_uring_params *p)
{
    if (fault_strikes(SCARCE, ENOMEM))
        return fault.first % 2 ? -ENOMEM : -EMFILE;
    if (refused.setup != 0)
        return refused.setup;
    if (p->flags & refused.setup_flags)
        return -EINVAL;
    int rc = __real_io_uring_queue_init_params(n, ring, p);
    p->features &= ~refused.features;
    return rc;
}

int __real_io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *p, unsigned n);
int __wrap_io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *p, unsigned n);
int __wrap_io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *p, unsigned n)
{
    if (fault_strikes(SCARCE, ENOMEM))
        return -ENOMEM;
    return refused.has_no_probe ? -EINVAL : __real_io_uring_register_probe(ring, p, n);
}

int __real_io_uring_register_ring_fd(struct io_uring *ring);
int __wrap_io_uring_register_ring_fd(struct io_uring *ring);
int __wrap_io_uring_register_ring_fd(struct io_uring *ring)
{
    if (fault_strikes(SCARCE, ENOMEM))
        return -ENOMEM;
    return refused.has_no_ring_fd ? -EINVAL : __real_io_uring_register_ring_fd(ring);
}

int __real_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration,
                                      unsigned flags);
int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration,
                                      unsigned flags);
int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *registration,
                                      unsigned flags)
{
    if (fault_strikes(SCARCE, ENOMEM))
        return -ENOMEM;
    if (refused.has_no_buffers)
        return -EINVAL;
    return __real_io_uring_register_buf_ring(ring, registration, flags);
}

static void make_fail(struct io_uring_sqe *sqe, int error)
{
    uint64_t key = sqe->user_data;
    uint8_t flags = sqe->flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK);
    *sqe = (struct io_uring_sqe){.opcode = IORING_OP_NOP, .fd = -1, .flags = flags};
    sqe->rw_flags = IORING_NOP_INJECT_RESULT;
    sqe->len = (unsigned)error;
    sqe->user_data = key;
}

/* Each operation is a call that may fail; to cancel one cannot, but for what is not there. */
static void fail_entered(struct io_uring *ring)
{
    struct io_uring_sq *sq = &ring->sq;
    unsigned entered = sq->sqe_tail - sq->sqe_head;
    if (entered > ring_seen.most_entered)
        ring_seen.most_entered = entered;
    for (unsigned i = sq->sqe_head; i != sq->sqe_tail; i++) {
        struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
        if (sqe->opcode != IORING_OP_NOP) /* every kernel has it, and a new ring is tried by it */
            ring_seen.is_used_forgone |= weft__uring_forgone >> sqe->opcode & 1;
        if (sqe->opcode != IORING_OP_ASYNC_CANCEL && fault_strikes(PASSING, ENOMEM))
            make_fail(sqe, -ENOMEM);
        bool is_read = sqe->opcode == IORING_OP_READ && sqe->user_data != WEFT__KEY_WAKE;
        ring_seen.reads += is_read;
        if (is_read && refused.read_bytes_max != 0 && sqe->len > refused.read_bytes_max)
            sqe->len = refused.read_bytes_max;
        bool is_write = sqe->opcode == IORING_OP_WRITE || sqe->opcode == IORING_OP_WRITEV;
        ring_seen.writes += is_write;
        if (is_write && refused.has_no_nosignal && sqe->rw_flags & RWF_NOSIGNAL)
            make_fail(sqe, -EOPNOTSUPP);
    }
}

/* What follows finds no room: how much fibers enter before it is emptied is a matter of time. */
static void fill_entries(struct io_uring *ring)
{
    struct io_uring_sqe *sqe;
    while ((sqe = io_uring_get_sqe(ring)) != NULL) {
        io_uring_prep_nop(sqe);
        sqe->user_data = WEFT__KEY_CANCEL;
    }
}

static void fill_after_reads(struct io_uring *ring, unsigned reads_before)
{
    if (refused.is_full_after_reads && ring_seen.reads != reads_before)
        fill_entries(ring);
}

static void look_at(const struct io_uring *ring)
{
    if (IO_URING_READ_ONCE(*ring->sq.kflags) & IORING_SQ_CQ_OVERFLOW)
        ring_seen.has_overflown = true;
}

/* What means "not now": a signal, too much complete, no memory. */
static int not_now(void)
{
    static const int errors[] = {-EINTR, -EBUSY, -EAGAIN, -ENOMEM};
    return errors[fault.first % 4];
}

int __real_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
    if (fault_strikes(PASSING, EAGAIN))
        return not_now();
    const unsigned reads = ring_seen.reads;
    fail_entered(ring);
    look_at(ring); /* what is in the list may go into the queue now */
    int rc = __real_io_uring_submit_and_get_events(ring);
    look_at(ring);
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
    if (fault_strikes(PASSING, EAGAIN))
        return not_now();
    const unsigned reads = ring_seen.reads;
    fail_entered(ring);
    look_at(ring); /* what is in the list may go into the queue now */
    int rc = __real_io_uring_submit_and_wait_timeout(ring, out, n, most, mask);
    look_at(ring);
    fill_after_reads(ring, reads);
    return rc;
}

#endif

#endif
