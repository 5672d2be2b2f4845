/*
 * Operations over readiness, see ready.h. How a call is kept from blocking is call.c's matter.
 *
 * Whoever waits has found, after the descriptor was last reported or registered, that its call
 * would block, or stands behind one who has. So a backend may report a readiness once, when it
 * comes (edge-triggered): reports are fetched by the thread that makes the calls, and one that came
 * before a call was made is at worst fetched after it, for one more call in vain.
 *
 * A read on a TCP connection that got less than it asked for has emptied it, and the next one need
 * not make a call to hear that: the descriptor is drained. That holds until the next report that it
 * can be read; whatever arrives after the short read causes one. It is wrong where the read stopped
 * for another reason than that nothing was left:
 *   the end, an error  A report tells of them (POLLRDHUP, POLLHUP, POLLERR). If it was fetched
 *                      before the read, has_more is set and keeps the descriptor from ever being
 *                      drained; if not, it is still to come and ends the drained state.
 *   an urgent byte     reads stop in front of it. POLLPRI likewise; so does a read with MSG_OOB,
 *                      which takes the reason for the report away.
 *   MSG_PEEK           takes nothing, and is not asked.
 *   a message boundary Other sockets have them: on a unix stream a read stops at descriptors that
 *                      were sent along. So only TCP counts. TLS in the kernel makes records of it,
 *                      but who uses that reads with recvmsg, which always makes the call.
 * A backend whose reports are not edges but states is as safe: it reports what is there.
 */
#include "backend/ready.h"

#include "backend/call.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What no readiness tells of (a full backlog, say) is tried again after so long. */
#define RETRY_NS 1000000

/* How many bytes it takes from a stream in order; 0: that is not what it does. */
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
        d->has_more = true;
    if (result > 0 && (size_t)result < stream_bytes(op) && !d->has_more && !(flags & MSG_PEEK))
        d->is_drained = true;
}

/* Make the call if it can be made now, and learn from it. */
static intptr_t try_call(weft__ready *r, weft__op *op)
{
    weft__descriptor *d = weft__ready_find(r, op->fd);
    weft__facts known = {.is_not_socket = false};
    if (d != NULL)
        known = (weft__facts){d->is_not_socket, d->is_on_disk};
    const weft__facts before = known;
    intptr_t result = weft__call_try(op, &known);
    if (known.is_not_socket != before.is_not_socket || known.is_on_disk != before.is_on_disk) {
        d = weft__ready_note(r, op->fd);
        if (d != NULL) { /* else it is learned again */
            d->is_not_socket = known.is_not_socket;
            d->is_on_disk = known.is_on_disk;
        }
    }
    if (d != NULL && d->is_tcp)
        note_read(d, op, result);
    weft__ready_note_made(r, op, result);
    return result;
}

/* A plain read or write on a TCP connection that is watched: what most calls are. */
static bool is_plain(const weft__descriptor *d, const weft__op *op)
{
    return d->is_tcp && (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE) &&
           op->u.buffer.offset == WEFT__OFFSET_CURRENT && op->u.buffer.bytes > 0;
}

/* The same as try_call for one of those, in a third of the instructions. */
static intptr_t try_plain(weft__descriptor *d, const weft__op *op)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    bool is_read = op->code == WEFT__OP_READ;
    void *data = op->u.buffer.data;
    size_t bytes = op->u.buffer.bytes;
    ssize_t n = TEMP_FAILURE_RETRY(is_read ? recv(op->fd, data, bytes, flags)
                                           : send(op->fd, data, bytes, flags));
    if (UNLIKELY(n < 0))
        return errno == EAGAIN ? WEFT__OP_PENDING : -errno;
    if (is_read && n > 0 && (size_t)n < bytes && !d->has_more)
        d->is_drained = true;
    return n;
}

/* It waits elsewhere, but closing the other descriptor is to end it, too. 0 or -errno. */
static int note_other(weft__ready *r, weft__op *op)
{
    int fd = weft__ready_other_fd(op);
    if (fd < 0 || fd == op->wait_fd)
        return 0;
    weft__descriptor *d = weft__ready_note(r, fd);
    if (d == NULL)
        return -ENOMEM;
    weft__list_insert(&d->also, &op->turn);
    return 0;
}

static int watch(weft__ready *r, weft__op *op, weft__descriptor *d)
{
    uint32_t before = d->generation;
    d->is_doubtful |= op->code == WEFT__OP_WAIT || op->code == WEFT__OP_CONNECT;
    int rc = r->watch(r->backend, op->wait_fd, d);
    if (rc == 0 && d->generation != before) {
        d->is_tcp = !d->is_not_socket && weft__call_is_tcp(op->wait_fd);
        d->is_drained = d->has_more = false;
    }
    return rc;
}

/* The descriptor that a thread will work on; -1: none. */
static int pooled_fd(const weft__op *op)
{
    if (op->code == WEFT__OP_OPEN && op->u.open.path[0] == '/')
        return -1;
    return op->fd;
}

/*
 * To the pool. Where there is no memory or no thread for it, the thread that is here does it: late
 * is better than not at all. But for a function, of which we know nothing.
 */
