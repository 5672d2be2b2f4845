/*
 * The io_uring backend: the kernel performs whole operations, and reports their results.
 *
 * The backend adds operations to the submission queue. The system call that waits also submits the
 * queue. If the queue is full, operations wait in a backlog until poll. The backend submits only
 * the first of several reads on a descriptor, and only the first of several writes. Otherwise the
 * kernel could complete the operations in any order.
 *
 * A cancelled operation remains pending until the kernel has released it. io_uring is not suitable
 * for splice, tee and blocking calls. Older kernels do not support some other operations. All these
 * operations use ready.c, with internal poll operations (poll_add.c).
 */
#include "backend/uring/uring.h"

#include "backend/syscall/call.h"
#include "backend/syscall/count.h"
#include "backend/uring/buffers.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The pause after the kernel had no memory for submissions or completions, in microseconds. */
#define BACKOFF_US 1000
/*
 * The maximum number of completions that poll handles before the woken fibers run. The data of the
 * fibers is then still in the cache. Their next operations fit into the submission queue.
 */
#define BATCH 32

static void handle_completion(weft__uring *b, const weft__completion *c)
{
    void *object = weft__key_object(c->key);
    switch ((weft__key_kind)(c->key & WEFT__KEY_KIND_MASK)) {
    case WEFT__KEY_OP:
        weft__uring_completed(b, object, c->result, c->flags);
        break;
    case WEFT__KEY_MULTISHOT:
        weft__uring_multishot_completed(b, object, c);
        break;
    case WEFT__KEY_WAKE:
        b->is_wake_armed = false;
        break;
    case WEFT__KEY_CANCEL:
        b->must_retry_cancels |= c->result == -ENOENT;
        break;
    case WEFT__KEY_MSG_RING:
        if (c->result < 0)
            b->base.wake_lost((uint32_t)(c->key >> WEFT__KEY_TAG_SHIFT));
        break;
    }
}

/*
 * Handle at most max completions. Completions that arrive meanwhile wait for the next call. Copy
 * and release each completion before handling it, because the handler may use the ring or call this
 * function again.
 */
static void reap_completions(weft__uring *b, unsigned max)
{
    unsigned ready = io_uring_cq_ready(&b->ring);
    for (unsigned left = ready < max ? ready : max; left > 0; left--) {
        if (io_uring_cq_ready(&b->ring) == 0)
            break;
        const struct io_uring_cqe *cqe = &b->ring.cq.cqes[*b->ring.cq.khead & b->ring.cq.ring_mask];
        weft__completion c = {cqe->user_data, cqe->res, cqe->flags};
        io_uring_cq_advance(&b->ring, 1);
        b->handled++;
        handle_completion(b, &c);
    }
    if (b->must_retry_cancels)
        weft__uring_retry_cancels(b);
}

/* The number of completions to handle in one poll. A host fetches each batch by a poll. */
static unsigned batch_of(const weft__uring *b)
{
    return b->base.is_hosted ? UINT_MAX : BATCH;
}

