/*
 * The sim backend: a virtual clock, and pipes and socket pairs in memory. Waiting takes no real
 * time, and a run is reproducible. If WEFT_SEED is a number (decimal or 0x...), the backend
 * shuffles the order of runnable fibers. The same seed gives the same order.
 *
 * The clock advances by the time of each wait, and by a short time with each fiber switch. An
 * operation on a kernel descriptor is a system call that blocks the thread. Programs with kernel
 * descriptors run without concurrency, and are not reproducible.
 */
#include "backend/backend.h"
#include "backend/sim/net.h"
#include "backend/syscall/call.h"
#include "base/libc.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The initial time. Programs can subtract short times from it. */
#define CLOCK_START_NS 1000000000
/* The virtual time of a fiber switch. */
#define SWITCH_NS 1000
/* The virtual time of reading the clock. */
#define CLOCK_READ_NS 50

typedef struct sim_backend {
    weft__backend base;
    int64_t now_ns;
    int wake_fd;
    bool has_seed;
    uint64_t random_state;
    weft__simnet net;
} sim_backend;

static sim_backend *sim_of(weft__backend *base)
{
    return CONTAINER_OF(base, sim_backend, base);
}

static int64_t sim_now_ns(weft__backend *base)
{
    return sim_of(base)->now_ns;
}

static void clock_advance(sim_backend *b, int64_t ns)
{
    if (__builtin_add_overflow(b->now_ns, ns, &b->now_ns))
        b->now_ns = INT64_MAX;
}

static void sim_tick(weft__backend *base, unsigned switches)
{
    clock_advance(sim_of(base), switches > 0 ? (int64_t)switches * SWITCH_NS : CLOCK_READ_NS);
}

/*
 * The splitmix64 generator. Each call adds the golden ratio to the state. The output is a mix of
 * the state.
 */
static bool sim_choose(weft__backend *base, uint64_t *random)
{
    sim_backend *b = sim_of(base);
    if (!b->has_seed)
        return false;
    uint64_t z = b->random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    *random = z ^ z >> 31;
    return true;
}

static bool read_seed(uint64_t *seed)
{
    const char *text = getenv("WEFT_SEED");
    if (text == NULL || *text == '\0')
        return false;
    char *end;
    *seed = strtoull(text, &end, 0);
    if (*end == '\0')
        return true;
    weft__log(LOG_WARNING, "WEFT_SEED=%s is not a number: ignored", text);
    return false;
}

/* Worker threads are never used, because their timing is not reproducible. */
static intptr_t sim_submit(weft__backend *base, weft__op *op)
{
    weft__simnet *net = &sim_of(base)->net;
    op->progress = 0;
    switch (op->code) {
    case WEFT__OP_OPEN:
    case WEFT__OP_CALL:
        return weft__call_block(op);
    case WEFT__OP_SPLICE:
    case WEFT__OP_TEE:
        if (weft__simnet_owns(op->fd) || weft__simnet_owns(op->u.copy.fd_out))
            return -EOPNOTSUPP;
        return weft__call_block(op);
    default:
        return weft__simnet_owns(op->fd) ? weft__simnet_submit(net, op) : weft__call_block(op);
    }
}

static bool sim_cancel(weft__backend *base, weft__op *op)
{
    weft__simnet_cancel(&sim_of(base)->net, op);
    return true;
}

/* Return whether wake was called since the last call of wake_consume. */
static bool wake_consume(sim_backend *b)
{
    uint64_t count;
    return TEMP_FAILURE_RETRY(read(b->wake_fd, &count, sizeof count)) > 0;
}

static int sim_poll(weft__backend *base, int64_t timeout_ns)
{
    sim_backend *b = sim_of(base);
    if (weft__simnet_run(&b->net) > 0 || timeout_ns == 0 || wake_consume(b))
        return 0;
    if (timeout_ns > 0) {
        clock_advance(b, timeout_ns);
        return 0;
    }
    /* Only another thread can wake the cord now, in real time. */
    struct pollfd pfd = {.fd = b->wake_fd, .events = POLLIN};
    int limit_ms = timeout_ns < WEFT__POLL_FOREVER ? (int)(-timeout_ns / 1000000) : -1;
    if (poll(&pfd, 1, limit_ms) < 0)
        return errno == EINTR ? 0 : -errno;
    wake_consume(b);
    return 0;
}

static void sim_wake(weft__backend *base)
{
    uint64_t one = 1;
    (void)!TEMP_FAILURE_RETRY(write(sim_of(base)->wake_fd, &one, sizeof one));
}

static int sim_close_fd(weft__backend *base, int fd)
{
    if (weft__simnet_owns(fd))
        return weft__simnet_close_fd(&sim_of(base)->net, fd);
    return weft__call_close(fd);
}

/* A descriptor in memory cannot move to another thread. */
static int sim_release_fd(weft__backend *base, int fd)
{
    (void)base;
    if (weft__simnet_owns(fd))
        return -EOPNOTSUPP;
    return weft__call_is_open(fd) ? 0 : -EBADF;
}

static int sim_shutdown_fd(weft__backend *base, int fd, int how)
{
    if (weft__simnet_owns(fd))
        return weft__simnet_shutdown_fd(&sim_of(base)->net, fd, how);
    return weft__call_shutdown(base, fd, how);
}

static int sim_pipe(weft__backend *base, int fd[2])
{
    return weft__simnet_pipe(&sim_of(base)->net, fd);
}

static int sim_socketpair(weft__backend *base, int fd[2])
{
    return weft__simnet_socketpair(&sim_of(base)->net, fd);
}

static void sim_close(weft__backend *base)
{
    sim_backend *b = sim_of(base);
    weft__simnet_close(&b->net);
    close(b->wake_fd);
    free(b);
}

static void sim_abandon(weft__backend *base, bool is_own)
{
    (void)is_own;
    close(sim_of(base)->wake_fd);
}

static void sim_inherit_clock(weft__backend *base, weft__backend *before)
{
    sim_of(base)->now_ns = before->type->now_ns(before);
    if (before->type == base->type)
        sim_of(base)->random_state = sim_of(before)->random_state;
}

static int sim_open(weft__backend **out)
{
    sim_backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    weft__finished_jobs_init(&b->base);
    b->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->wake_fd < 0) {
        int rc = -errno;
        free(b);
        return rc;
    }
    b->base.type = &weft__backend_sim;
    b->now_ns = CLOCK_START_NS;
    b->has_seed = read_seed(&b->random_state);
    weft__simnet_open(&b->net, &b->base);
    *out = &b->base;
    return 0;
}

const weft__backend_type weft__backend_sim = {
    .name = "sim",
    .is_self_contained = true,
    .open = sim_open,
    .close = sim_close,
    .abandon = sim_abandon,
    .inherit_clock = sim_inherit_clock,
    .now_ns = sim_now_ns,
    .submit = sim_submit,
    .cancel = sim_cancel,
    .poll = sim_poll,
    .wake = sim_wake,
    .close_fd = sim_close_fd,
    .release_fd = sim_release_fd,
    .shutdown_fd = sim_shutdown_fd,
    .pipe = sim_pipe,
    .socketpair = sim_socketpair,
    .tick = sim_tick,
    .choose = sim_choose,
};