static intptr_t park_in_pool(weft__ready *r, weft__op *op)
{
    int fd = pooled_fd(op);
    weft__descriptor *d = fd >= 0 ? weft__ready_note(r, fd) : NULL;
    intptr_t result = fd >= 0 && d == NULL ? -ENOMEM : note_other(r, op);
    if (result == 0)
        result = weft__pool_submit(r->backend, op);
    if (result == WEFT__OP_PENDING) {
        if (d != NULL)
            weft__list_insert(&d->pooled, &op->link);
        return result;
    }
    weft__list_remove(&op->turn);
    if (op->code == WEFT__OP_CALL)
        return result;
    op->wait_fd = op->fd;
    result = weft__call_block(op);
    weft__ready_note_made(r, op, result);
    return result;
}

/* Closing looks for it only if something is noted about the descriptor. */
static intptr_t park_for_retry(weft__ready *r, weft__op *op)
{
    int other = weft__ready_other_fd(op);
    if (weft__ready_note(r, op->fd) == NULL || (other >= 0 && weft__ready_note(r, other) == NULL))
        return -ENOMEM;
    if (weft__list_is_empty(&r->retries))
        r->retry_ns = weft__clock_ns() + RETRY_NS;
    weft__waiters_add(r->backend, &r->retries, op);
    return WEFT__OP_PENDING;
}

/* It would block: wait where wait_fd says. WEFT__OP_PENDING, or the result. */
static intptr_t park(weft__ready *r, weft__op *op)
{
    if (op->wait_fd == WEFT__WAIT_THREAD)
        return park_in_pool(r, op);
    if (op->wait_fd == WEFT__WAIT_AGAIN)
        return park_for_retry(r, op);
    weft__descriptor *d = weft__ready_note(r, op->wait_fd);
    int rc = d != NULL ? note_other(r, op) : -ENOMEM;
    if (rc < 0)
        return rc;
    weft__waiters_add(r->backend, weft__waiters_queue(&d->waiters, op), op);
    rc = watch(r, op, d);
    if (rc == 0)
        return WEFT__OP_PENDING;
    weft__waiters_take(r->backend, op);
    if (rc != -EPERM || op->code == WEFT__OP_WAIT)
        return rc;
    op->wait_fd = WEFT__WAIT_THREAD;
    return park_in_pool(r, op);
}

/* Let it go on if it can, else wait. */
static intptr_t try_or_park(weft__ready *r, weft__op *op)
{
    intptr_t result = try_call(r, op);
    return result == WEFT__OP_PENDING ? park(r, op) : result;
}

static bool is_closing(weft__ready *r, int fd)
{
    const weft__descriptor *d = fd >= 0 ? weft__ready_current(r, fd) : NULL;
    return d != NULL && d->is_closing;
}

/* A connect is started in any case, and readiness is for all: they wait for no turn. */
static bool takes_turn(const weft__op *op)
{
    return op->wait_events != 0 && op->code != WEFT__OP_CONNECT && op->code != WEFT__OP_WAIT &&
           !weft__call_never_waits(op);
}

/* Do others come first, or is nothing there to read? */
static bool must_wait(weft__descriptor *d, const weft__op *op)
{
    if (!takes_turn(op))
        return false;
    return !weft__list_is_empty(weft__waiters_queue(&d->waiters, op)) ||
           (d->is_drained && stream_bytes(op) > 0);
}

/* A socket to be connected is a new one, as a rule. One that somebody waits on may stay. */
static void prepare_connect(weft__ready *r, int fd, weft__descriptor *d)
{
    if (weft__waiters_is_empty(&d->waiters))
        weft__ready_unlearn(r, fd, d);
}

/* A plain one that would block, and is to wait behind those who do. */
static intptr_t park_plain(weft__ready *r, weft__descriptor *d, weft__list *queue, weft__op *op)
{
    weft__list_init(&op->turn);
    op->job = NULL;
    op->progress = 0;
    op->wait_fd = op->fd;
    op->wait_events = op->code == WEFT__OP_READ ? POLLIN : POLLOUT;
    weft__waiters_add(r->backend, queue, op);
    int rc = watch(r, op, d);
    if (LIKELY(rc == 0))
        return WEFT__OP_PENDING;
    weft__waiters_take(r->backend, op);
    return try_or_park(r, op); /* it is another file by now: that finds out */
}

static intptr_t submit_plain(weft__ready *r, weft__descriptor *d, weft__op *op)
{
    bool is_read = op->code == WEFT__OP_READ;
    weft__list *queue = is_read ? &d->waiters.readers : &d->waiters.writers;
    if (UNLIKELY(d->is_closing))
        return -EBADF;
    if (weft__list_is_empty(queue) && !(is_read && d->is_drained)) {
        intptr_t result = try_plain(d, op);
        if (result != WEFT__OP_PENDING)
            return result;
    }
    return park_plain(r, d, queue, op);
}