/* Return whether a system call is necessary to submit entries or to fetch completions. */
static bool must_enter(const weft__uring *b)
{
    unsigned flags = IO_URING_READ_ONCE(*b->ring.sq.kflags);
    return io_uring_sq_ready(&b->ring) > 0 || flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

/*
 * Return whether an error of io_uring_enter is temporary. Examples are exhausted memory and too
 * many completions.
 */
static bool is_temporary(int rc)
{
    return rc == -EBUSY || rc == -EAGAIN || rc == -EINTR || rc == -ETIME || rc == -ENOMEM;
}

/* Submit the entries, and handle at most max completions. Do not wait. */
static int submit_and_reap(weft__uring *b, unsigned max)
{
    int rc = 0;
    weft__uring_check_sqes(b);
    if (must_enter(b))
        rc = WEFT__COUNTED(io_uring_submit_and_get_events(&b->ring));
    reap_completions(b, max);
    return rc < 0 && !is_temporary(rc) ? rc : 0;
}

/* Like submit_and_reap, but pause if the kernel accepted no entries. For retry loops. */
static int submit_and_reap_or_pause(weft__uring *b)
{
    unsigned before = io_uring_sq_ready(&b->ring);
    int rc = submit_and_reap(b, UINT_MAX);
    if (rc == 0 && io_uring_sq_ready(&b->ring) >= before)
        usleep(BACKOFF_US);
    return rc;
}

static void arm_wake(weft__uring *b)
{
    struct io_uring_sqe *sqe = weft__uring_get_sqe(b);
    if (sqe == NULL)
        return;
    io_uring_prep_read(sqe, atomic_load(&b->wake.fd), &b->wake_count, sizeof b->wake_count, 0);
    sqe->user_data = WEFT__KEY_WAKE;
    b->is_wake_armed = true;
}

/* Add the whole backlog to the submission queue. Submit entries whenever the queue is full. */
static int submit_all(weft__uring *b)
{
    int rc = 0;
    do {
        if (!b->is_wake_armed)
            arm_wake(b);
        weft__uring_submit_backlog(b);
        bool is_more = !weft__list_is_empty(&b->backlog) ||
                       !weft__list_is_empty(&b->cancel_backlog) || !b->is_wake_armed;
        if (!is_more)
            return 0;
        rc = submit_and_reap_or_pause(b);
    } while (rc == 0);
    return rc;
}

void weft__uring_flush(weft__uring *b)
{
    int rc = submit_all(b);
    while (rc == 0 && io_uring_sq_ready(&b->ring) > 0)
        rc = submit_and_reap_or_pause(b);
}

static int wait_for_completion(weft__uring *b, int64_t timeout_ns)
{
    struct __kernel_timespec timeout = {timeout_ns / WEFT__NS_PER_S, timeout_ns % WEFT__NS_PER_S};
    struct io_uring_cqe *ignored;
    weft__uring_check_sqes(b);
    weft__syscalls_made++;
    int rc = io_uring_submit_and_wait_timeout(&b->ring, &ignored, 1,
                                              timeout_ns < 0 ? NULL : &timeout, NULL);
    bool was_empty = io_uring_cq_ready(&b->ring) == 0;
    reap_completions(b, batch_of(b));
    if ((rc == -EBUSY || rc == -EAGAIN || rc == -ENOMEM) && was_empty)
        usleep(BACKOFF_US);
    return rc < 0 && !is_temporary(rc) ? rc : 0;
}

/*
 * Return whether completions are available, and the submission queue has space for the next
 * operations of a batch.
 */
static bool has_batch(const weft__uring *b)
{
    return io_uring_cq_ready(&b->ring) > 0 && io_uring_sq_space_left(&b->ring) >= BATCH &&
           weft__list_is_empty(&b->backlog) && weft__list_is_empty(&b->cancel_backlog);
}

static int uring_poll(weft__backend *base, int64_t timeout_ns)
{
    weft__uring *b = weft__uring_of(base);
    if (has_batch(b)) {
        reap_completions(b, batch_of(b));
        weft__ready_poll(&b->ready);
        return 0;
    }
    const uint64_t before = b->handled;
    int rc = submit_all(b);
    /* Do not wait if fibers were woken meanwhile. */
    timeout_ns = weft__ready_timeout(&b->ready, b->handled != before ? 0 : timeout_ns);
    if (rc == 0 && (timeout_ns == 0 || io_uring_cq_ready(&b->ring) > 0))
        rc = submit_and_reap(b, batch_of(b));
    else if (rc == 0)
        rc = wait_for_completion(b, timeout_ns);
    weft__ready_poll(&b->ready);
    return rc;
}

static void uring_wake(weft__backend *base)
{
    if (!weft__wake_fd_write(&weft__uring_of(base)->wake))
        weft__backend_interrupt(base);
}

/*
 * Return whether the message with this key has failed. The kernel posts the failed completion
 * before io_uring_submit returns, at index `from` or later. Mark the completion as successful.
 * Otherwise the backend would call wake_lost for it later.
 */
static bool take_wake_failure(weft__uring *b, uint64_t key, unsigned from)
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
 * Post a completion to the other ring. A completion is cheaper than a write to an eventfd, because
 * the eventfd needs a new read operation after each wake. Submit all entries at once, because the
 * sender may run for a long time before it polls.
 */
static bool uring_wake_remote(weft__backend *base, weft__backend *to, uint32_t tag)
{
    weft__uring *b = weft__uring_of(base);
    struct io_uring_sqe *sqe =
        weft__uring_can_wake_remote(&b->abilities) ? weft__uring_get_sqe(b) : NULL;
    if (sqe == NULL)
        return false;
    uint64_t key = (uint64_t)tag << WEFT__KEY_TAG_SHIFT | WEFT__KEY_MSG_RING;
    int to_fd = __atomic_load_n(&weft__uring_of(to)->ring.ring_fd, __ATOMIC_RELAXED);
    io_uring_prep_msg_ring(sqe, to_fd, 0, WEFT__KEY_MSG_RING, 0);
    sqe->user_data = key;
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    weft__uring_check_sqes(b);
    unsigned from = io_uring_smp_load_acquire(b->ring.cq.ktail);
    /*
     * A message that remains in the queue is sent later. A late wake is harmless, even to another
     * ring.
     */
    return WEFT__COUNTED(io_uring_submit(&b->ring)) >= 0 && io_uring_sq_ready(&b->ring) == 0 &&
           !take_wake_failure(b, key, from);
}

static int uring_forget_fd(weft__backend *base, int fd)
{
    return weft__uring_fd_forget(weft__uring_of(base), fd);
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

/* Cancel the read of the eventfd. Wait until the kernel has released the buffer of the read. */
static void disarm_wake(weft__uring *b)
{
    if (weft__uring_check(&b->base) < 0)
        weft__uring_forget_ring_fd(b);
    else
        weft__wake_fd_write(&b->wake); /* ends the read if it already blocks */
    weft__uring_cancel_wake(b);
    while (b->is_wake_armed && wait_for_completion(b, WEFT__POLL_FOREVER) == 0)
        ;
}

static void uring_close(weft__backend *base)
{
    weft__uring *b = weft__uring_of(base);
    weft__finished_jobs_close(&b->base);
    if (!b->is_given_up) {
        disarm_wake(b);
        weft__uring_tear_down(&b->ring);
        weft__wake_fd_close(&b->wake);
    }
    for (weft__uring_fd_slab *slab = b->fds, *next; slab != NULL; slab = next) {
        next = slab->next;
        for (unsigned i = 0; i < slab->used; i++)
            weft__uring_drop_leftover(b, &slab->fds[i]);
        free(slab);
    }
    weft__uring_buffers_free(b);
    weft__uring_polls_free(b);
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
    b->is_given_up = true; /* close only frees memory: the child has no mapping of the ring */
}

static int uring_open(weft__backend **out)
{
    weft__uring *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->base.type = &weft__backend_uring;
    weft__finished_jobs_init(&b->base);
    weft__list_init(&b->backlog);
    weft__list_init(&b->cancel_backlog);
    weft__list_init(&b->cancelling);
    weft__list_init(&b->polls);
    /* The eventfd is blocking. On older kernels, a read of a non-blocking eventfd does not wait. */
    int rc = weft__wake_fd_open(&b->wake, EFD_CLOEXEC);
    if (rc == 0)
        rc = weft__uring_setup(&b->ring, &b->abilities);
    if (rc < 0) {
        weft__wake_fd_close(&b->wake);
        free(b);
        return rc;
    }
    weft__ready_open(&b->ready, &b->base, weft__uring_poll_add, weft__uring_poll_remove);
    b->ready.lacks_priority = true; /* see hosted.c */
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
    .wake_remote = uring_wake_remote,
    .close_fd = weft__uring_close_fd,
    .multishot_open = weft__uring_multishot_open,
    .multishot_next = weft__uring_multishot_next,
    .multishot_close = weft__uring_multishot_close,
    .submit_linked = weft__uring_submit_linked,
    .forget_fd = uring_forget_fd,
    .release_fd = weft__uring_release_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = uring_pipe,
    .socketpair = uring_socketpair,
};
