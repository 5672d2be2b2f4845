/*
 * The io_uring backend: the kernel does the whole operation, and says when it is done.
 *
 * Operations are entered into the submission queue and go to the kernel in the system call that
 * waits. If the queue is full, they wait in a list; poll sees to them. Of several operations that
 * read from one descriptor only the first is with the kernel, likewise of those that write: the
 * kernel would serve them in no certain order.
 *
 * A cancelled operation stays where it is until the kernel says that it has let go of it. What the
 * kernel does not do, or not well (splice, tee, calls that block; on older kernels more), is done
 * over readiness (ready.c), with operations of our own (watches) to learn of it.
 */
#include "backend/uring.h"

#include "backend/call.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The kernel has no memory for what it is to do, or to complete: let it breathe. */
#define BREATHE_US 1000
/* How many completions ahead their operations are fetched, and what those point to. */
#define FETCH_AHEAD 16
#define FETCH_BEHIND_AHEAD 6
/*
 * How many are handled before those whom they wake run: they are still in the cache then. What
 * these do next has room in the submission queue.
 */
#define PART 32

static void handle(weft__uring *b, const weft__completion *c)
{
    void *object = weft__key_object(c->key);
    switch ((weft__key_kind)(c->key & WEFT__KEY_KIND_MASK)) {
    case WEFT__KEY_OP:
        weft__uring_completed(b, object, c->result, c->flags);
        break;
    case WEFT__KEY_MANY:
        weft__uring_many_completed(b, object, c);
        break;
    case WEFT__KEY_WAKE:
        b->is_wake_armed = false;
        break;
    case WEFT__KEY_CANCEL:
        b->must_ask_again |= c->result == -ENOENT;
        break;
    case WEFT__KEY_MESSAGE:
        if (c->result < 0)
            b->base.lost((uint32_t)(c->key >> WEFT__KEY_TAG_SHIFT));
        break;
    }
}

/* The completion so many places from now; there may be none yet. */
static const struct io_uring_cqe *peek(const weft__uring *b, unsigned ahead)
{
    return &b->ring.cq.cqes[(*b->ring.cq.khead + ahead) & b->ring.cq.ring_mask];
}

static bool is_of_op(uint64_t key)
{
    weft__key_kind kind = key & WEFT__KEY_KIND_MASK;
    return kind == WEFT__KEY_OP || kind == WEFT__KEY_MANY;
}

/*
 * The operations of many fibers lie on as many stacks, out of the cache, and so do their owners:
 * they are fetched while the ones before are handled. What has not been handled is still there.
 */
FETCHER void fetch_op(const weft__uring *b, unsigned ahead)
{
    weft__fetch(weft__key_object(peek(b, ahead)->user_data), WEFT__OP_LINES);
}

/* What it points to. The descriptor is for what its owner does next. */
FETCHER void fetch_behind(const weft__uring *b, unsigned ahead)
{
    uint64_t key = peek(b, ahead)->user_data;
    if (!is_of_op(key))
        return;
    const weft__op *op = weft__key_object(key);
    weft__fetch(op->place, 1);
    weft__fetch(op->owner, WEFT__OWNER_LINES);
    weft__fetch(weft__ready_find(&b->ready, op->fd), 1);
}

/* The first ones, all at once: that takes no longer than one of them. */
FETCHER void fetch_first(const weft__uring *b, unsigned ready)
{
    for (unsigned i = 0; i < FETCH_AHEAD && i < ready; i++)
        fetch_op(b, i);
    for (unsigned i = 0; i < FETCH_BEHIND_AHEAD && i < ready; i++)
        fetch_behind(b, i);
}

/*
 * Handle what is complete now, at most so many; what completes meanwhile is for the next time. Each
 * is copied out and its place given back first: what it leads to may need the ring, and may come
 * here again.
 */
static void reap(weft__uring *b, unsigned most)
{
    unsigned left = io_uring_cq_ready(&b->ring);
    fetch_first(b, left);
    for (left = left < most ? left : most; left > 0; left--) {
        unsigned ready = io_uring_cq_ready(&b->ring);
        if (ready == 0)
            break;
        if (ready > FETCH_AHEAD)
            fetch_op(b, FETCH_AHEAD);
        if (ready > FETCH_BEHIND_AHEAD)
            fetch_behind(b, FETCH_BEHIND_AHEAD);
        const struct io_uring_cqe *cqe = peek(b, 0);
        weft__completion c = {cqe->user_data, cqe->res, cqe->flags};
        io_uring_cq_advance(&b->ring, 1);
        b->handled++;
        handle(b, &c);
    }
    if (b->must_ask_again)
        weft__uring_ask_again(b);
}

