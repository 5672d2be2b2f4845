/*
 * Create a ring with the best flags that the kernel accepts, and detect the features of the kernel.
 * weft does not check the kernel version, because distributions backport and remove features.
 */
#include "backend/uring/uring.h"

#include "arch/sanitizers.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The entries of the submission queue (16 KiB). Further operations between two polls need another
 * system call.
 */
#define SUBMISSIONS 256
/*
 * The entries of the completion queue (64 KiB). The kernel stores further completions in a slower
 * list.
 */
#define COMPLETIONS 4096
/* The number of bits in weft__uring_abilities.opcodes. */
#define OPCODE_BITS 64
/*
 * The maximum number of attempts of the first submission. Attempts may fail with temporary errors.
 */
#define TRIES 8

/*
 * The required features: waits with a timeout, no dropped completions, and reads at the current
 * position. Linux 5.11 has all of them.
 */
#define FEATURES_NEEDED (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS)

uint64_t weft__uring_disabled_opcodes;

/*
 * Setup flags in order of preference. Deferred task work needs Linux 6.1. Cooperative task work
 * needs Linux 5.19.
 */
static const unsigned flags_to_try[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    0,
};

/*
 * TSan does not observe the memory mappings of liburing. These macros order the creation of a ring
 * after the release of an earlier ring at the same address.
 */
#ifdef WEFT__TSAN
static char freed_ring;
#define NOTE_NEW_RING() __tsan_acquire(&freed_ring)
#define NOTE_OLD_RING() __tsan_release(&freed_ring)
#else
#define NOTE_NEW_RING() ((void)0)
#define NOTE_OLD_RING() ((void)0)
#endif

void weft__uring_tear_down(struct io_uring *ring)
{
    NOTE_OLD_RING();
    io_uring_queue_exit(ring);
}

static int ring_create(struct io_uring *ring, weft__uring_abilities *a)
{
    int rc = -EINVAL;
    size_t tries = sizeof flags_to_try / sizeof *flags_to_try;
    for (size_t i = 0; i < tries && rc == -EINVAL; i++) {
        struct io_uring_params params = {.cq_entries = COMPLETIONS};
        params.flags = flags_to_try[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        rc = io_uring_queue_init_params(SUBMISSIONS, ring, &params);
        a->setup_flags = params.flags;
        a->features = params.features;
    }
    NOTE_NEW_RING();
    return rc;
}

/*
 * Move the descriptor of a new ring to a high number. liburing has the number twice, until
 * io_uring_register_ring_fd replaces the second.
 */
static void ring_move_up(struct io_uring *ring)
{
    ring->ring_fd = ring->enter_ring_fd = weft__fd_move_up(ring->ring_fd);
}

static int probe_opcodes(struct io_uring *ring, weft__uring_abilities *a)
{
    struct io_uring_probe *probe = calloc(1, sizeof *probe + OPCODE_BITS * sizeof probe->ops[0]);
    if (probe == NULL)
        return -ENOMEM;
    int rc = io_uring_register_probe(ring, probe, OPCODE_BITS);
    for (int opcode = 0; rc >= 0 && opcode < OPCODE_BITS; opcode++)
        if (io_uring_opcode_supported(probe, opcode))
            a->opcodes |= UINT64_C(1) << opcode;
    free(probe);
    a->opcodes &= ~weft__uring_disabled_opcodes;
    return rc < 0 ? rc : 0;
}

/*
 * Submit an operation without effect, and wait for its completion. A seccomp filter may allow
 * io_uring_setup, but not io_uring_enter. Any result shows that the ring works.
 */
static int try_submission(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    io_uring_prep_nop(sqe);
    int rc = -EAGAIN;
    for (int i = 0; i < TRIES && io_uring_cq_ready(ring) == 0; i++) {
        struct io_uring_cqe *ignored;
        rc = io_uring_submit_and_wait_timeout(ring, &ignored, 1, NULL, NULL);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY && rc != -ENOMEM)
            break;
    }
    if (io_uring_cq_ready(ring) == 0)
        return rc < 0 ? rc : -EIO;
    io_uring_cq_advance(ring, 1);
    return 0;
}

static bool has_both(const weft__uring_abilities *a, int opcode, int indicator)
{
    return a->opcodes >> opcode & a->opcodes >> indicator & 1;
}

/*
 * The probe lists only opcodes. Infer each feature from an opcode that the same kernel version
 * added.
 */
static void infer_features(weft__uring_abilities *a)
{
    a->has_multishot_accept = has_both(a, IORING_OP_ACCEPT, IORING_OP_SOCKET); /* 5.19 */
    a->has_multishot_recv = has_both(a, IORING_OP_RECV, IORING_OP_SEND_ZC);    /* 6.0 */
    a->has_poll_first = has_both(a, IORING_OP_RECV, IORING_OP_SOCKET);         /* 5.19 */
}

int weft__uring_setup(struct io_uring *ring, weft__uring_abilities *a)
{
    *a = (weft__uring_abilities){0};
    int rc = ring_create(ring, a);
    if (rc < 0)
        return rc;
    ring_move_up(ring);
    const uint64_t needed = UINT64_C(1) << IORING_OP_READ | UINT64_C(1) << IORING_OP_POLL_ADD |
                            UINT64_C(1) << IORING_OP_ASYNC_CANCEL;
    rc = (a->features & FEATURES_NEEDED) == FEATURES_NEEDED ? probe_opcodes(ring, a) : -EOPNOTSUPP;
    if (rc == 0 && (a->opcodes & needed) != needed)
        rc = -EOPNOTSUPP;
    if (rc < 0) {
        weft__uring_tear_down(ring);
        return rc;
    }
    infer_features(a);
    (void)io_uring_ring_dontfork(ring); /* a child of fork(2) must not use the ring */
    a->has_registered_ring = io_uring_register_ring_fd(ring) == 1;
    rc = try_submission(ring);
    if (rc < 0)
        weft__uring_tear_down(ring);
    return rc;
}
