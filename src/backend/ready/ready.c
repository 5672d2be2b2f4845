/*
 * Operations that wait for readiness, see ready.h. syscall/call.c makes the system calls.
 *
 * Invariant: the first operation of a queue would have blocked after the last report or
 * registration of its descriptor. Therefore a backend may report each readiness only once
 * (edge-triggered). The same thread makes the calls and fetches the reports. The thread may fetch a
 * report after a call, although the readiness existed before the call. The report then costs one
 * unnecessary call.
 *
 * A short read from a TCP connection has emptied the connection. The descriptor is then drained:
 * the next read waits without a system call. The drained state lasts until the next report of
 * readability. Any later data causes such a report. A read may also stop early for other reasons:
 *   end or error      POLLRDHUP, POLLHUP and POLLERR report the end and errors. If the report was
 *                     fetched before the read, never_drained prevents the drained state. Otherwise
 *                     the report follows later, and ends the drained state.
 *   urgent byte       A read stops in front of an urgent byte. POLLPRI sets never_drained. A read
 *                     with MSG_OOB also sets never_drained, because it removes the cause of the
 *                     report.
 *   MSG_PEEK          The read consumes no data, and does not set the drained state.
 *   message boundary  On a unix stream, a read stops at descriptors that were sent. Therefore only
 *                     TCP has the drained state. TLS in the kernel adds records, but its users call
 *                     recvmsg. recvmsg ignores the drained state.
 * The drained state is also valid with level-triggered reports. They repeat while data is
 * available.
 */
#include "backend/ready/ready.h"

#include "backend/syscall/call.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The interval of retries for conditions without readiness, for example the full backlog of a unix
 * socket.
 */
#define RETRY_NS 1000000

/* Return the number of bytes that a read from a stream requests, or 0 for other operations. */
static size_t stream_bytes(const weft__op *op)
{
    if (op->code == WEFT__OP_RECV && !weft__call_never_waits(op))
        return op->u.packet.bytes;
    if (op->code == WEFT__OP_READ && op->u.buffer.offset == WEFT__OFFSET_CURRENT)
        return op->u.buffer.bytes;
    return 0;
}

static void note_read(weft__descriptor *d, const weft__op *op, intptr_t result)
{
    int flags = op->code == WEFT__OP_RECV ? op->u.packet.flags : 0;
    if (op->code == WEFT__OP_RECVMSG)
        flags = op->u.message.flags;
    if (flags & MSG_OOB)
        d->never_drained = true;
    if (result > 0 && (size_t)result < stream_bytes(op) && !d->never_drained && !(flags & MSG_PEEK))
        d->is_drained = true;
}

/*
 * Return whether the operation is a read or write at the current position of a registered TCP
 * connection. Most operations satisfy this condition.
 */
static bool is_fast_transfer(const weft__descriptor *d, const weft__op *op)
{
    return d->is_tcp && (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE) &&
           op->u.buffer.offset == WEFT__OFFSET_CURRENT && op->u.buffer.bytes > 0;
}

/*
 * The fast path of try_call. op must be a fast transfer. Without the fast path: echo +15 %
 * instructions (docs/adr/0051).
 */
static intptr_t try_fast(weft__descriptor *d, const weft__op *op)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    bool is_read = op->code == WEFT__OP_READ;
    void *data = op->u.buffer.data;
    size_t bytes = op->u.buffer.bytes;
    ssize_t n = TEMP_FAILURE_RETRY(is_read ? recv(op->fd, data, bytes, flags)
                                           : send(op->fd, data, bytes, flags));
    if (UNLIKELY(n < 0))
        return errno == EAGAIN ? WEFT__OP_PENDING : -errno;
    if (is_read && n > 0 && (size_t)n < bytes && !d->never_drained)
        d->is_drained = true;
    return n;
}