/* Has the kernel something for us that it only gives when called? */
static bool must_enter(const weft__uring *b)
{
    unsigned flags = IO_URING_READ_ONCE(*b->ring.sq.kflags);
    return io_uring_sq_ready(&b->ring) > 0 || flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

/* Errors that mean "not now": there is no memory, or too much is complete. */
static bool is_back_pressure(int rc)
{
    return rc == -EBUSY || rc == -EAGAIN || rc == -EINTR || rc == -ETIME || rc == -ENOMEM;
}

/* Give the kernel what is entered and handle what is complete, without waiting. */
static int exchange(weft__uring *b, unsigned most)
{
    int rc = 0;
    weft__uring_check_entries(b);
    if (must_enter(b))
        rc = io_uring_submit_and_get_events(&b->ring);
    reap(b, most);
    return rc < 0 && !is_back_pressure(rc) ? rc : 0;
}

/* The same for who will come again: a kernel that took nothing is let breathe. */
static int exchange_some(weft__uring *b)
{
    unsigned before = io_uring_sq_ready(&b->ring);
    int rc = exchange(b, UINT_MAX);
    if (rc == 0 && io_uring_sq_ready(&b->ring) >= before)
        usleep(BREATHE_US);
    return rc;
}

static void arm_wake(weft__uring *b)
{
    struct io_uring_sqe *sqe = weft__uring_entry(b);
    if (sqe == NULL)
        return;
    io_uring_prep_read(sqe, atomic_load(&b->wake.fd), &b->wake_count, sizeof b->wake_count, 0);
    sqe->user_data = WEFT__KEY_WAKE;
    b->is_wake_armed = true;
}

/* As much as has room at a time, until all has gone. */
static int enter_all(weft__uring *b)
{
    int rc = 0;
    do {
        if (!b->is_wake_armed)
            arm_wake(b);
        weft__uring_enter_waiting(b);
        bool is_more = !weft__list_is_empty(&b->starts) || !weft__list_is_empty(&b->cancels) ||
                       !b->is_wake_armed;
        if (!is_more)
            return 0;
        rc = exchange_some(b);
    } while (rc == 0);
    return rc;
}

void weft__uring_flush(weft__uring *b)
{
    int rc = enter_all(b);
    while (rc == 0 && io_uring_sq_ready(&b->ring) > 0)
        rc = exchange_some(b);
}

static int wait_for_some(weft__uring *b, int64_t timeout_ns)
{
    struct __kernel_timespec timeout = {timeout_ns / WEFT__NS_PER_S, timeout_ns % WEFT__NS_PER_S};
    struct io_uring_cqe *ignored;
    weft__uring_check_entries(b);
    int rc = io_uring_submit_and_wait_timeout(&b->ring, &ignored, 1,
                                              timeout_ns < 0 ? NULL : &timeout, NULL);
    bool was_nothing = io_uring_cq_ready(&b->ring) == 0;
    reap(b, PART);
    if ((rc == -EBUSY || rc == -EAGAIN || rc == -ENOMEM) && was_nothing)
        usleep(BREATHE_US);
    return rc < 0 && !is_back_pressure(rc) ? rc : 0;
}

/* Is there something left from the last call, and room for what follows from it? */
static bool has_part(const weft__uring *b)
{
    return io_uring_cq_ready(&b->ring) > 0 && io_uring_sq_space_left(&b->ring) >= PART &&
           weft__list_is_empty(&b->starts) && weft__list_is_empty(&b->cancels);
}

static int uring_poll(weft__backend *base, int64_t timeout_ns)
{
    weft__uring *b = weft__uring_of(base);
    if (has_part(b)) {
        reap(b, PART);
        weft__ready_poll(&b->ready);
        return 0;
    }
    const uint64_t before = b->handled;
    int rc = enter_all(b);
    /* Whoever has been woken by now is not to be kept waiting. */
    timeout_ns = weft__ready_timeout(&b->ready, b->handled != before ? 0 : timeout_ns);
    if (rc == 0 && (timeout_ns == 0 || io_uring_cq_ready(&b->ring) > 0))
        rc = exchange(b, PART);
    else if (rc == 0)
        rc = wait_for_some(b, timeout_ns);
    weft__ready_poll(&b->ready);
    return rc;
}

static void uring_wake(weft__backend *base)
{
    if (!weft__wake_fd_write(&weft__uring_of(base)->wake))
        weft__backend_interrupt(base);
}

/*
 * Did the kernel refuse the message with this key? It says so by a completion that it posts before
 * the submission returns, behind those that were there (from). The completion is taken as read:
 * later it would wake the receiver once more.
 */
static bool is_refused(weft__uring *b, uint64_t key, unsigned from)
{
    struct io_uring_cq *cq = &b->ring.cq;
    unsigned end = io_uring_smp_load_acquire(cq->ktail);
    for (unsigned i = from; i != end; i++) {
        struct io_uring_cqe *cqe = &cq->cqes[i & cq->ring_mask];
        if (cqe->user_data != key || cqe->res >= 0)
            continue;
        cqe->res = 0;
        return true;
    }
    return false;
}

/*
 * A completion in the other ring, posted by this one: cheaper than an event counter, which the
 * other one reads by an operation that has to be started again each time. It goes at once, with all
 * that is entered: the sender may compute for long before it polls.
 */
static bool uring_message(weft__backend *base, weft__backend *to, uint32_t tag)
{
    weft__uring *b = weft__uring_of(base);
    struct io_uring_sqe *sqe = weft__uring_can_message(&b->abilities) ? weft__uring_entry(b) : NULL;
    if (sqe == NULL)
        return false;
    uint64_t key = (uint64_t)tag << WEFT__KEY_TAG_SHIFT | WEFT__KEY_MESSAGE;
    int to_fd = __atomic_load_n(&weft__uring_of(to)->ring.ring_fd, __ATOMIC_RELAXED);
    io_uring_prep_msg_ring(sqe, to_fd, 0, WEFT__KEY_MESSAGE, 0);
    sqe->user_data = key;
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    weft__uring_check_entries(b);
    unsigned from = io_uring_smp_load_acquire(b->ring.cq.ktail);
    /* Left behind, it goes later, to whoever has that ring by then: no harm, but too late. */
    return io_uring_submit(&b->ring) >= 0 && io_uring_sq_ready(&b->ring) == 0 &&
           !is_refused(b, key, from);
}

static void forget_fd(weft__backend *base, int fd)
{
    weft__uring_forget(weft__uring_of(base), fd);
}

static int uring_pipe(weft__backend *base, int fd[2])
{
    return weft__ready_pipe(&weft__uring_of(base)->ready, fd);
}

static int uring_socketpair(weft__backend *base, int fd[2])
{
    return weft__ready_socketpair(&weft__uring_of(base)->ready, fd);
}

/* Opening and closing. */

static int64_t uring_now_ns(weft__backend *base)
{
    (void)base;
    return weft__clock_ns();
}

/* A kernel that is to forget a read must not be left with its buffer. */
static void disarm_wake(weft__uring *b)
{
    if (weft__uring_check(&b->base) < 0)
        weft__uring_lose_number(b);
    else
        weft__wake_fd_write(&b->wake); /* a blocking read ends sooner by this */
    weft__uring_recall_wake(b);
    while (b->is_wake_armed && wait_for_some(b, WEFT__POLL_FOR_EVER) == 0)
        ;
}

static void uring_close(weft__backend *base)
{
    weft__uring *b = weft__uring_of(base);
    weft__finished_close(&b->base);
    if (!b->is_given_up) {
        disarm_wake(b);
        weft__uring_tear_down(&b->ring);
        weft__wake_fd_close(&b->wake);
    }
    while (!weft__list_is_empty(&b->flights)) {
        weft__flight *f = CONTAINER_OF(b->flights.next, weft__flight, all);
        weft__uring_drop_kept(b, f);
        weft__list_remove(&f->all);
        free(f);
    }
    weft__uring_buffers_free(b);
    weft__uring_watches_free(b);
    weft__ready_close(&b->ready);
    free(b);
}

static void uring_abandon(weft__backend *base, bool is_own)
{
    (void)is_own;
    weft__uring *b = weft__uring_of(base);
    if (weft__uring_check(base) == 0)
        close(b->ring.ring_fd);
    weft__wake_fd_close(&b->wake);
}

static int uring_open(weft__backend **out)
{
    weft__uring *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->base.type = &weft__backend_uring;
    weft__finished_init(&b->base);
    weft__list_init(&b->starts);
    weft__list_init(&b->cancels);
    weft__list_init(&b->leaving);
    weft__list_init(&b->flights);
    weft__list_init(&b->watches);
    /* It blocks: the kernel waits for it, and older ones would not if it did not. */
    int rc = weft__wake_fd_open(&b->wake, EFD_CLOEXEC);
    if (rc == 0)
        rc = weft__uring_setup(&b->ring, &b->abilities);
    if (rc < 0) {
        weft__wake_fd_close(&b->wake);
        free(b);
        return rc;
    }
    weft__ready_open(&b->ready, &b->base, weft__uring_watch, weft__uring_unwatch);
    *out = &b->base;
    return 0;
}

const weft__backend_type weft__backend_uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .abandon = uring_abandon,
    .now_ns = uring_now_ns,
    .submit = weft__uring_submit,
    .cancel = weft__uring_cancel,
    .poll = uring_poll,
    .wake = uring_wake,
    .check = weft__uring_check,
    .repair = weft__uring_repair,
    .give_up = weft__uring_give_up,
    .message = uring_message,
    .close_fd = weft__uring_close_fd,
    .many_open = weft__uring_many_open,
    .many_next = weft__uring_many_next,
    .many_close = weft__uring_many_close,
    .submit_linked = weft__uring_submit_linked,
    .forget_fd = forget_fd,
    .release_fd = weft__uring_release_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = uring_pipe,
    .socketpair = uring_socketpair,
};