intptr_t weft__ready_submit(weft__ready *r, weft__op *op)
{
    weft__descriptor *d = op->fd >= 0 ? weft__ready_current(r, op->fd) : NULL;
    if (d != NULL && is_plain(d, op))
        return submit_plain(r, d, op);
    weft__list_init(&op->link);
    weft__list_init(&op->turn);
    op->job = NULL;
    op->progress = 0;
    weft__call_aim(op);
    if (d == NULL)
        return is_closing(r, weft__ready_other_fd(op)) ? -EBADF : try_or_park(r, op);
    if (d->is_closing || is_closing(r, weft__ready_other_fd(op)))
        return -EBADF;
    if (op->code == WEFT__OP_CONNECT)
        prepare_connect(r, op->fd, d);
    int other = weft__ready_other_fd(op);
    if (must_wait(d, op) && (other < 0 || weft__call_is_open(other)))
        return park(r, op);
    return try_or_park(r, op);
}

bool weft__ready_cancel(weft__ready *r, weft__op *op)
{
    if (op->job == NULL) {
        weft__waiters_take(r->backend, op);
        return true;
    }
    if (!weft__pool_cancel(r->backend, op))
        return false;
    weft__list_remove(&op->turn);
    weft__ready_close_kept(r);
    return true;
}

/* For one that has waited: another thread may have closed its descriptors meanwhile. */
static intptr_t try_again(weft__ready *r, weft__op *op)
{
    bool is_gone =
        weft__ready_is_stale_fd(r, op->fd) || weft__ready_is_stale_fd(r, weft__ready_other_fd(op));
    return is_gone ? -EBADF : try_call(r, op);
}

/* One that has been taken from where it waited. */
static void go_on(weft__ready *r, weft__op *op)
{
    intptr_t result = try_again(r, op);
    if (result == WEFT__OP_PENDING)
        result = park(r, op);
    if (result != WEFT__OP_PENDING)
        op->done(op, result);
}

/* Let those in a queue of fd go on, in order. done may close the descriptor: generation tells. */
static void run_queue(weft__ready *r, int fd, weft__descriptor *d, weft__list *queue)
{
    const uint32_t generation = d->generation;
    while (d->generation == generation && !weft__list_is_empty(queue)) {
        weft__op *op = weft__waiters_first(queue);
        if (d->is_drained && stream_bytes(op) > 0)
            return;
        intptr_t result = is_plain(d, op) ? try_plain(d, op) : try_again(r, op);
        if (result == WEFT__OP_PENDING) {
            if (op->wait_fd == fd && weft__waiters_queue(&d->waiters, op) == queue)
                return;
            weft__waiters_take(r->backend, op);
            result = park(r, op);
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
        d->has_more = true;
    run_queue(r, fd, d, &d->waiters.either);
    if (d->generation == generation && events & ~POLLOUT)
        run_queue(r, fd, d, &d->waiters.readers);
    if (d->generation == generation && events & (POLLOUT | POLLERR | POLLHUP))
        run_queue(r, fd, d, &d->waiters.writers);
}

/* One round over those that are on the list now. */
static void retry(weft__ready *r)
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
        weft__waiters_take(r->backend, op);
        go_on(r, op);
    }
}

int64_t weft__ready_timeout(const weft__ready *r, int64_t timeout_ns)
{
    if (timeout_ns < WEFT__POLL_FOR_EVER)
        timeout_ns = -timeout_ns;
    if (timeout_ns == 0 || weft__finished_before_wait(r->backend->pooled))
        return 0;
    if (weft__list_is_empty(&r->retries))
        return timeout_ns;
    int64_t left_ns = r->retry_ns - weft__clock_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    return timeout_ns < 0 || timeout_ns > left_ns ? left_ns : timeout_ns;
}

void weft__ready_poll(weft__ready *r)
{
    if (!weft__list_is_empty(&r->retries))
        retry(r);
    weft__pool_collect(r->backend);
}

/* The pool is done with it. A splice may have found that others had been faster at the pipe. */
static void end_pooled(void *owner, weft__op *op, intptr_t result)
{
    weft__ready *r = owner;
    bool is_gone = is_closing(r, op->fd) || is_closing(r, weft__ready_other_fd(op));
    weft__list_remove(&op->turn);
    weft__ready_close_kept(r);
    if (result == -EAGAIN && weft__ready_other_fd(op) >= 0 && !weft__call_never_waits(op)) {
        result = is_gone ? -EBADF : try_or_park(r, op);
        if (result == WEFT__OP_PENDING)
            return;
    }
    weft__ready_note_made(r, op, result);
    op->done(op, result);
}

void weft__ready_open(weft__ready *r, weft__backend *b,
                      int (*watch_fd)(weft__backend *, int, weft__descriptor *),
                      void (*unwatch_fd)(weft__backend *, int, weft__descriptor *))
{
    *r = (weft__ready){.backend = b, .watch = watch_fd, .unwatch = unwatch_fd};
    weft__list_init(&r->retries);
    weft__list_init(&r->closing);
    b->pooled->end = end_pooled;
    b->pooled->owner = r;
}

void weft__ready_close(weft__ready *r)
{
    weft__ready_close_kept(r);
    weft__ready_free_table(r);
}