/* Try the call. Cache the file type that the call has detected. */
static intptr_t try_call(weft__ready *r, weft__op *op)
{
    if (UNLIKELY(r->backend->is_hosted))
        return weft__ready_try_hosted(r, op);
    weft__descriptor *d = weft__ready_find(r, op->fd);
    if (d != NULL && is_fast_transfer(d, op))
        return try_fast(d, op);
    weft__fd_kind kind = {.is_not_socket = false};
    if (d != NULL)
        kind = (weft__fd_kind){d->is_not_socket, d->is_on_disk};
    const weft__fd_kind before = kind;
    intptr_t result = weft__call_try(op, &kind);
    if (kind.is_not_socket != before.is_not_socket || kind.is_on_disk != before.is_on_disk) {
        d = weft__ready_ensure(r, op->fd);
        if (d != NULL) { /* if memory is exhausted, the next call detects the type again */
            d->is_not_socket = kind.is_not_socket;
            d->is_on_disk = kind.is_on_disk;
        }
    }
    if (d != NULL && d->is_tcp)
        note_read(d, op, result);
    weft__ready_note_created(r, op, result);
    return result;
}

/*
 * Link the operation to its other descriptor. Closing that descriptor then also ends the operation.
 * Returns 0 or -errno.
 */
static int link_other_fd(weft__ready *r, weft__op *op)
{
    int fd = weft__ready_other_fd(op);
    if (fd < 0 || fd == op->wait_fd)
        return 0;
    weft__descriptor *d = weft__ready_ensure(r, fd);
    if (d == NULL)
        return -ENOMEM;
    weft__list_insert(&d->secondary_ops, &op->secondary_link);
    return 0;
}

static int arm_descriptor(weft__ready *r, weft__op *op, weft__descriptor *d)
{
    uint32_t before = d->generation;
    bool is_hosted = r->backend->is_hosted;
    d->needs_rearm |= is_hosted || op->code == WEFT__OP_WAIT || op->code == WEFT__OP_CONNECT;
    int rc = r->arm(r->backend, op->wait_fd, d);
    if (rc == 0 && d->generation != before && !is_hosted) {
        d->is_tcp = !d->is_not_socket && weft__call_is_tcp(op->wait_fd);
        d->is_drained = d->never_drained = false;
    }
    return rc;
}

/* Return the descriptor that a worker thread will use, or -1 if there is none. */
static int worker_fd(const weft__op *op)
{
    if (op->code == WEFT__OP_OPEN && op->u.open.path[0] == '/')
        return -1;
    return op->fd;
}

/*
 * Run the operation on a worker thread. If memory or threads are exhausted, block this thread
 * instead, because a late result is better than an error. A function of the program returns the
 * error, because the function may block for a long time.
 */
static intptr_t park_in_worker(weft__ready *r, weft__op *op)
{
    int fd = worker_fd(op);
    weft__descriptor *d = fd >= 0 ? weft__ready_ensure(r, fd) : NULL;
    intptr_t result = fd >= 0 && d == NULL ? -ENOMEM : link_other_fd(r, op);
    if (result == 0)
        result = weft__job_submit(r->backend, op);
    if (result == WEFT__OP_PENDING) {
        if (d != NULL)
            weft__list_insert(&d->worker_ops, &op->link);
        return result;
    }
    weft__list_remove(&op->secondary_link);
    if (op->code == WEFT__OP_CALL)
        return result;
    op->wait_fd = op->fd;
    result = weft__call_block(op);
    weft__ready_note_created(r, op, result);
    return result;
}

/*
 * Both descriptors need a state, because weft__ready_close_fd searches the retries only for
 * descriptors with a state.
 */
static intptr_t park_for_retry(weft__ready *r, weft__op *op)
{
    int other = weft__ready_other_fd(op);
    if (weft__ready_ensure(r, op->fd) == NULL ||
        (other >= 0 && weft__ready_ensure(r, other) == NULL))
        return -ENOMEM;
    if (weft__list_is_empty(&r->retries))
        r->retry_ns = weft__clock_ns() + RETRY_NS;
    weft__waiters_add(r->backend, &r->retries, op);
    return WEFT__OP_PENDING;
}

/* Make an operation wait as wait_fd specifies. Returns WEFT__OP_PENDING or the result. */
static intptr_t park_op(weft__ready *r, weft__op *op)
{
    if (op->wait_fd == WEFT__WAIT_WORKER)
        return park_in_worker(r, op);
    if (op->wait_fd == WEFT__WAIT_RETRY)
        return park_for_retry(r, op);
    weft__descriptor *d = weft__ready_ensure(r, op->wait_fd);
    int rc = d != NULL ? link_other_fd(r, op) : -ENOMEM;
    if (rc < 0)
        return rc;
    weft__waiters_add(r->backend, weft__waiters_queue(&d->waiters, op), op);
    rc = arm_descriptor(r, op, d);
    if (rc == 0)
        return WEFT__OP_PENDING;
    weft__waiters_remove(r->backend, op);
    if (rc != -EPERM || op->code == WEFT__OP_WAIT)
        return rc;
    op->wait_fd = WEFT__WAIT_WORKER;
    return park_in_worker(r, op);
}

