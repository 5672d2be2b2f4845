/*
 * The ring: made with the best flags that the kernel takes, and asked what it can do. Nothing here
 * reads the kernel's version: a distribution's may have more or less than its number says.
 */
#include "backend/uring.h"

#include "arch/annotate.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* What fibers prepare between two polls; more of them wait for a second call. 16 KiB. */
#define SUBMISSIONS 256
/* What can be complete at once before the kernel has to keep it in a list of its own. 64 KiB. */
#define COMPLETIONS 4096
/* That abilities can note, a bit each. */
#define OPCODES 64
/* How often the first submission is tried while the kernel says that it cannot just now. */
#define TRIES 8

/* What there is no way around: waiting with a timeout, completions that are never dropped, and
 * reading from a file's own position. All in Linux 5.11. */
#define FEATURES_NEEDED (IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS)

uint64_t weft__uring_forgone;

/* From the best to the plainest: deferred task work came with 6.1, cooperative with 5.19. */
static const unsigned flags_to_try[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    0,
};

/*
 * TSan does not see that liburing maps and unmaps memory: a ring at the address of one that is gone
 * is another one, and comes after it.
 */
#ifdef WEFT__TSAN
static char gone;
#define NOTE_NEW_RING() __tsan_acquire(&gone)
#define NOTE_OLD_RING() __tsan_release(&gone)
#else
#define NOTE_NEW_RING() ((void)0)
#define NOTE_OLD_RING() ((void)0)
#endif

void weft__uring_tear_down(struct io_uring *ring)
{
    NOTE_OLD_RING();
    io_uring_queue_exit(ring);
}

static int make_ring(struct io_uring *ring, weft__uring_abilities *a)
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

static int ask_opcodes(struct io_uring *ring, weft__uring_abilities *a)
{
    struct io_uring_probe *probe = calloc(1, sizeof *probe + OPCODES * sizeof probe->ops[0]);
    if (probe == NULL)
        return -ENOMEM;
    int rc = io_uring_register_probe(ring, probe, OPCODES);
    for (int opcode = 0; rc >= 0 && opcode < OPCODES; opcode++)
        if (io_uring_opcode_supported(probe, opcode))
            a->opcodes |= UINT64_C(1) << opcode;
    free(probe);
    a->opcodes &= ~weft__uring_forgone;
    return rc < 0 ? rc : 0;
}

/*
 * Submit an operation that does nothing, and take its completion: a seccomp filter may let a ring
 * be made and refuse io_uring_enter. Whatever the operation's own result, the ring works.
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

static bool has_both(const weft__uring_abilities *a, int opcode, int sign)
{
    return a->opcodes >> opcode & a->opcodes >> sign & 1;
}

/* What is no operation of its own is not in the probe; each came with one that is. */
static void guess_multishot(weft__uring_abilities *a)
{
    a->has_multishot_accept = has_both(a, IORING_OP_ACCEPT, IORING_OP_SOCKET); /* 5.19 */
    a->has_multishot_recv = has_both(a, IORING_OP_RECV, IORING_OP_SEND_ZC);    /* 6.0 */
    a->has_poll_first = has_both(a, IORING_OP_RECV, IORING_OP_SOCKET);         /* 5.19 */
}

int weft__uring_setup(struct io_uring *ring, weft__uring_abilities *a)
{
    *a = (weft__uring_abilities){0};
    int rc = make_ring(ring, a);
    if (rc < 0)
        return rc;
    const uint64_t needed = UINT64_C(1) << IORING_OP_READ | UINT64_C(1) << IORING_OP_POLL_ADD |
                            UINT64_C(1) << IORING_OP_ASYNC_CANCEL;
    rc = (a->features & FEATURES_NEEDED) == FEATURES_NEEDED ? ask_opcodes(ring, a) : -EOPNOTSUPP;
    if (rc == 0 && (a->opcodes & needed) != needed)
        rc = -EOPNOTSUPP;
    if (rc < 0) {
        weft__uring_tear_down(ring);
        return rc;
    }
    guess_multishot(a);
    (void)io_uring_ring_dontfork(ring); /* a child has nothing to touch by mistake */
    a->has_registered_ring = io_uring_register_ring_fd(ring) == 1;
    rc = try_submission(ring);
    if (rc < 0)
        weft__uring_tear_down(ring);
    return rc;
}