static intptr_t try_or_park(weft__ready *r, weft__op *op)
{
    intptr_t result = try_call(r, op);
    return result == WEFT__OP_PENDING ? park_op(r, op) : result;
}

static bool is_closing(weft__ready *r, int fd)
{
    const weft__descriptor *d = weft__ready_current(r, fd);
    return d != NULL && d->is_closing;
}

/*
 * Return whether an operation waits for earlier operations of its queue. CONNECT starts at once,
 * and a report completes all WAIT operations. CONNECT and WAIT do not wait for other operations.
 */
static bool waits_in_order(const weft__op *op)
{
    return op->wait_events != 0 && op->code != WEFT__OP_CONNECT && op->code != WEFT__OP_WAIT &&
           !weft__call_never_waits(op);
}

/*
 * Return whether an operation must wait without a system call, because earlier operations wait or
 * the descriptor is drained.
 */
static bool must_wait(weft__descriptor *d, const weft__op *op)
{
    bool is_behind = !weft__list_is_empty(weft__waiters_queue(&d->waiters, op));
    return (is_behind || (d->is_drained && stream_bytes(op) > 0)) && waits_in_order(op);
}

/*
 * Discard the state of a descriptor before connect, because the socket is usually new. A descriptor
 * with waiters keeps its state.
 */
static void prepare_connect(weft__ready *r, int fd, weft__descriptor *d)
{
    if (weft__waiters_is_empty(&d->waiters))
        weft__ready_invalidate(r, fd, d);
}

intptr_t weft__ready_submit(weft__ready *r, weft__op *op)
{
    weft__descriptor *d = op->fd >= 0 ? weft__ready_current(r, op->fd) : NULL;
    weft__list_init(&op->link);
    weft__list_init(&op->secondary_link);
    op->job = NULL;
    op->progress = 0;
    weft__call_set_wait(op);
    int other = weft__ready_other_fd(op);
    if ((d != NULL && d->is_closing) || (other >= 0 && is_closing(r, other)))
        return -EBADF;
    if (UNLIKELY(r->backend->is_hosted) && op->code == WEFT__OP_WAIT)
        return weft__ready_wait(r, op);
    if (d == NULL)
        return try_or_park(r, op);
    if (op->code == WEFT__OP_CONNECT && !r->backend->is_hosted)
        prepare_connect(r, op->fd, d);
    if (must_wait(d, op) && (other < 0 || weft__call_is_open(other)))
        return park_op(r, op);
    return try_or_park(r, op);
}

bool weft__ready_cancel(weft__ready *r, weft__op *op)
{
    if (op->job == NULL) {
        weft__waiters_remove(r->backend, op);
        return true;
    }
    if (!weft__job_cancel(r->backend, op))
        return false;
    weft__list_remove(&op->secondary_link);
    weft__ready_close_deferred(r);
    return true;
}

/*
 * Try an operation that has waited. Returns -EBADF if another thread has closed a descriptor of the
 * operation meanwhile.
 */
static intptr_t try_waiting(weft__ready *r, weft__op *op)
{
    int other = weft__ready_other_fd(op);
    bool is_stale =
        weft__ready_is_stale_fd(r, op->fd) || (other >= 0 && weft__ready_is_stale_fd(r, other));
    return is_stale ? -EBADF : try_call(r, op);
}

/* Continue an operation that was removed from its queue. */
static void op_resume(weft__ready *r, weft__op *op)
{
    intptr_t result = try_waiting(r, op);
    if (result == WEFT__OP_PENDING)
        result = park_op(r, op);
    if (result != WEFT__OP_PENDING)
        op->done(op, result);
}

/*
 * Resume the operations of a queue in order. done may close the descriptor and change
 * d->generation.
 */
static void queue_run(weft__ready *r, int fd, weft__descriptor *d, weft__list *queue)
{
    const uint32_t generation = d->generation;
    while (d->generation == generation && !weft__list_is_empty(queue)) {
        weft__op *op = weft__waiters_first(queue);
        if (d->is_drained && stream_bytes(op) > 0)
            return;
        intptr_t result = try_waiting(r, op);
        if (result == WEFT__OP_PENDING) {
            if (op->wait_fd == fd && weft__waiters_queue(&d->waiters, op) == queue)
                return;
            weft__waiters_remove(r->backend, op);
            result = park_op(r, op);
            if (result != WEFT__OP_PENDING)
                op->done(op, result);
            continue;
        }
        weft__waiters_end(r->backend, op, result);
    }
}

void weft__ready_event(weft__ready *r, int fd, weft__descriptor *d, int events)
{
    if (UNLIKELY(weft__ready_is_stale(d))) { /* closed by another cord */
        r->backend->type->forget_fd(r->backend, fd);
        return;
    }
    const uint32_t generation = d->generation;
    if (events & ~POLLOUT)
        d->is_drained = false;
    if (events & ~(POLLIN | POLLOUT))
        d->never_drained = true;
    if (UNLIKELY(r->backend->is_hosted))
        weft__ready_end_waits(r, d, events);
    else
        queue_run(r, fd, d, &d->waiters.either);
    if (d->generation == generation && events & ~POLLOUT)
        queue_run(r, fd, d, &d->waiters.readers);
    if (d->generation == generation && events & (POLLOUT | POLLERR | POLLHUP))
        queue_run(r, fd, d, &d->waiters.writers);
}

/*
 * Try each operation in retries once. Operations that are added meanwhile wait for the next retry.
 */
static void retry_all(weft__ready *r)
{
    int64_t now_ns = weft__clock_ns();
    if (now_ns < r->retry_ns)
        return;
    r->retry_ns = now_ns + RETRY_NS;
    size_t count = 0;
    WEFT__LIST_FOR(node, &r->retries)
        count++;
    for (; count > 0 && !weft__list_is_empty(&r->retries); count--) {
        weft__op *op = weft__waiters_first(&r->retries);
        weft__waiters_remove(r->backend, op);
        op_resume(r, op);
    }
}

int64_t weft__ready_timeout(const weft__ready *r, int64_t timeout_ns)
{
    if (timeout_ns < WEFT__POLL_FOREVER)
        timeout_ns = -timeout_ns;
    if (timeout_ns == 0 || weft__finished_jobs_before_wait(r->backend->finished_jobs))
        return 0;
    if (weft__list_is_empty(&r->retries))
        return timeout_ns;
    int64_t remaining_ns = r->retry_ns - weft__clock_ns();
    remaining_ns = remaining_ns > 0 ? remaining_ns : 0;
    return timeout_ns < 0 || timeout_ns > remaining_ns ? remaining_ns : timeout_ns;
}

void weft__ready_poll(weft__ready *r)
{
    if (!weft__list_is_empty(&r->retries))
        retry_all(r);
    weft__jobs_collect(r->backend);
}

/*
 * Handle an operation that a worker thread has finished. A splice fails with -EAGAIN if another
 * thread or process has filled or emptied the pipe meanwhile.
 */
static void worker_op_done(void *owner, weft__op *op, intptr_t result)
{
    weft__ready *r = owner;
    bool was_closing = is_closing(r, op->fd) || is_closing(r, weft__ready_other_fd(op));
    weft__list_remove(&op->secondary_link);
    weft__ready_close_deferred(r);
    if (result == -EAGAIN && weft__ready_other_fd(op) >= 0 && !weft__call_never_waits(op)) {
        result = was_closing ? -EBADF : try_or_park(r, op);
        if (result == WEFT__OP_PENDING)
            return;
    }
    weft__ready_note_created(r, op, result);
    op->done(op, result);
}

void weft__ready_open(weft__ready *r, weft__backend *b,
                      int (*arm)(weft__backend *, int, weft__descriptor *),
                      void (*disarm)(weft__backend *, int, weft__descriptor *))
{
    *r = (weft__ready){.backend = b, .arm = arm, .disarm = disarm};
    weft__list_init(&r->retries);
    weft__list_init(&r->closing);
    b->finished_jobs->end = worker_op_done;
    b->finished_jobs->owner = r;
}

void weft__ready_close(weft__ready *r)
{
    weft__ready_close_deferred(r);
    weft__ready_free_table(r);
}
